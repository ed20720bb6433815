package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// LeftXattrsError names the extended attributes of a path that its entry lacks, because it
// cannot hold them. The entry is complete in everything else.
type LeftXattrsError struct{ Names []string }

func (e *LeftXattrsError) Error() string {
	names := make([]string, len(e.Names))
	for i, name := range e.Names {
		names[i] = strconv.Quote(name)
	}
	return "stored without extended attributes, which take more than 64 KiB: " + strings.Join(names, ", ")
}

// joinLeft returns the first error that is no [*LeftXattrsError]. Otherwise it returns one
// error with the names of all.
func joinLeft(errs ...error) error {
	all := &LeftXattrsError{}
	for _, err := range errs {
		var left *LeftXattrsError
		if err != nil && !errors.As(err, &left) {
			return err
		}
		if left != nil {
			all.Names = append(all.Names, left.Names...)
		}
	}

	if len(all.Names) == 0 {
		return nil
	}
	slices.Sort(all.Names)
	return all
}

// splitLeft returns a [*LeftXattrsError] apart from other errors.
func splitLeft(err error) (left, rest error) {
	var xattrs *LeftXattrsError
	if errors.As(err, &xattrs) {
		return xattrs, nil
	}
	return nil, err
}

// entryOverhead is at least the size of an encoded entry without its name, target,
// content and metadata.
const entryOverhead = 128

// Unrecorded counts files whose entries lack metadata, because the worktree does not
// record it.
type Unrecorded struct {
	Owners    atomic.Int64 // files of other users
	HardLinks atomic.Int64 // names of files with several names
	Xattrs    atomic.Int64 // files with extended attributes
}

// CountUnrecorded returns counters for the files that are stored from now on. Call it
// before other methods.
func (w *Worktree) CountUnrecorded() *Unrecorded {
	w.unrecorded = &Unrecorded{}
	return w.unrecorded
}

// countFile counts a file. Labels of SELinux do not count: the system sets them on all files.
func (u *Unrecorded) countFile(st *fileStat, xattrs func() (map[string][]byte, error)) error {
	if st.uid != uint32(os.Geteuid()) {
		u.Owners.Add(1)
	}
	if st.nlink > 1 {
		u.HardLinks.Add(1)
	}
	have, err := xattrs()
	left, err := splitLeft(err)
	delete(have, selinux)
	if len(have) > 0 || left != nil {
		u.Xattrs.Add(1)
		return nil
	}
	return err
}

// addProperties adds to e the metadata of the path with stat data st, if the worktree records it,
// and the attributes of known: the present entry in the index, which may be nil. xattrs reads
// the extended attributes. After a [*LeftXattrsError], e has the other properties.
func (w *Worktree) addProperties(e *object.Entry, st *fileStat, known *index.Entry, xattrs func(wantXattr) (map[string][]byte, error)) error {
	var attrs map[string]string
	if known != nil {
		attrs = known.Attrs()
	}
	return joinLeft(w.addMetadata(e, st, known, xattrs), setAttrs(e, attrs))
}

// addMetadata is describe without the attributes.
func (w *Worktree) addMetadata(e *object.Entry, st *fileStat, known *index.Entry, xattrs func(wantXattr) (map[string][]byte, error)) error {
	if !w.opt.Metadata {
		if w.unrecorded != nil && e.Type != object.TypeDir {
			return w.unrecorded.countFile(st, func() (map[string][]byte, error) { return xattrs(w.opt.Xattrs) })
		}
		return nil
	}
	e.MTime = st.mtime
	if known != nil && known.HasMetadata() && known.Type == e.Type && known.Stat.Same(st.indexStat(0)) {
		// Checkout does not write all metadata. The rest stays recorded.
		e.Mode, e.Meta = known.Mode, known.Metadata()
		return nil
	}

	if e.Type != object.TypeSymlink {
		e.Mode = w.opt.findPerm(st, xattrs).alone
	}
	m := &object.Metadata{UID: st.uid, GID: st.gid, Owner: owners.nameOf(st.uid), Group: groups.nameOf(st.gid)}
	if e.Type == object.TypeCharDevice || e.Type == object.TypeBlockDevice {
		m.Device = st.rdev
	}
	if e.Type != object.TypeDir && st.nlink > 1 {
		m.HardLink = 1 // the caller chooses the group
		if known != nil && known.HasMetadata() && known.Metadata().HardLink != 0 {
			m.HardLink = known.Metadata().HardLink
		}
	}

	var err error
	m.Xattrs, err = xattrs(w.opt.Xattrs)
	left, err := splitLeft(err)
	if err != nil {
		return err
	}
	e.Meta = m
	if left != nil {
		return left
	}
	return nil
}

// setAttrs gives e attributes. If an entry cannot hold them with the extended attributes, it
// removes the largest of these, and returns a [*LeftXattrsError].
func setAttrs(e *object.Entry, attrs map[string]string) error {
	e.SetAttrs(attrs)
	if e.Meta == nil {
		return nil
	}

	left := &LeftXattrsError{}
	for size := entrySize(e); size > object.MaxEntrySize || len(e.Meta.Xattrs) > object.MaxListItems; size = entrySize(e) {
		largest, length := "", -1
		for name, value := range e.Meta.Xattrs {
			if n := len(name) + len(value); n > length || n == length && name > largest {
				largest, length = name, n
			}
		}
		if length < 0 {
			break
		}
		delete(e.Meta.Xattrs, largest)
		left.Names = append(left.Names, largest)
	}

	return joinLeft(left)
}

// entrySize returns at least the size of the encoding of e, which has metadata.
func entrySize(e *object.Entry) int {
	size := entryOverhead + len(e.Name) + len(e.Target) + len(e.Meta.Owner) + len(e.Meta.Group)
	for name, value := range e.Meta.Xattrs {
		size += len(name) + len(value) + 8
	}
	for key, value := range e.Attrs {
		size += len(key) + len(value) + 8
	}
	return size
}

// describeDir returns the properties of a folder that its entry records.
func (w *Worktree) describeDir(d folder, name string, st *fileStat, known *index.Dir) (object.Entry, error) {
	xattrs := func(want wantXattr) (map[string][]byte, error) { return d.xattrs(name, want) }
	found := w.opt.findPerm(st, xattrs)
	e := object.Entry{Name: name, Type: object.TypeDir, Mode: found.alone}
	err := w.addProperties(&e, st, nil, xattrs)
	if known == nil {
		return e, err
	}
	was := known.Properties()
	if e.Meta == nil || was.Meta == nil {
		e.Mode = w.opt.modeToRecord(d, found, was.Mode, true)
	}
	err = joinLeft(err, setAttrs(&e, was.Attrs))
	return e, err
}

// isHardLink reports whether e is one of several names of a file.
func isHardLink(e *object.Entry) bool { return e.Meta != nil && e.Meta.HardLink != 0 }

// HardLinkGroup returns the number of the hard-link group whose first name is path.
func HardLinkGroup(path string) uint64 {
	sum := sha256.Sum256([]byte(path))
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// idNames caches the names and numbers of users or groups.
type idNames struct {
	lookup func(id string) (name string, err error)
	find   func(name string) (id string, err error)

	mu    sync.Mutex
	known map[uint32]string
	ids   map[string]uint32 // by name
}

var (
	owners = newNames(
		lookupField(user.LookupId, func(u *user.User) string { return u.Username }),
		lookupField(user.Lookup, func(u *user.User) string { return u.Uid }))
	groups = newNames(
		lookupField(user.LookupGroupId, func(g *user.Group) string { return g.Name }),
		lookupField(user.LookupGroup, func(g *user.Group) string { return g.Gid }))
)

func newNames(lookup, find func(string) (string, error)) *idNames {
	return &idNames{lookup: lookup, find: find, known: map[uint32]string{}, ids: map[string]uint32{}}
}

// lookupField returns a lookup for one field of the result of look.
func lookupField[T any](look func(string) (*T, error), get func(*T) string) func(string) (string, error) {
	return func(key string) (string, error) {
		found, err := look(key)
		if err != nil {
			return "", err
		}
		return get(found), nil
	}
}

// nameOf returns the name of an id, or "" if it has none that an entry can hold.
func (n *idNames) nameOf(id uint32) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.known[id]
	if !ok {
		name, _ = n.lookup(strconv.FormatUint(uint64(id), 10)) // a number without a name has none
		if len(name) > object.MaxNameSize {
			name = ""
		}
		n.known[id] = name
	}
	return name
}

// UserID returns the number of a user, given as a name or as a decimal number.
func UserID(user string) (uint32, error) { return owners.parseID(user) }

// GroupID is [UserID] for a group.
func GroupID(group string) (uint32, error) { return groups.parseID(group) }

// parseID returns the number of a name, or of a decimal number.
func (n *idNames) parseID(text string) (uint32, error) {
	if id, err := n.find(text); err == nil {
		text = id
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, errors.New("unknown name")
	}
	return uint32(id), nil
}

// localID returns the number of a name on this system, or fallback if the system has no such name.
func (n *idNames) localID(name string, fallback uint32) uint32 {
	if name == "" {
		return fallback
	}
	n.mu.Lock()
	defer n.mu.Unlock()

	if id, ok := n.ids[name]; ok {
		return id
	}

	text, err := n.find(name)
	number, bad := strconv.ParseUint(text, 10, 32)
	if err != nil || bad != nil {
		return fallback
	}
	n.ids[name] = uint32(number)
	return uint32(number)
}
