package exchange_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// cloneOf clones the repository in a folder.
func cloneOf(t *testing.T, dir string) (*kist.Repository, error) {
	t.Helper()
	r, _, err := exchange.Clone(t.Context(), filepath.Join(t.TempDir(), "clone"), kist.Options{}, exchange.CloneOptions{URL: dir})
	if r != nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// files returns the files below a folder, with their times and content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		found[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			found[path] += fmt.Sprintf(" %x", sha256.Sum256(data))
			return err
		}
		return nil
	})
	kisttest.Check(t, err)
	return found
}

// A clone of a folder and later fetches receive all objects, and change nothing in the
// folder.
func TestCloneFolder(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	random := rand.New(rand.NewPCG(1, 2))

	edit := func(commits int) {
		for i := range commits {
			data := make([]byte, random.IntN(1<<20))
			for j := range data {
				data[j] = byte(random.Uint32())
			}
			s.Write(fmt.Sprintf("folder %d/file %d", random.IntN(4), random.IntN(4)), string(data))
			s.Add(stage.AddOptions{})
			s.Commit(fmt.Sprint("commit ", i))
		}
	}

	edit(3)
	before := files(t, s.Dir)
	clone, err := cloneOf(t, s.Dir)
	s.Check(err)

	for range objecttest.Rounds(t, 3) {
		if after := files(t, s.Dir); !maps.Equal(before, after) {
			t.Fatal("clone or fetch changed the other repository")
		}
		tip, err := clone.Resolve(ctx, "origin/main")
		s.Check(err)
		if head := s.Head(); tip != head {
			t.Fatalf("origin/main is at %s, want %s", tip, head)
		}

		verify(t, clone)
		edit(1 + random.IntN(2))
		before = files(t, s.Dir)
		result, err := exchange.Fetch(ctx, clone, exchange.FetchOptions{Remote: "origin"})
		s.Check(err)
		if result.Objects == 0 {
			t.Fatal("the fetch received no objects")
		}
	}
}

// A reader of a folder holds its gc lock, so gc removes nothing. Commits are possible.
func TestCloneFolderKeepsGC(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	s.Write("file", "text")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	opened, err := registry.OpenURL(ctx, s.Repo.Options(), registry.Remote{URL: s.Dir})
	s.Check(err)
	file := filepath.Join(s.Dir, ".kist/gc.lock")
	if _, err := disk.Lock(ctx, file, disk.Exclusive, 0); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("gc lock: error %v, want ErrBusy", err)
	}
	s.Write("file", "another text")
	s.Add(stage.AddOptions{})
	s.Commit("second")
	s.Check(opened.Close())
	lock, err := disk.Lock(ctx, file, disk.Exclusive, 0)
	s.Check(err)
	lock.Unlock()
}

// The folder of a repository opens only as a source of fetches.
func TestFolderIsNoStore(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	s.Write("file", "text")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	before := files(t, s.Dir)
	url := "file://" + s.Dir
	opened, err := registry.OpenURL(ctx, s.Repo.Options(), registry.Remote{URL: url})
	s.Check(err)
	defer opened.Close()

	for name, do := range map[string]func() error{
		"objects": func() error { _, _, err := transfer.Objects(ctx, opened); return err },
		"open":    func() error { _, err := registry.Open(ctx, s.Repo, registry.Remote{URL: url}, false); return err },
		"init":    func() error { _, err := registry.Open(ctx, s.Repo, registry.Remote{URL: url}, true); return err },
		"clone's push": func() error {
			clone, err := cloneOf(t, s.Dir)
			s.Check(err)
			ref, err := registry.ParsePush(ctx, clone, "main")
			s.Check(err)
			_, err = exchange.Push(ctx, clone, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{ref}})
			return err
		},
	} {
		if err := do(); !errors.Is(err, transfer.ErrRepository) {
			t.Errorf("%s: error %v, want ErrRepository", name, err)
		}
	}

	if after := files(t, s.Dir); !maps.Equal(before, after) {
		t.Error("the repository changed")
	}
}

// A clone of a folder that an attacker prepared fails, or ignores the forged parts.
func TestCloneHostileFolder(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string) error // gets the .kist folder
		want    error                                // nil: the clone succeeds
	}{
		"the folder is a symlink": {func(t *testing.T, dir string) error {
			return errors.Join(os.Rename(dir, dir+"-real"), os.Symlink(dir+"-real", dir))
		}, disk.ErrSymlink},
		"volumes is a symlink": {func(t *testing.T, dir string) error {
			return errors.Join(os.Rename(dir+"/volumes", dir+"/../real"), os.Symlink("../real", dir+"/volumes"))
		}, disk.ErrSymlink},
		"a branch is a symlink": {func(t *testing.T, dir string) error {
			return os.Symlink("main", dir+"/refs/heads/other")
		}, refs.ErrDamaged},
		"the gc lock is a symlink": {func(t *testing.T, dir string) error {
			return errors.Join(os.Remove(dir+"/gc.lock"), os.Symlink("/dev/null", dir+"/gc.lock"))
		}, disk.ErrSymlink},
		"branches with bad names": {func(t *testing.T, dir string) error {
			data, err := os.ReadFile(dir + "/refs/heads/main")
			for _, name := range []string{"a..b", "b.lock", "esc\x1b[31m", "HEAD"} {
				err = errors.Join(err, os.WriteFile(dir+"/refs/heads/"+name, data, 0o644))
			}
			return err
		}, nil},
		"a branch without an object": {func(t *testing.T, dir string) error {
			missing := refs.Change{Name: "refs/heads/other", New: object.Sum([]byte("nothing")), Reason: "forged"}
			return refs.Open(dir, time.Now).Update(t.Context(), []refs.Change{missing}, refs.Who{Name: "Mallory"})
		}, object.ErrNotFound},
		"damaged objects": {func(t *testing.T, dir string) error {
			return change(t, dir+"/volumes/*/*.vlog", func(data []byte) {
				for i := range data {
					data[i] ^= 1
				}
			})
		}, object.ErrCorrupt},
		"a configuration with commands": {func(t *testing.T, dir string) error {
			data, err := os.ReadFile(dir + "/config")
			if err != nil {
				return err
			}
			text := strings.Replace(string(data), "[user]", "[user]\nname = \"Mallory\"", 1)
			return os.WriteFile(dir+"/config", []byte(text+"\n[backup]\nbefore = \"touch "+dir+"/ran\"\n"), 0o644)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := kisttest.New(t)
			s.Write("file", string(kisttest.Noise(1, 100_000)))
			s.Add(stage.AddOptions{})
			s.Commit("first")
			worktree := t.TempDir() // a copy, because s checks its own worktree at the end
			s.Check(os.CopyFS(worktree, os.DirFS(s.Dir)))
			dir := filepath.Join(worktree, ".kist")
			s.Check(c.prepare(t, dir))

			clone, err := cloneOf(t, worktree)
			if c.want != nil {
				if !errors.Is(err, c.want) {
					t.Errorf("clone: error %v, want %v", err, c.want)
				}
				return
			}

			s.Check(err)
			if _, err := os.Lstat(dir + "/ran"); err == nil || clone.Who().Name == "Mallory" {
				t.Error("the clone uses the configuration of the other repository")
			}

			list, err := clone.Refs().List("refs/remotes/")
			s.Check(err)
			for _, ref := range list {
				if ref.Name != "refs/remotes/origin/main" && ref.Name != "refs/remotes/origin/HEAD" {
					t.Errorf("the clone has the ref %q", ref.Name)
				}
			}
		})
	}
}

// change edits the files that match a pattern.
func change(t *testing.T, pattern string, edit func([]byte)) error {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if len(list) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	for _, name := range list {
		data, rerr := os.ReadFile(name)
		edit(data)
		err = errors.Join(err, rerr, os.Chmod(name, 0o644), os.WriteFile(name, data, 0o644))
	}
	return err
}

// A fetch from a URL that is no configured remote sets FETCH_HEAD, which is a gc root. It
// moves only the named branches.
func TestFetchAt(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	s.Write("file", "text")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	other, err := cloneOf(t, s.Dir)
	s.Check(err)
	s.Write("file", "another text")
	s.Add(stage.AddOptions{})
	second := s.Commit("second").ID

	fetch := func(spec string) error {
		t.Helper()
		ref, err := registry.ParseFetch(spec)
		s.Check(err)
		_, err = exchange.Fetch(ctx, other, exchange.FetchOptions{Remote: s.Dir, NoTags: true, Refs: []registry.FetchRef{ref}})
		return err
	}
	s.Check(fetch("main"))
	if id, err := other.Resolve(ctx, "FETCH_HEAD"); err != nil || id != second {
		t.Errorf("FETCH_HEAD is %s, %v; want %s", id, err, second)
	}
	if id, err := other.Resolve(ctx, "origin/main"); err != nil || id == second {
		t.Errorf("origin/main is %s, %v; want the first commit", id, err)
	}
	if !gcKeeps(ctx, other, second) {
		t.Error("FETCH_HEAD is no gc root")
	}
	if err := fetch("main:main"); err == nil {
		t.Error("the fetch moved the checked-out branch")
	}
	s.Check(fetch("main:new"))
	s.Check(fetch("main:new"))
	if id, err := other.Resolve(ctx, "new"); err != nil || id != second {
		t.Errorf("new is %s, %v; want %s", id, err, second)
	}
}

// gcKeeps reports whether FETCH_HEAD makes a commit a gc root.
func gcKeeps(ctx context.Context, r *kist.Repository, id object.ID) bool {
	roots, err := r.Refs().Roots(ctx)
	for _, root := range roots {
		if err == nil && root.ID == id && root.File == "FETCH_HEAD" {
			return true
		}
	}
	return false
}
