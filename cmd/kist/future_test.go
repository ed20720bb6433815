package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

// future is a change that a later program makes to a file, and the commands that refuse it. Paths
// are patterns below the repository, or below the remote if they begin with "../remote".
type future struct {
	file     string
	change   func(data []byte) []byte
	commands []string
	as       string // the name of a new file with the change; empty: the file itself is changed
	status   int    // 0: 12, as every format should
}

// versionAt returns the change of a version byte.
func versionAt(offset int, to byte) func([]byte) []byte {
	return func(data []byte) []byte {
		data = bytes.Clone(data)
		data[offset] = to
		return data
	}
}

// indexVersion is the change of the version of an index. Its header has a checksum.
func indexVersion(data []byte) []byte {
	data = versionAt(9, 2)(data)
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// text returns the change of a part of a text.
func text(from, to string) func([]byte) []byte {
	return func(data []byte) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
}

// futures has a format for each page of docs/format. A page without one has the reason.
var futures = map[string]struct {
	files  []future
	reason string
}{
	"config.md": {files: []future{
		{file: ".kist/config", change: text("version = 1", "version = 2"), commands: []string{"status", "log", "verify", "gc"}},
		{file: ".kist/config", change: text("required = []", `required = ["future"]`), commands: []string{"status", "log", "verify", "gc"}},
	}},
	"index.md":   {files: []future{{file: ".kist/index", change: indexVersion, commands: []string{"status", "commit -m x", "gc"}}}},
	"keys.md":    {files: []future{{file: ".kist/volumes/*/KEYS", change: versionAt(8, 2), commands: []string{"log", "cat HEAD:large", "gc"}}}},
	"volume.md":  {files: []future{{file: ".kist/volumes/*/SEAL", change: text("kist volume 1\n", "kist volume 2\nfuture"), commands: []string{"gc", "verify"}}}},
	"records.md": {files: []future{{file: ".kist/records", change: text("kist records 1", "kist records 2"), commands: []string{"hold list", "expire --keep-last 1", "gc", "push"}}}},
	"pending.md": {files: []future{{file: ".kist/pending/0123456789abcdef0123456789abcdef", change: func([]byte) []byte { return []byte("kistpnd2 and more") }, commands: []string{"verify"}}}},
	"remote.md": {files: []future{
		{file: "../remote/kist.json", change: text(`"version": 1`, `"version": 2`), commands: []string{"clone ../remote c1", "ls-remote ../remote"}},
		{file: "../remote/kist.json", change: text(`"read": []`, `"read": ["future"]`), commands: []string{"clone ../remote c2", "ls-remote ../remote"}},
	}},
	"rootlog.md":  {files: []future{{file: "../remote/root/*", as: "00000000000000000002", change: versionAt(9, 2), commands: []string{"fetch", "push", "clone ../remote c3", "ls-remote"}}}},
	"versions.md": {files: []future{{file: ".kist/versions/changes", change: versionAt(7, 2), commands: []string{"cat large@1"}, status: -1}}}, // a cache, made again

	"pack.md":        {reason: "readers of a part do not read the header, so a new version needs a feature of the root; vectors in remote/pack"},
	"packindex.md":   {reason: "vectors in remote/pack"},
	"objects.md":     {reason: "TestFutureObjects"},
	"frame.md":       {reason: "a new codec is a required extension of the configuration"},
	"refs.md":        {reason: "text without a version: a change is a required extension of the configuration"},
	"names.md":       {reason: "the rules of names belong to the version of trees"},
	"ignore.md":      {reason: "written by people"},
	"remotestate.md": {reason: "copies of the remote's files, and notes that any program may remove"},
	"walk.md":        {reason: "an example"},
	"README.md":      {reason: "the list of the formats"},
}

// TestFutureFormats checks that a file in a later version of its format is answered with exit status
// 12. Each page of a format has such a file, or the reason why it needs none.
func TestFutureFormats(t *testing.T) {
	pages, err := filepath.Glob("../../docs/format/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if row, ok := futures[filepath.Base(page)]; !ok || (row.reason == "") == (row.files == nil) {
			t.Errorf("%s: a format needs a file of a later version in futures, or a reason", page)
		}
	}

	for page, row := range futures {
		for _, f := range row.files {
			t.Run(page+" "+f.file, func(t *testing.T) { f.check(withEverything(t)) })
		}
	}
}

// withEverything returns a repository with a remote, records and an index of history.
func withEverything(t *testing.T) *shell {
	s := &shell{TB: t, dir: tempDir(t), program: "kist"}
	os.Mkdir(s.path("repo"), 0o777)
	s = s.in("repo")
	s.kist("init")
	s.write(map[string]string{"large": strings.Repeat("a text of some length\n", 1000)})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.kist("hold", "add", "HEAD")
	s.kist("remote", "add", "origin", "../remote")
	s.kist("push", "-u", "origin", "main")
	s.kist("cat", "large@1")
	s.write(map[string]string{"large": strings.Repeat("a text of some other length\n", 1000)})
	s.kist("commit", "-a", "-m", "second")
	os.Mkdir(s.path(".kist/pending"), 0o777)
	return s
}

// check changes the files of f, and runs the commands.
func (f *future) check(s *shell) {
	files, err := filepath.Glob(s.path(f.file))
	if err != nil {
		s.Fatal(err)
	}
	if len(files) == 0 && !strings.Contains(f.file, "*") {
		files = []string{s.path(f.file)}
	}
	if len(files) == 0 {
		s.Fatalf("there is no %s", f.file)
	}
	for _, file := range files {
		data, _ := os.ReadFile(file)
		changed := f.change(data)
		if bytes.Equal(changed, data) {
			s.Errorf("%s: the change changes nothing: %.300q", f.file, data)
		}
		if f.as != "" {
			file = filepath.Join(filepath.Dir(file), f.as)
		}
		os.Chmod(file, 0o600)
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			s.Fatal(err)
		}
	}

	want := 12
	if f.status < 0 {
		want = 0
	}
	for _, command := range f.commands {
		if o := s.run(strings.Fields(command)...); o.status != want {
			s.Errorf("%s of a later version: want exit status %d: %v", f.file, want, o)
		}
	}
}

// TestFutureObjects checks that a node in a later version is answered with exit status 12.
func TestFutureObjects(t *testing.T) {
	s := withEverything(t)
	r, err := kist.Open(s.dir, kist.Options{})
	if err != nil {
		t.Fatal(err)
	}

	head, err := r.Refs().Head()
	if err != nil {
		t.Fatal(err)
	}

	data, err := r.Objects().Get(t.Context(), object.Key{Kind: object.KindCommit, ID: head.ID})
	if err != nil {
		t.Fatal(err)
	}

	session := r.Objects().Begin(volume.SessionOptions{})
	id, err := session.Put(t.Context(), object.KindCommit, versionAt(3, 2)(data))
	if err != nil {
		t.Fatal(err)
	}

	err = session.Publish(t.Context(), func(ctx context.Context) error {
		return r.Refs().Update(ctx, []refs.Change{{Name: "refs/heads/future", New: id, Reason: "test"}}, r.Who())
	})
	if err != nil {
		t.Fatal(err)
	}
	session.Close()
	r.Close()

	for _, command := range []string{"log future", "show future", "checkout future", "gc", "push origin future"} {
		if o := s.run(strings.Fields(command)...); o.status != 12 {
			t.Errorf("a commit of a later version: want exit status 12: %v", o)
		}
	}
}
