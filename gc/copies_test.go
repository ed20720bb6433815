package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
)

// A copied is a world whose objects have copies in several volumes. Some copies
// are damaged.
type copied struct {
	*world
	all     map[object.Key][]byte // all objects that were ever stored
	commits []object.Key
	spoilt  map[spot]bool // damaged copies
	locks   []*disk.FileLock
	killed  bool // some removed volumes were restored
}

// A spot is a copy of an object.
type spot struct {
	volume string
	key    object.Key
}

// note adds the stored objects to c.all and c.commits.
func (c *copied) note() {
	c.Helper()
	for key := range c.kept() {
		if c.all[key] != nil {
			continue
		}
		data, err := c.store.Get(c.Context(), key)
		c.check(err)
		c.all[key] = data
		if key.Kind == object.KindCommit {
			c.commits = append(c.commits, key)
		}
	}
	slices.SortFunc(c.commits, object.Key.Compare)
}

// below returns an object and all objects below it, the lowest first.
func (c *copied) below(key object.Key, seen map[object.Key]bool) (list []object.Key) {
	c.Helper()
	if seen[key] {
		return nil
	}
	seen[key] = true
	if key.Kind.IsNode() {
		links, err := object.Links(key.Kind, c.all[key])
		c.check(err)
		for _, link := range links {
			list = append(list, c.below(link, seen)...)
		}
	}
	return append(list, key)
}

func (c *copied) anyCommit() object.Key { return c.commits[c.rng.IntN(len(c.commits))] }

// duplicate stores random objects in a new volume, whether or not another volume
// has them.
func (c *copied) duplicate() {
	c.Helper()
	list := map[object.Key]bool{}
	for key := range c.reached() {
		if c.rng.IntN(2) == 0 {
			list[key] = true
		}
	}
	if c.rng.IntN(2) == 0 {
		for _, key := range c.below(c.anyCommit(), map[object.Key]bool{}) {
			list[key] = true
		}
	}
	c.storeCopies(list)
}

func (c *copied) storeCopies(list map[object.Key]bool) {
	c.Helper()
	if len(list) == 0 {
		return
	}
	other := &world{TB: c.TB, dir: c.TempDir(), now: c.now, names: c.names}
	other.reopen()
	session := other.begin()
	for _, key := range slices.SortedFunc(maps.Keys(list), object.Key.Compare) {
		_, err := session.Put(c.Context(), key.Kind, c.all[key])
		c.check(err)
	}
	c.check(session.Close())
	c.addVolumes(other.inVolumes())
}

// addVolumes copies the volumes in a folder that the store does not have.
func (c *copied) addVolumes(from string) {
	c.Helper()
	entries, err := os.ReadDir(from)
	c.check(err)
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) != 26 {
			continue
		}
		tmp, to := filepath.Join(c.dir, "copy"), filepath.Join(c.inVolumes(), e.Name())
		if _, err := os.Stat(to); err == nil {
			continue
		}
		c.check(os.MkdirAll(c.inVolumes(), 0o755))
		c.check(os.CopyFS(tmp, os.DirFS(filepath.Join(from, e.Name()))))
		c.check(os.Rename(tmp, to))
	}
}

// change changes roots, like other processes during a collection.
func (c *copied) change() {
	c.Helper()
	names := slices.Sorted(maps.Keys(c.roots))
	switch c.rng.IntN(5) {
	case 0:
		if len(names) > 0 {
			delete(c.roots, names[c.rng.IntN(len(names))])
		}
	case 1:
		c.roots[fmt.Sprintf("branch%d", c.rng.IntN(4))] = c.commit()
		c.note()
	case 2:
		c.versions(1)
		c.note()
	case 3: // a process stores an old commit again
		c.use(c.anyCommit())
	case 4: // two processes store the same objects
		c.storeCopies(c.closure(c.anyCommit()))
		c.use(c.anyCommit())
	}
}

func (c *copied) closure(key object.Key) map[object.Key]bool {
	set := map[object.Key]bool{}
	c.below(key, set)
	return set
}

// use puts a commit with all objects below it, and makes it a root.
func (c *copied) use(key object.Key) {
	c.Helper()
	session := c.begin()
	defer session.Close()
	for _, key := range c.below(key, map[object.Key]bool{}) {
		_, err := session.Put(c.Context(), key.Kind, c.all[key])
		c.check(err)
	}
	c.check(session.Publish(c.Context(), func(context.Context) error {
		c.roots[fmt.Sprintf("branch%d", c.rng.IntN(4))] = key
		return nil
	}))
}

// copies returns the names of the volumes that have each object.
func (c *copied) copies() map[object.Key][]string {
	c.Helper()
	places := map[object.Key][]string{}
	c.each(func(info volume.Listed, rec keys.Record) {
		places[rec.Key] = append(places[rec.Key], info.Name)
	})
	return places
}

func (c *copied) each(visit func(volume.Listed, keys.Record)) {
	c.Helper()
	look, err := c.store.Inventory(c.Context())
	c.check(err)
	for i := range look.Len() {
		for kind := object.KindChunk; kind.Valid(); kind++ {
			for rec, err := range look.Keys(i, kind) {
				c.check(err)
				visit(look.Volume(i), rec)
			}
		}
	}
}

// spoil damages copies in a random volume, if all reachable objects there have
// intact copies elsewhere. Or it only notes intact copies as damaged.
func (c *copied) spoil() {
	c.Helper()
	infos, err := c.store.Volumes(c.Context())
	c.check(err)
	if len(infos) == 0 {
		return
	}
	victim := infos[c.rng.IntN(len(infos))].Name
	places := c.copies()
	wrong := c.rng.IntN(2) == 0 // nothing is damaged, but the store notes damage
	reached := c.reached()
	if !wrong {
		for key, in := range places { // any object may be the base of a patch
			in = slices.DeleteFunc(slices.Clone(in), func(name string) bool { return name == victim || c.spoilt[spot{name, key}] })
			if len(in) == 0 && reached[key] && slices.Contains(places[key], victim) || slices.ContainsFunc(in, c.hasSpoilt) {
				return
			}
		}
	}

	var lines string
	c.each(func(info volume.Listed, rec keys.Record) {
		if info.Name != victim || len(places[rec.Key]) < 2 || c.rng.IntN(3) > 0 {
			return
		}
		if !wrong {
			c.flip(filepath.Join(c.inVolumes(), info.Name, fmt.Sprintf("%06d.vlog", rec.File)), int(rec.Offset+rec.Stored/2))
			c.spoilt[spot{info.Name, rec.Key}] = true
		}
		if wrong || c.rng.IntN(2) == 0 {
			lines += fmt.Sprintf("%s %d %s\n", info.Name, rec.Key.Kind, rec.Key.ID)
		}
	})

	c.check(c.store.Close())
	path := filepath.Join(c.inVolumes(), "damaged")
	old, _ := os.ReadFile(path)
	c.check(os.WriteFile(path, append(old, lines...), 0o644))
	c.reopen()
}

func (c *copied) hasSpoilt(name string) bool {
	for s := range c.spoilt {
		if s.volume == name {
			return true
		}
	}
	return false
}

// repair repairs a random volume, damaged or not.
func (c *copied) repair() {
	c.Helper()
	infos, err := c.store.Volumes(c.Context())
	c.check(err)
	if len(infos) == 0 {
		return
	}
	name := infos[c.rng.IntN(len(infos))].Name
	r, err := c.store.Repair(c.Context(), volume.RepairOptions{})
	c.check(err)
	defer r.Close()
	rebuilt, err := r.Rebuild(c.Context(), []string{name})
	c.check(err)
	if errors.Is(rebuilt[0].Err, disk.ErrBusy) {
		return
	}
	c.check(rebuilt[0].Err)
	_, err = r.Quarantine(c.Context(), []string{name})
	c.check(err)
}

// useVolume locks a random volume, as if its session were running.
func (c *copied) useVolume() {
	c.Helper()
	infos, err := c.store.Volumes(c.Context())
	c.check(err)
	if len(infos) == 0 {
		return
	}
	info := infos[c.rng.IntN(len(infos))]
	lock, err := disk.Lock(c.Context(), filepath.Join(c.inVolumes(), "tmp-"+info.Session+".lock"), disk.Exclusive, 0)
	if err == nil {
		c.locks = append(c.locks, lock)
	}
}

// changing is a [gc.Needs] that sometimes changes roots, unless the gc lock
// prevents other processes from changing them.
func (c *copied) changing(ctx context.Context) (gc.Needed, error) {
	if lock, err := disk.Lock(ctx, filepath.Join(c.dir, "gc.lock"), disk.Shared, 0); err == nil {
		lock.Unlock()
		if c.rng.IntN(3) == 0 {
			c.change()
		}
	}
	return c.needs(ctx)
}

// gather collects garbage while roots change. Sometimes it then restores some
// removed volumes, as if a kill had come before their removal.
func (c *copied) gather() {
	c.Helper()
	young := map[object.Key]bool{}
	o := gc.PlanOptions{
		MaxWaste:   []float64{0, 0, 0.05, 0.3, 1}[c.rng.IntN(5)],
		PruneOlder: []time.Duration{0, 90 * time.Minute, 5 * time.Hour}[c.rng.IntN(3)],
		Repack:     c.rng.IntN(2) == 0,
		Idle:       c.rng.IntN(4) == 0,
		Now:        c.now,
	}
	c.each(func(info volume.Listed, rec keys.Record) {
		if info.InUse || o.PruneOlder > 0 && c.now.Sub(info.Created) < o.PruneOlder {
			if !c.spoilt[spot{info.Name, rec.Key}] {
				young[rec.Key] = true
			}
		}
	})
	before := ""
	if c.rng.IntN(4) == 0 {
		before = c.TempDir()
		c.check(os.CopyFS(before, os.DirFS(c.inVolumes())))
	}
	p, err := gc.NewPlan(c.Context(), c.store, c.changing, o)
	c.check(err)
	c.check(p.Apply(c.Context()))
	p.Close()

	kept := c.kept()
	for key := range young {
		if !kept[key] {
			c.Fatalf("%s is missing, but its volume is young or in use", key)
		}
	}

	if before != "" {
		c.killed = true
		entries, err := os.ReadDir(before)
		c.check(err)
		for _, e := range entries {
			if c.rng.IntN(3) == 0 {
				c.check(os.RemoveAll(filepath.Join(before, e.Name())))
			}
		}
		c.addVolumes(before)
		c.check(c.store.Close())
		c.reopen()
	}

	for _, lock := range c.locks {
		lock.Remove()
	}
	c.locks = nil
}

// clean collects all garbage, of any age.
func (c *copied) clean() {
	c.Helper()
	p, err := c.plan(gc.PlanOptions{})
	c.check(err)
	c.check(p.Apply(c.Context()))
	p.Close()
}

// wantAll checks that all reachable objects can be read. Without damage or kills,
// it also checks the store.
func (c *copied) wantAll() {
	c.Helper()
	c.check(c.store.Close())
	c.reopen()
	if len(c.spoilt) == 0 && !c.killed {
		c.wantIntact()
		return
	}
	c.reached()
}

// testCopies makes a store with many copies and collects garbage several times.
func testCopies(t *testing.T, seed uint64) {
	c := &copied{world: newWorld(t, seed), all: map[object.Key][]byte{}, spoilt: map[spot]bool{}}
	c.versions(1 + c.rng.IntN(4))
	c.roots["branch0"] = c.commit()
	c.note()

	for range 2 + c.rng.IntN(3) {
		for range 2 + c.rng.IntN(6) {
			switch c.rng.IntN(8) {
			case 0, 1, 2:
				c.change()
			case 3, 4:
				c.duplicate()
			case 5:
				c.spoil()
			case 6:
				c.now = c.now.Add(time.Duration(c.rng.IntN(3)) * time.Hour)
			case 7:
				if c.rng.IntN(2) == 0 {
					c.useVolume()
				} else {
					c.repair()
				}
			}
		}

		c.gather()
		c.wantAll()
	}

	if len(c.spoilt) == 0 {
		c.clean() // removes the wrong notes of damage, which keep garbage
		c.clean()
		if reached, kept := c.reached(), c.kept(); !maps.Equal(reached, kept) {
			t.Errorf("%d objects are reachable, %d stored", len(reached), len(kept))
		}
	}

	clear(c.roots)
	c.clean()
	if n := len(c.kept()); n > 0 {
		t.Errorf("without roots: %d objects left, want none", n)
	}
}

// Collections keep all reachable, young and used objects, in whatever volumes
// their copies are.
func TestCopies(t *testing.T) {
	seeds := []uint64{10304} // gc once kept a base, wrongly noted as damaged, without the objects below it
	for i := range objecttest.Rounds(t, 8) {
		seeds = append(seeds, objecttest.Seed()+uint64(i))
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testCopies(t, seed) })
	}
}
