package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

var ctx = context.Background()

func sample(t testing.TB) *Index {
	x := New()
	for i := range 1000 {
		set(t, x, fmt.Sprintf("wide/%d", i), file(i))
	}
	for i := range 100 {
		set(t, x, fmt.Sprintf("many/%d/%d/f", i/10, i), file(10*i+9))
	}
	set(t, x, strings.Repeat("deep/", 500)+"f", file(4))
	set(t, x, "link", Entry{Type: object.TypeSymlink, Mode: 0o777, Data: "wide"})
	must(t, x.SetDir("empty/folder", object.Entry{Mode: 0o700}))
	return x
}

func TestWriteAndReadTree(t *testing.T) {
	x, store := sample(t), objecttest.NewMemory()
	info, err := x.WriteTree(ctx, store)
	must(t, err)
	var bytes uint64
	for _, e := range x.All() {
		bytes += e.Size
	}
	if info.Files != uint64(x.Len()) || info.Bytes != bytes {
		t.Errorf("got %d files of %d bytes, want %d of %d", info.Files, info.Bytes, x.Len(), bytes)
	}
	y, err := FromTree(ctx, store, info.ID)
	must(t, err)
	for _, e := range y.All() {
		if e.Stat != (Stat{}) {
			t.Fatalf("%q has stat data", e.Name)
		}
	}
	for path, e := range x.All() {
		y.SetStat(path, e.Stat)
	}
	same(t, y, x)
	same(t, roundTrip(t, y), x)
}

// counting counts calls of Put and Get.
type counting struct {
	object.ReadWriter
	puts, gets atomic.Int32
}

func (c *counting) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	c.puts.Add(1)
	return c.ReadWriter.Put(ctx, kind, data)
}

func (c *counting) Get(ctx context.Context, key object.Key) ([]byte, error) {
	c.gets.Add(1)
	return c.ReadWriter.Get(ctx, key)
}

func TestWriteTreeFollowsChanges(t *testing.T) {
	x, store := sample(t), &counting{ReadWriter: objecttest.NewMemory()}
	first, err := x.WriteTree(ctx, store)
	must(t, err)
	for _, test := range []struct {
		name string
		edit func()
		puts int32
	}{
		{"nothing", func() {}, 0},
		{"stat data", func() { x.SetStat("wide/1", Stat{Inode: 99}) }, 0},
		{"one file", func() { set(t, x, "many/1/11/f", file(5000)) }, 4},
		{"and back", func() { set(t, x, "many/1/11/f", file(119)) }, 4},
	} {
		test.edit()
		x = roundTrip(t, x)
		store.puts.Store(0)
		_, err := x.WriteTree(ctx, store)
		must(t, err)
		if puts := store.puts.Load(); puts != test.puts {
			t.Errorf("%s: %d nodes put, want %d", test.name, puts, test.puts)
		}
	}
	if again, _ := x.Root().Tree(); again != first {
		t.Errorf("back at the first state: got %v, want %v", again, first)
	}
}

// full is a store with room for two objects.
type full struct{ *counting }

func (f full) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	if f.puts.Add(1) > 2 {
		return object.ID{}, errFull
	}
	return f.ReadWriter.Put(ctx, kind, data)
}

var errFull = errors.New("full")

// WriteTree returns an error of the store, and then remembers no tree.
func TestWriteTreeStoreFails(t *testing.T) {
	x := sample(t)
	if _, err := x.WriteTree(ctx, full{&counting{ReadWriter: objecttest.NewMemory()}}); !errors.Is(err, errFull) {
		t.Fatalf("error %v, want that of the store", err)
	}
	if info, known := x.Root().Tree(); known {
		t.Errorf("the tree %v is remembered", info)
	}
}

// forgetful is a store that reports some objects as missing.
type forgetful struct {
	object.ReadWriter
	lost map[object.Key]bool
}

func (f forgetful) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	missing, err := f.ReadWriter.Missing(ctx, keys)
	for _, key := range keys {
		if f.lost[key] {
			missing = append(missing, key)
		}
	}
	return missing, err
}

func TestLostTreesAreWrittenAgain(t *testing.T) {
	x, memory := sample(t), objecttest.NewMemory()
	want, err := x.WriteTree(ctx, memory)
	must(t, err)
	lost := map[object.Key]bool{want.Key(): true}
	for _, path := range []string{"many", "many/3", "many/3/31"} {
		info, _ := x.Dir(path).Tree()
		lost[info.Key()] = true
	}
	store := &counting{ReadWriter: forgetful{memory, lost}}
	got, err := x.WriteTree(ctx, store)
	must(t, err)
	if puts := int(store.puts.Load()); got != want || puts != len(lost) {
		t.Errorf("got %v after %d puts, want %v after %d", got, puts, want, len(lost))
	}
}

func TestWriteTreeFails(t *testing.T) {
	x := sample(t)
	before := image(t, x)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := x.WriteTree(cancelled, objecttest.NewMemory()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v, want Canceled", err)
	}
	if string(image(t, x)) != string(before) {
		t.Error("a cancelled WriteTree changes the index")
	}
}

func TestPreviewTree(t *testing.T) {
	x := sample(t)
	before := image(t, x)
	preview, err := x.PreviewTree(ctx, objecttest.NewMemory())
	must(t, err)
	if string(image(t, x)) != string(before) {
		t.Error("PreviewTree changes the index")
	}
	if info, err := x.WriteTree(ctx, objecttest.NewMemory()); err != nil || info != preview {
		t.Errorf("preview %v, written %v, %v", preview, info, err)
	}
}

func TestCopyTrees(t *testing.T) {
	x, store := sample(t), objecttest.NewMemory()
	later := roundTrip(t, x)
	want, err := x.WriteTree(ctx, store)
	must(t, err)
	unchanged := roundTrip(t, later)
	unchanged.CopyTrees(x)
	same(t, unchanged, x)
	if got, _ := unchanged.Root().Tree(); got != want {
		t.Errorf("the tree is %v, want %v", got, want)
	}

	set(t, later, "many/1/11/f", file(5000))
	must(t, later.SetDir("many/2/22", object.Entry{Mode: 0o700}))
	later.Remove("many/3/33/f")
	later.Remove("many/4/44")
	set(t, later, "many/5/x", file(1))
	must(t, later.SetDir("many/6/x", object.Entry{Mode: 0o755}))
	touched := file(1)
	touched.Stat.Inode++
	set(t, later, "wide/1", touched)
	later.CopyTrees(x)
	check(t, later)
	for path, d := range later.Dirs() {
		_, known := d.Tree()
		wrong := strings.Fields("many many/1 many/1/11 many/2 many/3 many/3/33 many/4 many/5 many/6 many/6/x")
		want := path != ""
		for _, w := range wrong {
			want = want && path != w
		}
		if known != want {
			t.Errorf("%q: its tree is known: %v, want %v", path, known, want)
		}
	}
	fresh := roundTrip(t, later)
	for _, d := range fresh.Dirs() {
		d.tree = tree.Info{}
	}
	a, err := later.WriteTree(ctx, objecttest.NewMemory())
	must(t, err)
	b, err := fresh.WriteTree(ctx, objecttest.NewMemory())
	must(t, err)
	if a != b {
		t.Errorf("with copied trees %v, without %v", a, b)
	}
}

func TestRoots(t *testing.T) {
	x, store := sample(t), objecttest.NewMemory()
	_, err := x.WriteTree(ctx, store)
	must(t, err)
	side := object.Key{Kind: object.KindManifest, ID: object.Sum([]byte("side"))}
	must(t, x.SetConflict("c", nil, nil, &object.Entry{Type: object.TypeFile, Size: 99, Content: side}))

	want := map[object.Key]bool{side: false}
	for _, e := range x.All() {
		if !e.Content.IsZero() {
			want[e.Content] = false
		}
	}

	for _, d := range x.Dirs() {
		info, _ := d.Tree()
		want[info.Key()] = false
	}

	for key := range x.Roots() {
		if _, ok := want[key]; !ok {
			t.Fatalf("unexpected root %v", key)
		}
		want[key] = true
	}

	for key, met := range want {
		if !met {
			t.Errorf("missing root %v", key)
		}
	}

	for range x.Roots() {
		break
	}
}
