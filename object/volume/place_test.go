package volume

import (
	"testing"

	"github.com/kist-vcs/kist/object/volume/ingest"
)

// TestPlaceOnce checks that reading an object records the places of all committed objects,
// once. A repeated object in a value log is an error.
func TestPlaceOnce(t *testing.T) {
	ss := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
	defer ss.Close()

	for from := range 3 {
		putSeries(t, ss, 1, 10*from, 10*from+10)
		w := ss.cur
		if err := w.commitRest(); err != nil {
			t.Fatal(err)
		}

		key, _ := sample(1, 10*from+7)
		for range 2 {
			if _, ok, err := w.getUnsealed(key); !ok || err != nil {
				t.Fatalf("get %s: %t, %v", key, ok, err)
			}
		}

		if want := 10 * (from + 1); w.placed != want {
			t.Errorf("%d places are known, want %d", w.placed, want)
		}
	}

	w := ss.cur
	walk := ingest.NewLogWalker(growingLog(t, w))
	e, err := walk.NextEntry()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.setPlace(1, e); err == nil {
		t.Errorf("setPlace accepts %s twice", e.Key)
	}
	if err := ss.sealWriter(nil); err != nil {
		t.Error(err)
	}
}
