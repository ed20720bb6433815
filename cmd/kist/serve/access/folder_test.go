package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// store keeps trees in memory. Some of them are lost.
type store struct {
	*objecttest.Memory
	t    *testing.T
	lost map[object.ID]bool
}

func newStore(t *testing.T) *store {
	return &store{objecttest.NewMemory(), t, map[object.ID]bool{}}
}

func (s *store) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if s.lost[key.ID] {
		return nil, &object.AbsentError{Key: key}
	}
	return s.Memory.Get(ctx, key)
}

// tree stores a tree. A path that ends with a slash is a folder, and the value is its rule, or
// that of a file; "-" is none.
func (s *store) tree(paths map[string]string) object.ID {
	s.t.Helper()
	e := tree.NewEditor(s.Memory, tree.Info{})
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		dir, isDir := strings.CutSuffix(path, "/")
		entry := object.Entry{Type: object.TypeFile}
		if rule := paths[path]; rule != "-" {
			entry.SetAttrs(map[string]string{Key: rule})
		}
		if isDir {
			entry.Type = object.TypeDir
			kisttest.Check(s.t, e.SetDir(s.t.Context(), dir, entry))
		} else {
			kisttest.Check(s.t, e.Set(s.t.Context(), path, entry))
		}
	}
	info, err := e.Finish(s.t.Context())
	kisttest.Check(s.t, err)
	return info.ID
}

// rule returns the rule at a path, "-" for none, and "closed" if it is not known.
func rule(f *ruleFolder, path string) string {
	switch s := (state{in: f}).stateAt(path); {
	case s.closed:
		return "closed"
	case s.read == nil:
		return "-"
	default:
		return *s.read
	}
}

// A folder that cannot be read is closed until it changes.
func TestUnreadableFolder(t *testing.T) {
	s := newStore(t)
	before := s.tree(map[string]string{"a/sub/f": "-", "b/f": "-"})
	ruled := s.tree(map[string]string{"a/sub/": "anna", "a/sub/f": "-", "b/f": "bob"})
	after := s.tree(map[string]string{"a/other": "eve", "b/f": "bob"})
	folder, err := tree.Find(t.Context(), s, ruled, "a")
	kisttest.Check(t, err)

	for _, tt := range []struct {
		lost        object.ID
		sub, a, b   string // after the tree with the rule
		fresh, root string // of a/other and b/f in the last tree
	}{
		{object.ID{}, "anna", "-", "bob", "eve", "bob"},
		{folder.Content.ID, "closed", "-", "bob", "eve", "bob"},
		{ruled, "closed", "closed", "closed", "eve", "bob"},
	} {
		s.lost = map[object.ID]bool{tt.lost: true}
		m := newMemory()
		first, err := m.rulesOf(t.Context(), s, nil, object.ID{}, before)
		kisttest.Check(t, err)
		second, err := m.rulesOf(t.Context(), s, first, before, ruled)
		kisttest.Check(t, err)
		third, err := m.rulesOf(t.Context(), s, second, ruled, after)
		kisttest.Check(t, err)
		got := []string{rule(first, "a/sub/f"), rule(second, "a/sub/f"), rule(second, "a"), rule(second, "b/f"), rule(third, "a/other"), rule(third, "b/f"), rule(third, "a/sub/f")}
		want := []string{"-", tt.sub, tt.a, tt.b, tt.fresh, tt.root, "-"}
		if !slices.Equal(got, want) {
			t.Errorf("without %s: %q, want %q", tt.lost.Short(), got, want)
		}
		if (state{in: second}).hidesBelow(User{Name: "anna"}, map[state]bool{}) != (tt.sub == "closed" || tt.b == "bob") {
			t.Errorf("without %s: wrong answer for what anna may read", tt.lost.Short())
		}
	}
}

// An error that may pass is no reason to deny access for ever.
func TestInterruptedRead(t *testing.T) {
	s := newStore(t)
	root := s.tree(map[string]string{"a/f": "anna"})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := newMemory()
	if _, err := m.rulesOf(ctx, s, nil, object.ID{}, root); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	rules, err := m.rulesOf(t.Context(), s, nil, object.ID{}, root)
	kisttest.Check(t, err)
	if got := rule(rules, "a/f"); got != "anna" {
		t.Errorf("rule %q, want anna", got)
	}
}

// Too many rules are an error.
func TestTooManyRules(t *testing.T) {
	defer func(n int) { maxRules = n }(maxRules)
	maxRules = 20
	s, m := newStore(t), newMemory()
	paths := map[string]string{}
	var err error
	for i := 0; err == nil && i < 100; i++ {
		paths[fmt.Sprint(i)] = "anna"
		_, err = m.rulesOf(t.Context(), s, nil, object.ID{}, s.tree(paths))
	}
	if !errors.Is(err, errTooManyRules) {
		t.Errorf("error %v, want errTooManyRules", err)
	}
}

// A commit that cannot be read closes everything.
func TestLostCommit(t *testing.T) {
	s := kisttest.New(t)
	p := newPast(s.Repo, newMemory())
	records, err := s.Repo.RecordViewOrEmpty()
	s.Check(err)
	lost, err := p.readCommit(t.Context(), records, object.ID{}, nil)
	s.Check(err)
	if got := rule(lost.rules, "any/path"); got != "closed" {
		t.Errorf("rule %q of a commit that cannot be read", got)
	}
}

// TestRandomRules compares the rules that follow from changes with those of each tree alone.
func TestRandomRules(t *testing.T) {
	for round := range objecttest.Rounds(t, 60) {
		r := objecttest.Rand(8200 + uint64(round))
		s, m := newStore(t), newMemory()
		paths := map[string]string{}
		var rules *ruleFolder
		var was object.ID

		for range 12 {
			for range 1 + r.IntN(3) {
				path := fmt.Sprint(r.IntN(3))
				for range r.IntN(3) {
					path += fmt.Sprint("/", r.IntN(3))
				}
				change(r, paths, path)
			}

			now := s.tree(paths)
			var err error
			rules, err = m.rulesOf(t.Context(), s, rules, was, now)
			kisttest.Check(t, err)
			alone, err := m.rulesOf(t.Context(), s, nil, object.ID{}, now)
			kisttest.Check(t, err)
			if rules != alone {
				t.Fatalf("round %d: the rules after a change are not those of the tree %q", round, paths)
			}

			for path, want := range paths {
				if got := rule(rules, strings.TrimSuffix(path, "/")); want != "-" && got != want {
					t.Fatalf("round %d: rule %q of %q, want %q", round, got, path, want)
				}
			}

			was = now
		}
	}
}

// change sets or removes a path. Nothing stays below a file.
func change(r *rand.Rand, paths map[string]string, path string) {
	isDir := false
	maps.DeleteFunc(paths, func(other, _ string) bool {
		bare, dir := strings.CutSuffix(other, "/")
		if tree.Below(bare, path) && bare != path && r.IntN(2) == 0 {
			return true
		}
		isDir = isDir || tree.Below(bare, path) && bare != path
		return bare == path || !dir && tree.Below(path, bare)
	})
	if isDir || r.IntN(3) == 0 {
		path += "/"
	}
	if r.IntN(4) > 0 {
		paths[path] = []string{"-", "anna", "bob"}[r.IntN(3)]
	}
}
