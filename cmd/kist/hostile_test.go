package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

// payload is the content of files in hostile trees.
const payload = "written by a hostile tree"

// hostile is a tree that no kist writes, and the result that verify and commands must have.
type hostile struct {
	name string
	tree func(b *builder) object.Key
	good bool // unusual, but valid
	deep bool // folders are nested too deep: commands may fail at a limit instead of reporting damage
	soft bool // damaged, but the files are readable: only verify must fail
}

// builder stores objects without checks.
type builder struct {
	testing.TB
	session *volume.Session
}

func (b *builder) put(kind object.Kind, data []byte) object.Key {
	id, err := b.session.Put(context.Background(), kind, data)
	if err != nil {
		b.Fatal(err)
	}
	return object.Key{Kind: kind, ID: id}
}

func (b *builder) node(n rawNode) object.Key { return b.put(n.kind, n.encode()) }
func (b *builder) tree(entries ...rawEntry) object.Key {
	return b.node(rawTree(entries...))
}
func (b *builder) chunk(text string) object.Key { return b.put(object.KindChunk, []byte(text)) }

// dir stores a directory, and returns its entry with the right totals.
func (b *builder) dir(name string, entries ...rawEntry) rawEntry {
	e := rawEntry{name: name, typ: 2, mode: 0o755}
	for _, sub := range entries {
		if e.files++; sub.typ == 2 {
			e.files += sub.files - 1
		}
		e.size += sub.size
	}
	e.content = b.tree(entries...)
	return e
}

// commit stores a commit of a tree. Its totals are files and bytes.
func (b *builder) commit(tree object.Key, message string, files, bytes uint64, parents ...object.ID) object.ID {
	who := object.Stamp{Name: "Mallory", Email: "mallory@chest.example", Time: object.Time{Sec: 1_700_000_000}}
	c := &object.Commit{Tree: tree.ID, Parents: parents, Author: who, Committer: who, Message: message, Files: files, Bytes: bytes}
	data, err := c.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return b.put(object.KindCommit, data).ID
}

// TestHostileTrees checks that commands on trees that no kist writes report the
// damage, and write nothing outside of the worktree or into .kist.
func TestHostileTrees(t *testing.T) {
	// All commands refuse the same names, so a few commands are enough for names.
	few := [][]string{
		{"ls", "-r", "CASE"}, {"diff", "--stat", "main", "CASE"}, {"merge", "--no-edit", "CASE"},
		{"restore", "--source", "CASE", "--to", "../out", "."}, {"checkout", "--force", "CASE"},
	}
	all := append([][]string{
		{"ls", "-l", "CASE"}, {"find", "CASE", "size=+1"}, {"log", "--stat", "-1", "CASE"}, {"diff", "CASE", "main"},
		{"restore", "--source", "CASE", "."}, {"checkout", "CASE"}, {"reset", "--hard", "CASE"},
	}, few...)
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		testHostile(t, hostileNames(), few)
	})
	t.Run("nodes", func(t *testing.T) {
		t.Parallel()
		testHostile(t, slices.Concat(hostileEntries(), hostileNodes(), hostileContents(), hostileShapes()), all)
	})
}

// testHostile runs commands on each tree. The argument CASE stands for its branch.
func testHostile(t *testing.T, cases []hostile, commands [][]string) {
	s := newShell(t)
	outside := s.in("../outside")
	outside.write(map[string]string{"secret": "kept", "folder/file": "kept"})
	s.write(map[string]string{"kept": "a file of the worktree that is long enough for a chunk"})

	for _, args := range [][]string{{"init"}, {"add", "kept"}, {"commit", "-m", "main"}, {"tag", "start"}} {
		if o := s.run(args...); o.status != 0 {
			t.Fatal(o)
		}
	}

	config, err := os.ReadFile(s.path(".kist/config"))
	if err != nil {
		t.Fatal(err)
	}

	untouched, before := outside.readFiles("."), s.position()
	commits := s.storeHostile(cases)
	named := s.damagedCommits()
	hidden := s.path("../hidden")
	for i := range cases {
		s.moveBranch(fmt.Sprintf("case-%d", i), s.path(kist.Dir), hidden)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := *s
			s.TB = t
			s.moveBranch(fmt.Sprintf("case-%d", i), hidden, s.path(kist.Dir))
			defer s.moveBranch(fmt.Sprintf("case-%d", i), s.path(kist.Dir), hidden)
			if got := named[commits[i].String()]; got == c.good {
				t.Errorf("verify reports damage: %v, want %v", got, !c.good)
			}

			for _, args := range commands {
				args = slices.Clone(args)
				if at := slices.Index(args, "CASE"); at >= 0 {
					args[at] = fmt.Sprintf("case-%d", i)
				}
				writes := slices.Contains([]string{"checkout", "restore", "reset", "merge"}, args[0])
				o := s.run(args...)
				switch {
				case o.status == 2:
					t.Errorf("wrong usage: %v", o)
				case c.good || c.soft:
				case c.deep && o.status == 1:
				case o.status == 3 && writes && strings.Contains(o.stderr, "could not be written"): // intact files were written
				case o.status == 0 && writes:
					t.Errorf("succeeds on a damaged tree: %v", o)
				case o.status != 0 && o.status != 11 && o.status != 12:
					t.Errorf("the exit status does not report damage: %v", o)
				}

				if !writes {
					continue
				}
				outside.wantFiles(outside.readFiles("."), untouched)
				s.wantRepositoryUntouched(config)
				s.wantNoRepositoryIn("../out")
				if t.Failed() {
					t.Fatalf("failed after kist %q", args)
				}

				removeAll(t, s.path("../out"))
				if s.position() != before {
					s.startOver()
					before = s.position()
				}
			}
		})
	}
}

// moveBranch moves the files of a branch from one folder to another. While a command looks at one
// case, the branches of the others are elsewhere, because many commands read all branches.
func (s *shell) moveBranch(name, from, to string) {
	s.Helper()
	for _, folder := range []string{"refs/heads", "logs/refs/heads"} {
		if err := os.MkdirAll(filepath.Join(to, folder), 0o700); err != nil {
			s.Fatal(err)
		}
		if err := os.Rename(filepath.Join(from, folder, name), filepath.Join(to, folder, name)); err != nil {
			s.Fatal(err)
		}
	}
}

// storeHostile stores each tree in a commit with a branch of its own. It returns the
// commits in the order of the cases.
func (s *shell) storeHostile(cases []hostile) (commits []object.ID) {
	s.Helper()
	s.storeBranches(func(ctx context.Context, b *builder, main object.ID) map[string]object.ID {
		branches := map[string]object.ID{}
		for i, c := range cases {
			tree := c.tree(b)
			files, size := totalsOf(ctx, b, tree)
			id := b.commit(tree, c.name, files, size, main)
			commits = append(commits, id)
			branches[fmt.Sprintf("case-%d", i)] = id
		}
		return branches
	})
	return commits
}

// storeBranches makes branches for the commits that build returns by name. Main is the
// commit of main.
func (s *shell) storeBranches(build func(ctx context.Context, b *builder, main object.ID) map[string]object.ID) {
	s.Helper()
	s.open(func(ctx context.Context, r *kist.Repository) error {
		main, _, err := r.ReadCommit(ctx, "main")
		if err != nil {
			return err
		}
		b := &builder{s.TB, r.Objects().Begin(volume.SessionOptions{})}
		defer b.session.Close()
		var changes []refs.Change
		for name, id := range build(ctx, b, main) {
			changes = append(changes, refs.Change{Name: refs.Heads + name, New: id, Reason: "hostile"})
		}
		return b.session.Publish(ctx, func(ctx context.Context) error {
			return r.Refs().Update(ctx, changes, refs.Who{Name: "Mallory"})
		})
	})
}

// totalsOf returns the totals for a commit of a tree, or zeros if the tree is unreadable.
func totalsOf(ctx context.Context, b *builder, root object.Key) (files, bytes uint64) {
	for e, err := range object.Entries(ctx, b.session, root.ID) {
		switch {
		case err != nil:
			return 0, 0
		case e.Type == object.TypeDir:
			files += e.Files
			bytes += e.Size
		default:
			files++
			if e.Type == object.TypeFile {
				bytes += e.Size
			}
		}
	}
	return files, bytes
}

// damagedCommits returns the commits that verify reports as damaged.
func (s *shell) damagedCommits() map[string]bool {
	s.Helper()
	o := s.run("verify", "--json")
	if o.status != 11 {
		s.Fatalf("want exit status 11: %v", o)
	}
	var report struct {
		Errors []struct{ Commits []string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil {
		s.Fatalf("%v: %v", err, o)
	}
	named := map[string]bool{}
	for _, e := range report.Errors {
		for _, id := range e.Commits {
			named[id] = true
		}
	}
	return named
}

// ownFiles matches the files that a repository may have outside of its volumes.
var ownFiles = regexp.MustCompile(`^(config|HEAD|ORIG_HEAD|MERGE_HEAD|MERGE_MSG|index|index\.base-[0-9a-f]+|[a-z]+\.lock|damaged|(logs/)?refs/heads/(main|case-\d+)|refs/tags/start|logs/HEAD)$`)

// wantRepositoryUntouched fails the test if .kist has an unknown file or another
// configuration.
func (s *shell) wantRepositoryUntouched(config []byte) {
	s.Helper()
	dir := s.path(kist.Dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == "volumes":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		if !d.Type().IsRegular() || !ownFiles.MatchString(name) {
			s.Errorf("unknown file %q in .kist", name)
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "config")); err != nil || !bytes.Equal(now, config) {
		s.Errorf("the configuration has changed, or is unreadable: %v", err)
	}
}

// wantNoRepositoryIn fails the test if a folder has an entry named like a repository.
func (s *shell) wantNoRepositoryIn(dir string) {
	s.Helper()
	filepath.WalkDir(s.path(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.EqualFold(d.Name(), kist.Dir) {
			s.Errorf("a command wrote %q", path)
		}
		return nil
	})
}

// position returns a text that changes if a command changes the index, HEAD or the
// worktree. Of the worktree it has only the stat data of the top level.
func (s *shell) position() (text string) {
	s.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			s.Fatal(err)
		}
		if e.Name() != kist.Dir {
			text += fmt.Sprintln(e.Name(), info.Mode(), info.ModTime())
		}
	}
	for _, name := range []string{"HEAD", "refs/heads/main", "index", "MERGE_HEAD"} {
		data, _ := os.ReadFile(s.path(filepath.Join(kist.Dir, name)))
		text += fmt.Sprintf("%s %x\n", name, data)
	}
	return text
}

// startOver restores main, the index and the worktree to the first commit.
func (s *shell) startOver() {
	s.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != kist.Dir {
			removeAll(s, s.path(e.Name()))
		}
	}
	os.Remove(s.path(".kist/index"))
	os.Remove(s.path(".kist/MERGE_HEAD"))
	for _, args := range [][]string{{"checkout", "--force", "main"}, {"reset", "--hard", "refs/tags/start"}} {
		if o := s.run(args...); o.status != 0 && args[0] == "reset" {
			s.Fatal(o)
		}
	}
}

// removeAll removes a folder of any depth and with any permissions.
func removeAll(t testing.TB, path string) {
	filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// hostileMemory is the memory limit of a command on a tree of a few kilobytes, in bytes.
const hostileMemory = 512 << 20

// TestHostileNumbers checks that commands on trees of few objects that stand for very
// many paths or bytes end or can be interrupted, and use little memory.
func TestHostileNumbers(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"kept": "a file of the worktree"})
	s.kist("add", ".")
	s.kist("commit", "-m", "main")
	s.storeBranches(func(ctx context.Context, b *builder, main object.ID) map[string]object.ID {
		files, folders := rawFile("0", payload), b.dir("0")
		for range 40 {
			a, c := files, folders
			a.name, c.name = "1", "1"
			files, folders = b.dir("0", files, a), b.dir("0", folders, c)
		}
		part := rawChild{end: 16 << 20, key: b.chunk(strings.Repeat("\x00", 16<<20))}
		large := b.node(rawManifest(0, part, part))
		size := uint64(32 << 20)
		for level := byte(1); level < 16; level++ {
			large = b.node(rawManifest(level, rawChild{end: size, key: large}, rawChild{end: 2 * size, key: large}))
			size *= 2
		}
		branches := map[string]object.ID{}
		for name, tree := range map[string]object.Key{
			"files": files.content, "folders": folders.content,
			"bytes": b.tree(rawEntry{name: "f", typ: 1, mode: 0o644, size: size, content: large}),
		} {
			count, bytes := totalsOf(ctx, b, tree)
			branches[name] = b.commit(tree, name, count, bytes, main)
		}
		return branches
	})
	out, want := s.path("../out"), s.readFiles(".")
	for _, branch := range []string{"files", "folders", "bytes"} {
		for _, args := range [][]string{
			{"verify", "--read-data"}, {"log", "--stat", branch}, {"du", branch}, {"diff", "--stat", "main", branch},
			{"ls", "-r", branch}, {"diff", "main", branch}, {"status"},
			{"checkout", branch}, {"checkout", "--force", branch}, {"restore", "--source", branch, "--to", out, "."},
			{"restore", "--source", branch, "."}, {"merge", branch}, {"reset", "--hard", branch},
		} {
			writes := slices.Contains([]string{"checkout", "restore", "merge", "reset"}, args[0])
			if branch == "bytes" && writes || branch == "folders" && !slices.Contains([]string{"verify", "checkout", "merge"}, args[0]) {
				continue
			}
			o := s.runProcess(args...)
			switch {
			case args[0] == "verify" && o.status != 0:
				t.Errorf("verify fails on valid trees: %v", o)
			case o.status == 0 && writes || o.status != 0 && o.status != 1:
				t.Errorf("unexpected exit status: %v", o)
			case o.status == 1 && !strings.Contains(o.stderr, "far more paths"):
				t.Errorf("the error does not name the number of paths: %v", o)
			case o.memory > hostileMemory:
				t.Errorf("used %d bytes of memory, want at most %d: %v", o.memory, hostileMemory, o)
			}
			if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 2 {
				t.Errorf("worktree after %q = %v, %v, want .kist and kept", args, entries, err)
			}
		}
	}

	// Writing that many bytes takes long, but can be interrupted.
	p := s.start("checkout", "bytes")
	for writing := false; !writing && !p.hasEnded(); time.Sleep(time.Millisecond) {
		begun, err := filepath.Glob(s.path(".kist/tmp/write-*/*"))
		if err != nil {
			t.Fatal(err)
		}
		writing = len(begun) > 0
	}
	time.Sleep(100 * time.Millisecond)
	p.signal(syscall.SIGTERM)
	if o := p.wait(); o.status != 130 || o.memory > hostileMemory {
		t.Errorf("interrupted checkout: %d bytes of memory, want at most %d and exit status 130: %v", o.memory, hostileMemory, o)
	}
	s.kist("checkout", "--force", "main")
	s.wantFiles(s.readFiles("."), want)
}
