package transfer_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// counting guards the fields of every counted during a read.
var counting sync.Mutex

// counted counts the reads of index files.
type counted struct {
	remote.Backend
	reads, bytes int
}

func (c *counted) Unwrap() remote.Backend { return c.Backend }

func (c *counted) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := c.Backend.Get(ctx, name, p, off)
	if strings.HasPrefix(name, "index/") {
		counting.Lock()
		defer counting.Unlock()
		c.reads++
		c.bytes += n
	}
	return n, err
}

// openLocator opens a locator that reads all index files in parts, one request after the other.
func openLocator(t *testing.T, b remote.Backend, dir string) *transfer.Locator {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	r.Options().CopiedIndexes = 1
	r.Options().Jobs = 1
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.LocatorAt(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// absentKey returns a key that no remote has.
func absentKey(i int) object.Key {
	return object.Key{Kind: object.KindChunk, ID: sha256.Sum256(fmt.Append(nil, "absent ", i))}
}

// mustLocate checks that l finds entries, in batches of some size, and nothing else.
func mustLocate(t *testing.T, l *transfer.Locator, entries []pack.Entry, size int) {
	t.Helper()
	want := map[object.Key]pack.Entry{}
	var keys []object.Key
	for i, e := range entries {
		want[e.Key] = e
		keys = append(keys, e.Key, absentKey(i))
	}
	for batch := range slices.Chunk(keys, size) {
		slices.SortFunc(batch, object.Key.Compare)
		found, err := l.Locate(t.Context(), batch)
		if err != nil || len(found) != len(batch) {
			t.Fatalf("Locate: %d entries, %v; want %d", len(found), err, len(batch))
		}
		for i, e := range found {
			if e != want[batch[i]] {
				t.Fatalf("Locate(%s) = %+v, want %+v", batch[i], e, want[batch[i]])
			}
		}
	}
}

// sampleOf returns n of entries.
func sampleOf(entries []pack.Entry, n int) []pack.Entry {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	list := make([]pack.Entry, n)
	for i := range list {
		list[i] = entries[rng.IntN(len(entries))]
	}
	return list
}

// TestLocatorFindsAll checks a locator over three index files and a history, with and without a folder.
func TestLocatorFindsAll(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(3)
	entries := slices.Concat(o.Invent(3000), o.Invent(50), o.Invent(20_000))
	for _, e := range o.Sent {
		entries = append(entries, e)
	}
	for _, dir := range []string{"", t.TempDir()} {
		for _, size := range []int{1, 7, 400} {
			mustLocate(t, openLocator(t, o.Blob, dir), sampleOf(entries, 200), size)
		}
	}

	l := openLocator(t, o.Blob, t.TempDir())
	for key := range o.Sent {
		if got, err := l.Get(t.Context(), key); err != nil || object.Sum(got) != key.ID {
			t.Fatalf("Get(%s): %v", key, err)
		}
	}
	if _, err := l.Get(t.Context(), absentKey(0)); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("Get of an absent object: %v, want ErrNotFound", err)
	}
	missing, err := l.Missing(t.Context(), []object.Key{absentKey(2), entries[7].Key, absentKey(1)})
	if err != nil || !slices.Equal(missing, []object.Key{absentKey(2), absentKey(1)}) {
		t.Errorf("Missing = %v, %v", missing, err)
	}
}

// TestLocatorRequests checks the number of requests and bytes: two for the ends of an index file, and two for a look-up. The same look-ups
// take none later, not even in another process.
func TestLocatorRequests(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	entries := sampleOf(o.Invent(100_000), 10)
	for _, dir := range []string{"", t.TempDir()} {
		b := &counted{Backend: o.Blob}
		l := openLocator(t, b, dir)
		if b.reads != 2 || b.bytes > 4<<10 {
			t.Errorf("%d requests of %d bytes to open, want 2 of 2 KiB", b.reads, b.bytes)
		}
		*b = counted{Backend: o.Blob}
		for _, e := range entries {
			mustFind(t, l, e)
		}
		if n := len(entries); b.reads > 2*n || b.bytes > n*2200 {
			t.Errorf("%d requests of %d bytes for %d look-ups, want 2 of 1,900 bytes for each", b.reads, b.bytes, n)
		}

		*b = counted{Backend: o.Blob}
		if dir != "" {
			l = openLocator(t, b, dir)
		}
		for _, e := range entries {
			mustFind(t, l, e)
		}
		if b.reads > 0 {
			t.Errorf("%d requests to look up the same, want none", b.reads)
		}
	}
}

func mustFind(t *testing.T, l *transfer.Locator, want pack.Entry) {
	t.Helper()
	found, err := l.Locate(t.Context(), []object.Key{want.Key})
	if err != nil || found[0] != want {
		t.Fatalf("Locate = %+v, %v; want %+v", found, err, want)
	}
}

// TestLocatorCopiesAll checks that many look-ups copy the complete file, before they have cost much.
func TestLocatorCopiesAll(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	entries := o.Invent(150_000)
	size := o.Head.Indexes[0].Size
	b, dir := &counted{Backend: o.Blob}, t.TempDir()
	mustLocate(t, openLocator(t, b, dir), sampleOf(entries, 300), 50)
	if int64(b.bytes) > size*3/2 || b.reads > int(size/(2*64<<10)) {
		t.Errorf("%d requests of %d bytes; the file has %d", b.reads, b.bytes, size)
	}
	names, _ := filepath.Glob(filepath.Join(dir, transfer.IndexFolder, "*"))
	if len(names) != 1 || strings.HasSuffix(names[0], ".parts") {
		t.Errorf("copies %q, want the complete one", names)
	}
}

// TestLocatorNeighbours checks that the objects of a pack are found by its own index.
func TestLocatorNeighbours(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(20)
	o.Invent(100_000)
	packs := map[pack.Info][]pack.Entry{}
	for _, e := range o.Sent {
		packs[e.Pack] = append(packs[e.Pack], e)
	}

	b := &counted{Backend: o.Blob}
	l := openLocator(t, b, t.TempDir())
	for _, entries := range packs {
		keys := make([]object.Key, len(entries))
		for i, e := range entries {
			keys[i] = e.Key
		}
		slices.SortFunc(keys, object.Key.Compare)
		*b = counted{Backend: o.Blob}
		found, err := l.Locate(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range found {
			if e != o.Sent[keys[i]] {
				t.Fatalf("Locate(%s) = %+v, want %+v", keys[i], e, o.Sent[keys[i]])
			}
		}
		if most := 20 + 4*len(o.Head.Indexes); len(keys) > 20 && b.reads > most {
			t.Errorf("%d requests for %d neighbours, want at most %d", b.reads, len(keys), most)
		}
	}
}

// TestLocatorFaults checks reads with wrong bytes and short ones: the answer is right, or an error.
func TestLocatorFaults(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	entries := sampleOf(o.Invent(30_000), 40)
	for seed := range uint64(30) {
		b := remotetest.NewFaulty(o.Blob)
		l := openLocator(t, b, t.TempDir())
		b.Random(seed, remotetest.Rates{Before: 0.05, After: 0.05, Short: 0.1, Ops: []remotetest.Op{remotetest.Get}})
		for n := range 4 {
			b.Fail(remotetest.Fault{Op: remotetest.Get, Name: "index/", N: 3 + n*7, How: remotetest.Wrong, Byte: int(seed)*31 + n})
		}
		for _, e := range entries {
			found, err := l.Locate(t.Context(), []object.Key{e.Key})
			if err == nil && found[0] != e {
				t.Fatalf("Locate = %+v, want %+v", found, e)
			}
			if err != nil && !errors.Is(err, remotetest.ErrFault) {
				t.Fatal(err)
			}
		}
		b.Heal()
		mustLocate(t, l, entries, 3)
	}
}

// beginning is a store that ignores the offset of reads of index files.
type beginning struct{ remote.Backend }

func (b beginning) Unwrap() remote.Backend { return b.Backend }

func (b beginning) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if strings.HasPrefix(name, "index/") {
		off = 0
	}
	return b.Backend.Get(ctx, name, p, off)
}

// TestLocatorBadIndex checks damaged index files, and a store that ignores ranges: no wrong answer, and an error only if
// the complete file is damaged, too.
func TestLocatorBadIndex(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	all := o.Invent(30_000)
	entries := sampleOf(all, 30)
	name := o.Head.Indexes[0].Name.IndexPath()
	good := o.Blob.Data(name)

	mustLocate(t, openLocator(t, beginning{o.Blob}, t.TempDir()), entries, 5)

	for _, off := range []int{3, 40, len(good) - 3, len(good) - 40} {
		o.Blob.Set(name, good)
		o.Blob.Damage(name, off)
		r, err := transfertest.OpenTest(t, o.Blob, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r.Options().CopiedIndexes = 1
		if _, err := r.LocatorAt(t.Context(), o.Head); !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("damage at %d: %v, want ErrDamaged", off, err)
		}
		r.Close()
	}

	for cut := range 10 {
		o.Blob.Set(name, good)
		l := openLocator(t, o.Blob, t.TempDir())
		if cut < 5 {
			o.Blob.Truncate(name, len(good)*cut/5)
		} else {
			for i := range 5 {
				o.Blob.Damage(name, len(good)*(cut-5)/5+i*1541)
			}
		}
		for _, e := range entries {
			found, err := l.Locate(t.Context(), []object.Key{e.Key})
			if err == nil && found[0] != e || err != nil && !errors.Is(err, remote.ErrDamaged) {
				t.Fatalf("Locate = %+v, %v; want %+v or ErrDamaged", found, err, e)
			}
			if err != nil {
				break
			}
		}
	}
}

// TestLocatorBadCopy checks that damage of a sparse copy changes no answer.
func TestLocatorBadCopy(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	entries := sampleOf(o.Invent(60_000), 4)
	rng := rand.New(rand.NewPCG(3, 3))
	dir := t.TempDir()
	mustLocate(t, openLocator(t, o.Blob, dir), entries, 1)
	names, _ := filepath.Glob(filepath.Join(dir, transfer.IndexFolder, "*.parts"))
	if len(names) != 1 {
		t.Fatalf("sparse copies %q, want one", names)
	}
	good, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}

	for round := range 40 {
		bad := slices.Clone(good)
		from := rng.IntN(len(bad))
		part := bad[from:min(len(bad), from+rng.IntN(len(bad)))]
		switch round % 4 {
		case 0:
			clear(part)
		case 1:
			for i := range part {
				part[i] ^= byte(rng.Uint32())
			}
		case 2:
			bad = bad[:from]
		case 3:
			bad = append(bad, part...)
		}
		if err := os.RemoveAll(filepath.Dir(names[0])); err != nil { // with the complete copy
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Dir(names[0]), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(names[0], bad, 0o666); err != nil {
			t.Fatal(err)
		}
		mustLocate(t, openLocator(t, o.Blob, dir), entries, 1)
	}

	if err = os.Remove(names[0]); err == nil {
		err = os.Symlink(filepath.Join(dir, "elsewhere"), names[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	mustLocate(t, openLocator(t, o.Blob, dir), entries, 1)
}

// TestFetchOfSmallBranch checks that a fetch of a small branch does not read the complete index of a large remote.
func TestFetchOfSmallBranch(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.Invent(200_000)
	o.PushHistory(1)
	b := &counted{Backend: o.Blob}
	c := transfertest.NewClone(t, b)
	c.Remote.Options().CopiedIndexes = 1
	o.AppendRoot(o.NewRef("refs/heads/other"))
	c.MustFetch(o)
	if b.reads > 100 || b.bytes > 1<<20 {
		t.Errorf("%d requests of %d bytes", b.reads, b.bytes)
	}
}

// TestReaderReadsParts checks that a Reader reads single objects without the complete index.
func TestReaderReadsParts(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.Invent(100_000)
	o.PushHistory(1)
	b := &counted{Backend: o.Blob}
	remote, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	remote.Options().CopiedIndexes = 1
	remote.Options().Jobs = 1
	r, err := transfer.NewReader(t.Context(), remote)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	key := o.Head.Refs[transfertest.MainRef]
	want, _ := o.All.Get(t.Context(), key)
	if got, err := r.Get(t.Context(), key); err != nil || string(got) != string(want) {
		t.Fatalf("Get: %d bytes, %v; want %d", len(got), err, len(want))
	}
	unkept, err := r.FindUnkept(t.Context(), []object.Key{absentKey(1), key})
	if err != nil || !slices.Equal(unkept, []object.Key{absentKey(1)}) {
		t.Errorf("FindUnkept = %v, %v", unkept, err)
	}
	if b.bytes > 128<<10 {
		t.Errorf("%d requests of %d bytes of index files, want at most 128 KiB", b.reads, b.bytes)
	}
}

// TestPushLooksUpInParts checks that a push of few objects does not read the complete index of a large remote.
func TestPushLooksUpInParts(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.Invent(200_000)
	b := &counted{Backend: o.Blob}
	p := transfertest.NewPusher(t, b)
	p.KeepSmall = true
	p.Remote.Options().CopiedIndexes = 1
	transfer.LookUpInParts(p.Remote)
	commit := p.MakeGrown(1)
	if sent := p.MustPush("main", commit); sent.Objects == 0 {
		t.Errorf("the first push: %+v", sent)
	}
	if sent := p.MustPush("two", commit); sent.Objects != 0 {
		t.Errorf("a push of the same commit sent %d objects", sent.Objects)
	}
	if b.bytes > 1<<20 {
		t.Errorf("%d requests of %d bytes of index files, want at most 1 MiB", b.reads, b.bytes)
	}
	c := transfertest.NewClone(t, o.Blob)
	if _, err := c.FetchAt(c.Head()); err != nil {
		t.Error(err)
	}
}
