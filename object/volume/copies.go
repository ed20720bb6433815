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

// The file volumes/damaged lists copies that are known to be damaged, one line for each:
// volume, kind (a number) and ID. It is a hint: a Put of a listed object stores a new
// copy. A missing file or a wrong line does no harm.
const damagedFile = "damaged"

// maxDamaged is the largest number of listed copies.
const maxDamaged = 1 << 20

// storedCopy is a copy of an object in a volume.
type storedCopy struct {
	volume string
	key    object.Key
}

// readCopies reads at most the given number of lines of the file at path, and skips
// invalid ones.
func readCopies(path string, most int) (list []storedCopy, err error) {
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
			list = append(list, storedCopy{fields[0], object.Key{Kind: kind, ID: id}})
		}
	}
	return list, lines.Err()
}

// loadDamaged marks the damaged copies of volumes that were just listed. Path is that
// of the file.
func loadDamaged(path string, volumes []*sealedVolume) {
	if len(volumes) == 0 {
		return
	}
	list, _ := readCopies(path, maxDamaged)
	for _, d := range list {
		for _, v := range volumes {
			if v.name == d.volume {
				v.setBad(d.key)
			}
		}
	}
}

// saveDamaged adds the damaged copies of the listed volumes to the file, and removes the
// copies that became readable. It ignores errors: the repository may be read-only.
func (l *listing) saveDamaged(s *Store) {
	var lines []string
	healed := map[storedCopy]struct{}{}
	for _, v := range l.volumes {
		v.badMu.Lock()
		for key, bad := range v.bad {
			if bad {
				lines = append(lines, copyLine(v.name, key))
			} else {
				healed[storedCopy{v.name, key}] = struct{}{}
			}
		}
		v.badMu.Unlock()
	}
	if len(lines)+len(healed) == 0 {
		return
	}

	path := s.inVolumes(damagedFile)
	list, _ := readCopies(path, maxDamaged)
	var before []string
	for _, d := range list {
		before = append(before, copyLine(d.volume, d.key))
		if _, ok := healed[d]; !ok && l.byName[d.volume] != nil {
			lines = append(lines, copyLine(d.volume, d.key))
		}
	}

	slices.Sort(lines)
	if lines = slices.Compact(lines); slices.Equal(lines, before) { // the file is sorted
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

// copyLine returns the line for a copy.
func copyLine(volume string, key object.Key) string {
	return fmt.Sprintf("%s %d %s\n", volume, key.Kind, key.ID)
}

// Gc keeps a volume if most of its objects are reachable. The file volumes/dropped lists
// the other objects in it, in lines like those of the file damaged. The store treats
// dropped objects as missing, so that a commit is there with everything below it, or not
// at all.
const droppedFile = "dropped"

// isDropped reports whether key was dropped in the volume.
func (v *sealedVolume) isDropped(key object.Key) bool {
	dropped := v.dropped.Load()
	if dropped == nil {
		return false
	}
	_, ok := (*dropped)[key]
	return ok
}

// loadDropped reads the dropped objects of volumes, if the file changed, or of added
// volumes. It returns errors that do not concern the data on disk: dropped objects must
// not come back because of a lack of memory. The caller holds s.refreshing.
func (s *Store) loadDropped(volumes, added []*sealedVolume) error {
	path := s.inVolumes(droppedFile)
	info, err := disk.Stat(path)
	if err := systemError(err); err != nil {
		return err
	}
	if err != nil {
		info = nil // there is no such file, or it is unreadable
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
	if err := systemError(err); err != nil {
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

// markDropped marks objects as dropped, by the number of their volume. The caller holds the gc lock.
func (w *Sweep) markDropped(keys map[int][]object.Key) error {
	var lines []string
	for i, e := range w.volumes {
		if e.gone {
			continue
		}
		for _, key := range keys[i] {
			lines = append(lines, copyLine(e.v.name, key))
		}
		if dropped := e.v.dropped.Load(); dropped != nil {
			for key := range *dropped {
				lines = append(lines, copyLine(e.v.name, key))
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
		_, err = w.store.listVolumes()
	}
	return err
}

// The user can accept the loss of objects, so that history can be followed without them.

// SetLost sets the objects whose loss was accepted.
func (s *Store) SetLost(keys []object.Key) {
	lost := make(map[object.Key]struct{}, len(keys))
	for _, key := range keys {
		lost[key] = struct{}{}
	}
	s.lost.Store(&lost)
}

// accepted returns the objects whose loss was accepted. The caller must not change the map.
func (s *Store) accepted() map[object.Key]struct{} {
	if lost := s.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// Lost returns the objects whose loss was accepted and that are still missing, sorted.
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
