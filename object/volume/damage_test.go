package volume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

const damageObjects = 60

// TestDamage damages each file of a sealed volume in many ways, each file in a child
// process. Reads return the right bytes or a CorruptError, never ErrNotFound. They neither
// crash nor hang nor change the volume. Check finds every damage.
func TestDamage(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, s, 1, 0, damageObjects)
	wantSound(t, s)
	dir := oneVolume(t, s)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	places := objecttest.Rounds(t, 20)
	if len(entries) != 5 {
		t.Fatalf("the volume has files %v, want 5", entries)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			repo := t.TempDir()
			to := filepath.Join(repo, volumesDir, filepath.Base(dir))
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			out, err := child(t, "damage", repo, filepath.Join(to, e.Name()), strconv.Itoa(places)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

func init() {
	children["damage"] = func(args []string) error {
		places, _ := strconv.Atoi(args[2])
		return damageFile(args[0], args[1], places)
	}
}

func damageFile(repo, path string, places int) error {
	original, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := errors.Join(os.Chmod(path, 0o666), os.Chmod(dir, 0o777)); err != nil {
		return err
	}

	rng := objecttest.Rand(uint64(len(original)))
	try := func(name string, data []byte) error {
		os.Remove(path)
		if data != nil {
			if err := os.WriteFile(path, data, 0o444); err != nil {
				return err
			}
		}
		done := make(chan error, 1)
		go func() { done <- tryDamaged(repo, dir, rng.IntN(25) == 0) }()
		select {
		case err = <-done:
		case <-time.After(30 * time.Second):
			err = errors.New("no result after 30 seconds")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}

	outside := notValues(path, original)
	for i := range places {
		data := bytes.Clone(original)
		bit := rng.IntN(8 * len(data))
		if i%2 == 1 {
			bit = outside[rng.IntN(len(outside))]*8 + bit%8
		}
		data[bit/8] ^= 1 << (bit % 8)
		if err := try(fmt.Sprintf("bit %d flipped", bit), data); err != nil {
			return err
		}
	}

	for range places / 3 {
		n := rng.IntN(len(original))
		if err := try(fmt.Sprintf("cut to %d bytes", n), original[:n]); err != nil {
			return err
		}
		data := bytes.Clone(original)
		clear(data[n:min(n+512, len(data))])
		if bytes.Equal(data, original) {
			continue
		}
		if err := try(fmt.Sprintf("512 zero bytes at %d", n), data); err != nil {
			return err
		}
	}

	if err := try("empty", []byte{}); err != nil {
		return err
	}
	if err := try("one byte longer", append(bytes.Clone(original), 0)); err != nil {
		return err
	}
	return try("removed", nil)
}

// notValues returns the offsets of the bytes of a file that are not part of a stored
// value. Only value logs have values.
func notValues(path string, data []byte) (offsets []int) {
	value := make([]bool, len(data))
	if _, ok := ingest.LogNumber(filepath.Base(path)); ok {
		walk := ingest.NewLogWalker(bytes.NewReader(data), int64(len(data)))
		for e, err := walk.NextEntry(); err == nil; e, err = walk.NextEntry() {
			for i := e.Value; i < e.Value+int64(e.Stored()); i++ {
				value[i] = true
			}
		}
	}
	for i := range data {
		if !value[i] {
			offsets = append(offsets, i)
		}
	}
	return offsets
}

// tryDamaged reads and checks a repository whose only volume is damaged. With heal, it
// also calls healDamaged.
func tryDamaged(repo, dir string, heal bool) error {
	ctx := context.Background()
	before, err := fingerprint(dir)
	if err != nil {
		return err
	}
	o := Options{Now: time.Now}
	s, err := Open(repo, o)
	if err != nil {
		return err
	}
	defer os.Remove(s.inVolumes(damagedFile))
	defer s.Close()

	readable := 0
	for i := range damageObjects {
		key, want := sample(1, i)
		got, err := s.Get(ctx, key)
		var damage *object.CorruptError
		switch {
		case err == nil && bytes.Equal(got, want):
			readable++
		case err == nil:
			return fmt.Errorf("get %s: wrong bytes", key)
		case !errors.As(err, &damage) || damage.Key != key || errors.Is(err, object.ErrNotFound):
			return fmt.Errorf("get %s: error %v, want a CorruptError with its key", key, err)
		}

		brief := s.GetBriefly(ctx, key, func(data []byte) error {
			if !bytes.Equal(data, want) {
				return fmt.Errorf("read %s briefly: wrong bytes", key)
			}
			return nil
		})
		if (brief == nil) != (err == nil) || brief != nil && (!errors.As(brief, &damage) || damage.Key != key) {
			return fmt.Errorf("read %s briefly: error %v, but get: %v", key, brief, err)
		}
		if missing, err := s.Missing(ctx, []object.Key{key}); err == nil && len(missing) > 0 || err != nil && !errors.Is(err, object.ErrCorrupt) {
			return fmt.Errorf("missing of %s: %v, %v", key, missing, err)
		}

		s.StoredSize(ctx, key)
		s.Prefix(ctx, key.Kind, key.ID.String()[:5], 2)
	}

	for range s.Keys(ctx) {
	}
	s.Volumes(ctx)
	s.Check(ctx, CheckOptions{}, func(Problem) {})
	var found []Problem
	if _, err := s.Check(ctx, CheckOptions{ReadData: true}, func(p Problem) { found = append(found, p) }); err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("check found no damage")
	}

	if i := slices.IndexFunc(found, func(p Problem) bool { return p.Volume != filepath.Base(dir) || p.Error() == "" }); i >= 0 {
		return fmt.Errorf("check named another volume: %v", found[i])
	}
	if heal {
		if err := healDamaged(ctx, repo, o); err != nil {
			return fmt.Errorf("heal: %w", err)
		}
	}

	after, err := fingerprint(dir)
	if err == nil && after != before {
		err = errors.New("the damaged volume changed")
	}
	return err
}

// healDamaged puts all objects again, with another Store than the one that found the
// damage, and checks that all are readable.
func healDamaged(ctx context.Context, repo string, o Options) error {
	s, err := Open(repo, o)
	if err != nil {
		return err
	}
	defer s.Close()
	ss := s.Begin(SessionOptions{})
	for i := range damageObjects {
		key, data := sample(1, i)
		if _, err := ss.Put(ctx, key.Kind, data); err != nil {
			return err
		}
	}
	if err := errors.Join(ss.Publish(ctx, publishNothing), ss.Close()); err != nil {
		return err
	}
	for i := range damageObjects {
		key, want := sample(1, i)
		if got, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("get %s: %d bytes, want %d, error %w", key, len(got), len(want), err)
		}
	}
	for _, name := range ss.own {
		os.RemoveAll(s.inVolumes(name))
	}
	return nil
}

// fingerprint returns a hash of the files in dir, with their names, modes and times.
func fingerprint(dir string) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, info.Mode(), info.Size(), info.ModTime())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(data)
		}
		return nil
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// TestOtherCopy checks that an object that is damaged in one volume is read from another,
// and that Close saves the list of damaged copies.
func TestOtherCopy(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, s, 1, 0, 20)
	other := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, other, 1, 0, 20)
	first := oneVolume(t, s)

	if err := os.Rename(oneVolume(t, other), s.inVolumes(filepath.Base(oneVolume(t, other)))); err != nil {
		t.Fatal(err)
	}
	l, err := s.listVolumes()
	if err != nil || len(l.volumes) != 2 {
		t.Fatalf("volumes %v, %v; want 2", l, err)
	}

	newest := l.volumes[0].path
	if newest == first {
		t.Fatal("the first volume is the newest")
	}

	path := filepath.Join(newest, ingest.LogName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)

	for i := range data {
		data[i] ^= 0x55
	}
	write(t, path, string(data))
	wantSeries(t, s, 1, 0, 20)

	if s.Close(); len(readDamaged(s.inVolumes(damagedFile))) != 20 {
		t.Error("Close did not save the list of 20 damaged copies")
	}
	write(t, filepath.Join(newest, keysFile+"x"), "")
	problems := 0
	s = openStore(t, s.dir, testOptions(t))
	if _, err := s.Check(context.Background(), CheckOptions{}, func(p Problem) { problems++ }); err != nil || problems == 0 {
		t.Errorf("Check found %d problems, error %v; want some", problems, err)
	}
}

// TestReadDamaged checks that invalid lines in the list of damaged copies are skipped.
func TestReadDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), damagedFile)
	key, _ := sample(1, 1)
	const name = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	write(t, path, strings.Repeat("x", 100_000)+"\n")
	if list := readDamaged(path); len(list) != 0 {
		t.Errorf("a list with one long line gives %v", list)
	}
	write(t, path, "\n\x00\n"+name+" 9 "+key.ID.String()+"\n"+name+" 2\n../x 1 "+key.ID.String()+"\n"+copyLine(name, key))
	if list := readDamaged(path); len(list) != 1 || list[0] != (storedCopy{name, key}) {
		t.Errorf("readDamaged = %v, want only %s in %s", list, key, name)
	}
}

// readDamaged returns the valid lines of the file at path.
func readDamaged(path string) []storedCopy {
	list, _ := readCopies(path, maxDamaged)
	return list
}
