package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestListAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, names := range []int{3, blockSize, 10 * blockSize} {
		var l entryList
		want := map[string]uint64{}
		for range 8 * names {
			name := fmt.Sprint(r.IntN(names))
			if r.IntN(3) == 0 {
				_, has := want[name]
				if l.remove(name) != has {
					t.Fatalf("remove %q: want %v", name, has)
				}
				delete(want, name)
				continue
			}
			size := r.Uint64()
			l.put(Entry{Name: name, Size: size})
			want[name] = size
		}
		sameList(t, &l, want)
		for name := range want {
			l.remove(name)
		}
		sameList(t, &l, nil)
	}
}

func TestListInOrder(t *testing.T) {
	var l entryList
	want := map[string]uint64{}
	for i := range uint64(3 * blockSize) {
		name := fmt.Sprintf("%05d", i)
		l.put(Entry{Name: name, Size: i})
		want[name] = i
	}
	if len(l.blocks) != 3 {
		t.Errorf("%d blocks, want 3 full ones", len(l.blocks))
	}
	sameList(t, &l, want)
}

func sameList(t *testing.T, l *entryList, want map[string]uint64) {
	t.Helper()
	var names []string
	for e := range l.all() {
		names = append(names, e.Name)
		if got := l.get(e.Name); got != e {
			t.Fatalf("get %q: %v", e.Name, got)
		}
		if e.Size != want[e.Name] {
			t.Fatalf("%q: got %d, want %d", e.Name, e.Size, want[e.Name])
		}
	}
	if !slices.Equal(names, slices.Sorted(maps.Keys(want))) || l.n != len(want) {
		t.Fatalf("got %d names, n is %d, want %d", len(names), l.n, len(want))
	}
	if l.get("nothing") != nil || l.remove("nothing") {
		t.Fatal("found a missing name")
	}
}

// Load reads all entries of a directory, even if it has more than Load makes room for at first.
func TestLoadWide(t *testing.T) {
	dir := t.TempDir()
	const files = 2*roomSize + blockSize/2
	must(t, Update(ctx, dir, func(x *Index) error {
		for i := range files {
			if err := x.Set(fmt.Sprintf("wide/%05d", i), file(i)); err != nil {
				return err
			}
			if err := x.Set(fmt.Sprintf("d%05d/f", i%300), file(i)); err != nil {
				return err
			}
		}
		return nil
	}))
	x, err := Load(dir)
	must(t, err)
	if x.Len() != files+300 {
		t.Errorf("%d entries, want %d", x.Len(), files+300)
	}
	i := 0
	for e := range x.Dir("wide").Entries() {
		if want := named(file(i), fmt.Sprintf("%05d", i)); *e != want {
			t.Fatalf("entry %d is %+v, want %+v", i, *e, want)
		}
		i++
	}
}
