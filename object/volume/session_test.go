package volume

import (
	"math/rand"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// testOptions are options with a clock.
func testOptions(t testing.TB) Options {
	return Options{Now: time.Now, Rand: nil, Warn: func(s string) { t.Log("warning:", s) }}
}

func openStore(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) object.ReadWriter {
		s := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

var _ = rand.Int
