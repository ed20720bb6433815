package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os/user"
	"strconv"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// ErrManyXattrs means that an entry cannot hold the extended attributes of a path.
var ErrManyXattrs = errors.New("its extended attributes take more than 64 KiB")

// entryOverhead is at least the size of an encoded entry without its name, target,
// content and metadata.
const entryOverhead = 128

// describe adds to e the metadata of the path with stat data st, if the worktree records it.
// Known is the present entry in the index; it may be nil. xattrs reads the extended attributes.
func (w *Worktree) describe(e *object.Entry, st *fileStat, known *index.Entry, xattrs func() (map[string][]byte, error)) error {
	if !w.opt.Metadata {
		return nil
	}
	e.MTime = st.mtime
	if known != nil && known.Meta != "" && known.Type == e.Type && known.Stat.Same(st.indexStat(0)) {
		// Checkout does not write all metadata. The rest stays recorded.
		e.Mode, e.Meta = known.Mode, known.Metadata()
		return nil
	}

	if e.Type != object.TypeSymlink {
		e.Mode = st.perm()
	}
	m := &object.Metadata{UID: st.uid, GID: st.gid, Owner: owners.name(st.uid), Group: groups.name(st.gid)}
	if e.Type == object.TypeCharDevice || e.Type == object.TypeBlockDevice {
		m.Device = st.rdev
	}
	if e.Type != object.TypeDir && st.nlink > 1 {
		m.HardLink = 1 // the caller chooses the group
		if known != nil && known.Meta != "" && known.Metadata().HardLink != 0 {
			m.HardLink = known.Metadata().HardLink
		}
	}

	var err error
	if m.Xattrs, err = xattrs(); err != nil {
		return err
	}
	size := entryOverhead + len(e.Name) + len(e.Target) + len(m.Owner) + len(m.Group)
	for name, value := range m.Xattrs {
		size += len(name) + len(value) + 8
	}
	if size > object.MaxEntrySize || len(m.Xattrs) > object.MaxListItems {
		return ErrManyXattrs
	}
	e.Meta = m
	return nil
}

// describeDir returns the attributes of a folder that its entry records.
func (w *Worktree) describeDir(d folder, name string, st *fileStat, known *index.Dir) (object.Entry, error) {
	e := object.Entry{Name: name, Type: object.TypeDir, Mode: st.perm()}
	err := w.describe(&e, st, nil, func() (map[string][]byte, error) { return d.xattrs(name) })
	if known == nil {
		return e, err
	}
	was := known.Attributes()
	if e.Meta == nil || was.Meta == nil {
		e.Mode = w.opt.recorded(e.Mode, was.Mode)
		return e, err
	}
	e.Meta.Attrs = was.Meta.Attrs
	return e, err
}

// linked reports whether e is one of several names of a file.
func linked(e *object.Entry) bool { return e.Meta != nil && e.Meta.HardLink != 0 }

// HardLinkGroup returns the number of the hard-link group whose first name is path.
func HardLinkGroup(path string) uint64 {
	sum := sha256.Sum256([]byte(path))
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// names caches the names and numbers of users or groups.
type names struct {
	mu     sync.Mutex
	known  map[uint32]string
	lookup func(id string) (string, error)
	ids    map[string]uint32 // by name
	find   func(name string) (id string, err error)
}

var (
	owners = &names{known: map[uint32]string{}, lookup: func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	}, ids: map[string]uint32{}, find: func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	}}
	groups = &names{known: map[uint32]string{}, lookup: func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	}, ids: map[string]uint32{}, find: func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	}}
)

// name returns the name of an id, or "" if it has none that an entry can hold.
func (n *names) name(id uint32) string {
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

// id returns the number that a name has here, or otherwise.
func (n *names) id(name string, otherwise uint32) uint32 {
	if name == "" {
		return otherwise
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.ids[name]
	if ok {
		return id
	}
	text, err := n.find(name)
	number, bad := strconv.ParseUint(text, 10, 32)
	if err != nil || bad != nil {
		return otherwise
	}
	n.ids[name] = uint32(number)
	return uint32(number)
}
