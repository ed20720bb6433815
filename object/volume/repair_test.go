package volume

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// change replaces a file's content by the result of edit. It removes the file if that is nil.
func change(t testing.TB, path string, edit func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	if data = edit(data); data == nil {
		return
	}
	if err := os.WriteFile(path, data, 0o444); err != nil {
		t.Fatal(err)
	}
}

// flipAt returns an edit that flips a bit. A negative offset counts from the end.
func flipAt(offset int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[(offset+len(data))%len(data)] ^= 4
		return data
	}
}

// damagedVolumes returns the names of the volumes in which Check finds damage.
func damagedVolumes(t testing.TB, s *Store) (names []string) {
	t.Helper()
	_, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) {
		if !slices.Contains(names, p.Volume) {
			names = append(names, p.Volume)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// repairAll rebuilds and quarantines all damaged volumes.
func repairAll(t testing.TB, s *Store) []Rebuilt {
	t.Helper()
	names := damagedVolumes(t, s)
	if len(names) == 0 {
		t.Fatal("Check finds no damaged volume")
	}
	r, err := s.Repair(t.Context(), RepairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list, err := r.Rebuild(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := r.Quarantine(t.Context(), names)
	if err != nil || len(moved) != len(names) {
		t.Fatalf("Quarantine moved %v of %v, %v", moved, names, err)
	}
	for _, to := range moved {
		if _, err := os.Stat(filepath.Join(s.dir, to)); err != nil {
			t.Error(err)
		}
	}
	return list
}

// TestRepair damages a volume in one way after the other. A repair keeps all intact objects,
// and reports the others as lost.
func TestRepair(t *testing.T) {
	const n = 40
	cut := func(data []byte) []byte { return data[:len(data)/2] }
	gone := func([]byte) []byte { return nil }
	for _, test := range []struct {
		name, file string
		edit       func([]byte) []byte
		lost       int // largest number of lost objects
	}{
		{"a block of KEYS", keysFile, flipAt(40), 0},
		{"KEYS' version", keysFile, func(b []byte) []byte { b[8] += 1; return b }, 0},
		{"half of KEYS", keysFile, cut, 0},
		{"KEYS gone", keysFile, gone, 0},
		{"SEAL", sealName, flipAt(100), 0},
		{"SEAL's version", sealName, func(b []byte) []byte { return bytes.Replace(b, []byte("volume 1"), []byte("volume 3"), 1) }, 0},
		{"SEAL gone", sealName, gone, 0},
		{"MANIFEST", ingest.ManifestFile, flipAt(3), 0},
		{"a table", "000001.sst", gone, 0},
		{"a value", ingest.LogName(1), flipAt(-40), 1},
		{"the log's head", ingest.LogName(1), flipAt(2), 0},
		{"a length", ingest.LogName(1), flipAt(ingest.LogHeaderSize + 3), 0},
		{"half of a log", ingest.LogName(1), cut, n - 1},
		{"a log gone", ingest.LogName(1), gone, n},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir, testOptions(t))
			storeSeries(t, s, 1, 0, n)
			path := oneVolume(t, s)
			storeSeries(t, s, 2, 0, 5)
			reader := openStore(t, dir, testOptions(t)) // has listed the volume
			relying := s.Begin(SessionOptions{})
			defer relying.Close()
			putSeries(t, relying, 1, 0, n)
			change(t, filepath.Join(path, test.file), test.edit)

			s = openStore(t, dir, testOptions(t))
			list := repairAll(t, s)
			if len(list) != 1 || list[0].Volume != filepath.Base(path) || list[0].Err != nil || len(list[0].Lost) > test.lost || list[0].Copied+len(list[0].Lost) != n {
				t.Errorf("rebuilt %+v, want %d objects, at most %d of them lost", list, n, test.lost)
			}
			for _, s := range []*Store{s, reader, openStore(t, dir, testOptions(t))} {
				lost := 0
				for i := range n {
					key, data := sample(1, i)
					got, err := s.Get(t.Context(), key)
					if errors.Is(err, object.ErrNotFound) {
						lost++
					} else if err != nil || !bytes.Equal(got, data) {
						t.Errorf("get object %d: %d bytes, %v", i, len(got), err)
					}
				}
				if lost != len(list[0].Lost) {
					t.Errorf("%d objects are missing, but Rebuild reports %d", lost, len(list[0].Lost))
				}
				wantSeries(t, s, 2, 0, 5)
			}
			wantSound(t, s)
			// A session that relies on lost objects must store them again.
			err := relying.Publish(t.Context(), publishNothing)
			var stale *StaleError
			if errors.As(err, &stale) != (len(list[0].Lost) > 0) || err != nil && len(stale.Keys) != len(list[0].Lost) {
				t.Errorf("publish: %v, want a StaleError for %d lost objects", err, len(list[0].Lost))
			}
		})
	}
}

// TestRepairBoth checks the repair of two volumes that each have an intact copy of the
// other's damaged object.
func TestRepairBoth(t *testing.T) {
	const n = 20
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		s := openStore(t, dir, testOptions(t))
		storeSeries(t, s, 1, 0, n)
		key, _ := sample(1, i)
		flipValue(t, s, filepath.Base(oneVolume(t, s)), key)
		if i == 1 {
			to := filepath.Join(dirs[0], volumesDir, filepath.Base(oneVolume(t, s)))
			if err := os.Rename(oneVolume(t, s), to); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := openStore(t, dirs[0], testOptions(t))
	if list := repairAll(t, s); len(list) != 2 || len(list[0].Lost)+len(list[1].Lost) > 0 || list[0].Copied+list[1].Copied != n {
		t.Errorf("rebuilt %+v, want %d objects copied and none lost", list, n)
	}
	wantSeries(t, s, 1, 0, n)
	wantSound(t, s)
}

// TestRepairRefuses checks that a repair refuses volumes that are in use, newer or not
// rebuilt, and that a dry run changes nothing.
func TestRepairRefuses(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 20)
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	path := oneVolume(t, s)
	begin := func(o RepairOptions) *Repair {
		r, err := s.Repair(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	name := filepath.Base(path)
	r := begin(RepairOptions{})
	if _, err := s.Repair(ctx, RepairOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("second repair: %v, want ErrBusy", err)
	}
	if _, err := r.Quarantine(ctx, []string{name}); err == nil {
		t.Error("Quarantine moved a volume that was not rebuilt")
	}
	for _, damage := range []string{keysFile, sealName} {
		change(t, filepath.Join(path, damage), flipAt(60))
		fresh := openStore(t, dir, testOptions(t))
		r.store = fresh
		if list, err := r.Rebuild(ctx, []string{name}); err != nil || !errors.Is(list[0].Err, disk.ErrBusy) {
			t.Errorf("rebuild a volume of an open session: %v, %v; want ErrBusy", list, err)
		}
	}
	if _, err := r.Quarantine(ctx, []string{name}); err == nil {
		t.Error("Quarantine moved a volume that is in use")
	}
	r.Close()
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, dir, testOptions(t))
	before, err := fingerprint(path)
	if err != nil {
		t.Fatal(err)
	}
	dry := begin(RepairOptions{DryRun: true})
	list, err := dry.Rebuild(ctx, []string{name})
	if err != nil || list[0].Copied != 20 || list[0].Err != nil {
		t.Errorf("dry run: %v, %v; want 20 objects", list, err)
	}
	for i := range 20 {
		if key, _ := sample(1, i); !dry.Found(key) {
			t.Errorf("the dry run did not find object %d", i)
		}
	}
	dry.Close()
	if after, err := fingerprint(path); err != nil || after != before {
		t.Errorf("the dry run changed the volume, error %v", err)
	}
	if l, _ := s.listVolumes(); len(l.volumes) != 1 {
		t.Errorf("%d volumes after a dry run, want 1", len(l.volumes))
	}

	// A volume of a newer format, which has no checksum line of this format.
	change(t, filepath.Join(path, sealName), func([]byte) []byte {
		return []byte("kist volume 2\nwhatever it says, in more bytes than the last line of a seal of this version has, which is quite a lot\n")
	})
	s = openStore(t, dir, testOptions(t))
	if list, err := begin(RepairOptions{}).Rebuild(ctx, []string{name}); err != nil || !errors.Is(list[0].Err, object.ErrNewerFormat) {
		t.Errorf("rebuild a volume of a newer format: %v, %v; want ErrNewerFormat", list, err)
	}
}

// TestRepairAgain checks that a repair copies nothing if the last one stopped between
// Rebuild and Quarantine.
func TestRepairAgain(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 1, 0, 20)
	path := oneVolume(t, s)
	change(t, filepath.Join(path, keysFile), flipAt(50))
	s = openStore(t, dir, testOptions(t))
	r, err := s.Repair(t.Context(), RepairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rebuild(t.Context(), []string{filepath.Base(path)}); err != nil {
		t.Fatal(err)
	}
	r.Close() // as after a kill
	s = openStore(t, dir, testOptions(t))
	if list := repairAll(t, s); list[0].Copied != 0 {
		t.Errorf("second repair: %+v, want nothing copied", list)
	}
	wantSeries(t, s, 1, 0, 20)
	wantSound(t, s)
	oneVolume(t, s)
}

// TestRepairDropped checks that a repair does not bring back a dropped object.
func TestRepairDropped(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 1, 0, 20)
	path := oneVolume(t, s)
	dropped, _ := sample(1, 3)
	if err := os.WriteFile(s.inVolumes(droppedFile), []byte(copyLine(filepath.Base(path), dropped)), 0o666); err != nil {
		t.Fatal(err)
	}
	change(t, filepath.Join(path, keysFile), flipAt(50))
	s = openStore(t, dir, testOptions(t))
	repairAll(t, s)
	if _, err := s.Get(t.Context(), dropped); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get a dropped object: %v, want ErrNotFound", err)
	}
	wantSeries(t, s, 1, 4, 20)
}

// FuzzIntactObjects checks that eachIntactObject finds the intact objects before and after
// hostile bytes, and returns no damaged one.
func FuzzIntactObjects(f *testing.F) {
	s := openStore(f, f.TempDir(), Options{Now: testOptions(f).Now})
	ss := s.Begin(SessionOptions{})
	putSeries(f, ss, 1, 0, 3)
	if err := ss.Close(); err != nil {
		f.Fatal(err)
	}

	log, err := os.ReadFile(filepath.Join(oneVolume(f, s), ingest.LogName(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(log[ingest.LogHeaderSize : ingest.LogHeaderSize+60])
	f.Add(bytes.Repeat([]byte{0, 3, 41}, 30))
	f.Add(fmt.Appendf(nil, "\x00\x00\x29\xff\xff\x03\x00%s", log[24:80]))
	path := filepath.Join(f.TempDir(), "log")
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		f.Fatal(err)
	}
	defer dir.Close()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, slices.Concat(log, data, log[ingest.LogHeaderSize:]), 0o666); err != nil {
			t.Fatal(err)
		}
		found := map[object.Key]int{}
		err := eachIntactObject(dir, "log", func(e ingest.Entry, value []byte, raw int) error {
			found[e.Key]++
			if _, patched := frame.Base(value); patched {
				return nil
			}
			if data, err := decode(e.Key, value, raw); err != nil || object.Sum(data) != e.Key.ID {
				t.Errorf("%s is not intact: %v", e.Key, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}

		for i := range 3 {
			if key, _ := sample(1, i); found[key] < 2 {
				t.Errorf("object %d was found %d times, want at least 2", i, found[key])
			}
		}
	})
}
