package volume

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// What is known to be damaged is remembered in the file volumes/damaged, one
// line for each copy: volume, kind (a number) and ID. It is a hint: objects
// listed are stored again when they are put, so that they heal. Losing it does
// no harm, nor does a wrong line.
const damagedFile = "damaged"

// maxDamaged bounds how many copies are remembered.
const maxDamaged = 1 << 20

// damaged is a damaged copy of an object.
type damaged struct {
	volume string
	key    object.Key
}

// readDamaged reads the file at path, as far as it makes sense.
func readDamaged(path string) []damaged {
	list, _ := readCopies(path, maxDamaged)
	return list
}

// readCopies reads at most so many lines of the file at path, and passes over
// those that make no sense.
func readCopies(path string, most int) (list []damaged, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for len(list) < most && lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || !isName(fields[0]) || len(fields[1]) != 1 {
			continue
		}
		id, err := object.ParseID(fields[2])
		kind := object.Kind(fields[1][0] - '0')
		if err == nil && kind.Valid() {
			list = append(list, damaged{fields[0], object.Key{Kind: kind, ID: id}})
		}
	}
	return list, lines.Err()
}

// loadDamaged tells the volumes that were just listed what is known of them.
// s.refreshing is held.
func (s *Store) loadDamaged(volumes []*sealed) {
	if len(volumes) == 0 {
		return
	}
	for _, d := range readDamaged(s.inVolumes(damagedFile)) {
		for _, v := range volumes {
			if v.name == d.volume {
				v.setBad(d.key)
			}
		}
	}
}

// saveDamaged remembers what is known to be damaged in the volumes there are,
// together with what others have found and what was not read since. Where that
// is not possible (a repository that is read-only), it is not.
func (s *Store) saveDamaged(l *listing) {
	var lines []string
	healed := map[damaged]struct{}{}
	for _, v := range l.volumes {
		v.badMu.Lock()
		for key := range v.bad {
			lines = append(lines, damagedLine(v.name, key))
		}
		for key := range v.good {
			healed[damaged{v.name, key}] = struct{}{}
		}
		v.badMu.Unlock()
	}
	if len(lines)+len(healed) == 0 {
		return
	}
	path := s.inVolumes(damagedFile)
	before := 0
	for _, d := range readDamaged(path) {
		before++
		if _, ok := healed[d]; ok {
			before = -maxDamaged // to be written
		} else if l.byName[d.volume] != nil {
			lines = append(lines, damagedLine(d.volume, d.key))
		}
	}
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) == before {
		return
	}
	name, err := newName(s.o.Now(), s.o.Rand)
	if err != nil {
		return
	}
	tmp := filepath.Join(s.path, damagedFile+"-"+name)
	if disk.Create(tmp, []byte(strings.Join(lines, ""))) != nil || disk.Rename(tmp, path) != nil {
		disk.Remove(tmp)
	}
}

func damagedLine(volume string, key object.Key) string {
	return fmt.Sprintf("%s %d %s\n", volume, key.Kind, key.ID)
}

// A volume that is mostly needed stays when garbage is collected, with the rest
// that is in it. What the store is not to have any more, although it still lies
// there, is listed in the file volumes/dropped, in lines as the file damaged has
// them. So a commit is there with all that it refers to, or not at all.
const droppedFile = "dropped"

// isDropped reports whether key is in the volume, but dropped.
func (v *sealed) isDropped(key object.Key) bool {
	dropped := v.dropped.Load()
	if dropped == nil {
		return false
	}
	_, ok := (*dropped)[key]
	return ok
}

// loadDropped tells volumes what of them was dropped, if the file has changed
// or the volumes were just listed. s.refreshing is held. An error says nothing
// about the disk: what was dropped must not come back for want of memory.
func (s *Store) loadDropped(volumes, added []*sealed) error {
	path := s.inVolumes(droppedFile)
	info, err := disk.Stat(path)
	if err := trouble(err); err != nil {
		return err
	}
	if err != nil {
		info = nil // nothing was, or it cannot be known
	}
	switch old := s.droppedInfo; {
	case info == nil && old == nil:
		return nil
	case info == nil || old == nil || !os.SameFile(info, old) || !info.ModTime().Equal(old.ModTime()) || info.Size() != old.Size():
	case len(added) == 0:
		return nil
	default:
		volumes = added
	}
	list, err := readCopies(path, math.MaxInt)
	if err := trouble(err); err != nil {
		return err
	}
	s.droppedInfo = info
	lists := map[string]map[object.Key]struct{}{}
	for _, d := range list {
		if lists[d.volume] == nil {
			lists[d.volume] = map[object.Key]struct{}{}
		}
		lists[d.volume][d.key] = struct{}{}
	}
	for _, v := range volumes {
		if list := lists[v.name]; list != nil || v.dropped.Load() != nil {
			v.dropped.Store(&list)
		}
	}
	return nil
}

// drop notes objects that volumes are no longer to have, beside those that are
// noted already. The gc lock is held.
func (w *Sweep) drop(keys map[int][]object.Key) error {
	var lines []string
	for i, e := range w.volumes {
		if e.gone {
			continue
		}
		for _, key := range keys[i] {
			lines = append(lines, damagedLine(e.v.name, key))
		}
		if dropped := e.v.dropped.Load(); dropped != nil {
			for key := range *dropped {
				lines = append(lines, damagedLine(e.v.name, key))
			}
		}
	}
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "")
	path := w.store.inVolumes(droppedFile)
	was, err := disk.ReadFile(path)
	switch {
	case err != nil && !os.IsNotExist(err):
		return err
	case string(was) == text:
		return nil
	case text == "":
		err = disk.Remove(path)
	default:
		err = disk.WriteFile(path, []byte(text))
	}
	if err == nil {
		_, err = w.store.refresh()
	}
	return err
}

// SetLost sets the objects whose loss was accepted.
func (s *Store) SetLost(keys []object.Key) {
	lost := make(map[object.Key]struct{}, len(keys))
	for _, key := range keys {
		lost[key] = struct{}{}
	}
	s.lost.Store(&lost)
}

// accepted returns the objects whose loss was accepted. It must not be changed.
func (s *Store) accepted() map[object.Key]struct{} {
	if lost := s.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// Lost returns the objects whose loss was accepted and that are missing still,
// sorted.
func (s *Store) Lost(ctx context.Context) ([]object.Key, error) {
	lost := s.accepted()
	if len(lost) == 0 {
		return nil, nil
	}
	missing, err := s.Missing(ctx, slices.Collect(maps.Keys(lost)))
	slices.SortFunc(missing, object.Key.Compare)
	return missing, err
}

// IsLost implements [object.LossKeeper]. An object that came back is not lost.
func (s *Store) IsLost(key object.Key) bool {
	if _, accepted := s.accepted()[key]; !accepted {
		return false
	}
	has, err := s.Has(context.Background(), key)
	return err == nil && !has
}

// IsLost implements [object.LossKeeper].
func (s *Session) IsLost(key object.Key) bool { return s.store.IsLost(key) }
