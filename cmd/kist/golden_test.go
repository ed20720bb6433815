package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
)

// goldenDir has repositories of earlier versions, which this version must read.
// make.sh in it describes their content.
const goldenDir = "../../testdata/golden"

// unpack extracts a golden repository, and returns a shell in its folder.
func unpack(t *testing.T, name string) *shell {
	t.Helper()
	s := newShell(t)
	f, err := os.Open(filepath.Join(goldenDir, name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}

	modes := map[string]fs.FileMode{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}

		path := s.path(filepath.Clean(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			modes[path], err = h.FileInfo().Mode().Perm(), os.MkdirAll(path, 0o700)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, h.FileInfo().Mode()))
			}
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	for _, path := range slices.Backward(slices.Sorted(maps.Keys(modes))) {
		if err := os.Chmod(path, modes[path]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// golden returns a text that make.sh recorded with a golden repository.
func golden(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err == nil && strings.HasSuffix(name, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(z)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// goldenList describes the entries of a folder in the form of make.sh.
func goldenList(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err != nil || name == "." {
			return err
		}
		if name == kist.Dir {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		kind, sum := "d", "-"
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			kind, sum = "f", fmt.Sprintf("%x", sha256.Sum256(data))
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			kind, sum = "l", fmt.Sprintf("%x", sha256.Sum256([]byte(target)))
		}

		list[name] = fmt.Sprintf("%s %o %s", kind, info.Mode().Perm(), sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantGolden fails the test if a folder differs from the recorded list.
func wantGolden(t *testing.T, dir, recorded string) {
	t.Helper()
	want := files{}
	for line := range strings.Lines(golden(t, recorded+".gz")) {
		fields := strings.Fields(line)
		path, err := url.PathUnescape(fields[3])
		if err != nil {
			t.Fatal(err)
		}
		want[path] = strings.Join(fields[:3], " ")
	}
	if len(want) == 0 {
		t.Fatalf("the recorded list %s is empty", recorded)
	}
	if diff := files(goldenList(t, dir)).diff(want); len(diff) > 0 {
		t.Errorf("%s: files differ:\n%s", recorded, strings.Join(diff, "\n"))
	}
}

// wantHistory fails the test if the log differs from the recorded log.
func (s *shell) wantHistory(t *testing.T, recorded string, args ...string) {
	t.Helper()
	wantRecorded(t, s.kist(append([]string{"log", "--json"}, args...)...), recorded)
}

// wantRecorded fails the test if the JSON objects in output, one per line, differ from the
// recorded ones. It ignores fields that the recorded objects do not have.
func wantRecorded(t *testing.T, output, recorded string) {
	t.Helper()
	got := strings.Split(output, "\n")
	want := strings.Split(golden(t, recorded), "\n")
	if len(got) != len(want) {
		t.Fatalf("%s: the output has %d lines, want %d", recorded, len(got), len(want))
	}
	for i := range want {
		if want[i] == "" {
			continue
		}
		var now, then map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(got[i]), &now), json.Unmarshal([]byte(want[i]), &then)); err != nil {
			t.Fatal(err)
		}
		for field, value := range then {
			if !reflect.DeepEqual(now[field], value) {
				t.Errorf("%s:%d: %s is %s, want %s", recorded, i+1, field, now[field], value)
			}
		}
	}
}

// TestGoldenMetadata checks that ls reads every kind of entry with full metadata, from a
// commit and from an index, and changes nothing.
func TestGoldenMetadata(t *testing.T) {
	t.Parallel()
	s := unpack(t, "full")
	before := s.readFiles(kist.Dir)
	s.verify()
	s.wantHistory(t, "full.log")
	wantRecorded(t, s.kist("ls", "-r", "-t", "--json", "HEAD"), "full.ls")
	wantRecorded(t, s.kist("ls", "-r", "-t", "--json", ":"), "full.ls")
	if diff := s.readFiles(kist.Dir).diff(before); len(diff) > 0 {
		t.Errorf("the repository has changed:\n%s", strings.Join(diff, "\n"))
	}
}

// TestGolden checks that repositories of earlier versions are intact, restore the
// recorded files, and accept new commits.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name, log string
		revisions []string
	}{
		{"plain", "", []string{"one", "two"}},
		{"big", "", []string{"one", "two"}},
		{"merged", "--all", []string{"light", "main"}},
		{"optimised", "", []string{"one", "main"}},
		{"small", "", []string{"one", "main"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := unpack(t, c.name)
			s.verify()
			if c.log == "" {
				s.wantHistory(t, c.name+".log")
			} else {
				s.wantHistory(t, c.name+".log", c.log)
			}
			s.kist("status")

			for _, rev := range c.revisions {
				out := s.path("../out-" + rev)
				s.kist("restore", "--source", rev, "--to", out, ".")
				wantGolden(t, out, c.name+"."+rev)
				s.wantListed(rev, out)
				removeAll(t, out)
			}

			if c.name == "merged" {
				wantGolden(t, s.dir, "merged.worktree")
				s.copyFolder().checkMerged()
			}

			for _, rev := range c.revisions {
				s.kist("checkout", "--force", rev)
				wantGolden(t, s.dir, c.name+"."+rev)
			}

			s.write(map[string]string{"new": "a file that is added by a later version"})
			s.kist("add", "-A", ".")
			s.kist("commit", "-m", "by a later version")
			s.verify()
		})
	}
}

// TestGoldenRemote checks that a remote that an earlier version repacked can be cloned,
// repaired, pushed to and collected.
func TestGoldenRemote(t *testing.T) {
	t.Parallel()
	s := unpack(t, "sent")
	s.kist("clone", "remote", "clone")
	c := s.in("clone")
	c.verify()
	c.wantHistory(t, "sent.log")

	for _, rev := range []string{"one", "main"} {
		c.kist("checkout", rev)
		wantGolden(t, c.dir, "sent."+rev)
	}

	c.kist("verify", "--remote", "origin", "--read-data")
	packs, err := filepath.Glob(s.path("remote/packs/*/*"))
	if err != nil || len(packs) != 4 {
		t.Fatalf("packs %q, error %v, want 4 packs", packs, err)
	}

	for _, pack := range packs {
		data, err := os.ReadFile(pack)
		if err == nil {
			data[40] ^= 1 // in the first value, a base of patches
			err = errors.Join(os.Chmod(pack, 0o600), os.WriteFile(pack, data, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	c.exits(11, "verify", "--remote", "origin", "--read-data")
	c.kist("verify", "--remote", "origin", "--repair")
	c.kist("verify", "--remote", "origin", "--read-data")
	c.write(map[string]string{"new": "a file that is added by a later version"})
	c.kist("add", "-A", ".")
	c.kist("commit", "-m", "by a later version")
	c.kist("push")
	c.kist("remote", "gc", "origin", "--max-waste", "0", "--grace", "0s")
	c.kist("verify", "--remote", "origin", "--read-data")
	s.kist("clone", "remote", "again")
	s.in("again").verify()
	s.in("again").kist("checkout", "main~1")
	wantGolden(t, s.path("again"), "sent.main")
}

// TestGoldenEncrypted checks that an encrypted remote of an earlier version, with two epochs and both envelopes, can be
// cloned by either kind of identity, repaired, pushed to, and collected.
func TestGoldenEncrypted(t *testing.T) {
	t.Parallel()
	s := unpack(t, "encrypted")
	for name, from := range map[string]string{"identity": filepath.Join(goldenDir, "encrypted.identity"), "classic": "../../remote/keyset/testdata/vector-classic.txt"} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(s.path(name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	s.exits(16, "clone", "crypt", "no-identity")
	classic := s.with("KIST_IDENTITY=" + s.path("classic"))
	classic.kist("clone", "crypt", "other")
	s = s.with("KIST_IDENTITY=" + s.path("identity"))
	s.kist("clone", "crypt", "clone")
	c := s.in("clone")
	c.verify()
	c.wantHistory(t, "encrypted.log")
	for _, rev := range []string{"one", "main"} {
		c.kist("checkout", rev)
		wantGolden(t, c.dir, "encrypted."+rev)
	}

	var keys struct {
		Serial     int
		Recipients []struct{ Name, Kind string }
		Epochs     []struct {
			Files   int
			Removed []string
		}
	}
	if err := json.Unmarshal([]byte(c.kist("key", "list", "--json", "origin")), &keys); err != nil {
		t.Fatal(err)
	}
	if keys.Serial != 4 || len(keys.Recipients) != 2 || keys.Recipients[1].Kind != "classic" || len(keys.Epochs) != 2 ||
		keys.Epochs[0].Files == 0 || keys.Epochs[1].Files == 0 || !slices.Equal(keys.Epochs[0].Removed, []string{"old"}) {
		t.Errorf("the keys are %+v", keys)
	}

	c.kist("verify", "--remote", "origin", "--read-data")
	packs, err := filepath.Glob(s.path("crypt/packs/*/*"))
	if err != nil || len(packs) != 4 {
		t.Fatalf("packs %q, error %v, want 4 packs", packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err == nil {
		data[200] ^= 1
		err = errors.Join(os.Chmod(packs[0], 0o600), os.WriteFile(packs[0], data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.exits(11, "verify", "--remote", "origin", "--read-data")
	c.kist("verify", "--remote", "origin", "--repair")

	c.write(map[string]string{"new": "a file that is added by a later version"})
	c.kist("add", "-A", ".")
	c.kist("commit", "-m", "by a later version")
	c.kist("push")
	c.kist("remote", "gc", "origin", "--rekey", "--max-waste", "0", "--grace", "0s")
	c.kist("verify", "--remote", "origin", "--read-data")
	classic.in("other").kist("pull")
	classic.in("other").verify()
	s.kist("clone", "crypt", "again")
	s.in("again").verify()
	s.in("again").kist("checkout", "main~1")
	wantGolden(t, s.path("again"), "encrypted.main")
}

// wantListed fails the test if ls does not list exactly the paths of a folder.
func (s *shell) wantListed(rev, dir string) {
	s.Helper()
	listed := map[string]bool{}
	for line := range strings.Lines(s.kist("ls", "-r", "--json", rev)) {
		var e struct {
			Path string
			Raw  []byte `json:"path_raw"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatal(err)
		}
		if e.Raw != nil {
			e.Path = string(e.Raw)
		}
		listed[e.Path] = true
	}
	for path, entry := range s.readFiles(dir) {
		// Of the folders, ls -r lists only empty ones.
		if !listed[path] && (!strings.HasPrefix(entry, "d") || path == "empty-folder") {
			s.Errorf("ls %s does not list %q", rev, path)
		}
		delete(listed, path)
	}
	for path := range listed {
		s.Errorf("ls %s lists %q, which %s does not have", rev, path, dir)
	}
}

// checkMerged checks branches, tags, the reflog and the merge in progress, and then
// commits the merge.
func (s *shell) checkMerged() {
	s.Helper()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"branch"}, []string{"* main", "  side", "  topic/deep/er"}},
		{[]string{"tag"}, []string{"light", "v1"}},
		{[]string{"show", "v1"}, []string{"An annotated tag"}},
		{[]string{"status"}, []string{"both"}},
		{[]string{"status", "--porcelain"}, []string{"UU both"}},
		{[]string{"reflog"}, []string{"commit (initial): base", "commit (merge): Merge branch 'side'"}},
		{[]string{"log", "--graph", "--oneline"}, []string{"Merge branch 'side'", "|/"}},
		{[]string{"cat", "HEAD@{5}:mistake"}, []string{"a mistake"}},
		{[]string{"cat", "light:poem"}, []string{"theirs", "ours"}},
		{[]string{"diff", "light~1", "light"}, []string{"+theirs"}},
	} {
		out := s.kist(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				s.Errorf("the output of kist %q has no %q:\n%s", c.args, want, out)
			}
		}
	}

	s.exits(1, "commit", "-m", "too early")
	other := s.copyFolder()
	other.kist("merge", "--abort")
	other.write(map[string]string{"both": "both"})
	s.write(map[string]string{"both": "both"})
	s.kist("add", "both")
	s.kist("commit", "-m", "resolved")

	if out := s.kist("log", "-1", "--json"); strings.Count(out, `"parents":["`) != 1 || !strings.Contains(out, `","`) {
		s.Errorf("the last commit does not have two parents: %s", out)
	}
}

// goldenDamage has the expected exit statuses of commands in the damaged repositories.
var goldenDamage = []struct {
	name   string
	verify int
	names  string // a regular expression that the output of verify matches
	log    int
	cat    int // of the file 'same', from HEAD; -1: it varies
	old    int // of the file 'first', from the first commit; -1: it varies
	status int
}{
	{"value", 11, `chunk .*000001\.vlog(.|\n)*path "?same`, 0, 11, 0, 0},
	{"tree-value", 11, `tree .*000001\.vlog`, 0, 0, 11, 0},
	{"keys", 11, `KEYS`, 0, 11, 11, 0},
	{"seal", 11, `SEAL`, 0, 0, 0, 0},
	{"cut-log", 11, `000001\.vlog`, 0, -1, -1, 0}, // the cut hits either file
	{"cut-table", 11, `000001\.sst`, 0, 0, 0, 0},
	{"no-log", 11, `000001\.vlog`, 0, 11, 11, 0},
	{"no-table", 11, `000001\.sst`, 0, 0, 0, 0},
	{"no-seal", 11, `SEAL`, 0, 0, 0, 0},
	{"no-keys", 11, `KEYS`, 0, 11, 11, 0},
	{"more-files", 11, `000002\.vlog`, 0, 0, 0, 0},
	{"no-volume", 11, `missing`, 0, 11, 11, 0},
	{"index-head", 11, `index`, 0, 0, 0, 11},
	{"index-middle", 11, `index`, 0, 0, 0, 11},
	{"index-cut", 11, `index`, 0, 0, 0, 11},
	{"index-empty", 11, `index`, 0, 0, 0, 11},
	{"index-base", 11, `index\.base-`, 0, 0, 0, 11},
	{"no-index-base", 11, `index`, 0, 0, 0, 11},
	{"ref", 11, `refs/heads/main`, 11, 11, 0, 11},
	{"ref-text", 11, `refs/heads/main`, 11, 11, 0, 11},
	{"ref-empty", 11, `refs/heads/main`, 11, 11, 0, 11},
	{"head", 11, `HEAD`, 11, 11, 0, 11},
	{"head-empty", 11, `HEAD`, 11, 11, 0, 11},
	{"no-head", 11, `HEAD`, 11, 11, 0, 11},
	{"reflog", 11, `logs/HEAD`, 0, 0, 0, 0},
	{"config-syntax", 11, `config`, 11, 11, 11, 11},
	{"config-newer", 12, `version 2`, 12, 12, 12, 12},
	{"config-extension", 12, `rot13`, 12, 12, 12, 12},
	{"config-polynomial", 11, `polynomial`, 11, 11, 11, 11},
	{"no-config", 10, `not a kist repository`, 10, 10, 10, 10},
	{"dead-writer", 0, `no errors found`, 0, 0, 0, 0},
	{"torn-writer", 0, `no errors found`, 0, 0, 0, 0},
}

// TestGoldenDamage checks that commands in a damaged repository name the damage, read
// all intact data, and change nothing.
func TestGoldenDamage(t *testing.T) {
	for _, c := range goldenDamage {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := unpack(t, "damaged-"+c.name)
			before := s.readRepository(c.name)
			first, firstText := "first", "the first file, which is more than what stands in an entry\n"
			same, sameText := "same", "the same in both commits, and longer than 32 bytes\n"
			log := "Second\n"
			if strings.Contains(c.name, "index-base") {
				first, firstText = "folder/entry-700", "02345678901234567890123456789012"
				same, sameText = "folder/entry-1", "12345678901234567890123456789012"
				log = "A change in the middle\n"
			}
			commands := []struct {
				exits int
				args  []string
				want  string // in stdout, if the exit status is 0
			}{
				{c.log, []string{"log"}, log},
				{c.status, []string{"status"}, ""},
				{c.cat, []string{"cat", "HEAD:" + same}, sameText},
				{c.old, []string{"cat", "one:" + first}, firstText},
				{-1, []string{"ls", "-r", "HEAD"}, same},
				{-1, []string{"diff", "one", "HEAD"}, ""},
				{-1, []string{"diff"}, ""},
				{-1, []string{"show", "--stat"}, ""},
				{-1, []string{"branch"}, ""},
				{-1, []string{"reflog"}, ""},
				{-1, []string{"du"}, ""},
				{-1, []string{"config", "user.name"}, ""},
				{-1, []string{"restore", "--source", "one", "--to", s.path("../out"), "."}, ""},
				{c.verify, []string{"verify"}, ""},
				{c.verify, []string{"verify", "--read-data"}, ""},
			}

			for _, command := range commands {
				o := s.run(command.args...)
				if command.exits >= 0 && o.status != command.exits || command.exits < 0 && !slices.Contains([]int{0, 1, 3, 10, 11, 12}, o.status) {
					t.Errorf("want exit status %d: %v", command.exits, o)
				}
				if o.status == 0 && !strings.Contains(o.stdout, command.want) {
					t.Errorf("no %q in stdout: %v", command.want, o)
				}
				if o.status > 1 && !strings.Contains(o.stderr, "error: ") {
					t.Errorf("no error in stderr: %v", o)
				}
				if slices.Equal(command.args, []string{"verify", "--read-data"}) && !regexp.MustCompile(c.names).MatchString(o.stdout+o.stderr) {
					t.Errorf("the output does not match %s: %v", c.names, o)
				}
				if diff := s.readRepository(c.name).diff(before); len(diff) > 0 {
					t.Fatalf("%q changed the repository:\n%s", command.args, strings.Join(diff, "\n"))
				}
			}

			s.wantNothingWrong(c.name)
			if c.verify == 0 {
				s.write(map[string]string{"new": "a file that is added, after which nothing of a dead writer is left"})
				s.kist("add", "new")
				s.verify()
				if left, _ := filepath.Glob(s.path(".kist/volumes/*-*")); len(left) > 0 {
					t.Errorf("add left volumes of a dead writer: %q", left)
				}
			}
		})
	}
}

// wantNothingWrong fails the test if a restore from a damaged repository wrote
// wrong content.
func (s *shell) wantNothingWrong(name string) {
	s.Helper()
	recorded := "small.one.gz"
	if strings.Contains(name, "index-base") {
		recorded = "big.one.gz"
	}
	if _, err := os.Stat(s.path("../out")); err != nil {
		return
	}
	t := s.TB.(*testing.T)
	want := "\n" + golden(t, recorded)
	for path, entry := range goldenList(t, s.path("../out")) {
		if entry[0] == 'f' && !strings.Contains(want, "\n"+entry+" "+path+"\n") {
			s.Errorf("%s was restored as %s, unlike in the recorded list", path, entry)
		}
	}
}

// readRepository returns the files in .kist, except the ones that a reading command
// may change: locks, the list of damage, and an index that the test did not damage.
func (s *shell) readRepository(damage string) files {
	s.Helper()
	found := s.readFiles(kist.Dir)
	maps.DeleteFunc(found, func(name, _ string) bool {
		return strings.HasSuffix(name, ".lock") && !strings.HasPrefix(name, "volumes/") || name == "volumes/damaged" ||
			name == "index" && !strings.Contains(damage, "index")
	})
	return found
}

// TestGoldenIsSmall checks that the golden repositories have at most 1 MiB.
func TestGoldenIsSmall(t *testing.T) {
	entries, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 1<<20 {
		t.Errorf("the golden repositories have %d bytes, want at most 1 MiB", size)
	}
}

// TestWalkPage compares the files and hex dumps that docs/format/walk.md shows
// with the golden repository that it walks through.
func TestWalkPage(t *testing.T) {
	s := unpack(t, "small")
	page, err := os.ReadFile("../../docs/format/walk.md")
	if err != nil {
		t.Fatal(err)
	}

	command := regexp.MustCompile(`(?m)^    \$ (cat|xxd)(?: -s (0x[0-9a-f]+) -l (\d+))? ([^ \n]+)\n((?:    [^$].*\n)+)`)
	blocks := command.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 8 {
		t.Errorf("the page shows %d files and dumps, want 8", len(blocks))
	}
	for _, b := range blocks {
		data, err := os.ReadFile(s.path(filepath.Join(kist.Dir, b[4])))
		if err != nil {
			t.Fatal(err)
		}
		want := string(data)
		if b[1] == "xxd" {
			from, length := int64(0), int64(len(data))
			if b[2] != "" {
				from, length = pageNumber(t, b[2]), pageNumber(t, b[3])
			}
			want = hexDump(data[from:from+length], from)
		}
		if shown := strings.ReplaceAll(strings.TrimPrefix(b[5], "    "), "\n    ", "\n"); shown != want {
			t.Errorf("%s: the page shows\n%s\nwant\n%s", b[4], shown, want)
		}
	}
}

func pageNumber(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hexDump formats data as xxd does. The first byte has the given offset.
func hexDump(data []byte, offset int64) string {
	var dump strings.Builder
	for line := range slices.Chunk(data, 16) {
		var digits, text strings.Builder
		for i, c := range line {
			if i > 0 && i%2 == 0 {
				digits.WriteByte(' ')
			}
			fmt.Fprintf(&digits, "%02x", c)
			if c < ' ' || c > '~' {
				c = '.'
			}
			text.WriteByte(c)
		}
		fmt.Fprintf(&dump, "%08x: %-39s  %s\n", offset, digits.String(), text.String())
		offset += 16
	}
	return dump.String()
}
