package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// repo is a store of commits, with a name for each.
type repo struct {
	t testing.TB
	*objecttest.Memory
	ids   []object.ID
	names map[object.ID]string
}

func newRepo(t testing.TB) *repo {
	return &repo{t: t, Memory: objecttest.NewMemory(), names: make(map[object.ID]string)}
}

func (r *repo) commit(name string, time int64, parents ...object.ID) object.ID {
	r.t.Helper()
	who := object.Stamp{Name: "a", Email: "a@b", Time: object.Time{Sec: time}}
	tree, _ := object.EmptyTree()
	c := object.Commit{Tree: tree, Parents: parents, Author: who, Committer: who, Message: name}
	data, err := c.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := r.Put(context.Background(), object.KindCommit, data)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ids = append(r.ids, id)
	r.names[id] = name
	return id
}

// graph makes commits from lines like "d 40 b c": name, time, parents.
func (r *repo) graph(lines ...string) map[string]object.ID {
	ids := make(map[string]object.ID)
	for _, line := range lines {
		var parents []object.ID
		fields := strings.Fields(line)
		for _, p := range fields[2:] {
			parents = append(parents, ids[p])
		}
		var time int64
		fmt.Sscan(fields[1], &time)
		ids[fields[0]] = r.commit(fields[0], time, parents...)
	}
	return ids
}

func (r *repo) walk(starts []object.ID, opt Options) string {
	r.t.Helper()
	var names []string
	for c, err := range Walk(context.Background(), r, starts, opt) {
		if err != nil {
			r.t.Fatal(err)
		}
		if c.Message != r.names[c.ID] {
			r.t.Fatalf("commit %s has message %q", r.names[c.ID], c.Message)
		}
		names = append(names, c.Message)
	}
	return strings.Join(names, " ")
}

func TestWalk(t *testing.T) {
	r := newRepo(t)
	//	a - b - d - f - g    f is a merge; the clock of e is wrong
	//	  \- c -/- e -/
	id := r.graph("a 10", "b 30 a", "c 20 a", "d 40 b c", "e 5 c", "f 60 d e", "g 70 f", "x 35")

	for _, test := range []struct {
		starts string
		opt    Options
		want   string
	}{
		{"g", Options{}, "g f d b c a e"},
		{"g", Options{Topo: true}, "g f e d c b a"},
		{"g", Options{FirstParent: true}, "g f d b a"},
		{"g", Options{FirstParent: true, Topo: true}, "g f d b a"},
		{"f d f", Options{}, "f d b c a e"},
		{"d f f", Options{Topo: true}, "f e d c b a"},
		{"b c x", Options{}, "x b c a"},
		{"b c x", Options{Topo: true}, "x b c a"},
		{"g", Options{Exclude: []object.ID{id["e"]}}, "g f d b"},
		{"g", Options{Exclude: []object.ID{id["e"]}, Topo: true}, "g f d b"},
		{"g", Options{Exclude: []object.ID{id["d"]}}, "g f e"},
		{"g", Options{Exclude: []object.ID{id["d"]}, FirstParent: true}, "g f"},
		{"a", Options{Exclude: []object.ID{id["g"]}}, ""},
		{"a", Options{Exclude: []object.ID{id["a"]}, Topo: true}, ""},
		{"", Options{}, ""},
		{"", Options{Topo: true}, ""},
	} {
		var starts []object.ID
		for _, name := range strings.Fields(test.starts) {
			starts = append(starts, id[name])
		}
		if got := r.walk(starts, test.opt); got != test.want {
			t.Errorf("walk from %q, %+v:\n got %s\nwant %s", test.starts, test.opt, got, test.want)
		}
	}
}

// Walk returns the first commit after a single read. It does not read older commits ahead of time.
func TestWalkStreams(t *testing.T) {
	r := newRepo(t)
	id := r.graph("a 1", "b 2 a", "c 3 b")
	r.Damage(object.Key{Kind: object.KindCommit, ID: id["b"]})
	reads := &counter{Reader: r}
	for c, err := range Walk(context.Background(), reads, []object.ID{id["c"]}, Options{}) {
		if err != nil || c.ID != id["c"] || reads.n != 1 {
			t.Fatalf("got %v, %v after %d reads", c.ID, err, reads.n)
		}
		break
	}
	var errs []error
	for _, err := range Walk(context.Background(), r, []object.ID{id["c"]}, Options{}) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], object.ErrCorrupt) {
		t.Fatalf("walk into a damaged commit: %v", errs)
	}
}

type counter struct {
	object.Reader
	n int
}

func (c *counter) Get(ctx context.Context, key object.Key) ([]byte, error) {
	c.n++
	return c.Reader.Get(ctx, key)
}

func TestErrors(t *testing.T) {
	r := newRepo(t)
	id := r.graph("a 1", "b 2 a", "c 3 b", "d 3 b")
	r.Delete(object.Key{Kind: object.KindCommit, ID: id["b"]})
	ctx := context.Background()
	_, err1 := MergeBases(ctx, r, id["c"], id["d"])
	_, err2 := IsAncestor(ctx, r, id["a"], id["d"])
	_, _, err3 := AheadBehind(ctx, r, id["c"], id["d"])
	_, err4 := MergeBases(ctx, r, object.ID{1}, id["d"])
	_, err5 := IsAncestor(ctx, r, id["a"], object.ID{1})

	errs := []error{err1, err2, err3, err4, err5}
	for _, opt := range []Options{{Topo: true}, {Exclude: []object.ID{id["d"]}}} {
		for _, err := range Walk(ctx, r, []object.ID{id["c"]}, opt) {
			errs = append(errs, err)
		}
	}

	for i, err := range errs {
		if !errors.Is(err, object.ErrNotFound) {
			t.Errorf("call %d: %v, want ErrNotFound", i, err)
		}
	}
	if len(errs) != 7 {
		t.Errorf("%d errors, want 7", len(errs))
	}

	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := MergeBases(done, r, id["c"], id["d"]); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRelations(t *testing.T) {
	r := newRepo(t)
	id := r.graph("a 1", "b 2 a", "c 2 a",
		"d 3 b c", "e 4 c b", // criss-cross
		"f 5 d", "g 6 e", "x 9",
		"h 7 f", "i 1 h", "j 8 i", "k 9 i")

	ctx := context.Background()
	for _, test := range []struct {
		a, b, bases   string
		ahead, behind int
		isAncestor    bool
	}{
		{"a", "a", "a", 0, 0, true},
		{"a", "b", "a", 0, 1, true},
		{"b", "a", "a", 1, 0, false},
		{"b", "c", "a", 1, 1, false},
		{"d", "e", "b c", 1, 1, false},
		{"f", "g", "b c", 2, 2, false},
		{"f", "x", "", 5, 1, false},
		{"c", "g", "c", 0, 3, true},
		{"j", "k", "i", 1, 1, false},
		{"f", "k", "f", 0, 3, true},
		{"k", "f", "f", 3, 0, false},
	} {
		bases, err := MergeBases(ctx, r, id[test.a], id[test.b])
		if err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, b := range bases {
			names = append(names, r.names[b])
		}
		slices.Sort(names)

		if got := strings.Join(names, " "); got != test.bases {
			t.Errorf("merge bases of %s and %s: %q, want %q", test.a, test.b, got, test.bases)
		}
		ahead, behind, err := AheadBehind(ctx, r, id[test.a], id[test.b])
		if err != nil || ahead != test.ahead || behind != test.behind {
			t.Errorf("%s and %s: ahead %d, behind %d, %v", test.a, test.b, ahead, behind, err)
		}

		is, err := IsAncestor(ctx, r, id[test.a], id[test.b])
		if err != nil || is != test.isAncestor {
			t.Errorf("%s is ancestor of %s: %v, %v", test.a, test.b, is, err)
		}
	}
}

// random makes a history of n commits with up to three parents each. Their times are right,
// sometimes wrong, or nonsense. Skewed reports that some may be wrong.
func (r *repo) random(rnd *rand.Rand, n int) (parents [][]int, skewed bool) {
	skew := []int64{0, 5, 1000}[rnd.IntN(3)]
	reach := 1 + rnd.IntN(n) // how far back parents are
	for i := range n {
		var mine []int
		for range min(i, []int{0, 1, 1, 1, 1, 2, 2, 3}[rnd.IntN(8)]) {
			if p := i - 1 - rnd.IntN(min(i, reach)); !slices.Contains(mine, p) {
				mine = append(mine, p)
			}
		}
		var ids []object.ID
		for _, p := range mine {
			ids = append(ids, r.ids[p])
		}
		time := int64(i)
		if skew > 0 && rnd.IntN(3) == 0 {
			time += rnd.Int64N(2*skew) - skew
		}
		r.commit(fmt.Sprint(i), time, ids...)
		parents = append(parents, mine)
	}
	return parents, skew > 0
}

// closure returns the ancestors of each commit, the commit itself included.
func closure(parents [][]int) [][]bool {
	has := make([][]bool, len(parents))
	for i := range parents {
		has[i] = make([]bool, len(parents))
		has[i][i] = true
		for _, p := range parents[i] {
			for j := range i {
				has[i][j] = has[i][j] || has[p][j]
			}
		}
	}
	return has
}

func TestRandomHistories(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := newRepo(t)
		n := 2 + rnd.IntN(40)
		parents, skewed := r.random(rnd, n)
		has := closure(parents)

		for range 40 {
			a, b := rnd.IntN(n), rnd.IntN(n)
			var bases []object.ID
			ahead, behind := 0, 0
			for c := range n {
				best := has[a][c] && has[b][c]
				for d := range n {
					best = best && !(d != c && has[a][d] && has[b][d] && has[d][c])
				}
				if best {
					bases = append(bases, r.ids[c])
				}
				if has[a][c] && !has[b][c] {
					ahead++
				}
				if has[b][c] && !has[a][c] {
					behind++
				}
			}

			got, err := MergeBases(ctx, r, r.ids[a], r.ids[b])
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got, object.ID.Compare)
			slices.SortFunc(bases, object.ID.Compare)
			if !slices.Equal(got, bases) {
				t.Fatalf("seed %d: merge bases of %d and %d in %v: got %v, want %v", seed, a, b, parents, got, bases)
			}

			gotAhead, gotBehind, err := AheadBehind(ctx, r, r.ids[a], r.ids[b])
			exact := gotAhead == ahead && gotBehind == behind
			if skewed { // with wrong clocks, common commits may count
				exact = gotAhead >= ahead && gotBehind >= behind
			}
			if err != nil || !exact {
				t.Fatalf("seed %d: %d and %d in %v: got %d, %d, %v, want %d, %d", seed, a, b, parents, gotAhead, gotBehind, err, ahead, behind)
			}

			is, err := IsAncestor(ctx, r, r.ids[a], r.ids[b])
			if err != nil || is != has[b][a] {
				t.Fatalf("seed %d: %d is ancestor of %d in %v: got %v, %v", seed, a, b, parents, is, err)
			}
		}
	}
}

// A walk visits each reachable, not excluded commit once. With Topo, children come first.
func TestRandomWalks(t *testing.T) {
	for seed := range uint64(120) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		r := newRepo(t)
		n := 2 + rnd.IntN(40)
		parents, _ := r.random(rnd, n)
		has := closure(parents)

		pick := func() (list []int, ids []object.ID) {
			for range rnd.IntN(4) {
				i := rnd.IntN(n)
				list, ids = append(list, i), append(ids, r.ids[i])
			}
			return list, ids
		}

		starts, startIDs := pick()
		exclude, excludeIDs := pick()
		want := map[int]bool{}
		for c := range n {
			in := func(list []int) bool {
				return slices.ContainsFunc(list, func(i int) bool { return has[i][c] })
			}
			if in(starts) && !in(exclude) {
				want[c] = true
			}
		}

		for _, topo := range []bool{false, true} {
			got := map[int]bool{}
			for c, err := range Walk(context.Background(), r, startIDs, Options{Exclude: excludeIDs, Topo: topo}) {
				if err != nil {
					t.Fatal(err)
				}
				i := slices.Index(r.ids, c.ID)
				if got[i] {
					t.Fatalf("seed %d: %d twice", seed, i)
				}

				got[i] = true
				for child := range n {
					if topo && want[child] && !got[child] && slices.Contains(parents[child], i) {
						t.Fatalf("seed %d: %d before its child %d in %v", seed, i, child, parents)
					}
				}
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, topo %v, %v: %s", seed, topo, parents, diff)
			}
		}
	}
}

// Reading ahead changes neither the commits of a walk nor their order.
func TestReadAhead(t *testing.T) {
	setMinCold := func(n int) { minCold = n }
	defer setMinCold(minCold)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		r := newRepo(t)
		r.random(rnd, 2+rnd.IntN(200))
		starts := []object.ID{r.ids[len(r.ids)-1], r.ids[rnd.IntN(len(r.ids))]}
		for _, opt := range []Options{{}, {FirstParent: true}, {Topo: true}, {Exclude: r.ids[:rnd.IntN(len(r.ids))]}} {
			setMinCold(1 << 30)
			want := r.walk(starts, opt)
			setMinCold(1 + rnd.IntN(5))
			if got := r.walk(starts, opt); got != want {
				t.Fatalf("seed %d, %+v: got %s, want %s", seed, opt, got, want)
			}
		}
	}
}

// With read-ahead, an error still appears at the place of the damaged commit.
func TestReadAheadError(t *testing.T) {
	r := newRepo(t)
	ids := chain(r, 2_000)
	last := ids[len(ids)-1]
	ctx := t.Context()
	for _, damaged := range []int{1_999, 1_700, 1_000, 0} {
		key := object.Key{Kind: object.KindCommit, ID: ids[damaged]}
		data, err := r.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		r.Damage(key)
		var walked int
		for c, err := range Walk(ctx, r, []object.ID{last}, Options{FirstParent: true}) {
			if err != nil && !errors.Is(err, object.ErrCorrupt) || err == nil && c.ID != ids[1_999-walked] {
				t.Fatalf("commit %d: %v, %v", walked, c.ID, err)
			}
			if err == nil {
				walked++
			}
		}
		if walked != 1_999-damaged {
			t.Errorf("commit %d damaged: walked %d commits, want %d", damaged, walked, 1_999-damaged)
		}
		if _, err := r.Put(ctx, object.KindCommit, data); err != nil {
			t.Fatal(err)
		}
	}

}

// A walk ends its read-ahead goroutine when the caller stops early, so nothing reads from a closed
// repository. A goroutine that stays makes synctest fail.
func TestReadAheadEnds(t *testing.T) {
	r := newRepo(t)
	ids := chain(r, 2_000)
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		walked := 0
		for _, err := range Walk(t.Context(), &counted{r, &reads}, ids[len(ids)-1:], Options{}) {
			if walked++; walked == 500 || err != nil {
				break
			}
		}
		before := reads.Load()
		synctest.Wait()
		if after := reads.Load(); walked != 500 || before < 500 || after != before {
			t.Errorf("walked %d commits with %d reads, and %d reads after the end", walked, before, after-before)
		}
	})
}

// counted is a [counter] that is safe for concurrent use.
type counted struct {
	object.Reader
	n *atomic.Int64
}

func (c *counted) Get(ctx context.Context, key object.Key) ([]byte, error) {
	c.n.Add(1)
	return c.Reader.Get(ctx, key)
}

// With correct clocks, the default order is by time, and children come before their parents.
func TestWalkByTime(t *testing.T) {
	r := newRepo(t)
	id := r.graph("a 1", "b 2 a", "c 3 a", "d 4 b", "e 5 c d", "f 6 c", "g 7 f e")
	if got, want := r.walk([]object.ID{id["g"], id["f"]}, Options{}), "g f e d c b a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A long history neither overflows the stack nor takes long.
func TestLongHistory(t *testing.T) {
	r := newRepo(t)
	ids := chain(r, 10_000)
	ctx := context.Background()
	first, last := ids[0], ids[len(ids)-1]
	side := r.commit("side", 5, ids[5])

	for _, opt := range []Options{{}, {Topo: true}} {
		n := 0
		for _, err := range Walk(ctx, r, []object.ID{last}, opt) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(ids) {
			t.Errorf("visited %d commits, want %d", n, len(ids))
		}
	}

	if is, err := IsAncestor(ctx, r, first, last); !is || err != nil {
		t.Error(is, err)
	}
	if is, err := IsAncestor(ctx, r, last, first); is || err != nil {
		t.Error(is, err)
	}
	if bases, err := MergeBases(ctx, r, side, last); err != nil || len(bases) != 1 || bases[0] != ids[5] {
		t.Error(bases, err)
	}
	if ahead, behind, err := AheadBehind(ctx, r, side, last); err != nil || ahead != 1 || behind != len(ids)-6 {
		t.Error(ahead, behind, err)
	}
}

// The number of reads depends on the distance of the commits, not on the length of the history.
func TestReadsFollowTheDifference(t *testing.T) {
	r := newRepo(t)
	ids := chain(r, 3_000)
	ctx := context.Background()
	last, near := ids[len(ids)-1], ids[len(ids)-20]
	side := r.commit("side", 2_990, near)
	reads := &counter{Reader: r}
	if bases, err := MergeBases(ctx, reads, side, last); err != nil || len(bases) != 1 || bases[0] != near || reads.n > 100 {
		t.Errorf("merge bases: %d, %v after %d reads", len(bases), err, reads.n)
	}
	reads.n = 0
	if is, err := IsAncestor(ctx, reads, near, last); !is || err != nil || reads.n > 100 {
		t.Errorf("is ancestor: %v, %v after %d reads", is, err, reads.n)
	}
	reads.n = 0
	if ahead, behind, err := AheadBehind(ctx, reads, side, last); ahead != 1 || behind != 19 || err != nil || reads.n > 100 {
		t.Errorf("ahead and behind: %d, %d, %v after %d reads", ahead, behind, err, reads.n)
	}
	reads.n = 0
	if is, err := IsAncestor(ctx, reads, side, last); is || err != nil || reads.n > 100 {
		t.Errorf("is ancestor of a side branch: %v, %v after %d reads", is, err, reads.n)
	}
}

// chain makes a history of n commits in a row, with a merge now and then.
func chain(r *repo, n int) []object.ID {
	ids := []object.ID{r.commit("0", 0)}
	for i := 1; i < n; i++ {
		parents := []object.ID{ids[i-1]}
		if i%10 == 0 {
			parents = append(parents, ids[i-5])
		}
		ids = append(ids, r.commit(fmt.Sprint(i), int64(i), parents...))
	}
	return ids
}

func BenchmarkHistory(b *testing.B) {
	r := newRepo(b)
	ids := chain(r, 10_000)

	ctx := context.Background()
	last := ids[len(ids)-1]
	walk := func(opt Options, n int) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				left := n
				for _, err := range Walk(ctx, r, []object.ID{last}, opt) {
					if left--; err != nil || left == 0 {
						break
					}
				}
			}
		}
	}

	b.Run("walk/first", walk(Options{}, 1))
	b.Run("walk/all", walk(Options{}, -1))
	b.Run("walk/topo", walk(Options{Topo: true}, -1))
	b.Run("walk/exclude", walk(Options{Exclude: ids[9_990:9_991]}, -1))

	b.Run("bases/far", func(b *testing.B) {
		for b.Loop() {
			MergeBases(ctx, r, ids[0], last)
		}
	})

	b.Run("ancestor/near", func(b *testing.B) {
		for b.Loop() {
			IsAncestor(ctx, r, ids[9_990], last)
		}
	})

	b.Run("aheadbehind", func(b *testing.B) {
		for b.Loop() {
			AheadBehind(ctx, r, ids[9_990], last)
		}
	})
}
