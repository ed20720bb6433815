package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/s3"
)

// backedUp is the part of a backup's summary that the tests check.
type backedUp struct {
	Exit       int
	Commit     string
	RemoteHead string `json:"remote_head"`
	Sent       int64  `json:"bytes_sent"`
	Files      struct {
		Skipped []struct{ Path, Reason string }
	}
	Steps []backedUpStep
}

// backedUpStep is a step in a summary.
type backedUpStep struct {
	Name, Outcome string
	Error         struct{ Kind string }
}

// skipped reports whether the summary lists a path.
func (b backedUp) skipped(path string) bool {
	return slices.ContainsFunc(b.Files.Skipped, func(s struct{ Path, Reason string }) bool { return s.Path == path })
}

// backup runs a backup, wants an exit status, and checks that the summary matches it.
func (s *shell) backup(status int, args ...string) (b backedUp) {
	s.Helper()
	o := s.exits(status, append([]string{"backup", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(o.stdout), &b); err != nil || b.Exit != status || (len(b.Files.Skipped) > 0) != (status == 3) {
		s.Fatalf("backup %q: summary %+v, error %v, want exit status %d", args, b, err, status)
	}
	return b
}

// TestBackupRandom checks that each commit restores the files that the folder had at the
// backup. The folder and the clock change at random. Backups are killed, files change while
// a backup reads them, and the remote disappears.
func TestBackupRandom(t *testing.T) {
	t.Parallel()
	p := newPlaceInFolder(t)
	k := &killer{shell: p.folder(), rng: objecttest.Rand(7), expect: 100 * time.Millisecond}
	k.apart = true // so that backups take as long as the killed ones
	k.kist("init", "--chunk-size", "64KiB")
	k.kist("remote", "add", "origin", p.url)

	states := map[string]files{}
	for range objecttest.Rounds(t, 5) {
		k.change(".")
		k.change("big")
		s := k.shell.with(fmt.Sprintf("KIST_DATE=2026-01-%02dT12:00:00Z", 1+k.rng.IntN(31)))
		switch k.rng.IntN(4) {
		case 0:
			signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[k.rng.IntN(2)]
			if !k.kill(time.Duration(k.rng.Int64N(int64(k.expect))), signal, []string{"backup"}) {
				k.late++
			}
		case 1:
			k.unsteady(s)
		case 2:
			if err := os.Rename(p.url, p.url+"-away"); err != nil {
				t.Fatal(err)
			}
			b := s.backup(15)
			if err := os.Rename(p.url+"-away", p.url); err != nil {
				t.Fatal(err)
			}
			states[b.Commit] = k.readFiles(".")
		}

		began := time.Now()
		b := s.backup(0)
		k.expect = (3*k.expect + time.Since(began)) / 4
		if b.Commit != b.RemoteHead || p.at("main") != b.Commit {
			t.Fatalf("main of the remote = %s, want the commit of the summary: %+v", p.at("main"), b)
		}
		states[b.Commit] = k.readFiles(".")
	}

	k.kist("verify", "--remote", "origin", "--read-data")
	clone := p.clone()
	for id, want := range states {
		clone.kist("restore", "--source", id, "--to", "../restored")
		clone.wantFiles(clone.readFiles("../restored"), want)
		if err := os.RemoveAll(clone.path("../restored")); err != nil {
			t.Fatal(err)
		}
	}
}

// unsteady runs a backup while one file is rewritten and removed at random, and another file
// and a folder are renamed. The commit must not mix two versions of the file, unless the
// summary lists the file as skipped.
func (k *killer) unsteady(s *shell) {
	const size = 300_000
	version := func(seed uint64) string {
		return fmt.Sprintf("%020d", seed) + noise(rand.New(rand.NewPCG(seed, 0)), size)
	}

	name, stop := k.path("unsteady"), make(chan struct{})
	for i := range 3 { // remove the leftovers of the last call
		if err := errors.Join(os.RemoveAll(k.path(fmt.Sprint("moved", i))), os.RemoveAll(k.path(fmt.Sprint("moving", i)))); err != nil {
			k.Fatal(err)
		}
	}

	s.write(map[string]string{"moved0": "a file that moves", "moving0/file": "a file that moves"})
	var done sync.WaitGroup
	rng := rand.New(rand.NewPCG(k.rng.Uint64(), 0))
	done.Go(func() {
		at := 0
		for {
			select {
			case <-stop:
				return
			default:
			}
			switch rng.IntN(4) {
			case 0:
				os.Remove(name)
			case 1:
				for _, what := range []string{"moved", "moving"} {
					if err := os.Rename(k.path(fmt.Sprint(what, at%3)), k.path(fmt.Sprint(what, (at+1)%3))); err != nil {
						k.Error(err)
					}
				}
				at++
			default:
				if err := os.WriteFile(name, []byte(version(rng.Uint64())[:rng.IntN(size)]), 0o666); err != nil {
					k.Error(err)
				}
			}
		}
	})

	o := s.run("backup", "--json")
	close(stop)
	done.Wait()
	var b backedUp
	if err := json.Unmarshal([]byte(o.stdout), &b); err != nil || o.status != b.Exit || o.status != 0 && o.status != 3 || (o.status == 3) != (len(b.Files.Skipped) > 0) {
		k.Fatalf("the summary is invalid (%v) or does not match the exit status: %v", err, o)
	}

	for path, content := range k.readCommit(b.Commit, "moved0", "moved1", "moved2", "moving0/file", "moving1/file", "moving2/file", "unsteady") {
		if path != "unsteady" {
			if content != "a file that moves" {
				k.Fatalf("%s has unexpected content: %q", path, content)
			}
			continue
		}
		if n := min(len(content), 20); n == 20 && !b.skipped(path) {
			seed, err := strconv.ParseUint(content[:n], 10, 64)
			if err != nil {
				k.Fatal(err)
			}
			if !strings.HasPrefix(version(seed), content) {
				k.Fatalf("%s mixes two versions", path)
			}
		}
	}
}

// readCommit returns the content of each path that a commit has.
func (s *shell) readCommit(commit string, paths ...string) map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, path := range paths {
		if o := s.run("cat", commit+":"+path); o.status == 0 {
			found[path] = o.stdout
		}
	}
	return found
}

// TestBackupSendsOnce checks that the backup after a killed one sends only the content that
// the remote does not have yet.
func TestBackupSendsOnce(t *testing.T) {
	t.Parallel()
	const files, size = 8, 8 << 20
	const lost = 33 << 20 // the largest pack: a kill can come before it is recorded
	p := newPlaceInFolder(t)
	k := &killer{shell: p.folder(), rng: objecttest.Rand(13), expect: time.Second}
	k.apart = true
	k.kist("init")
	k.kist("remote", "add", "origin", p.url)

	for round := range objecttest.Rounds(t, 2) {
		for i := range files {
			if err := os.WriteFile(k.path(fmt.Sprint("large", i)), []byte(noise(k.rng, size)), 0o666); err != nil {
				t.Fatal(err)
			}
		}

		before := folderSize(t, p.url)
		if !k.kill(time.Duration(k.rng.Int64N(int64(k.expect))), syscall.SIGKILL, []string{"backup", "--jobs", "1"}) {
			k.late++
		}
		began := time.Now()
		k.shell.backup(0, "--jobs", "1")
		k.expect = time.Since(began)

		if sent := folderSize(t, p.url) - before; sent < files*size || sent > files*size+lost+1<<20 {
			t.Errorf("round %d: sent %d bytes, want %d and at most one pack more", round, sent, files*size)
		}
	}

	k.kist("verify", "--remote", "origin", "--read-data")
	clone := p.clone()
	clone.wantFiles(clone.readFiles("."), k.readFiles("."))
}

// TestBackupLimited checks backups of files that are larger than the local limit. Each commit
// restores the files that the folder had at the backup. Some backups are killed.
func TestBackupLimited(t *testing.T) {
	t.Parallel()

	test := func(t *testing.T, p *place) {
		k := &killer{shell: p.folder(), rng: objecttest.Rand(11), expect: 100 * time.Millisecond}
		k.apart = true
		k.kist("init", "--chunk-size", "64KiB")
		k.kist("remote", "add", "origin", p.url)

		limited := []string{"--local-limit", "1MB"}
		states := map[string]files{}
		for round := range objecttest.Rounds(t, 2) {
			k.change(".")
			name := k.path(fmt.Sprintf("large%d", round))
			if err := os.WriteFile(name, []byte(noise(k.rng, 4<<20)), 0o666); err != nil {
				t.Fatal(err)
			}

			if round > 0 && !k.kill(time.Duration(k.rng.Int64N(int64(k.expect))), syscall.SIGKILL, append([]string{"backup"}, limited...)) {
				k.late++
			}
			k.kist("verify")
			began := time.Now()
			b := k.shell.backup(0, limited...)
			k.expect = time.Since(began)
			states[b.Commit] = k.readFiles(".")
			k.kist("verify")

			if size := folderSize(t, k.path(".kist/volumes")); size > 1_500_000 {
				t.Errorf("round %d: the local volumes have %d bytes, want at most 1.5 MB", round, size)
			}
			if refs := k.kist("ls-remote", "origin"); strings.Contains(refs, "incomplete") {
				t.Errorf("the remote still has an incomplete branch:\n%s", refs)
			}
		}

		k.kist("gc", "--prune", "0d")
		k.kist("remote", "gc", "--grace", "now", "origin")
		k.kist("verify", "--read-data")
		k.kist("verify", "--remote", "origin", "--read-data")

		clone := p.clone()
		for id, want := range states {
			for _, s := range []*shell{clone, k.shell} {
				s.kist("restore", "--source", id, "--to", "../restored")
				s.wantFiles(s.readFiles("../restored"), want)
				if err := os.RemoveAll(s.path("../restored")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}

	t.Run("dir", func(t *testing.T) { t.Parallel(); test(t, newPlaceInFolder(t)) })

	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		base, query := minioServer(t)
		test(t, newPlace(t, s3.Open, base+"/"+noiseName(objecttest.Rand(12))+"limited?"+query, os.Getenv))
	})
}

// folderSize returns the size of the files below a folder, in bytes.
func folderSize(t testing.TB, folder string) (size int64) {
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestBackupHowto runs the commands of docs/howto/backup.md.
func TestBackupHowto(t *testing.T) {
	t.Parallel()
	base, query := minioServer(t)
	p := newPlace(t, s3.Open, base+"/"+noiseName(objecttest.Rand(8))+"howto?"+query, os.Getenv)
	s := p.folder()
	s.write(map[string]string{"photos/one": "1", "b.tmp": "", "cache/c": ""})
	page, err := os.ReadFile("../../docs/howto/backup.md")
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	for line := range strings.Lines(string(page)) {
		line, ok := strings.CutPrefix(strings.NewReplacer("s3://my-bucket/server", p.url, "/tmp/", "../", "'", "").Replace(strings.TrimSpace(line)), "$ kist ")
		if ok {
			line, _, _ = strings.Cut(line, " 2>") // the shell redirects the standard error
			s.kist(strings.Fields(line)...)
			n++
		}
		if schedule, command, ok := strings.Cut(line, "kist -q -C /srv "); ok && strings.HasPrefix(schedule, "30 2") {
			if o := s.exits(0, "-q", command); o.stdout+o.stderr != "" {
				t.Errorf("a quiet backup printed text: %v", o)
			}
			n++
		}
	}
	if n < 12 {
		t.Errorf("backup.md has %d commands, want at least 12", n)
	}
	if s.readFiles("../restored")["one"] == "" && s.readFiles("../restored")["photos/one"] == "" {
		t.Error("no command restored the file one")
	}
}
