package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/canonical"
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
	status   int    // 0: 12, as every format should; -1: 0
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
	data = versionAt(9, 3)(data)
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// rootFeature returns the change of a root to the next one, which needs a feature that no program
// has: to read, write or gc.
func rootFeature(act string) func([]byte) []byte {
	return func(data []byte) []byte {
		const header = 32
		encoding, decoding := canonical.Modes()
		var body map[string]any
		if err := decoding.Unmarshal(data[header:len(data)-sha256.Size], &body); err != nil {
			panic(err)
		}
		prev := sha256.Sum256(data)
		body["seq"], body["prev"], body[act] = 2, prev[:], []string{"future"}
		body["txid"] = prev[:16]
		delete(body, "moves")
		delete(body, "moved")
		encoded, err := encoding.Marshal(body)
		if err != nil {
			panic(err)
		}
		next := append(bytes.Clone(data[:header]), encoded...)
		sum := sha256.Sum256(next)
		return append(next, sum[:]...)
	}
}

// text returns the change of a part of a text.
func text(from, to string) func([]byte) []byte {
	return func(data []byte) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
}

// secondRoot is the name of the root after the only one.
const secondRoot = "00000000000000000002"

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
	"rootlog.md": {files: []future{
		{file: "../remote/root/*", as: secondRoot, change: versionAt(9, 2), commands: []string{"fetch", "push", "clone ../remote c3", "ls-remote"}},
		{file: "../remote/root/*", as: secondRoot, change: rootFeature("read"), commands: []string{"fetch", "pull", "push", "clone ../remote c4", "ls-remote", "remote gc origin"}},
		{file: "../remote/root/*", as: secondRoot, change: rootFeature("write"), commands: []string{"push", "remote gc origin"}},
		{file: "../remote/root/*", as: secondRoot, change: rootFeature("write"), commands: []string{"fetch", "clone ../remote c5"}, status: -1},
		{file: "../remote/root/*", as: secondRoot, change: rootFeature("gc"), commands: []string{"remote gc origin"}},
		{file: "../remote/root/*", as: secondRoot, change: rootFeature("gc"), commands: []string{"fetch", "push"}, status: -1},
	}},
	"versions.md": {files: []future{{file: ".kist/versions/changes", change: versionAt(7, 2), commands: []string{"cat large@1"}, status: -1}}}, // a cache, made again

	"encrypted.md":   {reason: "vectors and later versions in remote/crypt"},
	"keysets.md":     {reason: "vectors and later versions in remote/keyset"},
	"pack.md":        {reason: "readers of a part do not read the header, so a new version needs a feature of the root; vectors in remote/pack"},
	"packindex.md":   {reason: "vectors in remote/pack"},
	"objects.md":     {reason: "TestFutureObjects"},
	"frame.md":       {reason: "a new codec is a required extension of the configuration"},
	"refs.md":        {reason: "text without a version: a change is a required extension of the configuration"},
	"names.md":       {reason: "the rules of names belong to the version of trees"},
	"ignore.md":      {reason: "written by people"},
	"lent.md":        {reason: "a cache: what cannot be read is not used"},
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

	if f.status == 0 {
		s.wantNewer(f.file+" of a later version", f.commands...)
		return
	}
	for _, command := range f.commands {
		if o := s.run(strings.Fields(command)...); o.status != 0 {
			s.Errorf("%s of a later version: want exit status 0: %v", f.file, o)
		}
	}
}

// wantNewer runs commands that need a newer program: they say so, and call nothing damaged.
func (s *shell) wantNewer(what string, commands ...string) {
	s.Helper()
	for _, command := range commands {
		o := s.run(strings.Fields(command)...)
		text := o.stdout + o.stderr
		if o.status != 12 || !strings.Contains(text, "newer") {
			s.Errorf("%s: want exit status 12 and its reason: %v", what, o)
		}
		for _, bad := range []string{"damage", "corrupt", "--repair", "missing"} {
			if strings.Contains(text, bad) {
				s.Errorf("%s: the message has %q: %v", what, bad, o)
			}
		}
	}
}

// TestFutureObjects checks that a node in a later version is answered with exit status 12, here and
// in a repository that is cloned or fetched from.
func TestFutureObjects(t *testing.T) {
	for _, kind := range []object.Kind{object.KindCommit, object.KindTree, object.KindManifest, object.KindTag} {
		t.Run(kind.String(), func(t *testing.T) {
			s := withEverything(t)
			name := s.addFuture(kind)
			commands := []string{"show NAME", "checkout NAME", "gc", "verify", "push origin NAME"}
			switch kind {
			case object.KindTree:
				commands = append(commands, "ls NAME", "diff main NAME", "restore --source NAME large", "log NAME -- large", "grep text NAME")
			case object.KindManifest:
				commands = append(commands[1:], "cat NAME:large", "restore --source NAME large", "grep text NAME", "archive NAME -o ../x.tar")
			default:
				commands = append(commands, "log NAME", "diff main NAME", "merge NAME", "ls NAME")
			}
			for i := range commands {
				commands[i] = strings.Replace(commands[i], "NAME", name, 1)
			}
			s.wantNewer("a "+kind.String()+" of a later version", commands...)

			other := s.in("..")
			other.wantNewer("a "+kind.String()+" of a later version in another repository", "clone repo copy")
			other.kist("init", "-q", "fetching")
			other = other.in("fetching")
			other.kist("remote", "add", "origin", "../repo")
			other.wantNewer("a "+kind.String()+" of a later version in another repository", "fetch", "pull origin "+name)
		})
	}
}

// addFuture stores a node of a later version of a kind, with all nodes that lead to it, and returns
// the name of a branch or tag that leads there.
func (s *shell) addFuture(kind object.Kind) string {
	s.Helper()
	ctx := s.Context()
	check := func(err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
	}
	r, err := kist.Open(s.dir, kist.Options{})
	check(err)
	defer r.Close()
	head, err := r.Refs().Head()
	check(err)
	commit, err := object.ReadCommit(ctx, r.Objects(), head.ID)
	check(err)
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()

	// A node gets the later version if it is of the kind. Commits and tags of version 2 are signed.
	later := byte(2)
	if kind == object.KindCommit || kind == object.KindTag {
		later = 3
	}
	put := func(of object.Kind, data []byte, err error) object.ID {
		s.Helper()
		check(err)
		if of == kind {
			data = versionAt(3, later)(data)
		}
		id, err := session.Put(ctx, of, data)
		check(err)
		return id
	}
	chunk, err := session.Put(ctx, object.KindChunk, bytes.Repeat([]byte("chunk"), 20_000))
	check(err)
	manifest := object.Manifest{Chunks: []object.ChunkRef{{ID: chunk, Size: 100_000}, {ID: chunk, Size: 100_000}}}
	data, err := manifest.Encode()
	large := object.Entry{Name: "large", Type: object.TypeFile, Mode: 0o644, Size: 200_000, Content: object.Key{Kind: object.KindManifest, ID: put(object.KindManifest, data, err)}}
	root := object.Tree{Entries: []object.Entry{large}}
	data, err = root.Encode()
	commit.Tree, commit.Parents, commit.Files, commit.Bytes = put(object.KindTree, data, err), []object.ID{head.ID}, 1, 200_000
	data, err = commit.Encode()
	id, name := put(object.KindCommit, data, err), refs.Heads+"future"
	if kind == object.KindTag {
		tag := object.Tag{Target: id, Name: "future", Tagger: commit.Committer, Message: "later\n"}
		data, err = tag.Encode()
		id, name = put(object.KindTag, data, err), refs.Tags+"future"
	}

	check(session.Publish(ctx, func(ctx context.Context) error {
		return r.Refs().Update(ctx, []refs.Change{{Name: name, New: id, Reason: "test"}}, r.Who())
	}))
	return "future"
}
