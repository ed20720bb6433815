package browse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/browse"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// walk describes the paths, entries and contents below a node.
func walk(t *testing.T, n *browse.Node) (list []string) {
	t.Helper()
	var visit func(n *browse.Node, path string)
	visit = func(n *browse.Node, path string) {
		for child, err := range n.List(t.Context(), "") {
			if err != nil {
				t.Fatalf("list %q: %v", path, err)
			}
			again, err := n.Lookup(t.Context(), child.Name)
			if child.IsPartial() && err == nil && tree.ContentID(&again.Entry) == tree.ContentID(&child.Entry) {
				again.Entry = child.Entry // the rest differs
			}
			if err != nil || !cmp.Equal(again.Entry, child.Entry) || again.Commit != child.Commit {
				t.Fatalf("lookup of %q in %q: %v; %+v, listed as %+v", child.Name, path, err, again, child)
			}
			at := tree.Join(path, child.Name)
			list = append(list, describe(t, at, child.Entry, func() ([]byte, error) { return content(t.Context(), child) }))
			if child.Type == object.TypeDir {
				visit(child, at)
			}
		}
	}
	visit(n, "")
	return list
}

// walked returns the expected result of walk for the tree of a commit.
func walked(t *testing.T, r *kist.Repository, id object.ID) (list []string) {
	t.Helper()
	c, err := object.ReadCommit(t.Context(), r.Objects(), id)
	if err == nil {
		err = tree.Walk(t.Context(), r.Objects(), c.Tree, func(path string, e object.Entry) error {
			if e.Type == object.TypeDir {
				e.MTime = c.Committer.Time
			}
			list = append(list, describe(t, path, e, func() ([]byte, error) {
				return io.ReadAll(object.NewContentReader(t.Context(), r.Contents(), e))
			}))
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func describe(t *testing.T, path string, e object.Entry, read func() ([]byte, error)) string {
	t.Helper()
	text := fmt.Sprintf("%q: %d %o %d %v %q", path, e.Type, e.Mode, e.Size, e.MTime, e.Target)
	if e.Type == object.TypeFile {
		data, err := read()
		if err != nil {
			t.Fatalf("read %q: %v", path, err)
		}
		text += object.Sum(data).String()
	}
	return text
}

// readAt reads the bytes of a file at off into p.
func readAt(ctx context.Context, f *browse.FileReader, p []byte, off int64) (n int, err error) {
	parts, err := f.Parts(ctx, off, len(p))
	for _, part := range parts {
		n += copy(p[n:], part)
	}
	return n, err
}

func content(ctx context.Context, n *browse.Node) ([]byte, error) {
	f, err := n.Open(ctx)
	if err != nil {
		return nil, err
	}
	data := make([]byte, f.Size())
	got, err := readAt(ctx, f, data, 0)
	return data[:got], err
}

func find(t *testing.T, h *browse.History, path string) *browse.Node {
	t.Helper()
	n, err := h.Root().Find(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// names returns the names in a folder.
func names(t *testing.T, h *browse.History, path string) (list []string) {
	t.Helper()
	for n, err := range find(t, h, path).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n.Name)
	}
	return list
}

// fill writes files of many sizes, some with odd names, in small and large folders.
func fill(s *kisttest.Repository, rnd *rand.Rand) {
	for i := range 200 {
		dir := []string{"", "a/", "a/b/c/", "large/", "\xff/"}[rnd.IntN(5)]
		s.Write(fmt.Sprintf("%sf%d", dir, i), strings.Repeat(fmt.Sprint(rnd.Uint64()), rnd.IntN(50)))
	}
	for i := range 500 {
		s.Write(fmt.Sprintf("large/%d", rnd.IntN(1e6)), fmt.Sprint(i))
	}
	s.Write("big", string(kisttest.Noise(byte(rnd.IntN(256)), 3<<20)))
	s.Check(os.Symlink("big", filepath.Join(s.Dir, "link")))
	s.Check(os.MkdirAll(filepath.Join(s.Dir, "empty"), 0o700))
}

func TestShowsTheTreesOfCommits(t *testing.T) {
	s := kisttest.New(t)
	fill(s, objecttest.Rand(1))
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	h := browse.OfRepository(s.Repo, browse.Options{Cache: 3 << 20})
	want := walked(t, s.Repo, first)
	if len(want) < 500 {
		t.Fatalf("%d entries, want at least 500", len(want))
	}
	for _, path := range []string{"latest", "branches/main", "commits/" + names(t, h, "commits")[0]} {
		if diff := cmp.Diff(want, walk(t, find(t, h, path))); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}

	s.Write("a/new", "of the second commit")
	s.Add(stage.AddOptions{})
	second := s.Commit("second").ID
	if diff := cmp.Diff(walked(t, s.Repo, second), walk(t, find(t, h, "latest"))); diff != "" {
		t.Errorf("after a commit: %s", diff)
	}
	if list := names(t, h, "commits"); len(list) != 2 {
		t.Errorf("commits: %q, want 2", list)
	}
}

func TestFolders(t *testing.T) {
	s := kisttest.New(t)
	h := browse.OfRepository(s.Repo, browse.Options{})
	if got := names(t, h, ""); !slices.Equal(got, []string{"branches", "commits", "tags", "versions"}) {
		t.Errorf("root of an empty repository: %q", got)
	}
	if got := names(t, h, "versions"); got != nil {
		t.Errorf("versions in an empty repository: %q", got)
	}

	s.Write("file", "text")
	s.Add(stage.AddOptions{})
	id := s.Commit("first").ID
	for _, name := range []string{"topic/a", "topic/b", "zoo"} {
		s.Checkout(checkout.SwitchOptions{Create: name})
	}

	for _, o := range []commits.TagOptions{{Name: "v1", Rev: "HEAD"}, {Name: "deep/v2", Rev: "HEAD", Message: "second"}} {
		_, _, err := commits.CreateTag(t.Context(), s.Repo, o)
		s.Check(err)
	}

	for path, want := range map[string][]string{
		"": {"branches", "commits", "latest", "tags", "versions"}, "branches": {"main", "topic", "zoo"}, "branches/topic": {"a", "b"},
		"tags": {"deep", "v1"}, "tags/deep": {"v2"}, "tags/deep/v2": {"file"}, "branches/topic/b": {"file"}, "versions": {"file@1"},
	} {
		if got := names(t, h, path); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}

	if n := find(t, h, "tags/deep/v2/file"); n.Commit != id {
		t.Errorf("commit %s, want %s", n.Commit, id)
	}

	for _, path := range []string{"branches/top", "branches/../tags", "branches/topic/c", "latest/nothing", "tags/v1/file/x", "commits/x", "x", "versions/file", "versions/file@0", "versions/file@2", "versions/file@01"} {
		_, err := h.Root().Find(t.Context(), path)
		if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			t.Errorf("Find(%q): error %v, want ErrNotExist or ErrNotDir", path, err)
		}
	}
}

func TestVersions(t *testing.T) {
	s := kisttest.New(t)
	h := browse.OfRepository(s.Repo, browse.Options{})
	for i, text := range []string{"one", "two", "three"} {
		s.Write("dir/file", text)
		s.Write("dir/sub/gone", text)
		s.Write("a@1/x", "in a folder that looks like a version")
		s.Write("a", fmt.Sprint(i))
		s.Add(stage.AddOptions{})
		s.Commit(text)
	}
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "dir/sub")))
	s.Check(os.Rename(filepath.Join(s.Dir, "dir/file"), filepath.Join(s.Dir, "dir/moved")))
	s.Add(stage.AddOptions{})
	s.Commit("removed and moved")

	for path, want := range map[string][]string{
		"versions": {"a@1", "a@2", "a@3", "dir"}, "versions/a@1": {"x@1"},
		"versions/dir": {"moved@1", "moved@2", "moved@3", "moved@4", "sub"}, "versions/dir/sub": {"gone@1", "gone@2", "gone@3"},
	} {
		if got := names(t, h, path); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{"dir/moved@2": "two", "dir/moved@4": "three", "dir/sub/gone@1": "one", "a@2": "1"} {
		if data, err := content(t.Context(), find(t, h, "versions/"+path)); string(data) != want {
			t.Errorf("%s: %q %v, want %q", path, data, err, want)
		}
	}
	walk(t, find(t, h, "versions"))
}

// A list of versions reads no commit. The nodes are readable nevertheless.
func TestVersionsArePartial(t *testing.T) {
	s := kisttest.New(t)
	h := browse.OfRepository(s.Repo, browse.Options{})
	for i := range 3 {
		s.Write("file", fmt.Sprint("version ", i, " of a text that is not kept inline"))
		s.Add(stage.AddOptions{})
		s.Commit("a version")
	}
	i := 0
	for n, err := range find(t, h, "versions").List(t.Context(), "") {
		s.Check(err)
		if !n.IsPartial() {
			t.Errorf("%s was read from its commit", n.Name)
		}
		if data, err := content(t.Context(), n); string(data) != fmt.Sprint("version ", i, " of a text that is not kept inline") {
			t.Errorf("%s: %q, %v", n.Name, data, err)
		}
		i++
	}
	if i != 3 {
		t.Errorf("%d versions, want 3", i)
	}
}

func TestExpiredAndPurged(t *testing.T) {
	s := kisttest.New(t)
	h := browse.OfRepository(s.Repo, browse.Options{})
	s.Write("secret", kisttest.Secret)
	s.Write("other", "a text that is too long to be kept inline, and not secret")
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	s.Write("other", "another text that is too long to be kept inline in a tree")
	s.Add(stage.AddOptions{})
	s.Commit("second")
	all := names(t, h, "commits")
	file := find(t, h, "latest/secret")
	open, err := file.Open(t.Context())
	s.Check(err)
	if data, err := content(t.Context(), file); string(data) != kisttest.Secret {
		t.Fatalf("content before the purge: %q, %v", data, err)
	}

	s.Purge("secret")
	if _, err := file.Open(t.Context()); !errors.Is(err, object.ErrPurged) {
		t.Errorf("open after the purge: error %v, want ErrPurged", err)
	}
	if n, err := readAt(t.Context(), open, make([]byte, 4), 0); !errors.Is(err, object.ErrPurged) {
		t.Errorf("read after the purge: %d bytes, error %v, want ErrPurged", n, err)
	}

	s.Check(s.Repo.Records().Update(t.Context(), func(set *record.Set) error {
		set.Switch(record.Record{Kind: record.Expire, Key: object.Key{Kind: object.KindCommit, ID: first}, On: true, Time: time.Now().UTC()})
		return nil
	}))
	if got := names(t, h, "commits"); len(all) != 2 || len(got) != 1 {
		t.Errorf("commits: %q, after the expiration %q; want 2, then 1", all, got)
	}
	if _, err := h.Commit(t.Context(), first); !errors.Is(err, object.ErrExpired) {
		t.Errorf("expired commit: error %v, want ErrExpired", err)
	}
	s.Collect(s.Repo, gc.PlanOptions{})
	if got := names(t, h, "versions"); !slices.Equal(got, []string{"other@1", "secret@1"}) {
		t.Errorf("versions: %q", got)
	}
}

// counted counts the chunks that a store reads.
type counted struct {
	*remotetest.Memory
	reads atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string, b []byte, off int64) (int, error) {
	if len(b) > 64<<10 {
		c.reads.Add(1)
	}
	return c.Memory.Get(ctx, name, b, off)
}

func TestRemote(t *testing.T) {
	s := kisttest.New(t)
	fill(s, objecttest.Rand(2))
	data := kisttest.Noise(7, 8<<20)
	s.Write("film", string(data))
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	b := &counted{Memory: remotetest.NewMemory()}
	r := s.WithRemote(b)
	s.Push(r, "main")

	now := time.Now()
	o := kisttest.Opens(b)
	o.Now = func() time.Time { return now }
	opened, err := registry.OpenURL(t.Context(), o.WithDefaults(), registry.Remote{URL: "/memory"})
	s.Check(err)
	h, err := exchange.BrowseHistory(t.Context(), opened, browse.Options{Now: o.Now})
	s.Check(err)
	if diff := cmp.Diff(walked(t, s.Repo, first), walk(t, find(t, h, "latest"))); diff != "" {
		t.Error(diff)
	}
	if got := names(t, h, ""); !slices.Equal(got, []string{"branches", "commits", "latest", "tags"}) {
		t.Errorf("root: %q", got)
	}

	s.Write("new", "of the second commit")
	s.Add(stage.AddOptions{})
	second := s.Commit("second").ID
	s.Push(r, "main")
	now = now.Add(time.Minute)
	if diff := cmp.Diff(walked(t, s.Repo, second), walk(t, find(t, h, "branches/main"))); diff != "" {
		t.Errorf("after a push: %s", diff)
	}
}

func TestSeeksReadFewChunks(t *testing.T) {
	s := kisttest.New(t)
	data := kisttest.Noise(7, 40<<20)
	s.Write("film", string(data))
	s.Add(stage.AddOptions{})
	s.Commit("first")
	b := &counted{Memory: remotetest.NewMemory()}
	s.Push(s.WithRemote(b), "main")
	opened, err := registry.OpenURL(t.Context(), kisttest.Opens(b).WithDefaults(), registry.Remote{URL: "/memory"})
	s.Check(err)
	h, err := exchange.BrowseHistory(t.Context(), opened, browse.Options{Now: time.Now, Cache: 1})
	s.Check(err)
	f, err := find(t, h, "latest/film").Open(t.Context())
	s.Check(err)
	rnd := objecttest.Rand(3)
	buf := make([]byte, s.Repo.Chunker().Params().Min) // spans at most two chunks
	_, err = readAt(t.Context(), f, buf[:1], 0)        // also reads the list of chunks
	s.Check(err)

	for range 50 {
		off := rnd.Int64N(f.Size())
		before := b.reads.Load()
		n, err := readAt(t.Context(), f, buf, off)
		if err != nil || string(buf[:n]) != string(data[off:][:n]) || n < len(buf) && off+int64(n) < f.Size() {
			t.Fatalf("a read at %d returns %d bytes, error %v", off, n, err)
		}
		if reads := b.reads.Load() - before; reads > 2 {
			t.Errorf("a read of %d bytes at %d reads %d chunks, want at most 2", len(buf), off, reads)
		}
	}
}

// Folders of git are hidden, because git runs commands from them, also in a mount.
func TestGitFolders(t *testing.T) {
	s := kisttest.New(t)
	for _, path := range []string{"a", ".git/config", "sub/.git", "sub/b", "old/.GIT/x"} {
		s.Write(path, path)
	}
	s.Add(stage.AddOptions{Git: true})
	s.Commit("first")
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "old")))
	s.Add(stage.AddOptions{})
	s.Commit("second")

	h := browse.OfRepository(s.Repo, browse.Options{})
	for path, want := range map[string][]string{
		"latest": {"a", "sub"}, "latest/sub": {"b"}, "branches/main": {"a", "sub"}, "versions": {"a@1", "old", "sub"}, "versions/sub": {"b@1"}, "versions/old": nil,
	} {
		if got := names(t, h, path); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"latest/.git", "latest/.git/config", "latest/sub/.git", "versions/.git", "versions/.git/config@1", "versions/old/.GIT"} {
		if _, err := h.Root().Find(t.Context(), path); !errors.Is(err, tree.ErrNotExist) {
			t.Errorf("Find(%q): error %v, want ErrNotExist", path, err)
		}
	}

	h = browse.OfRepository(s.Repo, browse.Options{Git: true})
	if got, want := names(t, h, "latest"), []string{".git", "a", "sub"}; !slices.Equal(got, want) {
		t.Errorf("with Git: %q, want %q", got, want)
	}
}
