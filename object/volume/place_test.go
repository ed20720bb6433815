package volume

import "testing"

// TestPlaceWhileRead has objects of a volume that is being sealed read, which
// places them too: they are not there twice because of that, and are if they
// are seen twice.
func TestPlaceWhileRead(t *testing.T) {
	ss := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
	defer ss.Close()
	putSeries(t, ss, 1, 0, 10)
	w := ss.cur
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	key, _ := sample(1, 7)
	if _, ok, err := w.get(key); !ok || err != nil { // places the whole batch
		t.Fatal(ok, err)
	}
	b := w.batches[0]
	walk := newLogWalker(b.file, b.start+b.size, b.start)
	seen := make([]bool, w.table.n)
	n := 0
	for ; walk.pos < walk.size; n++ {
		e, err := walk.next()
		if err == nil {
			err = w.place(1, e, seen)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.place(1, e, seen); err == nil {
			t.Errorf("%s was taken twice", e.key)
		}
	}
	if n != w.table.n {
		t.Errorf("%d objects, want %d", n, w.table.n)
	}
}
