package volume

import (
	"math"
	"os"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

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
