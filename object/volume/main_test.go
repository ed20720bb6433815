package volume

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// children has the functions that this test binary runs as a child process, by the value
// of KIST_TEST_CHILD. KIST_TEST_ARGS has their arguments.
var children = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if f := children[os.Getenv("KIST_TEST_CHILD")]; f != nil {
		if err := f(filepath.SplitList(os.Getenv("KIST_TEST_ARGS"))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
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
	list := strings.Join(args, string(filepath.ListSeparator))
	cmd.Env = append(os.Environ(), "KIST_TEST_CHILD="+name, "KIST_TEST_ARGS="+list)
	return cmd
}

// smallBatch is the size of a transaction in tests. Volumes with fewer objects have no
// database.
const smallBatch = 16

// testOptions returns options with the system's clock. Warnings go to the test log.
func testOptions(t testing.TB) Options {
	return Options{Now: time.Now, Warn: func(s string) { t.Log("warning:", s) }, ingest: ingest.Options{BatchEntries: smallBatch}}
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

// sample returns object i of a series. Kinds and sizes vary, and every second object
// compresses.
func sample(series, i int) (object.Key, []byte) {
	sizes := []int{1, 20, 31, 33, 100, 700, 2048, 9000, 70_000}
	data := bytes.Repeat(fmt.Appendf(nil, "%d/%d;", series, i), 1+sizes[i%len(sizes)]/6)
	if i%2 == 1 {
		data = noise(uint64(series)<<32|uint64(i), make([]byte, 8+sizes[i%len(sizes)]))
	}
	kind := object.Kind(1 + i%5)
	return object.Key{Kind: kind, ID: object.Sum(data)}, data
}

// putSeries puts objects [from, end) of a series.
func putSeries(t testing.TB, w object.Writer, series, from, end int) {
	t.Helper()
	for i := from; i < end; i++ {
		key, data := sample(series, i)
		if id, err := w.Put(context.Background(), key.Kind, data); err != nil || id != key.ID {
			t.Fatalf("put object %d/%d: %s, %v; want %s", series, i, id, err, key.ID)
		}
	}
}

// wantSeries checks that Get and GetBriefly return objects [from, end) of a series.
func wantSeries(t testing.TB, r object.Reader, series, from, end int) {
	t.Helper()
	for i := from; i < end; i++ {
		key, data := sample(series, i)
		if got, err := r.Get(context.Background(), key); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("get object %d/%d: %d bytes, %v; want the %d bytes of the sample", series, i, len(got), err, len(data))
		}
		err := object.GetBriefly(context.Background(), r, key, func(got []byte) error {
			if !bytes.Equal(got, data) {
				return fmt.Errorf("%d wrong bytes", len(got))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("read object %d/%d: %v", series, i, err)
		}
	}
}

// storeSeries puts objects [from, end) of a series in one session and publishes them.
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

// wantSound checks that Check finds no damage, and returns its totals.
func wantSound(t testing.TB, s *Store) Checked {
	t.Helper()
	done, err := s.Check(context.Background(), CheckOptions{ReadData: true}, func(p Problem) { t.Errorf("check: %v", p) })
	if err != nil {
		t.Errorf("check: %v", err)
	}
	return done
}

// wantNames checks the names in volumes/, except those of volumes.
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
	l, err := s.listVolumes()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.volumes) != 1 {
		t.Fatalf("%d volumes, want 1", len(l.volumes))
	}
	return l.volumes[0].path
}

// growingLog writes the rest of the first value log of a volume, and returns it and the end of
// its entries.
func growingLog(t testing.TB, w *writer) (log *os.File, end int64) {
	t.Helper()
	if err := w.commitRest(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Open(filepath.Join(w.dir, ingest.LogName(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })

	st, err := log.Stat()
	if err == nil {
		end, err = ingest.WalkIntact(context.Background(), log, st.Size(), func(ingest.Entry) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return log, end
}
