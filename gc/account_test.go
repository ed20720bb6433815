package gc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// held adds a member's objects to has: all objects below it except commits.
func (w *world) held(m gc.Member, has map[object.Key]bool) {
	w.Helper()
	queue := []object.Key{m.Key}
	for len(queue) > 0 {
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if has[key] {
			continue
		}
		data, err := w.store.Get(context.Background(), key)
		if m.Hint && err != nil {
			continue
		}
		w.check(err)
		has[key] = true
		links, err := object.Links(key.Kind, data)
		w.check(err)
		for _, link := range links {
			if link.Kind != object.KindCommit {
				queue = append(queue, link)
			}
		}
	}
}

func (w *world) amount(keys map[object.Key]bool, in func(object.Key) bool) (a gc.Amount) {
	for key := range keys {
		if !in(key) {
			continue
		}
		raw, stored, err := w.store.StoredSize(context.Background(), key)
		w.check(err)
		a.Objects++
		a.Raw += raw
		a.Stored += stored
	}
	return a
}

// An account equals the sums over complete sets of each holder's objects.
func TestAccount(t *testing.T) {
	for seed, holders := range []int{1, 2, 3, 17, 64, 65, 130} {
		w := newWorld(t, uint64(seed))
		members := make([][]gc.Member, holders)
		var last object.ID
		for i := range min(3*holders, 16) {
			key := w.commit()
			if i%4 == 1 {
				key = w.commit(last)
			}
			last = key.ID
			for range w.rng.IntN(3) * (1 + holders/40) { // no holder, one, or more
				h := w.rng.IntN(holders)
				members[h] = append(members[h], gc.Member{Key: key})
			}
		}
		gone := object.Key{Kind: object.KindTree, ID: object.Sum(w.noise(9))}
		members[0] = append(members[0], gc.Member{Key: gone, Hint: true})
		h := gc.Holders{List: make([]gc.Holder, holders)}
		for i := range h.List {
			h.List[i].Outside = w.rng.IntN(3) == 0
		}
		weak := -1
		if holders > 3 {
			weak = w.rng.IntN(holders)
			h.List[weak] = gc.Holder{Weak: true}
			for h.Index == h.Head || h.Index == weak || h.Head == weak {
				h.Index, h.Head = w.rng.IntN(min(64, holders)), w.rng.IntN(min(64, holders))
			}
			// Head and index share most of their objects.
			members[h.Index] = append(members[h.Index], members[h.Head]...)
		}
		h.Members = func(_ context.Context, first int, visit func(gc.Member) error) error {
			for i := first; i < min(first+64, holders); i++ {
				for _, m := range members[i] {
					m.Holders = 1 << (i - first)
					if err := visit(m); err != nil {
						return err
					}
				}
			}
			return nil
		}
		a, err := gc.NewAccount(t.Context(), w.store, h)
		if err != nil {
			t.Fatal(err)
		}

		all := make([]map[object.Key]bool, holders)
		owners := map[object.Key]map[int]bool{}
		for i := range all {
			all[i] = map[object.Key]bool{}
			for _, m := range members[i] {
				w.held(m, all[i])
			}
			for key := range all[i] {
				if owners[key] == nil {
					owners[key] = map[int]bool{}
				}
				owners[key][i] = true
			}
		}
		held := map[object.Key]bool{}
		for key, by := range owners {
			held[key] = true
			if h.Index != h.Head && by[h.Head] {
				delete(by, h.Index)
			}
			if len(by) > 1 {
				delete(by, weak)
			}
		}
		for i := range all {
			want := gc.Share{
				All: w.amount(all[i], func(object.Key) bool { return true }),
				Own: w.amount(all[i], func(key object.Key) bool { return len(owners[key]) == 1 && owners[key][i] }),
			}
			if a.Shares[i] != want {
				t.Errorf("seed %d: holder %d of %d has %+v, want %+v", seed, i, holders, a.Shares[i], want)
			}
		}
		together := w.amount(held, func(key object.Key) bool {
			for i := range owners[key] {
				if h.List[i].Outside || h.List[i].Weak {
					return false
				}
			}
			return true
		})
		if a.Together != together {
			t.Errorf("seed %d: together %+v, want %+v", seed, a.Together, together)
		}
		stored := map[object.Key]bool{}
		for key, err := range w.store.Keys(t.Context()) {
			w.check(err)
			stored[key] = true
		}
		if want := w.amount(held, func(object.Key) bool { return true }); a.Held != want {
			t.Errorf("seed %d: held %+v, want %+v", seed, a.Held, want)
		}
		if want := w.amount(stored, func(key object.Key) bool { return !held[key] }); a.Unheld != want || want.Objects == 0 {
			t.Errorf("seed %d: unheld %+v, want %+v", seed, a.Unheld, want)
		}
		if a.Copies.Objects != 0 || a.Incomplete {
			t.Errorf("seed %d: %+v, want it complete without copies", seed, a)
		}
		var inVolumes gc.Amount
		for _, v := range a.Volumes {
			inVolumes.Objects += v.Held.Objects
			inVolumes.Raw += v.Held.Raw
			inVolumes.Stored += v.Held.Stored
			if waste := v.Waste(); waste < 0 || waste > v.Bytes || (waste == 0) != (v.Held.Objects == int64(v.Objects)) {
				t.Errorf("seed %d: waste %d of volume %+v", seed, waste, v)
			}
		}
		if inVolumes != a.Held {
			t.Errorf("seed %d: sum of the volumes %+v, held %+v", seed, inVolumes, a.Held)
		}
	}
}

// An object with two copies counts once. Skipped links do not count. A missing
// object makes an account incomplete.
func TestAccountOfCopies(t *testing.T) {
	w := newWorld(t, 1)
	for range 5 {
		w.roots[fmt.Sprint(len(w.roots))] = w.commit()
	}
	other := newWorld(t, 1)
	_, err := io.ReadFull(other.names, make([]byte, 1000)) // other volume names for the same objects
	w.check(err)
	for range 5 {
		other.commit()
	}
	infos, err := other.store.Volumes(t.Context())
	w.check(err)
	for _, info := range infos[:2] {
		w.check(os.Rename(filepath.Join(other.inVolumes(), info.Name), filepath.Join(w.dir, "volumes", info.Name)))
	}
	w.reopen()
	gone := object.Key{Kind: object.KindTree, ID: object.Sum(w.noise(9))}
	account := func(change func(*gc.Holders)) *gc.Account {
		t.Helper()
		h := gc.Holders{List: make([]gc.Holder, 1)}
		h.Members = func(_ context.Context, _ int, visit func(gc.Member) error) error {
			for _, key := range w.roots {
				if err := visit(gc.Member{Key: key, Holders: 1}); err != nil {
					return err
				}
			}
			return nil
		}
		change(&h)
		a, err := gc.NewAccount(t.Context(), w.store, h)
		w.check(err)
		return a
	}
	all := func(object.Key) bool { return true }
	a := account(func(*gc.Holders) {})
	if want := w.amount(w.reached(), all); a.Held != want || a.Shares[0].Own != want || a.Incomplete {
		t.Errorf("account %+v, want %+v held", a, want)
	}
	if want := int64(infos[0].Objects + infos[1].Objects); a.Copies.Objects+a.Unheld.Objects != want || a.Copies.Objects == 0 {
		t.Errorf("%d copies and %d unheld objects, want %d together", a.Copies.Objects, a.Unheld.Objects, want)
	}

	commits := map[object.Key]bool{}
	for _, key := range w.roots {
		commits[key] = true
	}
	a = account(func(h *gc.Holders) {
		h.Skips = func(from, to object.Key) bool { return from.Kind == object.KindCommit }
	})
	if want := w.amount(commits, all); a.Held != want {
		t.Errorf("without the links of commits: held %+v, want %+v", a.Held, want)
	}

	w.roots["gone"] = gone
	if a = account(func(*gc.Holders) {}); !a.Incomplete {
		t.Error("a held object is missing, but the account is complete")
	}
	// NewAccount does not wait for a process that maintains the store.
	sweep, err := w.store.Sweep(t.Context(), volume.SweepOptions{})
	w.check(err)
	defer sweep.Close()
	if a = account(func(*gc.Holders) {}); a.Held.Objects == 0 {
		t.Error("during a sweep: nothing is held")
	}
}

// NewAccount stops if the context is cancelled after the last member.
func TestAccountCancelled(t *testing.T) {
	w := newWorld(t, 12)
	w.commit()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := gc.NewAccount(ctx, w.store, gc.Holders{
		List:    make([]gc.Holder, 1),
		Members: func(context.Context, int, func(gc.Member) error) error { cancel(); return nil },
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
