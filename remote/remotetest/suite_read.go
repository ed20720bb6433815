package remotetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func checkRoundTrip(t testing.TB, b remote.Backend) {
	blobs := map[string][]byte{}
	for i := range 20 {
		name := fmt.Sprintf("packs/%02x/%032x", i%4, i)
		if i%5 == 0 {
			name = fmt.Sprintf("root/%020d", i)
		}
		data := sample(i, 100*i+i%3)
		put(t, b, name, data)
		want(t, b, name, data) // at once
		blobs[name] = data
	}
	for name, data := range blobs {
		want(t, b, name, data)
	}
}

func checkSizes(t testing.TB, b remote.Backend) {
	for i, n := range []int{0, 1, 2, 1023, 4096, 64<<10 - 1, 255 << 10, 255<<10 + 1, 1<<20 + 1, 5 << 20} {
		name := fmt.Sprintf("packs/%d", n)
		put(t, b, name, sample(i, n))
		want(t, b, name, sample(i, n))
		if n < remote.MaxRecord {
			name = fmt.Sprintf("root/%d", n)
			put(t, b, name, sample(i+100, n))
			want(t, b, name, sample(i+100, n))
		}
	}
}

// checkLarge stores a blob above the size from which on some clients upload in
// parts.
func checkLarge(t testing.TB, b remote.Backend) {
	data := sample(1, 20<<20)
	put(t, b, "packs/large", data)
	want(t, b, "packs/large", data)
	for _, off := range []int{1, 5 << 20, 16<<20 - 100, 20<<20 - 200} {
		wantGet(t, b, "packs/large", int64(off), 200, data[off:off+200])
	}
	wantGet(t, b, "packs/large", 15<<20, 2<<20, data[15<<20:17<<20])
	wantGet(t, b, "packs/large", 19<<20, 2<<20, data[19<<20:])
}

func checkGet(t testing.TB, b remote.Backend) {
	for _, name := range []string{"packs/a", "root/1"} {
		data := sample(3, 600_000)
		size := len(data)
		put(t, b, name, data)
		for _, off := range []int{0, 1, 1000, 255 << 10, 255<<10 - 1, 510<<10 + 7, size - 10, size - 1} {
			for _, n := range []int{0, 1, 9, 10, 11, 4096, 255 << 10, 300_000, size, size + 1} {
				wantGet(t, b, name, int64(off), n, data[off:min(off+n, size)])
			}
		}
		for _, off := range []int64{int64(size), int64(size) + 1, int64(size) * 3, 1 << 40} {
			for _, n := range []int{0, 1, 4096} {
				wantGet(t, b, name, off, n, nil)
			}
		}
	}
	for _, name := range []string{"packs/empty", "root/2"} {
		put(t, b, name, nil)
		for _, off := range []int64{0, 1, 1 << 40} {
			for _, n := range []int{0, 1, 4096} {
				wantGet(t, b, name, off, n, nil)
			}
		}
	}
}

func checkNotFound(t testing.TB, b remote.Backend) {
	absent := []string{"kist.json", "root/1", "root/10", "packs/ab/cd", "packs/ab", "packs", "root", "pack", "packs/ab/c", "packs/ab/cde", "packs/ab/c.d"}
	for _, name := range absent {
		wantNone(t, b, name)
	}
	put(t, b, "packs/ab/xy", []byte("there"))
	put(t, b, "root/100", []byte("there"))
	for _, name := range absent { // beside others
		wantNone(t, b, name)
	}
	want(t, b, "packs/ab/xy", []byte("there"))
}

func checkStat(t testing.TB, b remote.Backend) {
	for i, name := range []string{"packs/a", "kist.json", "index/0123"} {
		put(t, b, name, sample(i, 1000*i))
		info, err := b.Stat(context.Background(), name)
		if err != nil || info.Name != name || info.Size != remote.StoredSize(b, name, int64(1000*i)) || info.Modified.IsZero() {
			t.Errorf("stat %q: %+v, %v", name, info, err)
		}
		again, err := b.Stat(context.Background(), name)
		if err != nil || again.Size != info.Size || !again.Modified.Equal(info.Modified) {
			t.Errorf("stat %q again: %+v, %v; was %+v", name, again, err, info)
		}
	}
}
