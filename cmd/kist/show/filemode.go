package show

import (
	"cmp"
	"fmt"
	"io/fs"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
)

// OwnerText returns the owner and group of an entry, by name or else by number.
func OwnerText(m *object.Metadata) string {
	return fmt.Sprintf("%s:%s", cmp.Or(m.Owner, fmt.Sprint(m.UID)), cmp.Or(m.Group, fmt.Sprint(m.GID)))
}

// EntryTypes has the types of entries: their names in JSON, their letters in ls -l, and
// their bits in the mode of Unix.
var EntryTypes = map[object.EntryType]struct {
	Name   string
	letter byte
	bits   uint32
}{
	object.TypeFile:        {"file", '-', 0o100000},
	object.TypeDir:         {"dir", 'd', 0o040000},
	object.TypeSymlink:     {"symlink", 'l', 0o120000},
	object.TypeFIFO:        {"fifo", 'p', 0o010000},
	object.TypeCharDevice:  {"char-device", 'c', 0o020000},
	object.TypeBlockDevice: {"block-device", 'b', 0o060000},
	object.TypeSocket:      {"socket", 's', 0o140000},
}

// ModeString returns type and permissions as ls -l shows them.
func ModeString(e object.Entry) string {
	letters := []byte("?" + fs.FileMode(e.Mode & 0o777).String()[1:])
	letters[0] = EntryTypes[e.Type].letter
	for i, bit := range []struct {
		mode        uint16
		with, alone byte
	}{{0o4000, 's', 'S'}, {0o2000, 's', 'S'}, {0o1000, 't', 'T'}} {
		at := 3 * (i + 1)
		switch {
		case e.Mode&bit.mode == 0:
		case letters[at] == 'x':
			letters[at] = bit.with
		default:
			letters[at] = bit.alone
		}
	}
	return string(letters)
}

// Mtime returns a modification time as it is printed, in the zone of the clock.
func Mtime(e *cli.Env, at time.Time, ok bool) string {
	const layout = "2006-01-02 15:04"
	if !ok {
		return "                "[:len(layout)]
	}
	return object.Writable(at.In(e.Now().Location())).Format(layout)
}
