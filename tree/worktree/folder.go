package worktree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// folder is an open directory. Names are single path components. No method
// leaves the directory or follows a symlink.
type folder interface {
	folderReader
	folderWriter
	io.Closer
}

// folderReader looks at the names in a directory.
type folderReader interface {
	// readNames fills l with all names except "." and "..", in no order.
	readNames(l *listing) error
	// lstat describes a name; "" is the folder itself. lstatListed describes name i of a listing
	// of this folder.
	lstat(name string) (fileStat, error)
	lstatListed(l *listing, i int) (fileStat, error)
	// open opens a regular file for reading. It never waits for a FIFO.
	open(name string) (file, error)
	readlink(name string) (string, error)
	// openSub opens a directory in this one. The error is ENOTDIR or ELOOP if the
	// name is something else.
	openSub(name string) (folder, error)
	// xattrs returns the extended attributes of a name that want selects; "" is the folder itself.
	xattrs(name string, want wantXattr) (map[string][]byte, error)
}

// folderWriter changes a directory.
type folderWriter interface {
	// create makes a file that must not exist, for writing.
	create(name string, perm uint32) (file, error)
	// rename moves a name of this folder to a name of another, replacing a
	// file or symlink there.
	rename(name string, to folder, newName string) error
	// renameNew is rename if the new name is free. Otherwise the error is EEXIST.
	renameNew(name string, to folder, newName string) error
	mkdir(name string, perm uint32) error
	symlink(target, name string) error
	mknod(name string, mode uint32, device uint64) error // a FIFO, a socket or a device
	// link makes a name of another folder for a file of this one, which must not be a folder.
	link(name string, to folder, newName string) error
	// pin opens any name, or the folder itself, for its properties alone.
	pin(name string) (openPath, error)
	unlink(name string) error // not a directory
	rmdir(name string) error  // an empty directory
	chmodSelf(perm uint32) error
	chtimes(name string, mtime time.Time) error // "" is the folder itself
}

// file is an open regular file.
type file interface {
	io.Reader
	io.ReaderAt
	io.WriterAt
	openPath
	stat() (fileStat, error)
	rewind() error
	// contentReader returns a reader for large files, which does not read holes from disk. It is
	// for a file that was just opened or rewound, and the last reader until rewind.
	contentReader() io.Reader
	truncate(size int64) error
	chtimes(mtime time.Time) error

	// otherWriters finds out whether another process has the file mapped or open
	// for writing.
	otherWriters() writers

	// isOpenOnce reports that no other process has the file open. It is for a file that this
	// process has made and opened once. False means that others may have it open.
	isOpenOnce() bool

	// cleanPages writes the file's dirty pages to disk, so that a later change
	// through a mapping gives the file a new time. It reports false if a page
	// may stay dirty.
	cleanPages() bool
}

// writers classifies a file: another process may be changing it, or not. A mapped file
// gets a new time only when a clean page becomes dirty. Later changes of that page
// do not change the time.
type writers uint8

const (
	writersUnknown writers = iota // the system cannot find out
	writersNone                   // any later change gives the file a new time
	writersSome                   // a change may leave the times as they are
)

// opener is a file system: osFS for a real folder, pathFS for any other.
type opener interface {
	// openFolder opens a directory by its path below the root, following no
	// symlink in any component.
	openFolder(path string) (folder, error)
}

// fileStat is the result of lstat. A file can claim any mtime, even one that
// does not fit into nanoseconds. The ctime comes from the system's clock.
type fileStat struct {
	dev, ino uint64
	size     int64
	mode     uint32 // type and permission bits, as in stat(2)
	mtime    object.Time
	ctime    int64 // nanoseconds since 1970
	nlink    uint64
	uid, gid uint32
	rdev     uint64 // device number of a device
}

// The type bits of a mode, as in stat(2) on every Unix.
const (
	modeType    = 0o170000
	modeFIFO    = 0o010000
	modeChar    = 0o020000
	modeDir     = 0o040000
	modeBlock   = 0o060000
	modeRegular = 0o100000
	modeLink    = 0o120000
	modeSocket  = 0o140000
)

func (s *fileStat) isDir() bool     { return s.mode&modeType == modeDir }
func (s *fileStat) isRegular() bool { return s.mode&modeType == modeRegular }

// perm returns the permission bits that an entry records.
func (s *fileStat) perm() uint16 { return uint16(s.mode & 0o7777) }

// entryType returns the entry type of the mode, or 0 if no type fits.
func (s *fileStat) entryType() object.EntryType {
	switch s.mode & modeType {
	case modeRegular:
		return object.TypeFile
	case modeDir:
		return object.TypeDir
	case modeLink:
		return object.TypeSymlink
	case modeFIFO:
		return object.TypeFIFO
	case modeChar:
		return object.TypeCharDevice
	case modeBlock:
		return object.TypeBlockDevice
	case modeSocket:
		return object.TypeSocket
	}

	return 0
}

func (s *fileStat) indexStat(readAt int64) index.Stat {
	return index.Stat{Size: s.size, MTime: nanoseconds(s.mtime), CTime: s.ctime, Inode: s.ino, Mode: s.mode, ReadAt: readAt}
}

// nanoseconds returns the nanoseconds since 1970, modulo 2^64. This is enough
// to see a change. An entry's time keeps seconds and nanoseconds apart.
func nanoseconds(t object.Time) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// looksUnchanged reports whether nothing shows that a file changed between two looks at
// it. A file system without inodes has no times that could be relied on.
func (s *fileStat) looksUnchanged(o *fileStat) bool {
	if s.ino == 0 && o.ino == 0 {
		return s.size == o.size && s.mode == o.mode
	}
	return *s == *o
}

// modeBits converts a mode of package fs to a mode of stat(2).
func modeBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	switch {
	case m&fs.ModeDir != 0:
		bits |= modeDir
	case m&fs.ModeSymlink != 0:
		bits |= modeLink
	case m&fs.ModeNamedPipe != 0:
		bits |= modeFIFO
	case m&fs.ModeSocket != 0:
		bits |= modeSocket
	case m&fs.ModeCharDevice != 0:
		bits |= modeChar
	case m&fs.ModeDevice != 0:
		bits |= modeBlock
	default:
		bits |= modeRegular
	}

	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}

	return bits
}

// fileMode is the reverse of modeBits, for permission bits.
func fileMode(perm uint32) fs.FileMode {
	m := fs.FileMode(perm & 0o777)
	if perm&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if perm&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if perm&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// listing holds the names of a directory. It is reused for many directories.
type listing struct {
	names   []byte // each name followed by a zero byte
	entries []listedName
	scratch []byte // for reading directories
}

// listedName is one name of a listing.
type listedName struct {
	off  uint32
	size uint16
	kind uint32 // the type bits of its mode, or 0 if they are not known
	key  uint64 // for sort
}

func (l *listing) reset() { l.names, l.entries = l.names[:0], l.entries[:0] }

// nameAt returns the i-th name. It shares memory with the listing and is valid
// until the next reset.
func (l *listing) nameAt(i int) string {
	e := l.entries[i]
	return unsafe.String(&l.names[e.off], int(e.size))
}

func (l *listing) addName(name string, kind uint32) { addListed(l, name, kind) }

// addListed adds a name and the type bits of its mode.
func addListed[T string | []byte](l *listing, name T, kind uint32) {
	l.entries = append(l.entries, listedName{off: uint32(len(l.names)), size: uint16(len(name)), kind: kind})
	l.names = append(append(l.names, name...), 0)
}

// sortNames sorts the names by their bytes. Names in a directory often begin alike.
// So sortNames compares the eight bytes after the common prefix as a number, and
// the rest only if these are equal.
func (l *listing) sortNames() {
	if len(l.entries) < 2 {
		return
	}

	first := l.nameAt(0)
	common := len(first)
	for i := range l.entries {
		name := l.nameAt(i)
		common = min(common, len(name))
		for name[:common] != first[:common] {
			common--
		}
	}

	for i := range l.entries {
		var key [8]byte
		copy(key[:], l.nameAt(i)[common:])
		l.entries[i].key = binary.BigEndian.Uint64(key[:])
	}

	slices.SortFunc(l.entries, func(a, b listedName) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return bytes.Compare(l.names[a.off:][:a.size], l.names[b.off:][:b.size])
	})
}

// errnoOf returns the error number that err wraps, or 0.
func errnoOf(err error) syscall.Errno {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}

// notFolder reports whether err means that a component of a path is no real
// folder.
func notFolder(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTDIR || errno == syscall.ELOOP
}

// notEmpty reports whether err means that a folder is not empty.
func notEmpty(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTEMPTY || errno == syscall.EEXIST
}

// isFatal reports whether err will also stop all later operations. An object
// that cannot be read only stops the paths that need it. An attribute stops nothing.
func isFatal(err error) bool {
	var xattr *XattrError
	if errors.As(err, &xattr) || object.IsUnreadable(err) {
		return false
	}
	switch errnoOf(err) {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Info describes a path of the worktree.
type Info struct {
	Type object.EntryType
	Mode uint16     // permission bits
	Stat index.Stat // ReadAt is zero
}

// Lstat describes a path and does not follow symlinks. The error is
// [fs.ErrNotExist] if the path is absent or a component above it is no folder.
func (w *Worktree) Lstat(path string) (Info, error) {
	var info Info
	err := w.withParent("lstat", path, func(d folder, name string) error {
		st, err := d.lstat(name)
		info = Info{Type: st.entryType(), Mode: st.perm(), Stat: st.indexStat(0)}
		return err
	})
	if notFolder(err) {
		err = pathError("lstat", path, fs.ErrNotExist)
	}

	return info, err
}

// Open opens the file at path for reading. The error is [ErrSpecial] if it is
// no regular file.
func (w *Worktree) Open(path string) (io.ReadCloser, error) {
	o := w.Opener()
	defer o.Close()
	return o.Open(path)
}

// openRegular opens a regular file in d for reading.
func openRegular(d folder, name string) (file, error) {
	st, err := d.lstat(name)
	if err == nil && !st.isRegular() {
		err = ErrSpecial
	}
	if err != nil {
		return nil, err
	}
	return d.open(name)
}

// Opener opens files as [Worktree.Open] does. It is quicker for many files of a folder, because
// it keeps the last folder open. The caller calls Close after the last Open. An Opener is safe
// for concurrent use.
type Opener struct {
	w *Worktree

	mu   sync.RWMutex // guards the following
	path string       // of dir
	dir  folder       // nil: none is open
}

// Opener returns an Opener of files in w.
func (w *Worktree) Opener() *Opener { return &Opener{w: w} }

// Open is [Worktree.Open].
func (o *Opener) Open(path string) (io.ReadCloser, error) {
	clean, err := cleanPath(path)
	if err != nil {
		return nil, err
	}
	dir, name := tree.Split(clean)
	o.mu.RLock()
	for o.dir == nil || o.path != dir {
		o.mu.RUnlock()
		if err := o.enterFolder(dir); err != nil {
			return nil, pathError("open", path, err)
		}
		o.mu.RLock()
	}
	defer o.mu.RUnlock()
	f, err := openRegular(o.dir, name)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return f, nil
}

// enterFolder opens another folder.
func (o *Opener) enterFolder(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, err := o.w.openFolder(dir)
	if err != nil {
		return err
	}
	o.close()
	o.path, o.dir = dir, d
	return nil
}

// Close closes the open folder.
func (o *Opener) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close()
}

func (o *Opener) close() {
	if o.dir != nil {
		o.dir.Close()
		o.dir = nil
	}
}

// Rename moves a path and replaces a file or symlink at the new path. The new
// parent folder must exist.
func (w *Worktree) Rename(from, to string) error {
	for _, path := range []string{from, to} {
		if err := w.MayWrite(path); err != nil {
			return pathError("rename", path, err)
		}
	}
	return w.withParent("rename", from, func(d folder, name string) error {
		return w.withParent("rename", to, func(dst folder, newName string) error { return d.rename(name, dst, newName) })
	})
}

// Exists reports whether path exists, even if it is a dangling symlink.
func (w *Worktree) Exists(path string) bool {
	_, err := w.Lstat(path)
	return err == nil
}

// IsDir reports whether path is a folder.
func (w *Worktree) IsDir(path string) bool {
	info, err := w.Lstat(path)
	return err == nil && info.Type == object.TypeDir
}

// withParent calls do with the parent folder of a path and its last name, which is ""
// for the root.
func (w *Worktree) withParent(op, path string, do func(d folder, name string) error) error {
	clean, err := cleanPath(path)
	if err != nil {
		return err
	}

	dir, name := tree.Split(clean)
	d, err := w.openFolder(dir)
	if err != nil {
		return pathError(op, path, err)
	}
	defer d.Close()

	if err := do(d, name); err != nil {
		return pathError(op, path, err)
	}

	return nil
}
