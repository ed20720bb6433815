package volume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

func init() {
	for name, fill := range map[string]func(string, uint64) error{"full": fillDisk, "full-shared": fillShared, "full-repack": repackOnFullDisk,
		"full-killed": killedOnDisk, "full-die": fillAndDie} {
		children[name] = func(args []string) error {
			seed, _ := strconv.Atoi(args[1])
			return fill(args[0], uint64(seed))
		}
	}
}

// onTmpfs returns a command that runs a child with its own file system of size MiB,
// mounted at dir.
func onTmpfs(t *testing.T, size int, dir, name string, args ...string) *exec.Cmd {
	c := child(t, name, append([]string{dir}, args...)...)
	cmd := exec.Command("unshare", "-m", "sh", "-c",
		fmt.Sprintf(`mount -t tmpfs -o size=%dm none "$0" && exec "$@"`, size), dir)
	cmd.Args = append(cmd.Args, c.Args...)
	cmd.Env = c.Env
	return cmd
}

// needsMount skips the test if it cannot mount a file system.
func needsMount(t *testing.T) {
	if os.Getuid() != 0 {
		objecttest.Skip(t, "only root can mount")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		objecttest.Skip(t, "cannot unshare: "+err.Error())
	}
}

// TestFullDisk checks that writes to a full disk return ENOSPC and cause no SIGBUS.
// Published objects stay readable, and sessions succeed again once there is room.
func TestFullDisk(t *testing.T) {
	needsMount(t)
	n := objecttest.Rounds(t, 2)
	for _, size := range []int{16, 32, 64} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			for i := range n {
				out, err := onTmpfs(t, size, t.TempDir(), "full", strconv.Itoa(size*1000+int(objecttest.Seed())+i)).CombinedOutput()
				if err != nil {
					t.Fatalf("run %d: %v\n%s", i, err, out)
				}
			}
		})
	}
}

// TestFullDiskShared is TestFullDisk with three concurrent writers, for which the disk is
// full at unexpected moments.
func TestFullDiskShared(t *testing.T) {
	needsMount(t)
	for i := range objecttest.Rounds(t, 2) {
		out, err := onTmpfs(t, 48, t.TempDir(), "full-shared", strconv.Itoa(int(objecttest.Seed())+i)).CombinedOutput()
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
	}
}

// fillShared fills the disk of dir with three writers.
func fillShared(dir string, seed uint64) error {
	o := Options{Now: time.Now, ingest: ingest.Options{MemTableSize: 1 << 20}}
	var g errgroup.Group
	published := make([][]object.Key, 3)
	for i := range published {
		g.Go(func() error {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			s, err := Open(dir, o)
			if err != nil {
				return err
			}
			defer s.Close()
			for range 4 {
				var keys []object.Key
				most := []int{200, 3000, 300_000}[rng.IntN(3)]
				if err := fill(s, rng, most, 1+rng.IntN(4<<20), &keys, &published[i]); !errors.Is(err, syscall.ENOSPC) {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return readAll(dir, o, slices.Concat(published...))
}

// fillDisk fills the disk of dir several times.
func fillDisk(dir string, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 5))
	o := Options{Now: time.Now, Warn: func(w string) { fmt.Println("warning:", w) }}
	if seed%2 == 1 {
		o.ingest.MemTableSize = 1 << 20
	}
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()

	var published []object.Key
	last := int64(0)
	for round := range 3 {
		var keys []object.Key
		most := []int{200, 5000, 300_000, 2 << 20}[rng.IntN(4)]
		err = fill(s, rng, most, 1+rng.IntN(8<<20), &keys, &published)
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("round %d, values of up to %d bytes: %w", round, most, err)
		}
		free, err := disk.FreeSpace(dir)
		if err != nil {
			return err
		}
		last = free

		if err := readAll(dir, o, published); err != nil {
			return fmt.Errorf("after round %d: %w", round, err)
		}

		// Remove the oldest volume, to make a little room for the next round.
		l, err := s.listVolumes()
		if err != nil {
			return err
		}
		if n := len(l.volumes); n > 0 {
			name := l.volumes[n-1].name
			o, err := l.volumes[n-1].ensureOpen()
			if err != nil {
				return err
			}

			gone := map[object.Key]bool{}
			for rec := range o.index.All() {
				gone[rec.Key] = true
			}
			if err := os.RemoveAll(s.inVolumes(name)); err != nil {
				return err
			}

			kept := published[:0]
			for _, key := range published {
				if !gone[key] {
					kept = append(kept, key)
				}
			}

			published = kept
		}
	}

	// With random amounts of free space, a session succeeds or returns ENOSPC.
	for range 20 {
		free, err := disk.FreeSpace(dir)
		if err != nil {
			return err
		}
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, max(0, free-rng.Int64N(8<<20))), 0o666); err != nil {
			return err
		}
		ss := s.Begin(SessionOptions{})
		id, err := ss.Put(context.Background(), object.KindChunk, noise(rng.Uint64(), make([]byte, 1+rng.IntN(3<<20))))
		if err == nil {
			err = ss.Publish(context.Background(), publishNothing)
		}
		ss.Close()
		if err == nil {
			published = append(published, object.Key{Kind: object.KindChunk, ID: id})
		} else if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		if err := os.Remove(ballast); err != nil {
			return err
		}
	}
	if last > 20<<20 {
		return fmt.Errorf("ENOSPC with %d bytes free, want at most 20 MiB", last)
	}
	return readAll(dir, o, published)
}

// fill puts random objects of at most most+7 bytes until a call fails. It publishes them
// after each every bytes, and appends them to published.
func fill(s *Store, rng *rand.Rand, most, every int, keys, published *[]object.Key) error {
	ctx := context.Background()
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	for left := every; ; {
		data := noise(rng.Uint64(), make([]byte, 8+rng.IntN(most)))
		id, err := ss.Put(ctx, object.KindChunk, data)
		if err != nil {
			return err
		}
		*keys = append(*keys, object.Key{Kind: object.KindChunk, ID: id})
		if left -= len(data) + 60; left < 0 {
			if err := ss.Publish(ctx, publishNothing); err != nil {
				return err
			}
			*published = append(*published, *keys...)
			*keys = nil
			left = every
		}
	}
}

// readAll reads the published objects with a new Store, and checks all volumes.
func readAll(dir string, o Options, published []object.Key) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, key := range published {
		if _, err := s.Get(context.Background(), key); err != nil {
			return err
		}
	}
	var damage error
	_, err = s.Check(context.Background(), CheckOptions{ReadData: true}, func(p Problem) { damage = p })
	return errors.Join(damage, err)
}

// TestFullDiskRepack checks that Repack on a nearly full disk succeeds or returns
// ENOSPC, and loses nothing.
func TestFullDiskRepack(t *testing.T) {
	needsMount(t)
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	for i := range objecttest.Rounds(t, 2) {
		out, err := onTmpfs(t, 48, t.TempDir(), "full-repack", strconv.Itoa(int(objecttest.Seed())+i)).CombinedOutput()
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
	}
}

func repackOnFullDisk(dir string, seed uint64) error {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 6))
	o := Options{Now: time.Now, Warn: func(w string) { fmt.Println("warning:", w) }}
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()

	var published []object.Key
	put := func(list ...[]byte) error {
		ss := s.Begin(SessionOptions{})
		defer ss.Close()
		for _, data := range list {
			id, err := ss.Put(ctx, object.KindChunk, data)
			if err != nil {
				return err
			}
			published = append(published, object.Key{Kind: object.KindChunk, ID: id})
		}
		return ss.Publish(ctx, publishNothing)
	}

	for i := range 20 {
		_, data := version(1, i)
		if err := put(data, noise(rng.Uint64(), make([]byte, 200<<10))); err != nil {
			return err
		}
	}

	failed := 0
	for round := range 20 {
		_, data := version(1, 20+round)
		if err := put(data); err != nil {
			return err
		}
		free, err := disk.FreeSpace(dir)
		if err != nil {
			return err
		}
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, max(0, free-rng.Int64N(12<<20))), 0o666); err != nil {
			return err
		}
		if err := repackAll(dir); errors.Is(err, syscall.ENOSPC) {
			failed++
		} else if err != nil {
			return err
		}
		if err := os.Remove(ballast); err != nil {
			return err
		}

		if err := readAll(dir, o, published); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if failed == 0 || failed == 20 {
		return fmt.Errorf("ENOSPC in %d of 20 rounds, want some but not all", failed)
	}

	if err := repackAll(dir); err != nil {
		return err
	}
	if info, err := s.Volumes(ctx); err != nil || len(info) != 1 || info[0].Objects != len(published) {
		return fmt.Errorf("volumes %+v, want one with %d objects, error %w", info, len(published), err)
	}
	return readAll(dir, o, published)
}

// TestFullDiskSalvage checks that after the kill of a writer that filled most of a disk,
// the next writer has room. It salvages all objects, and stores none of them again.
func TestFullDiskSalvage(t *testing.T) {
	needsMount(t)
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	for i, most := range []int{killedMost, killedMost - 10<<20} {
		out, err := onTmpfs(t, killedDisk, t.TempDir(), "full-killed", strconv.Itoa(most)).CombinedOutput()
		if err != nil {
			t.Fatalf("case %d: %v\n%s", i, err, out)
		}
	}
}

const (
	killedDisk = 64       // MiB
	killedMost = 52 << 20 // bytes
	killedSize = 200_000
)

// fillAndDie puts at most most bytes and kills this process.
func fillAndDie(dir string, most uint64) error {
	return putAndDie(dir, func(ss *Session) error { return putKilled(ss, most) })
}

func putKilled(ss *Session, most uint64) error {
	for i := range most / killedSize {
		if _, err := ss.Put(context.Background(), object.KindChunk, noise(i, make([]byte, killedSize))); err != nil {
			return err
		}
	}
	return nil
}

func killedOnDisk(dir string, most uint64) error {
	ctx := context.Background()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "KIST_TEST_CHILD=full-die")
	if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
		return fmt.Errorf("the child was not killed: %w: %s", err, out)
	}
	var warned error
	o := Options{Now: time.Now, Warn: func(w string) { warned = errors.New(w) }}
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if size, err := s.Size(ctx); err != nil || size < int64(most) || size > killedDisk<<20 {
		return fmt.Errorf("the store has %d bytes, want at least %d, error %w", size, most, err)
	}
	left, err := deadWriters{s}.leftovers(ctx)
	if want := int64(most / killedSize); err != nil || len(left) != 1 || left[0].Objects != want || left[0].Sealed < int64(most)-killedSize {
		return fmt.Errorf("leftovers %+v, want one with %d objects, error %w", left, want, err)
	}

	for round := range 2 {
		ss := s.Begin(SessionOptions{})
		err := putKilled(ss, most)
		if err == nil {
			_, err = ss.Put(ctx, object.KindChunk, noise(uint64(round), make([]byte, 1<<20)))
		}
		if err == nil {
			err = ss.Publish(ctx, publishNothing)
		}
		if err = errors.Join(err, ss.Close(), warned); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if st := ss.Stats(); st.NewObjects != 1 {
			return fmt.Errorf("round %d: %d objects were stored again", round, st.NewObjects-1)
		}
	}
	if infos, err := s.Volumes(ctx); err != nil || len(infos) != 3 || infos[2].Stored < left[0].Sealed/2 || infos[2].Bytes > left[0].Sealed+10_000 {
		return fmt.Errorf("volumes %+v, want 3, the oldest with the salvaged objects, error %w", infos, err)
	}
	return readAll(dir, o, nil)
}
