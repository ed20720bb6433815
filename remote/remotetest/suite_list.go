package remotetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func checkList(t testing.TB, b remote.Backend) {
	wantList(t, b, "", nil) // an empty store
	wantList(t, b, "packs/", nil)
	names := []string{ // in the order of bytes: '-' < '.' < '/' < '0' < '_' < 'a'
		"a", "b-c/x", "b.c/x", "b.d", "b/-", "b/0", "b/0-/z", "b/0./z", "b/c/d/e", "b0", "b_", "ba/a",
		"kist.json", "probe/n/root/1", "root/00000000000000000001", "root/00000000000000000010", "root/9",
	}
	for i, name := range slices.Backward(names) {
		put(t, b, name, sample(i, 10*i))
	}
	wantList(t, b, "", names)
	for _, prefix := range []string{"b/", "b/0-/", "b/c/", "b/c/d/", "b-c/", "root/", "probe/", "probe/n/", "kist.json/", "a/", "c/", "roo/", "b/c/d/e/", "no/such/thing/"} {
		var under []string
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				under = append(under, name)
			}
		}
		wantList(t, b, prefix, under)
	}
	infos, err := list(t, b, "")
	if err != nil {
		t.Error(err)
	}
	for _, info := range infos {
		stat, err := b.Stat(context.Background(), info.Name)
		if err != nil || info.Size != remote.StoredSize(b, info.Name, int64(10*slices.Index(names, info.Name))) || info.Size != stat.Size || !info.Modified.Equal(stat.Modified) {
			t.Errorf("list yields %+v; stat %+v, %v", info, stat, err)
		}
	}
}

// manyNames is more than two pages of the stores that list 1,000 at a time.
const manyNames = 2500

// putMany stores many small blobs and records and returns their names, sorted.
func putMany(t testing.TB, b remote.Backend, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("packs/%02x/%08d", i%8, i)
		if i%5 == 0 {
			names[i] = fmt.Sprintf("root/%08d", i)
		}
	}
	var wg sync.WaitGroup
	const workers = 32
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := store(b, names[i], []byte(names[i])); err != nil {
					t.Errorf("store %q: %v", names[i], err)
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(names)
	return names
}

func checkListMany(t testing.TB, b remote.Backend) {
	names := putMany(t, b, manyNames)
	wantList(t, b, "", names)
	first, _ := slices.BinarySearch(names, "root/")
	wantList(t, b, "packs/", names[:first])
	wantList(t, b, "root/", names[first:])
	stopAfter(t, b, 1500, names)
}

// checkListStops ends lists before they do.
func checkListStops(t testing.TB, b remote.Backend) {
	names := putMany(t, b, 60)
	for _, n := range []int{1, 2, 30, 59, 60} {
		stopAfter(t, b, n, names)
	}
	wantList(t, b, "", names)
}

func stopAfter(t testing.TB, b remote.Backend, n int, names []string) {
	t.Helper()
	calls := 0
	b.List(context.Background(), "")(func(info remote.Info, err error) bool {
		if calls++; calls > n {
			t.Errorf("list continues after the caller has stopped it")
		} else if err != nil || info.Name != names[calls-1] {
			t.Errorf("list yields %+v, %v; want %q", info, err, names[calls-1])
		}
		return calls < n
	})
	if calls < n {
		t.Errorf("list ended after %d of %d", calls, n)
	}
}
