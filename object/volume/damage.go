package volume

import (
	"bufio"
	"fmt"
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
