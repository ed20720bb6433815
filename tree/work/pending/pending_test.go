package pending

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

var alice, bob = refs.Who{Name: "alice", Email: "alice@example.org"}, refs.Who{Name: "bob", Email: "bob@example.org"}

// server is a repository that takes changes for its branches.
type server struct {
	*kisttest.Repository
	c     *Changes
	warns []string
	mu    sync.Mutex
}

// start opens the changes of a repository. Commits happen only on demand.
func start(t *testing.T, r *kisttest.Repository) *server {
	s := &server{Repository: r}
	c, err := Open(t.Context(), r.Repo, Options{Quiet: time.Hour, Label: "test", Warn: func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warns = append(s.warns, text)
	}})
	r.Check(err)
	s.c = c
	t.Cleanup(func() { s.crash() })
	return s
}

// crash ends the server like a kill. It writes nothing more.
func (s *server) crash() {
	for _, b := range s.c.branches {
		b.stopWork()
	}
	s.c.lock.Unlock()
}

// restart starts the server again after a crash.
func (s *server) restart() *server {
	s.crash()
	return start(s.T, s.Repository)
}

func (s *server) branch(name string) *Branch {
	b, err := s.c.Branch(s.Context(), name)
	s.Check(err)
	return b
}

// put writes a file.
func (s *server) put(branch, path, content string, who refs.Who) {
	s.Helper()
	s.Check(s.tryPut(branch, path, content, who))
}

func (s *server) tryPut(branch, path, content string, who refs.Who) error {
	up, err := s.c.Receive(s.Context(), strings.NewReader(content))
	if err != nil {
		return err
	}
	defer up.Close()
	return s.branch(branch).Change(s.Context(), who, up, func(e *Edit) error {
		e.Set(path, up.Entry)
		return nil
	})
}

func (s *server) remove(branch, path string, who refs.Who) {
	s.Helper()
	s.Check(s.branch(branch).Change(s.Context(), who, nil, func(e *Edit) error {
		e.Remove(path)
		return nil
	}))
}

// files returns the contents of all files of a branch, with pending changes. Folders have the
// content "/".
func (s *server) files(branch string) map[string]string {
	s.Helper()
	v, err := s.branch(branch).View(s.Context())
	s.Check(err)
	files := map[string]string{}
	if v.Tree.IsZero() {
		return files
	}
	s.Check(tree.Walk(s.Context(), v.Objects, v.Tree, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir {
			files[path] = "/"
			return nil
		}
		data, err := io.ReadAll(object.NewContentReader(s.Context(), v.Objects, e))
		files[path] = string(data)
		return err
	}))
	return files
}

func (s *server) commit(branch string) object.ID {
	s.Helper()
	id, err := s.branch(branch).Commit(s.Context())
	s.Check(err)
	return id
}

func (s *server) want(got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("got %v, want %v", got, want)
	}
}

// withBranch returns a repository with a commit, and a branch that is not checked out.
func withBranch(t *testing.T) *kisttest.Repository {
	r := kisttest.New(t)
	r.Check(os.WriteFile(filepath.Join(r.Dir, "a.txt"), []byte("one\ntwo\nthree\n"), 0o644))
	r.Add(stage.AddOptions{Paths: []string{"a.txt"}})
	r.Commit("first")
	_, err := commits.CreateBranch(t.Context(), r.Repo, "team", "HEAD", false)
	r.Check(err)
	return r
}

func TestCommit(t *testing.T) {
	s := start(t, withBranch(t))
	first := s.Head()
	big := string(kisttest.Noise(1, 3<<20))
	s.put("team", "docs/b.txt", "b", alice)
	s.put("team", "docs/big", big, alice)
	s.put("team", "docs/c.txt", strings.Repeat("c", 1000), alice)
	s.remove("team", "a.txt", alice)
	s.want(len(s.files("team")), 4)

	id := s.commit("team")
	c, err := object.ReadCommit(t.Context(), s.Repo.Objects(), id)
	s.Check(err)
	s.want(c.Parents, []object.ID{first})
	s.want(c.Author.Name, "alice")
	s.want(c.Message, "test: 4 changes")
	s.want(s.commit("team"), object.ID{})
	files, err := kisttest.ReadFiles(t.Context(), s.Repo, id)
	s.Check(err)
	s.want(slices.Sorted(maps.Keys(files)), []string{"docs/b.txt", "docs/big", "docs/c.txt"})
	s.want(files["docs/big"] == big, true)
	left, err := Uncommitted(s.Repo)
	s.Check(err)
	s.want(len(left), 0)
	s.want(s.Head(), first)
}

// Changes without an effect make no commit.
func TestChangeWithoutEffect(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "x", "x", alice)
	s.remove("team", "x", alice)
	before, err := s.Repo.Refs().Get("refs/heads/team")
	s.Check(err)
	s.commit("team")
	after, err := s.Repo.Refs().Get("refs/heads/team")
	s.Check(err)
	s.want(after, before)
}

// A commit to HEAD's branch updates the worktree. It is refused if that would overwrite local
// changes.
func TestCheckedOut(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("main", "new.txt", "new", alice)
	s.commit("main")
	data, err := os.ReadFile(filepath.Join(s.Dir, "new.txt"))
	s.Check(err)
	s.want(string(data), "new")

	s.Check(os.WriteFile(filepath.Join(s.Dir, "a.txt"), []byte("local"), 0o644))
	s.put("main", "a.txt", "remote", alice)
	_, err = s.branch("main").Commit(t.Context())
	var local *stage.LocalChangesError
	s.want(errors.As(err, &local), true)
	s.want(s.files("main")["a.txt"], "remote")
	s = s.restart()
	s.want(s.files("main")["a.txt"], "remote")
	s.Check(os.WriteFile(filepath.Join(s.Dir, "a.txt"), []byte("one\ntwo\nthree\n"), 0o644))
	s.commit("main")
	data, err = os.ReadFile(filepath.Join(s.Dir, "a.txt"))
	s.Check(err)
	s.want(string(data), "remote")
}

// A commit can be the first one of a repository.
func TestUnborn(t *testing.T) {
	s := start(t, kisttest.New(t))
	s.put("main", "x", "x", alice)
	s = s.restart()
	s.commit("main")
	s.want(s.files("main"), map[string]string{"x": "x"})
	s.want(s.Exists("x"), true)
}

// If the branch moved meanwhile, a commit merges the changes with it. No version is lost.
func TestMoved(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("main", "a.txt", "zero\none\ntwo\nthree\n", alice)
	s.put("main", "pic.png", "\x00alice", alice)
	s.put("main", "text.txt", "alice\n", alice)
	s.put("main", "dir", "a file of alice", alice)
	s.put("main", "gone.txt", "alice", alice)
	s = s.restart()

	s.Check(os.Mkdir(filepath.Join(s.Dir, "dir"), 0o755))
	for name, content := range map[string]string{
		"a.txt": "one\ntwo\nthree\nfour\n", "pic.png": "\x00bob", "text.txt": "bob\n", "dir/f": "f", "other": "other",
	} {
		s.Check(os.WriteFile(filepath.Join(s.Dir, name), []byte(content), 0o644))
	}
	s.Add(stage.AddOptions{})
	s.Commit("of bob")
	s.commit("main")

	day := s.Repo.Options().Now().Format("2006-01-02")
	want := map[string]string{
		"a.txt": "zero\none\ntwo\nthree\nfour\n", "other": "other", "gone.txt": "alice", "dir": "/", "dir/f": "f",
		"pic.png": "\x00bob", "pic (conflict of alice " + day + ").png": "\x00alice",
		"text.txt": "bob\n", "text (conflict of alice " + day + ").txt": "alice\n",
		"dir (conflict of alice " + day + ")": "a file of alice",
	}
	s.want(s.files("main"), want)
	data, err := os.ReadFile(filepath.Join(s.Dir, "text (conflict of alice "+day+").txt"))
	s.Check(err)
	s.want(string(data), "alice\n")
}

// If a user replaces another user's file, both versions get a commit.
func TestUsers(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "x", "of alice", alice)
	s.put("team", "y", "of bob", bob)
	s.put("team", "x", "of bob", bob)
	s.commit("team")
	id, c, err := s.Repo.ReadCommit(t.Context(), "team^")
	s.Check(err)
	files, err := kisttest.ReadFiles(t.Context(), s.Repo, id)
	s.Check(err)
	s.want(files["x"], "of alice")
	s.want(c.Message, "test: add x, add y\n\nCo-authored-by: bob <bob@example.org>")
	_, c, err = s.Repo.ReadCommit(t.Context(), "team")
	s.Check(err)
	s.want(c.Author.Name, "bob")
}

// No confirmed change is lost when the server crashes at random moments between random changes.
func TestCrash(t *testing.T) {
	for seed := range objecttest.Rounds(t, 1) {
		r := objecttest.Rand(uint64(seed))
		s := start(t, withBranch(t))
		model := map[string]string{"a.txt": "one\ntwo\nthree\n"}
		for range 12 {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for w := range 3 {
				rng := rand.New(rand.NewPCG(r.Uint64(), 0))
				wg.Go(func() {
					for range 5 {
						path := fmt.Sprintf("w%d/%d", w, rng.IntN(6))
						mu.Lock()
						_, exists := model[path]
						mu.Unlock()
						if exists && rng.IntN(3) == 0 {
							s.remove("team", path, alice)
							mu.Lock()
							delete(model, path)
							mu.Unlock()
							continue
						}
						size := []int{0, 10, 1000, 100_000, 700_000}[rng.IntN(5)]
						content := string(kisttest.Noise(byte(rng.Uint32()), size))
						s.put("team", path, content, alice)
						mu.Lock()
						model[path], model[fmt.Sprintf("w%d", w)] = content, "/"
						mu.Unlock()
					}
				})
			}

			wg.Wait()
			if r.IntN(3) == 0 {
				s.commit("team")
			}
			if r.IntN(2) == 0 {
				s = s.restart()
			}
			if !maps.Equal(s.files("team"), model) {
				t.Fatalf("seed %d: the files differ from the model", seed)
			}
		}

		s.commit("team")
	}
}

// Each beginning of a journal has the changes of its complete records.
func TestCutJournal(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "x", "first", alice)
	s.put("team", "y", "second", alice)
	path := s.c.journalPath("team")
	data, err := os.ReadFile(path)
	s.Check(err)
	s.crash()
	seen := 0
	for n := range len(data) + 1 {
		s.Check(os.WriteFile(path, data[:n], 0o600))
		_, branch, ops, cut, found, err := readJournal(path)
		s.Check(err)
		if len(ops) < seen || found != (branch == "team") || n == len(data) && (cut || len(ops) != 2) {
			t.Fatalf("%d bytes: branch %q, %d changes, cut %v, found %v", n, branch, len(ops), cut, found)
		}
		seen = len(ops)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)-3] ^= 1
	s.Check(os.WriteFile(path, flipped, 0o600))
	s = start(t, s.Repository)
	s.want(s.files("team")["x"], "first")
	s.want(len(s.warns), 1)
	_, err = os.Stat(path + ".cut")
	s.Check(err)
}

// Only one process can take changes.
func TestOneServer(t *testing.T) {
	s := start(t, withBranch(t))
	if _, err := Open(context.Background(), s.Repo, Options{}); err == nil {
		t.Error("a second server starts")
	}
}

// After a crash before the pending ref is removed, the server continues with the commit's files.
func TestStepsOfCommit(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "x", "x", alice)
	id := s.commit("team")
	r := s.Repo
	s.Check(r.Publish(t.Context(), func(tx *kist.Tx) { // the state before the removal of the ref
		tx.Move(refs.Change{Name: refs.Pending + "team", New: id})
	}))
	s = s.restart()
	s.put("team", "y", "y", alice)
	s.commit("team")
	s.want(s.files("team"), map[string]string{"a.txt": "one\ntwo\nthree\n", "x": "x", "y": "y"})
	left, err := Uncommitted(r)
	s.Check(err)
	s.want(len(left), 0)
}

// A crash can leave a journal beside its checkpoint. Its changes are not made again, because a
// folder in the journal may be a file now.
func TestOldJournal(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "d/x", "x", alice)
	s.commit("team")
	s.put("team", "d/x", "again", alice)
	s.remove("team", "d", alice)
	s.put("team", "d", "a file", alice)
	path := s.c.journalPath("team")
	data, err := os.ReadFile(path)
	s.Check(err)
	s.put("team", "large", string(kisttest.Noise(1, 1<<20)), alice)
	s.Check(os.WriteFile(path, data, 0o600))
	s = s.restart()
	s.want(s.files("team")["d"], "a file")
	s.commit("team")
	s.want(len(s.files("team")), 3)
}

// Changes survive even if the journal cannot be removed.
func TestStuckJournal(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "x", "first", alice)
	path := s.c.journalPath("team")
	s.branch("team").journal.path = filepath.Dir(path) // a folder with files, which cannot be removed
	s.put("team", "large", string(kisttest.Noise(1, 1<<20)), alice)
	s.put("team", "x", "second", alice)
	if _, err := s.branch("team").Commit(t.Context()); err == nil {
		t.Error("the branch moved in spite of the journal")
	}
	s = s.restart()
	s.want(s.files("team")["x"], "second")
	s.commit("team")
	s.want(s.files("team")["x"], "second")
}

// Nothing stays pending after a removed large file and a crash before the ref is removed.
func TestUndone(t *testing.T) {
	s := start(t, withBranch(t))
	s.put("team", "large", string(kisttest.Noise(1, 1<<20)), alice)
	s.remove("team", "large", alice)
	b := s.branch("team")
	s.want(b.journal != nil, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Commit(ctx)
	s = s.restart()
	s.want(len(s.files("team")), 1)
	s.commit("team")
	left, err := Uncommitted(s.Repo)
	s.Check(err)
	s.want(len(left), 0)
}

// worktree returns the contents of all files in the worktree.
func (s *server) worktree() map[string]string {
	s.Helper()
	files := map[string]string{}
	s.Check(fs.WalkDir(os.DirFS(s.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".kist":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := os.ReadFile(filepath.Join(s.Dir, path))
		files[path] = string(data)
		return err
	}))
	return files
}

// staged returns the number of paths that the index has in another state than HEAD.
func (s *server) staged() int {
	s.Helper()
	tip, err := s.Repo.Refs().Get("refs/heads/main")
	s.Check(err)
	c, err := object.ReadCommit(s.Context(), s.Repo.Objects(), tip)
	s.Check(err)
	idx, err := s.Repo.Index()
	s.Check(err)
	n := 0
	for change, err := range tree.Diff(s.Context(), compare.NewKnown(s.Repo.Objects()), c.Tree, object.ID{}, tree.DiffOptions{Recursive: true, Paired: true}) {
		s.Check(err)
		if !stage.SameEntry(stage.Indexed(idx, change.Path), change.Old) {
			s.Logf("%s is staged", change.Path)
			n++
		}
	}
	return n
}

// A kill in the middle of the update of the worktree does not keep later changes from being
// committed. What the user changed meanwhile stays.
func TestKilledMove(t *testing.T) {
	s := start(t, withBranch(t))
	s.Check(os.WriteFile(filepath.Join(s.Dir, "mine"), []byte("old"), 0o644))
	s.Add(stage.AddOptions{})
	s.Commit("mine")
	s.put("main", "a.txt", "first", alice)
	s.put("main", "new", "first", alice)
	s.put("main", "mine", "first", alice)
	b := s.branch("main")
	s.Check(b.Checkpoint(t.Context()))
	s.Check(checkout.SwitchTree(t.Context(), s.Repo, checkout.Tips{
		From: b.base, To: checkout.Tip{Commit: b.saved, Tree: b.info.ID},
	}))
	s.Check(os.WriteFile(filepath.Join(s.Dir, "mine"), []byte("of the user"), 0o644))

	s = s.restart()
	s.put("main", "a.txt", "second", alice)
	s.remove("main", "new", alice)
	_, err := s.branch("main").Commit(t.Context())
	var local *stage.LocalChangesError
	s.want(errors.As(err, &local), true)
	s.want(s.worktree(), map[string]string{"a.txt": "one\ntwo\nthree\n", "mine": "of the user"})

	s.Check(os.WriteFile(filepath.Join(s.Dir, "mine"), []byte("old"), 0o644))
	s.commit("main")
	s.want(s.worktree(), map[string]string{"a.txt": "second", "mine": "first"})
}

// No change of a server reaches a folder of git: neither by its name nor in a copied folder,
// even if the configuration permits changes there.
func TestGitFolders(t *testing.T) {
	r := withBranch(t)
	r.Write("sub/.git/config", "mine")
	r.Add(stage.AddOptions{Git: true})
	r.Commit("with git")
	r.Repo.Worktree().AllowGit()
	s := start(t, r)
	for _, path := range []string{".git", ".git/config", "sub/.GIT/x", "git~1"} {
		s.want(errors.Is(s.tryPut("main", path, "evil", alice), worktree.ErrGit), true)
	}
	err := s.branch("main").Change(t.Context(), alice, nil, func(e *Edit) error {
		sub, err := e.Before.Find(t.Context(), "sub")
		e.SetFrom("copy", sub)
		return err
	})
	s.Check(err)
	s.commit("main")

	s.want(s.files("main")["copy/.git/config"], "mine")
	s.want(r.Exists("copy"), true)
	s.want(r.Exists("copy/.git"), false)
	s.want(s.Status().Unwritten, []string{"copy/.git"})
	s.want(s.Status().Clean(), true)
}
