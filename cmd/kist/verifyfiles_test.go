package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/repair"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
)

// fullRepository returns a repository in which every feature was used, and an operation of
// each kind is in progress.
func fullRepository(t *testing.T) *shell {
	base := newShell(t)
	if err := os.Mkdir(base.path("../store"), 0o777); err != nil {
		t.Fatal(err)
	}
	base.succeeds("init", "-q", "--chunk-size", "64KiB", "full")
	s := base.in("full")
	rng := rand.New(rand.NewPCG(31, 32))
	commit := func(name, text string) {
		s.write(files{name: text})
		s.succeeds("add", "-q", name)
		s.succeeds("commit", "-q", "-m", name)
	}

	commit("first", strings.Repeat("a text that is not inline\n", 10))
	commit("large", noise(rng, 300_000))
	s.succeeds("tag", "light")
	s.succeeds("tag", "-m", "annotated", "heavy")
	s.succeeds("attr", "set", "first", "tags=red")
	s.succeeds("commit", "-q", "-m", "attributes")
	s.succeeds("remote", "add", "-q", "origin", base.path("../store"))
	s.succeeds("push", "-q", "-u", "origin", "main")
	s.succeeds("fetch", "-q")

	s.succeeds("remote", "add", "-q", "--encrypted", "--no-recovery", "sealed", base.path("../sealed"))
	s.succeeds("push", "-q", "sealed", "main")

	commit("secret", noise(rng, 5000))
	s.succeeds("rm", "-q", "secret")
	s.succeeds("commit", "-q", "-m", "without it")
	s.succeeds("purge", "-q", "--yes", "--all-history", "secret")
	commit("second", noise(rng, 2000))
	s.succeeds("expire", "HEAD~1")
	s.succeeds("hold", "add", "HEAD~2", "--reason", "a test")

	s.succeeds("checkout", "-q", "-b", "side")
	commit("first", "side\n")
	s.succeeds("branch", "-q", "new")
	s.succeeds("checkout", "-q", "main")
	commit("first", "main\n")
	for _, text := range []string{"one", "two"} {
		s.write(files{"large": text})
		s.succeeds("stash", "push", "-q", "-m", text)
	}
	s.succeeds("view", "add", "names", "{path}")
	s.succeeds("find", "--all", "name=first")
	s.succeeds("gc", "-q", "--prune", "now")
	commit("third", noise(rng, 2000))

	p := s.serve("--write", "--listen", "127.0.0.1:0", "--commit-after", "10h")
	if !put(p.url+"dav/branches/side/by-dav", "a change") {
		t.Fatal("the server took no change")
	}
	p.Process.Kill()
	p.Wait()

	s.succeeds("bisect", "start")
	s.succeeds("bisect", "bad", "HEAD")
	if o := s.here("cherry-pick", "side"); o.status == 0 {
		t.Fatal("the cherry-pick has no conflict")
	}
	return s
}

// verifyFiles returns all problems as text.
func verifyFiles(t *testing.T, dir string) string {
	r, err := kist.Open(dir, kist.Options{Now: time.Now, Warn: func(string) {}})
	if err != nil {
		return err.Error()
	}
	defer r.Close()

	report, err := repair.Verify(t.Context(), r, gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true}})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, p := range slices.Concat(report.Problems, report.Healed) {
		lines = append(lines, p.Error())
	}
	for _, name := range report.Damaged {
		lines = append(lines, "volumes/"+name)
	}
	for _, name := range report.Unknown {
		lines = append(lines, "unknown "+name)
	}
	return strings.Join(lines, "\n")
}

// Verify names every file of a repository that is flipped, cut or removed, or the table says
// why it cannot. It names unknown files.
func TestVerifyNamesEveryFile(t *testing.T) {
	t.Parallel()
	s := fullRepository(t)
	dir := s.path(".kist")
	if got := verifyFiles(t, s.dir); got != "" {
		t.Fatalf("the intact repository:\n%s", got)
	}

	found := map[string]bool{}
	for _, file := range regularFiles(t, dir) {
		entry := repair.Describe(file)
		if entry == nil {
			t.Errorf("%s is in no entry of the table", file)
			continue
		}
		found[entry.Pattern] = true
		checkNamed(t, s.dir, file, entry)
	}

	for _, f := range repair.Files {
		if f.Sort == repair.Data && !found[f.Pattern] && !slices.Contains(notInFull, f.Pattern) {
			t.Errorf("the repository of this test has no file %s", f.Pattern)
		}
	}
	if got := verifyFiles(t, s.dir); got != "" {
		t.Errorf("after the test:\n%s", got)
	}
	s.write(files{".kist/refs.old": "", ".kist/volumes/x": ""})
	if got := verifyFiles(t, s.dir); !strings.Contains(got, "unknown refs.old") || !strings.Contains(got, "unknown volumes/x") {
		t.Errorf("unknown files are not named:\n%s", got)
	}
}

// regularFiles returns the paths of all files below a folder.
func regularFiles(t *testing.T, dir string) (list []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		file, err := filepath.Rel(dir, path)
		list = append(list, filepath.ToSlash(file))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// notInFull are the entries with data that the repository of the test has no file for.
var notInFull = []string{
	"index.base-*",    // a repository of many files has it
	"refs/pending/**", // a server with many changes makes it
	"refs/**",         // other programs make it
	"lost",            // a loss that was accepted
}

// checkNamed flips, cuts and removes a file, and puts it back each time.
func checkNamed(t *testing.T, root, file string, entry *repair.KnownFiles) {
	path := filepath.Join(root, ".kist", file)
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for change, why := range map[string]string{"flipped": entry.Unproven, "cut": entry.Cut, "removed": entry.Absent} {
		if change != "removed" && len(intact) == 0 {
			continue
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(intact)
		switch change {
		case "flipped":
			data[len(data)/2] ^= 1
		case "cut":
			data = data[:len(data)*3/5]
		}
		if change != "removed" {
			if err := os.WriteFile(path, data, 0o444); err != nil {
				t.Fatal(err)
			}
		}

		got := verifyFiles(t, root)
		if why == "" && !names(got, file) {
			t.Errorf("%s is %s, and verify names only: %s", file, change, got)
		}
		if err := disk.WriteFile(path, intact); err != nil {
			t.Fatal(err)
		}
	}
	os.Remove(filepath.Join(root, ".kist", "volumes", "damaged"))
}

// names reports whether verify's text names a file, its volume, or a ref that its log names.
func names(text, file string) bool {
	if volume, ok := strings.CutPrefix(file, "volumes/"); ok {
		volume, _, _ = strings.Cut(volume, "/")
		return strings.Contains(text, volume)
	}
	return strings.Contains(text, file)
}
