package gc_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// A stored value with a flipped bit is damaged, even if the object can be read:
// some bits at the beginning of a value have no meaning.
func TestVerifyReadable(t *testing.T) {
	w := newWorld(t, 12)
	ctx := context.Background()
	session := w.begin()
	var text []byte
	for i := range 500 {
		text = fmt.Appendf(text, "%d times %d\n", i, i*i*7919)
	}
	id, err := session.Put(ctx, object.KindChunk, text)
	w.check(err)
	w.check(session.Close())
	key := object.Key{Kind: object.KindChunk, ID: id}

	logs, err := filepath.Glob(filepath.Join(w.inVolumes(), "0*", "*.vlog"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	data, err := os.ReadFile(logs[0])
	w.check(err)
	w.check(os.Chmod(logs[0], 0o644))
	value := bytes.Index(data, id[:]) + len(id) + 8 // skips the number of the transaction
	readable := 0
	for bit := 8 * value; bit < 8*(value+16); bit++ {
		flipped := slices.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		w.check(os.WriteFile(logs[0], flipped, 0o644))
		w.reopen()
		if _, err := w.store.Get(ctx, key); err == nil {
			readable++
		}
		report, err := gc.Verify(ctx, w.store, nil, gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true}})
		w.check(err)
		if len(report.Problems) != 1 || report.Problems[0].Key != key || len(report.Healed) > 0 {
			t.Errorf("bit %d: problems %v, healed %v; want one problem", bit-8*value, report.Problems, report.Healed)
		}
	}
	if readable == 0 {
		t.Error("the object was never readable, so the test checks nothing")
	}
}
