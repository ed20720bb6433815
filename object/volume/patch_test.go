package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// version returns version i of a chunk. Each differs in one word from the one before.
func version(series, i int) (object.Key, []byte) {
	lines := bytes.Split(text(uint64(series)+1, make([]byte, 6000)), []byte(" "))
	for n := range i {
		lines[n*7%len(lines)] = fmt.Appendf(nil, "changed-in-%d", n)
	}
	data := bytes.Join(lines, []byte(" "))
	return object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, data
}

// stored is an object for writeVolume.
type stored struct {
	key   object.Key
	data  []byte
	value []byte
}

// plainVersion returns version i with a value that is no patch.
func plainVersion(series, i int) stored {
	key, data := version(series, i)
	return stored{key, data, frame.NewEncoder(frame.Fastest).Append(nil, data)}
}

// patchVersion returns version i as a patch of version base.
func patchVersion(t testing.TB, series, i, base int) stored {
	t.Helper()
	key, data := version(series, i)
	from, bytes := version(series, base)
	value, ok := frame.NewEncoder(frame.Fastest).AppendPatch(nil, data, from.ID, bytes)
	if !ok || len(value) > 500 {
		t.Fatalf("patch from version %d to %d: %t, %d bytes; want at most 500", base, i, ok, len(value))
	}
	return stored{key, data, value}
}

// writeVolume writes a volume of objects, which may be invalid, and returns its name.
func writeVolume(t testing.TB, s *Store, list ...stored) string {
	t.Helper()
	w, err := s.newWriter("")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if err := w.addValue(o.key, copyValue(o.value), len(o.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.sealVolume(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.listVolumes(); err != nil {
		t.Fatal(err)
	}
	return w.name
}

// chainOf returns versions 0 to last. Each, except version 0, is a patch of the one before.
func chainOf(t testing.TB, series, last int) []stored {
	list := []stored{plainVersion(series, 0)}
	for i := 1; i <= last; i++ {
		list = append(list, patchVersion(t, series, i, i-1))
	}
	return list
}

// wantVersions checks that Get, GetBriefly and GetStored return the objects.
func wantVersions(t testing.TB, s *Store, list ...stored) {
	t.Helper()
	for i, o := range list {
		if got, err := s.Get(t.Context(), o.key); err != nil || !bytes.Equal(got, o.data) {
			t.Errorf("get object %d: %d bytes, %v; want the %d bytes of the version", i, len(got), err, len(o.data))
		}
		if err := s.GetBriefly(t.Context(), o.key, func(got []byte) error {
			if !bytes.Equal(got, o.data) {
				return errors.New("wrong bytes")
			}
			return nil
		}); err != nil {
			t.Errorf("read object %d: %v", i, err)
		}
		value, raw, err := s.GetStored(t.Context(), o.key, nil)
		if err == nil {
			_, err = decode(o.key, value, raw)
		}
		if err != nil || raw != len(o.data) {
			t.Errorf("GetStored of object %d: %d bytes, %v; want %d", i, raw, err, len(o.data))
		}
	}
}

// patches returns the number of objects that the only volume stores as patches.
func patches(t testing.TB, s *Store, list []stored) (n int) {
	t.Helper()
	oneVolume(t, s)
	for _, o := range list {
		raw, stored, err := s.StoredSize(t.Context(), o.key)
		if err != nil {
			t.Error(err)
		}
		if stored < raw/5 {
			n++
		}
	}
	return n
}

func TestPatches(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	list := chainOf(t, 1, maxChain)
	list = append(list, patchVersion(t, 1, 20, 0), patchVersion(t, 1, 21, 3))
	writeVolume(t, s, list...)
	wantVersions(t, s, list...)
	slices.Reverse(list)
	wantVersions(t, openStore(t, dir, testOptions(t)), list...)
	if n := patches(t, s, list); n != len(list)-1 {
		t.Errorf("%d patches, want %d", n, len(list)-1)
	}
	wantSound(t, s)
	fresh := openStore(t, dir, testOptions(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { wantVersions(t, fresh, list...) })
	}
	wg.Wait()
}

// TestHostilePatches checks that patches that kist never writes are damage, and that reads
// of circular patches end.
func TestHostilePatches(t *testing.T) {
	patched := func(i, base int) stored { return patchVersion(t, 1, i, base) }
	other := patched(1, 0)
	other.key.Kind = object.KindTree
	huge := make([]byte, frame.MaxPatch+1)
	hugeKey := object.Key{Kind: object.KindChunk, ID: object.Sum(huge)}
	ofHuge := plainVersion(1, 1)
	ofHuge.value = append([]byte{2}, hugeKey.ID[:]...)
	ofHuge.value = append(ofHuge.value, patched(1, 0).value[33:]...)
	cut := patched(1, 0)
	cut.value = cut.value[:33]
	tests := []struct {
		name      string
		good, bad []stored
	}{
		{"a long chain", chainOf(t, 1, maxChain), []stored{patched(maxChain+1, maxChain)}},
		{"of itself", nil, []stored{patched(1, 1)}},
		{"of each other", nil, []stored{patched(1, 2), patched(2, 1)}},
		{"in a circle", []stored{plainVersion(1, 0)}, []stored{patched(1, 3), patched(2, 1), patched(3, 2), patched(4, 1)}},
		{"of a missing base", []stored{plainVersion(1, 0)}, []stored{patched(2, 1)}},
		{"of another kind", []stored{plainVersion(1, 0)}, []stored{other}},
		{"of a large base", []stored{{hugeKey, huge, frame.NewEncoder(frame.Fastest).Append(nil, huge)}}, []stored{ofHuge}},
		{"cut short", []stored{plainVersion(1, 0)}, []stored{cut}},
	}

	for _, test := range tests {
		for _, goodFirst := range []bool{true, false} {
			dir := t.TempDir()
			s := openStore(t, dir, testOptions(t))
			writeVolume(t, s, append(slices.Clone(test.bad), test.good...)...)
			if goodFirst {
				wantVersions(t, s, test.good...)
			}

			for i, o := range test.bad {
				var damage *object.CorruptError
				if _, err := s.Get(t.Context(), o.key); !errors.As(err, &damage) || damage.Key != o.key {
					t.Errorf("%s: get %d: %v, want a CorruptError", test.name, i, err)
				}
				if _, _, err := s.GetStored(t.Context(), o.key, nil); !errors.As(err, &damage) || damage.Key != o.key {
					t.Errorf("%s: GetStored of %d: %v, want a CorruptError", test.name, i, err)
				}
			}

			wantVersions(t, s, test.good...)
			var found []object.Key
			if _, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) { found = append(found, p.Key) }); err != nil {
				t.Fatal(err)
			}

			for i, o := range test.bad {
				if !slices.Contains(found, o.key) {
					t.Errorf("%s: Check does not find bad object %d", test.name, i)
				}
			}
			if len(found) != len(test.bad) {
				t.Errorf("%s: Check finds %v, want %d objects", test.name, found, len(test.bad))
			}

			repairAll(t, s)
			wantVersions(t, s, test.good...)
			wantSound(t, s)
		}
	}
}

// TestPatchElsewhere checks that a patch whose base is only in another volume is readable,
// but counts as damaged.
func TestPatchElsewhere(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := []stored{patchVersion(t, 1, 1, 0), plainVersion(1, 0)}
	writeVolume(t, s, list[0])
	writeVolume(t, s, list[1])
	wantVersions(t, s, list...)
	n := 0
	if _, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) {
		if n++; p.Key != list[0].key || !errors.Is(p.Err, errNoBase) {
			t.Errorf("Check: %v, want errNoBase for the patch", p)
		}
	}); err != nil || n != 1 {
		t.Errorf("Check finds %d problems, error %v; want 1", n, err)
	}
	l, _ := s.lastListing()
	for _, v := range l.volumes {
		if err := readBack(t.Context(), v); (err != nil) != (v.name == l.volumes[1].name) {
			t.Errorf("read back volume %s: %v, want an error only for the patch", v.name, err)
		}
	}
}

// flipValue flips a bit of an object's stored value.
func flipValue(t testing.TB, s *Store, volume string, key object.Key) {
	t.Helper()
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	rec, ok, err := l.byName[volume].findRecord(key)
	if err != nil || !ok {
		t.Fatalf("find %s: %t, %v", key, ok, err)
	}
	change(t, filepath.Join(s.path, volume, ingest.LogName(rec.File)), flipAt(int(rec.Offset)+int(rec.Stored)/2))
}

// TestPatchBaseDamaged checks that damage of a base makes its patches unreadable, until the
// base is stored again.
func TestPatchBaseDamaged(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	list := append(chainOf(t, 1, 3), plainVersion(2, 0), patchVersion(t, 2, 1, 0))
	volume := writeVolume(t, s, list...)
	flipValue(t, s, volume, list[1].key)
	s.Close()

	s = openStore(t, dir, testOptions(t))
	check := func() (found []object.Key) {
		if _, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) { found = append(found, p.Key) }); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(found, object.Key.Compare)
		return found
	}
	want := []object.Key{list[1].key, list[2].key, list[3].key}
	slices.SortFunc(want, object.Key.Compare)
	if found := check(); !slices.Equal(found, want) {
		t.Errorf("Check finds %v, want %v", found, want)
	}
	for _, key := range want {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("get %s: %v, want ErrCorrupt", key, err)
		}
	}
	wantVersions(t, s, list[0], list[4], list[5])

	// A new copy of the base makes its patches readable.
	s.Close()
	s = openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	if _, err := ss.Put(t.Context(), object.KindChunk, list[1].data); err != nil {
		t.Fatal(err)
	}
	if st := ss.Stats(); st.NewObjects != 1 {
		t.Errorf("put the base again: %+v, want one new object", st)
	}
	if err := ss.Publish(t.Context(), publishNothing); err != nil {
		t.Fatal(err)
	}
	ss.Close()
	wantVersions(t, s, list...)
	w, err := s.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if places, err := w.Find(o.key, nil); err != nil || len(places) != 1 {
			t.Errorf("find %s: %v, %v; want one place", o.key, places, err)
		}
	}
	if found := check(); !slices.Equal(found, []object.Key{list[1].key}) {
		t.Errorf("Check finds %v, want %v", found, list[1].key)
	}
	s.Close()
	if bad := readDamaged(filepath.Join(dir, volumesDir, damagedFile)); len(bad) != 1 || bad[0].key != list[1].key {
		t.Errorf("list of damaged copies: %v, want only %s", bad, list[1].key)
	}
	s = openStore(t, dir, testOptions(t))
	if rebuilt := repairAll(t, s); rebuilt[0].Copied != len(list)-1 || len(rebuilt[0].Lost) != 0 {
		t.Errorf("rebuilt %+v, want %d objects copied and none lost", rebuilt, len(list)-1)
	}
	wantVersions(t, s, list...)
	wantSound(t, s)
}

// TestRepairPatches checks that a repair keeps patches whose bases are intact.
func TestRepairPatches(t *testing.T) {
	list := append(chainOf(t, 1, maxChain), chainOf(t, 2, 2)...)
	for name, damage := range map[string]func(s *Store, volume string) (lost int){
		"patch": func(s *Store, volume string) int { flipValue(t, s, volume, list[7].key); return 2 },
		"index": func(s *Store, volume string) int {
			change(t, filepath.Join(s.path, volume, keysFile), flipAt(60))
			return 0
		},
		"no index": func(s *Store, volume string) int { os.Remove(filepath.Join(s.path, volume, keysFile)); return 0 },
		"index and base": func(s *Store, volume string) int {
			flipValue(t, s, volume, list[maxChain+1].key)
			os.Remove(filepath.Join(s.path, volume, keysFile))
			return 3
		},
	} {
		dir := t.TempDir()
		s := openStore(t, dir, testOptions(t))
		volume := writeVolume(t, s, list...)
		lost := damage(s, volume)
		s.Close()

		s = openStore(t, dir, testOptions(t))
		if res := repairAll(t, s); res[0].Copied != len(list)-lost || name == "patch" && len(res[0].Lost) != lost {
			t.Errorf("%s: rebuilt %+v, want %d objects lost", name, res, lost)
		}

		n := 0
		for _, o := range list {
			if ok, err := s.Has(t.Context(), o.key); err != nil {
				t.Error(err)
			} else if ok {
				wantVersions(t, s, o)
				n++
			}
		}
		if n != len(list)-lost {
			t.Errorf("%s: %d objects are left, want %d", name, n, len(list)-lost)
		}

		wantSound(t, s)
		info, err := s.Volumes(t.Context())
		if err != nil || len(info) != 1 || info[0].Stored > 20_000 {
			t.Errorf("%s: volumes %+v, %v; want one of at most 20000 stored bytes", name, info, err)
		}
	}
}

// TestMergePatches checks that a merge keeps patches, and limits the length of chains.
func TestMergePatches(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	first := chainOf(t, 1, maxChain)
	writeVolume(t, s, first...)
	// This volume has the last version of first without a base, and patches of that.
	second := []stored{plainVersion(1, maxChain), patchVersion(t, 1, maxChain+1, maxChain), patchVersion(t, 1, maxChain+2, maxChain+1)}
	writeVolume(t, s, second...)
	// This volume has a circle of patches, which are readable with objects of the first one.
	third := []stored{patchVersion(t, 1, 0, 1), patchVersion(t, 1, 1, 0), plainVersion(2, 5)}
	writeVolume(t, s, third...)
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	oldestFirst := slices.Clone(l.volumes)
	slices.Reverse(oldestFirst)
	if n, err := s.mergeVolumes(t.Context(), oldestFirst); n != 3 || err != nil {
		t.Fatalf("merged %d volumes, %v; want 3", n, err)
	}
	list := slices.Concat(first, second[1:], third[2:])
	wantVersions(t, s, list...)
	wantSound(t, s)
	if n := patches(t, s, list); n < maxChain {
		t.Errorf("%d patches, want at least %d", n, maxChain)
	}
}

// TestMergeCircle checks that a volume with a circle of patches can be merged, also before
// the volume that makes them readable.
func TestMergeCircle(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	circle := []stored{patchVersion(t, 1, 0, 1), patchVersion(t, 1, 1, 2), patchVersion(t, 1, 2, 0)}
	writeVolume(t, s, plainVersion(1, 0), plainVersion(3, 0))
	writeVolume(t, s, circle...)
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.mergeVolumes(t.Context(), l.volumes); n != 2 || err != nil {
		t.Fatalf("merged %d volumes, %v; want 2", n, err)
	}
	wantVersions(t, s, circle...)
	wantSound(t, s)
}

// TestRewritePatches checks that Rewrite keeps a patch if it keeps the base.
func TestRewritePatches(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := slices.Concat(chainOf(t, 1, 4), chainOf(t, 2, 4), chainOf(t, 3, 1))
	writeVolume(t, s, list...)
	sweep, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()
	dropped := []stored{list[0], list[3], list[9]} // versions 0 and 3 of chain 1, and the last of chain 2
	left := slices.DeleteFunc(slices.Clone(list), func(o stored) bool {
		return slices.ContainsFunc(dropped, func(d stored) bool { return d.key == o.key })
	})

	keep := map[int]bool{}
	for _, o := range left {
		places, err := sweep.Find(o.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		keep[places[0].Index] = true
	}

	if n, err := sweep.Rewrite(t.Context(), []int{0}, func(p Place) bool { return keep[p.Index] }, nil); n != 1 || err != nil {
		t.Fatalf("Rewrite wrote %d volumes, %v; want 1", n, err)
	}
	if err := sweep.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: []int{0}}, nil }); err != nil {
		t.Fatal(err)
	}

	wantVersions(t, s, left...)
	for _, o := range dropped {
		if _, err := s.Get(t.Context(), o.key); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("get an object that was not kept: %v, want ErrNotFound", err)
		}
	}

	wantSound(t, s)
	// Versions 1 and 4 of chain 1, and versions 0 of the others, are no patches now.
	if n := patches(t, s, left); n != len(left)-4 {
		t.Errorf("%d of %d objects are patches, want all but 4", n, len(left))
	}
}

// TestRewriteBaseDamaged checks that Rewrite copies an object if its only other copy cannot
// be read without the rewritten volume.
func TestRewriteBaseDamaged(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	base, patch, more := plainVersion(1, 0), patchVersion(t, 1, 1, 0), patchVersion(t, 1, 2, 1)
	_, rewritten := writeVolume(t, s, base, patch, more), writeVolume(t, s, base, plainVersion(1, 1), plainVersion(1, 2))
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}

	flipValue(t, s, l.volumes[1].name, base.key)
	wantVersions(t, s, base, patch, more)
	if _, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(Problem) {}); err != nil {
		t.Fatal(err)
	}

	sweep, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()

	i := slices.IndexFunc(sweep.volumes, func(e *listedVolume) bool { return e.v.name == rewritten })
	notBase := func(p Place) bool {
		rec, err := sweep.volumes[i].o.index.At(p.Index)
		return err == nil && rec.Key != base.key
	}

	if n, err := sweep.Rewrite(t.Context(), []int{i}, notBase, nil); n != 1 || err != nil {
		t.Errorf("Rewrite wrote %d volumes, %v; want 1", n, err)
	}
	if err := sweep.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: []int{i}}, nil }); err != nil {
		t.Fatal(err)
	}
	wantVersions(t, s, patch, more)
}

// TestPatchOfDropped checks that a patch of a dropped object can be read.
func TestPatchOfDropped(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := chainOf(t, 1, 2)
	writeVolume(t, s, list...)
	sweep, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()
	if err := sweep.Remove(t.Context(), func(context.Context) (Removal, error) {
		return Removal{Drop: map[int][]object.Key{0: {list[0].key, list[1].key}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	wantVersions(t, s, list[2])
	if _, err := s.Get(t.Context(), list[0].key); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get a dropped object: %v, want ErrNotFound", err)
	}
	wantSound(t, s)
	if _, err := sweep.Rewrite(t.Context(), []int{0}, keepAll, nil); err != nil {
		t.Fatal(err)
	}
	if v := sweep.Volume(1); v.Objects != 1 || v.Raw != int64(len(list[2].data)) {
		t.Errorf("rewritten volume: %+v, want only the patched object", v)
	}
}

// TestSalvagePatches checks that salvage removes an unsealed volume with patches, because it
// has only copies.
func TestSalvagePatches(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	w, err := s.newWriter("")
	if err != nil {
		t.Fatal(err)
	}
	list := append(chainOf(t, 1, 3), plainVersion(2, 0))
	writeVolume(t, s, list[0])
	for _, o := range list {
		if err := w.addValue(o.key, copyValue(o.value), len(o.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.commitRest(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.logs.Finish(func() {}); err != nil {
		t.Fatal(err)
	}
	w.logs.Close()
	w.lock.Unlock() // as after a kill
	storeSeries(t, s, 1, 0, 3)
	wantNames(t, s)
	wantVersions(t, s, list[0])
	if l, err := s.listVolumes(); err != nil || len(l.volumes) != 2 {
		t.Errorf("%d volumes, %v; want 2", len(l.volumes), err)
	}
	wantSound(t, s)
}

func TestPutStoredRefusesPatches(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := chainOf(t, 1, 1)
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	if err := ss.PutStored(t.Context(), list[0].key, list[0].value, len(list[0].data), nil); err != nil {
		t.Fatal(err)
	}
	var bad *frame.Error
	err := ss.PutStored(t.Context(), list[1].key, list[1].value, len(list[1].data), nil)
	if !errors.As(err, &bad) || bad.Reason != frame.ReasonPatch {
		t.Errorf("put a patch: %v, want ReasonPatch", err)
	}
}
