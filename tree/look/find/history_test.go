package find_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/find"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// past is a version of a path.
type past struct {
	path string
	kind object.EntryType
	id   object.ID
}

// everywhere reads all trees and returns each version's entry and the commits that made it. A
// commit made a version if no parent has it at the path.
func (s *repository) everywhere() (entries map[past]object.Entry, made map[past][]object.ID) {
	entries, made = map[past]object.Entry{}, map[past][]object.ID{}
	trees := map[object.ID]map[string]object.Entry{}
	list, err := s.Repo.Refs().List("")
	s.Check(err)

	var tips []object.ID
	for _, ref := range list {
		id, err := refs.Peel(s.Context(), s.Repo.Objects(), ref.ID)
		s.Check(err)
		tips = append(tips, id)
	}

	var all []history.Commit
	for c, err := range history.Walk(s.Context(), s.Repo.Objects(), tips, history.Options{}) {
		s.Check(err)
		all = append(all, c)
		trees[c.ID] = map[string]object.Entry{}
		s.Check(tree.Walk(s.Context(), s.Repo.Objects(), c.Tree, func(p string, e object.Entry) error {
			trees[c.ID][p] = e
			return nil
		}))
	}

	for _, c := range all {
		for p, e := range trees[c.ID] {
			key := past{p, e.Type, tree.ContentID(&e)}
			entries[key] = e
			isNew := func(parent object.ID) bool {
				old, there := trees[parent][p]
				return !there || old.Mode != e.Mode || old.Type != e.Type || tree.ContentID(&old) != key.id
			}
			if !slices.ContainsFunc(c.Parents, func(id object.ID) bool { return !isNew(id) }) {
				made[key] = append(made[key], c.ID)
			}
		}
	}
	return entries, made
}

// grow makes commits on main and on side branches, and merges some of them.
func (s *repository) grow() {
	name := 0
	for range 12 {
		for range 6 {
			s.change()
		}
		s.Write("src/flip", pick(s.rnd, "one", "two"))
		s.Add(stage.AddOptions{})
		s.Commit("main")
		if s.rnd.IntN(3) > 0 {
			continue
		}
		name++
		side := fmt.Sprintf("side%d", name)
		s.Checkout(checkout.SwitchOptions{Create: side})
		s.Write("side/"+fmt.Sprint(s.rnd.IntN(3)), s.random(50))
		s.Add(stage.AddOptions{})
		s.Commit("side")
		s.Checkout(checkout.SwitchOptions{Rev: "main"})
		s.Write("only/main", s.random(40))
		s.Add(stage.AddOptions{})
		s.Commit("main beside")
		if s.rnd.IntN(3) > 0 {
			_, err := commits.Merge(s.Context(), s.Repo, commits.MergeOptions{Rev: side})
			s.Check(err)
		}
	}
}

// Random searches of all history find the same as a search of every tree.
func TestAllHistory(t *testing.T) {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(3, 4))}
	shared := s.random(1 << 20)
	s.big = []string{shared, shared + s.random(1<<19)}
	s.grow()
	entries, made := s.everywhere()
	all := slices.SortedFunc(maps.Keys(entries), func(a, b past) int { return tree.ComparePaths(a.path, b.path) })

	several := 0
	for i := range 200 {
		words, holds := s.askAll(all, entries)
		q, err := find.Parse(s.Context(), s.Repo, words, s.options())
		s.Check(err)
		got := map[past]bool{}
		for f, err := range q.All(s.Context()) {
			s.Check(err)
			key := past{f.Path, f.Entry.Type, tree.ContentID(&f.Entry)}
			if got[key] {
				t.Fatalf("%q: found %v twice", words, key)
			}
			got[key] = true
			several += len(f.Commits) - 1
			want := slices.Clone(made[key])
			slices.SortFunc(want, object.ID.Compare)
			if commits := slices.SortedFunc(slices.Values(f.Commits), object.ID.Compare); !slices.Equal(commits, want) {
				t.Fatalf("%q: %v: commits %v, want %v", words, key, commits, want)
			}
		}
		for _, key := range all {
			if want := holds(key, entries[key]); got[key] != want {
				t.Fatalf("question %d, %q: %v: found %v, want %v", i, words, key, got[key], want)
			}
		}
	}
	if several == 0 {
		t.Error("no version was made by several commits")
	}
}

// askAll returns a random search and its meaning.
func (s *repository) askAll(all []past, entries map[past]object.Entry) (words []string, holds func(p past, e object.Entry) bool) {
	p := pick(s.rnd, all...)
	e := entries[p]
	name := path.Base(p.path)
	regular := func(p past) bool { return p.kind == object.TypeFile }
	switch s.rnd.IntN(6) {
	case 0:
		return []string{"name=" + strings.ReplaceAll(name, "*", `\*`)}, func(g past, _ object.Entry) bool { return path.Base(g.path) == name }
	case 1:
		return []string{"id=" + p.id.String()[:16]}, func(g past, _ object.Entry) bool { return g.id == p.id }
	case 2:
		size := e.Size
		return []string{"type=f", fmt.Sprintf("size=+%d", size)}, func(g past, e object.Entry) bool { return regular(g) && e.Size >= size }
	case 3:
		return []string{"path=src", "not", "type=d"}, func(g past, _ object.Entry) bool { return tree.Below(g.path, "src") && g.kind != object.TypeDir }
	case 4:
		data := pick(s.rnd, s.big...)
		sum := sha256.Sum256([]byte(data))
		return []string{fmt.Sprintf("sha256=%x", sum), "type=f"}, func(g past, e object.Entry) bool { return regular(g) && e.Size == uint64(len(data)) }
	default:
		return []string{"type=l", "or", "*.txt"}, func(g past, _ object.Entry) bool {
			return g.kind == object.TypeSymlink || strings.HasSuffix(g.path, ".txt")
		}
	}
}

// changed= selects the versions of later commits, and like= finds a deleted file by its copy.
func TestAllChanged(t *testing.T) {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(5, 6))}
	big := s.random(3 << 20)
	s.Write("gone", big)
	s.Write("kept", "1")
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	s.Check(os.Remove(filepath.Join(s.Dir, "gone")))
	s.Write("kept", "2")
	s.Add(stage.AddOptions{})
	s.Commit("second")
	s.Write("copy", big[1<<20:])

	for word, want := range map[string][]string{
		"changed=" + first.String(): {"kept"},
		"changed=HEAD":              nil,
		"changed=2000-01-01":        {"gone", "kept", "kept"},
		"like=copy":                 {"gone"},
		"gone":                      {"gone"},
	} {
		q, err := find.Parse(s.Context(), s.Repo, []string{word}, s.options())
		s.Check(err)
		var got []find.File
		for f, err := range q.All(s.Context()) {
			s.Check(err)
			got = append(got, f)
		}
		if !slices.Equal(paths(got), want) {
			t.Errorf("%s: %q, want %q", word, paths(got), want)
		}
	}
}

// Searches for attributes find the effective attributes in every commit.
func TestAllAttrs(t *testing.T) {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(7, 8))}
	names := []string{"a", "src/b", "src/deep/c", "src/deep", "src"}
	for i, name := range names[:3] {
		s.Write(name, fmt.Sprint(i))
	}
	s.Add(stage.AddOptions{})
	s.Commit("first")
	for range 25 {
		_, err := stage.EditAttrs(s.Context(), s.Repo, []string{pick(s.rnd, names...)}, func(_ string, attrs map[string]string) error {
			attrs[pick(s.rnd, "acl", "project")] = pick(s.rnd, "x", "y")
			if s.rnd.IntN(3) == 0 {
				clear(attrs)
			}
			return nil
		})
		s.Check(err)
		if s.rnd.IntN(2) == 0 {
			s.Write(pick(s.rnd, names[:3]...), s.random(40))
			s.Add(stage.AddOptions{})
		}
		_, err = commits.Commit(s.Context(), s.Repo, commits.CommitOptions{Message: "more", AllowEmpty: true})
		s.Check(err)
	}

	some := 0
	for _, key := range []string{"acl", "project"} {
		for _, value := range []string{"x", "y", "*"} {
			want := map[string]bool{} // commit and path
			for c, err := range history.Walk(s.Context(), s.Repo.Objects(), []object.ID{s.Head()}, history.Options{}) {
				s.Check(err)
				before := map[string]object.Entry{}
				if len(c.Parents) > 0 {
					parent, err := object.ReadCommit(s.Context(), s.Repo.Objects(), c.Parents[0])
					s.Check(err)
					s.Check(tree.Walk(s.Context(), s.Repo.Objects(), parent.Tree, func(p string, e object.Entry) error { before[p] = e; return nil }))
				}
				var in tree.Inheritance
				s.Check(tree.Walk(s.Context(), s.Repo.Objects(), c.Tree, func(p string, e object.Entry) error {
					attr, there := in.At(p, &e)[key]
					old, existed := before[p]
					if there && (value == "*" || attr.Value == value) && !(existed && tree.ContentEqual(&old, &e)) {
						want[c.ID.String()+p] = true
					}
					return nil
				}))
			}

			q, err := find.Parse(s.Context(), s.Repo, []string{"attr." + key + "=" + value}, s.options())
			s.Check(err)
			got := map[string]bool{}
			for f, err := range q.All(s.Context()) {
				s.Check(err)
				for _, c := range f.Commits {
					got[c.String()+f.Path] = true
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("attr.%s=%s: %v, want %v", key, value, got, want)
			}
			some += len(want)
		}
	}
	if some < 20 {
		t.Errorf("%d results, want at least 20", some)
	}
}

// The index keeps the hash of a large file. Searches do not find purged content.
func TestSumsAreKept(t *testing.T) {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(9, 10))}
	big := s.random(3 << 20)
	s.Write("big", big)
	s.Add(stage.AddOptions{})
	s.Commit("first")
	word := fmt.Sprintf("sha256=%x", sha256.Sum256([]byte(big)))
	if got := paths(s.run([]string{word}, "")); !slices.Equal(got, []string{"big"}) {
		t.Fatalf("%s finds %q, want big", word, got)
	}
	x, err := s.options().Index()
	s.Check(err)
	e := s.run([]string{"big"}, "")[0].Entry
	if sum, ok := x.Sum(tree.ContentID(&e)); !ok || sum != object.Sum([]byte(big)) {
		t.Errorf("the index has the hash %v, %v", sum, ok)
	}

	s.Purge("big")
	for _, test := range []string{"content-type=*", "sha256=" + strings.Repeat("0", 64)} {
		if got := paths(s.run([]string{test, "big"}, "")); len(got) > 0 {
			t.Errorf("%s finds purged content: %q", test, got)
		}
	}
}

// A search finds no versions of expired commits, even if the index is older than the expiration.
func TestAllAfterExpiry(t *testing.T) {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(11, 12))}
	s.Write("stays", s.random(100))
	var ids []object.ID
	for range 3 {
		s.Write("changes", s.random(100))
		s.Add(stage.AddOptions{})
		ids = append(ids, s.Commit("more").ID)
	}
	want := func(want ...string) {
		t.Helper()
		q, err := find.Parse(s.Context(), s.Repo, []string{"content-type=*"}, s.options())
		s.Check(err)
		var got []string
		for f, err := range q.All(s.Context()) {
			s.Check(err)
			got = append(got, fmt.Sprint(slices.Index(ids, f.Commits[0]), " ", f.Path))
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}

	want("0 changes", "1 changes", "2 changes", "0 stays")
	_, err := retain.Expire(s.Context(), s.Repo, retain.ExpireOptions{Policy: retain.Policy{Last: 1}})
	s.Check(err)
	want("2 changes", "2 stays")
	_, err = retain.Unexpire(s.Context(), s.Repo, []string{ids[1].String()})
	s.Check(err)
	want("1 changes", "2 changes", "1 stays")
}
