package gc_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
)

// TestManyObjects plans a collection in a store of many objects, half of them
// garbage. KIST_TEST_OBJECTS sets their number. The log has the peak memory of
// the process.
func TestManyObjects(t *testing.T) {
	objects := 20_000
	if text := os.Getenv("KIST_TEST_OBJECTS"); text != "" {
		var err error
		if objects, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, 9)
	for side := range 2 {
		w.roots[fmt.Sprint(side)] = w.commitOfMany(uint64(side)<<32, objects/2)
	}
	before, err := w.plan(gc.PlanOptions{})
	w.check(err)
	all := before.Stats().Live
	before.Close()
	delete(w.roots, "1")
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	st := p.Stats()
	p.Close()
	if all < int64(objects) || st.Removed < all/2-10 || st.Live < all/2-10 || st.Live+st.Removed != all {
		t.Errorf("plan %+v, want half of %d objects removed", st, all)
	}
	var usage syscall.Rusage
	w.check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	t.Logf("%d objects: %+v; peak memory %d MB", all, st, usage.Maxrss>>10)
}

// commitOfMany stores a commit of n files with different contents. Each begins
// with a number, from first on.
func (w *world) commitOfMany(first uint64, n int) object.Key {
	w.Helper()
	ctx := context.Background()
	session := w.begin()
	defer session.Close()
	tree := object.NewTreeWriter(session)
	text := make([]byte, 40)
	for i := range n {
		binary.BigEndian.PutUint64(text, first+uint64(i))
		id, err := session.Put(ctx, object.KindChunk, text)
		w.check(err)
		w.check(tree.Add(ctx, object.Entry{
			Name: fmt.Sprintf("file%09d", i), Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)),
			Content: object.Key{Kind: object.KindChunk, ID: id},
		}))
	}
	return w.finish(session, tree)
}
