package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// clock is the system's clock, set ahead.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func TestMaintain(t *testing.T) {
	ctx := context.Background()
	var c clock
	o := testOptions(t)
	o.Now = c.now

	s := openStore(t, t.TempDir(), o)
	for n := range 34 {
		if s.NeedsMaintenance() != (n > manySmall) {
			t.Errorf("NeedsMaintenance with %d volumes, want %t", n, n > manySmall)
		}
		storeSeries(t, s, n, 0, 4)
	}

	// Another volume belongs to a session that is not closed.
	alive := s.Begin(SessionOptions{})
	putSeries(t, alive, 100, 0, 4)
	if err := alive.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}

	st, err := s.Maintain(ctx, MaintainOptions{})
	if err != nil || st.Merged != 8 || st.Written != 1 || st.Deleted != 0 {
		t.Fatalf("Maintain: %+v, %v; want 8 volumes merged into one", st, err)
	}
	if l, _ := s.lastListing(); len(l.volumes) != 34-8+1+1 || l.byName[alive.own[0]] == nil {
		t.Errorf("%d volumes, want 28, one of them of the open session", len(l.volumes))
	}

	for n := range 34 {
		wantSeries(t, s, n, 0, 4)
	}
	wantSeries(t, s, 100, 0, 4)
	wantSound(t, s)
	if s.NeedsMaintenance() {
		t.Error("NeedsMaintenance after Maintain = true")
	}
	if err := alive.Publish(ctx, publishNothing); err != nil {
		t.Error(err)
	}
	if err := alive.Close(); err != nil {
		t.Error(err)
	}

	trash := func() int {
		paths, _ := filepath.Glob(s.inVolumes(trashPrefix + "*"))
		return len(paths)
	}
	if st, err := s.Maintain(ctx, MaintainOptions{}); err != nil || st != (MaintainStats{}) || trash() != 8 {
		t.Errorf("second Maintain: %+v, %v, %d volumes in the trash; want no work and 8", st, err, trash())
	}

	c.ahead.Store(int64(2 * time.Hour))
	if !s.NeedsMaintenance() {
		t.Error("NeedsMaintenance with old trash = false")
	}
	if st, err := s.Maintain(ctx, MaintainOptions{}); err != nil || st.Deleted != 8 || st.Freed == 0 || trash() != 0 {
		t.Errorf("Maintain after two hours: %+v, %v, %d volumes in the trash; want 8 deleted", st, err, trash())
	}

	lock, err := disk.Lock(t.Context(), filepath.Join(s.dir, maintenanceFile), disk.Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(ctx, MaintainOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("Maintain while the lock is held: %v, want ErrBusy", err)
	}
	lock.Unlock()
}

// TestManyTrash checks that Maintain keeps only the newest of many removed volumes. If the
// mark of a volume is unreadable, the time of its directory counts.
func TestManyTrash(t *testing.T) {
	var c clock
	o := testOptions(t)
	o.Now = c.now
	s := openStore(t, t.TempDir(), o)
	storeSeries(t, s, 0, 0, 4)

	const beyond = 5
	var trash []string
	for range manyTrash + beyond {
		name, err := newName(s.o.Now(), s.o.Rand)
		if err != nil {
			t.Fatal(err)
		}
		path := s.inVolumes(trashPrefix + name)
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := (trashBin{s}).markRemoved(path); err != nil {
			t.Fatal(err)
		}

		trash = append(trash, path)
		c.ahead.Add(int64(time.Second))
	}

	maintain := func(want int) {
		t.Helper()
		if st, err := s.Maintain(t.Context(), MaintainOptions{}); err != nil || st.Deleted != want {
			t.Errorf("Maintain: %+v, %v; want %d deleted", st, err, want)
		}
	}
	maintain(beyond)

	for i, path := range trash {
		if _, err := os.Stat(path); (err == nil) != (i >= beyond) {
			t.Errorf("volume %d of %d in the trash: %v; want only the first %d deleted", i, len(trash), err, beyond)
		}
	}

	for _, path := range trash[beyond:] {
		write(t, filepath.Join(path, trashFile), "something else\n")
	}
	maintain(0)
	c.ahead.Add(int64(2 * time.Hour))
	maintain(manyTrash)
	wantSeries(t, s, 0, 0, 4)
	wantSound(t, s)
}

// TestMergeDamaged checks that a volume with a damaged object is not merged, unless another
// volume has an intact copy.
func TestMergeDamaged(t *testing.T) {
	ctx := context.Background()
	o := testOptions(t)
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	s := openStore(t, t.TempDir(), o)
	for n := range 33 {
		storeSeries(t, s, n, 0, 4)
	}
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(name string) {
		path := filepath.Join(s.inVolumes(name), ingest.LogName(1))
		os.Chmod(path, 0o666)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] ^= 0xaa
		}
		write(t, path, string(data))
	}
	for _, v := range l.volumes {
		spoil(v.name)
	}
	st, err := s.Maintain(ctx, MaintainOptions{})
	if err != nil || st.Merged != 0 || len(warnings) != 8 {
		t.Errorf("Maintain of damaged volumes: %+v, %v, %q; want none merged and 8 warnings", st, err, warnings)
	}
	if l2, _ := s.listVolumes(); l2 != l {
		t.Error("Maintain of damaged volumes changed the list of volumes")
	}
	wantNames(t, s)

	// Store all objects again, so that each has an intact copy.
	for n := range 33 {
		ss := s.Begin(SessionOptions{})
		for i := range 4 {
			key, data := sample(n, i)
			if _, err := s.Get(ctx, key); err == nil {
				t.Fatalf("%s is not damaged", key)
			}
			if _, err := ss.Put(ctx, key.Kind, data); err != nil {
				t.Fatal(err)
			}
		}
		if err := ss.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if st, err = s.Maintain(ctx, MaintainOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 33 {
		wantSeries(t, s, n, 0, 4)
	}
	if l, _ := s.lastListing(); len(l.volumes) > manySmall+8 {
		t.Errorf("%d volumes left, want at most %d", len(l.volumes), manySmall+8)
	}
}

// TestMaintainBeside checks that merges disturb no concurrent session and no reader.
func TestMaintainBeside(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	first := openStore(t, dir, testOptions(t))
	for n := range manySmall {
		storeSeries(t, first, n, 0, 3)
	}
	var published atomic.Int64
	published.Store(manySmall)
	stop := make(chan struct{})

	var background, writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			s, err := Open(dir, testOptions(t))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()

			for range 12 {
				ss := s.Begin(SessionOptions{})
				n := int(published.Add(1)) - 1
				putSeries(t, ss, n, 0, 3)
				for old := range n {
					if old%7 == n%7 {
						putSeries(t, ss, old, 0, 3) // Maintain may be merging it
					}
				}

				err := ss.Publish(ctx, func(context.Context) error {
					wantSeries(t, ss, n, 0, 3)
					return nil
				})
				if err != nil {
					t.Errorf("publish: %v", err)
				}
				if err := ss.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}

	for range 2 {
		background.Go(func() {
			s, err := Open(dir, testOptions(t))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()

			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				wantSeries(t, s, i%manySmall, 0, 3)

				key, _ := sample(9999, i)
				if ok, err := s.Has(ctx, key); ok || err != nil {
					t.Errorf("Has of a missing object: %t, %v", ok, err)
				}
				if i%50 == 0 {
					for _, err := range s.Keys(ctx) {
						if err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}

	merged := 0
	background.Go(func() {
		s, err := Open(dir, testOptions(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()

		for {
			st, err := s.Maintain(ctx, MaintainOptions{})
			if err != nil {
				t.Error(err)
			}
			merged += st.Merged
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})

	writers.Wait()
	close(stop)
	background.Wait()
	if merged == 0 {
		t.Error("Maintain merged no volumes")
	}

	for n := range int(published.Load()) {
		wantSeries(t, first, n, 0, 3)
	}
	wantSound(t, first)
}

// TestSalvageTorn checks that salvage recovers all objects of a value log before the first
// damage.
func TestSalvageTorn(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 50)
	log, end := growingLog(t, ss.cur)
	data := make([]byte, end+1000) // the file is longer than its entries
	if _, err := log.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}

	var ends []int64
	walk := ingest.NewLogWalker(log, end)
	for e, err := walk.NextEntry(); err == nil; e, err = walk.NextEntry() {
		ends = append(ends, e.End())
	}
	if len(ends) != 50 {
		t.Fatalf("%d entries, want 50", len(ends))
	}

	ss.Close()
	cases := []struct {
		cut, flip int64
		want      int
	}{
		{cut: 0, flip: -1, want: 0},
		{cut: 10, flip: -1, want: 0},
		{cut: ingest.LogHeaderSize, flip: -1, want: 0},
		{cut: ends[0] - 1, flip: -1, want: 0},
		{cut: ends[0], flip: -1, want: 1},
		{cut: ends[20] + 5, flip: -1, want: 21},
		{cut: ends[49], flip: -1, want: 50},
		{cut: end + 1000, flip: -1, want: 50},
		{cut: end + 1000, flip: ends[30] + 70, want: 31},
		{cut: end + 1000, flip: ends[30] + 3, want: 31},
		{cut: end + 1000, flip: ends[30] - 1, want: 30},
	}

	for i, c := range cases {
		s := openStore(t, t.TempDir(), testOptions(t))
		const name = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

		// These are the names after the kill of a writer, and after the kill of a salvage.
		dir := s.inVolumes([]string{ingest.DirPrefix, salvagePrefix}[i%2] + name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}

		torn := []byte(string(data[:c.cut]))
		if c.flip >= 0 {
			torn[c.flip] ^= 1
		}
		write(t, filepath.Join(dir, ingest.LogName(1)), string(torn))
		write(t, filepath.Join(dir, "00001.mem"), "not looked at")
		if i%3 == 0 {
			write(t, s.lockPath(name), "")
		}

		if n := (deadWriters{s}).salvageAll(context.Background()); n != 1 {
			t.Errorf("case %d: %d volumes salvaged, want 1", i, n)
		}

		n := 0
		for _, err := range s.Keys(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != c.want {
			t.Errorf("case %d: %d objects salvaged, want %d", i, n, c.want)
		}

		wantSound(t, s)
		wantNames(t, s)
	}
}

// TestSalvageKeeps checks that a volume that cannot be salvaged stays, and that a later
// salvage handles it.
func TestSalvageKeeps(t *testing.T) {
	o := testOptions(t)
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	s := openStore(t, t.TempDir(), o)
	const name = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	dir := s.inVolumes(ingest.DirPrefix + name)
	if err := os.MkdirAll(filepath.Join(dir, ingest.LogName(1)), 0o777); err != nil { // a directory instead of a file
		t.Fatal(err)
	}
	if n := (deadWriters{s}).salvageAll(context.Background()); n != 0 || len(warnings) != 1 || !strings.Contains(warnings[0], name) {
		t.Errorf("%d volumes salvaged, warnings %q; want none, and a warning with the name", n, warnings)
	}
	if err := os.Remove(filepath.Join(s.inVolumes(salvagePrefix+name), ingest.LogName(1))); err != nil {
		t.Fatal(err)
	}
	if n := (deadWriters{s}).salvageAll(context.Background()); n != 1 {
		t.Errorf("%d volumes salvaged, want 1", n)
	}
	wantNames(t, s)
}

// TestSalvageLeavesLiving checks that salvage skips the volume of an open session.
func TestSalvageLeavesLiving(t *testing.T) {
	dir := t.TempDir()
	s, other := openStore(t, dir, testOptions(t)), openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 10)
	if n := (deadWriters{other}).salvageAll(context.Background()); n != 0 {
		t.Errorf("%d volumes salvaged, want none", n)
	}
	storeSeries(t, other, 2, 0, 10)
	putSeries(t, ss, 1, 0, 20)
	if err := ss.Publish(context.Background(), publishNothing); err != nil {
		t.Fatal(err)
	}
	storeSeries(t, other, 3, 0, 10)
	if !disk.IsLocked(s.lockPath(ss.own[0])) {
		t.Error("the session does not hold its lock")
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	wantNames(t, s)
	wantSeries(t, other, 1, 0, 20)
}
