package worktree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// FullMetadata makes [Worktree.Apply] write owners, devices, all permission bits and all
// extended attributes. Without it, Apply writes only metadata that gives a file of a foreign
// commit no further rights: the extended attributes user.*, and the mode within the umask.
//
// If the user has no right to write some metadata, Apply skips it and counts the path in Denied.
type FullMetadata struct {
	NumericIDs bool // keep the numbers of owners even if their names have other numbers here

	// Users and Groups replace owners and groups. The first that matches counts.
	Users, Groups []IDMap

	mu     sync.Mutex
	denied Denied
}

// IDMap replaces a recorded owner.
type IDMap struct {
	From string // the recorded name or decimal number; "*" stands for all
	To   uint32 // the number here
}

// Denied counts the paths whose metadata could not be written.
type Denied struct {
	Owners   int // the owner; then no setuid and setgid bits either
	Xattrs   int // extended attributes
	Specials int // devices, FIFOs and sockets, which are missing
}

// Denied returns the counts so far.
func (m *FullMetadata) Denied() Denied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.denied
}

func (m *FullMetadata) addDenied(d Denied) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.denied.Owners += d.Owners
	m.denied.Xattrs += d.Xattrs
	m.denied.Specials += d.Specials
}

// withoutDenied makes want and have equal in all metadata that this user has no right to write,
// and returns the counts for one path. Root can write everything.
func (m *FullMetadata) withoutDenied(want, have *object.Metadata) (d Denied) {
	user := os.Geteuid()
	if user == 0 {
		return d
	}
	if want.UID != have.UID && want.UID != uint32(user) {
		want.UID, d.Owners = have.UID, 1
	}
	if want.GID != have.GID && !inGroup(want.GID) {
		want.GID, d.Owners = have.GID, 1
	}
	mayWrite := func(name string) bool {
		return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
	}

	for name, value := range want.Xattrs {
		if now, ok := have.Xattrs[name]; !mayWrite(name) && !(ok && bytes.Equal(now, value)) {
			d.Xattrs = 1
			delete(want.Xattrs, name)
		}
	}

	for name := range have.Xattrs {
		if _, ok := want.Xattrs[name]; !ok && !mayWrite(name) {
			delete(have.Xattrs, name)
		}
	}

	return d
}

// inGroup reports whether this process is in a group.
func inGroup(gid uint32) bool {
	groups, err := os.Getgroups()
	return err == nil && (os.Getegid() == int(gid) || slices.Contains(groups, int(gid)))
}

// openPath is an open path. Its properties can be read and set.
type openPath interface {
	io.Closer
	chown(uid, gid uint32) error
	chmod(perm uint32) error
	xattrs(want wantXattr) (map[string][]byte, error)
	setXattr(name string, value []byte) error
	removeXattr(name string) error
}

// selinux is the extended attribute that SELinux sets on all files.
const selinux = "security.selinux"

// isDenied reports whether err means that the user, or the file system, does not allow
// some metadata.
func isDenied(err error) bool {
	switch errnoOf(err) {
	case syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOTSUP, syscall.ENOSYS, syscall.EROFS:
		return true
	}
	return false
}

// restoreMode returns the permission bits that a path with entry e gets.
func (w *applyWorker) restoreMode(e *object.Entry) uint16 {
	mode := e.Mode
	if !w.writesXattr(tree.AccessACL) {
		mode = withoutACL(e)
	}
	if w.o.Metadata != nil && e.Meta != nil {
		return mode
	}
	return w.inherits.newMode(&w.w.opt, mode, e.Type == object.TypeDir)
}

// withoutACL returns the permission bits for a path that does not get its recorded ACL. With one, the
// bits of the group bound the rights of all whom the ACL names. Alone, they would give these to
// the owning group.
func withoutACL(e *object.Entry) uint16 {
	if e.Meta == nil {
		return e.Mode
	}
	acl, err := tree.DecodeACL(e.Meta.Xattrs[tree.AccessACL])
	if err != nil {
		return e.Mode
	}
	return e.Mode & (acl.PermAlone() | ^uint16(0o777))
}

// keepOwner stands for the present owner in chown.
const keepOwner = ^uint32(0)

// setProperties writes owner, extended attributes and permission bits, in this order: a
// new owner clears some of the others. Perm has the present permission bits.
func (w *applyWorker) setProperties(a openPath, e *object.Entry, perm uint16) error {
	mode := w.restoreMode(e)
	if full := w.o.Metadata; full != nil && e.Meta != nil {
		uid, gid := full.localOwner(e.Meta)
		if err := a.chown(uid, gid); isDenied(err) {
			full.addDenied(Denied{Owners: 1})
			mode &^= setID
			_ = a.chown(keepOwner, gid) // a user may choose among its groups
		} else if err != nil {
			return err
		}
		perm = 0o177777 // chown may have cleared some of it
	}
	if e.Meta != nil {
		if err := w.setXattrs(a, e.Meta.Xattrs); err != nil {
			return err
		}
		if w.lostACL {
			mode &= withoutACL(e)
		}
	}
	if perm == mode || e.Type == object.TypeSymlink {
		return nil
	}
	return a.chmod(uint32(mode))
}

// XattrError means that a path was written without an extended attribute, because the file
// system cannot hold it.
type XattrError struct {
	Name string
	Err  error
}

func (e *XattrError) Error() string {
	return "the content was written, but not the extended attribute " + strconv.Quote(e.Name) + ": " + e.Err.Error()
}

func (e *XattrError) Unwrap() error { return e.Err }

// isTooLarge reports whether err means that the file system cannot hold an extended attribute.
// Many file systems have less space for these than for content, or names of fewer bytes.
func isTooLarge(err error) bool {
	switch errnoOf(err) {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.E2BIG, syscall.ERANGE, syscall.ENAMETOOLONG:
		return true
	}
	return false
}

// setXattrs makes the extended attributes equal to want, as far as [applyWorker.writesXattr] allows.
// It sets w.lostXattr if the file system cannot hold one of them, and w.lostACL if the path does not
// get its ACL.
func (w *applyWorker) setXattrs(a openPath, want map[string][]byte) error {
	have, err := a.xattrs(w.w.opt.Xattrs)
	if err != nil {
		return err
	}
	denied := false
	w.lostXattr, w.lostACL = nil, false
	check := func(name string, err error) error {
		w.lostACL = w.lostACL || name == tree.AccessACL && (isDenied(err) || isTooLarge(err))
		switch {
		case isDenied(err):
			denied, err = true, nil
		case isTooLarge(err):
			w.lostXattr, err = &XattrError{name, err}, nil
		}
		return err
	}

	for name := range have {
		if _, wanted := want[name]; !wanted && w.writesXattr(name) && name != selinux {
			if err := check(name, a.removeXattr(name)); err != nil {
				return err
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(want)) {
		value := want[name]
		if now, ok := have[name]; ok && bytes.Equal(now, value) || !w.writesXattr(name) {
			continue
		}
		if err := check(name, a.setXattr(name, value)); err != nil {
			return err
		}
	}

	if full := w.o.Metadata; denied && full != nil {
		full.addDenied(Denied{Xattrs: 1})
	}
	return nil
}

// writesXattr reports whether Apply writes an extended attribute.
func (w *applyWorker) writesXattr(name string) bool {
	return w.w.opt.Xattrs.selects(name) && (w.o.Metadata != nil || strings.HasPrefix(name, "user."))
}

// localOwner returns the numbers of the owner here.
func (m *FullMetadata) localOwner(meta *object.Metadata) (uid, gid uint32) {
	return m.localNumber(m.Users, owners, meta.Owner, meta.UID), m.localNumber(m.Groups, groups, meta.Group, meta.GID)
}

// localNumber returns the number here of a recorded owner.
func (m *FullMetadata) localNumber(maps []IDMap, known *idNames, name string, id uint32) uint32 {
	text := strconv.FormatUint(uint64(id), 10)
	for _, o := range maps {
		if o.From == "*" || o.From == text || o.From == name && name != "" {
			return o.To
		}
	}

	if m.NumericIDs {
		return id
	}
	return known.localID(name, id)
}

// timeOf returns the time that the path with entry e gets. It reports false if the path keeps
// the time of writing.
func (w *applyWorker) timeOf(e *object.Entry) (time.Time, bool) {
	at, ok := e.Modified()
	return at, ok && (w.o.RestoreTimes || e.Meta != nil)
}

// writeSpecial makes a FIFO, a socket or a device.
func (w *applyWorker) writeSpecial(_ context.Context, at tempFile, i int) (file, error) {
	e := w.ops[i].New
	kind, device := uint32(modeFIFO), uint64(0)
	switch e.Type {
	case object.TypeSocket:
		kind = modeSocket
	case object.TypeCharDevice, object.TypeBlockDevice:
		if w.o.Metadata == nil || e.Meta == nil {
			return nil, ErrSpecial
		}
		if kind, device = modeChar, e.Meta.Device; e.Type == object.TypeBlockDevice {
			kind = modeBlock
		}
	}

	if err := at.dir.mknod(at.name, kind|0o600, device); err != nil {
		return nil, err
	}
	if err := w.setNamed(at, e); err != nil {
		at.removeTemp()
		return nil, err
	}
	return nil, nil
}

// setNamed writes the metadata of a staged path that cannot be opened as a file.
func (w *applyWorker) setNamed(at tempFile, e *object.Entry) error {
	if e.Meta != nil || e.Type != object.TypeSymlink {
		a, err := at.dir.pin(at.name)
		if err != nil {
			return err
		}
		defer a.Close()
		if err := w.setProperties(a, e, 0o177777); err != nil {
			return err
		}
	}
	if when, ok := w.timeOf(e); ok {
		return at.dir.chtimes(at.name, when)
	}
	return nil
}

// deniedSpecial reports whether err means that the user may not make a special file.
func (w *applyWorker) deniedSpecial(e *object.Entry, err error) bool {
	full := w.o.Metadata
	special := e.Type != object.TypeFile && e.Type != object.TypeSymlink
	if full == nil || !special || !isDenied(err) {
		return false
	}
	full.addDenied(Denied{Specials: 1})
	return true
}

// findLinks sets a.links: the paths that become hard links to the file of an earlier operation.
func (a *applier) findLinks() {
	first := map[uint64]int{} // by hard-link group
	for i := range a.ops {
		e := a.ops[i].New
		if e == nil || e.Meta == nil || e.Meta.HardLink == 0 || e.Type == object.TypeDir {
			continue
		}
		at, ok := first[e.Meta.HardLink]
		if !ok {
			first[e.Meta.HardLink] = i
		} else if lead := *a.ops[at].New; lead.MTime == e.MTime {
			lead.Attrs = e.Attrs // each name has its own
			if !tree.ContentEqual(&lead, e) {
				continue
			}
			a.links[a.ops[i].Path] = at
		}
	}
}

// makeHardLinks makes the other names of files.
func (a *applier) makeHardLinks(ctx context.Context) {
	if len(a.links) == 0 {
		return
	}
	groups := a.ops.groupByFolder(func(op *Op) bool { _, ok := a.links[op.Path]; return ok && op.New != nil })
	a.eachOp(ctx, groups, makeMissing, func(w *applyWorker, d folder, name string, i int) error {
		err := w.linkTo(d, name, i, a.links[w.ops[i].Path])
		if err != nil {
			err = w.makeEntry(ctx, d, name, i) // the file system may not allow another link
		}
		if err == nil {
			a.removeSources(ctx, w.ops[i].Path)
		}
		return err
	})
}

var errNoLink = errors.New("no file to link to")

// linkTo makes the path of operation i another name of the file that operation lead made.
func (w *applyWorker) linkTo(d folder, name string, i, lead int) error {
	if w.state[lead] != opDone {
		return errNoLink
	}
	dir, from := tree.Split(w.ops[lead].Path)
	source, err := w.w.openFolder(dir)
	if err != nil {
		return err
	}
	defer source.Close()

	at := (*tempFolder)(nil).newPlace(d)
	if err := source.link(from, d, at.name); err != nil {
		return err
	}
	defer at.removeTemp() // rename does nothing if the name is a link to the file already

	st, err := w.placeStaged(at, nil, d, name)
	if err != nil {
		return err
	}
	w.markDone(i, st)
	w.meter.addProgress(w.o.Progress, 1, int64(w.ops[i].New.Size))
	return nil
}

// makeEntry makes a file, symlink or special file.
func (w *applyWorker) makeEntry(ctx context.Context, d folder, name string, i int) error {
	e := w.ops[i].New
	switch e.Type {
	case object.TypeFile:
		if w.placeEarly(ctx, d, name, i) {
			return nil
		}
		return w.placeFile(ctx, d, name, i, w.writeFile)
	case object.TypeSymlink:
		return w.placeFile(ctx, d, name, i, w.writeLink)
	}

	err := w.placeFile(ctx, d, name, i, w.writeSpecial)
	if w.deniedSpecial(e, err) {
		return nil
	}
	return err
}

// comparablePart returns the part of m that Apply writes, and can compare.
func (w *applyWorker) comparablePart(m *object.Metadata) *object.Metadata {
	c := &object.Metadata{Xattrs: maps.Clone(m.Xattrs)}
	maps.DeleteFunc(c.Xattrs, func(name string, _ []byte) bool { return !w.writesXattr(name) })
	if w.o.Metadata != nil {
		c.UID, c.GID, c.Device = m.UID, m.GID, m.Device
	}
	return c
}
