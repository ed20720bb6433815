package volume

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

// children are what this test binary does when it is run as a child, by the
// value of KIST_TEST_CHILD. Arguments are in KIST_TEST_ARGS.
var children = map[string]func(args []string) int{}

func TestMain(m *testing.M) {
	if f := children[os.Getenv("KIST_TEST_CHILD")]; f != nil {
		os.Exit(f(filepath.SplitList(os.Getenv("KIST_TEST_ARGS"))))
	}
	os.Exit(m.Run())
}

// child returns a command that runs this test binary as a child.
func child(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	list := ""
	for i, a := range args {
		if i > 0 {
			list += string(filepath.ListSeparator)
		}
		list += a
	}
	cmd.Env = append(os.Environ(), "KIST_TEST_CHILD="+name, "KIST_TEST_ARGS="+list)
	return cmd
}

// skip skips a test that cannot be run here, or fails it where none may be
// skipped.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("KIST_TEST_NOSKIP") == "1" && os.Getuid() == 0 {
		t.Fatalf("may not be skipped: %s", why)
	}
	t.Skip(why)
}

// smallBatch is the size of a transaction in tests. Volumes with fewer objects have no
// database.
const smallBatch = 16

// testOptions are options with a clock, whose warnings go to the log.
func testOptions(t testing.TB) Options {
	return Options{Now: time.Now, Warn: func(s string) { t.Log("warning:", s) }, batchEntries: smallBatch}
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

func publishNothing(context.Context) error { return nil }

// sample returns object number i of a series: of various kinds and sizes, some
// compressible.
func sample(series, i int) (object.Key, []byte) {
	sizes := []int{1, 20, 31, 33, 100, 700, 2048, 9000, 70_000}
	data := bytes.Repeat(fmt.Appendf(nil, "%d/%d;", series, i), 1+sizes[i%len(sizes)]/6)
	if i%2 == 1 {
		data = noise(uint64(series)<<32|uint64(i), make([]byte, 8+sizes[i%len(sizes)]))
	}
	kind := object.Kind(1 + i%5)
	return object.Key{Kind: kind, ID: object.Sum(data)}, data
}

// putSeries puts objects from to end-1 of a series.
func putSeries(t testing.TB, w object.Writer, series, from, end int) {
	t.Helper()
	for i := from; i < end; i++ {
		key, data := sample(series, i)
		if id, err := w.Put(context.Background(), key.Kind, data); err != nil || id != key.ID {
			t.Fatalf("put object %d/%d: %s, %v", series, i, id, err)
		}
	}
}

// wantSeries checks that objects from to end-1 of a series are there, to be
// had and to be lent.
func wantSeries(t testing.TB, r object.Reader, series, from, end int) {
	t.Helper()
	for i := from; i < end; i++ {
		key, data := sample(series, i)
		if got, err := r.Get(context.Background(), key); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("get object %d/%d: %d bytes, %v", series, i, len(got), err)
		}
		err := object.Lend(context.Background(), r, key, func(got []byte) error {
			if !bytes.Equal(got, data) {
				return fmt.Errorf("%d other bytes", len(got))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("lend object %d/%d: %v", series, i, err)
		}
	}
}

// storeSeries puts objects in a session of their own and publishes them.
func storeSeries(t testing.TB, s *Store, series, from, end int) {
	t.Helper()
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, series, from, end)
	if err := ss.Publish(context.Background(), publishNothing); err != nil {
		t.Fatal(err)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantSound checks that there is no damage, and no trace of writers.
func wantSound(t testing.TB, s *Store) Checked {
	t.Helper()
	done, err := s.Check(context.Background(), CheckOptions{ReadData: true}, func(p Problem) { t.Errorf("check: %v", p) })
	if err != nil {
		t.Errorf("check: %v", err)
	}
	return done
}

// wantNames checks what is in volumes/, volumes themselves excepted.
func wantNames(t testing.TB, s *Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if !isName(e.Name()) {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("volumes/ has %q, want %q", got, want)
	}
}

// oneVolume returns the path of the only volume.
func oneVolume(t testing.TB, s *Store) string {
	t.Helper()
	l, err := s.refresh()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.volumes) != 1 {
		t.Fatalf("%d volumes, want 1", len(l.volumes))
	}
	return l.volumes[0].path
}
