package mount

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/browse"
)

// fileSystem answers the requests of the system. It has an inode for each node that the
// system knows, and a handle for each open file and folder.
type fileSystem struct {
	fuse.RawFileSystem
	seed     maphash.Seed
	owner    fuse.Owner // of nodes without a recorded owner
	began    time.Time  // the time of nodes without a recorded time
	words    func(error) string
	warnings warnings

	mu      sync.Mutex // guards the following
	inodes  map[uint64]*inode
	handles map[uint64]any // *browse.FileReader or *listing
	last    uint64         // handle
}

// inode is a node that the system knows.
type inode struct {
	*browse.Node
	parent uint64
	known  uint64 // how often it was given to the system
}

// The times for which the system may remember names and properties. Within commits nothing
// changes. The memory is the system's, which frees it when it needs it.
const (
	fixedTime   = 24 * time.Hour
	changesTime = time.Second
)

func newFileSystem(root *browse.Node, o Options) *fileSystem {
	return &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		seed:          maphash.MakeSeed(),
		owner:         fuse.Owner{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())},
		began:         time.Now(),
		words:         o.Words,
		warnings:      warnings{warn: o.Warn, seen: map[string]bool{}},
		inodes:        map[uint64]*inode{fuse.FUSE_ROOT_ID: {Node: root, known: 1}},
		handles:       map[uint64]any{},
	}
}

func (s *fileSystem) String() string { return "kist" }

// findInode returns the inode with a number. The system asks only for inodes that it knows.
func (s *fileSystem) findInode(id uint64) *inode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inodes[id]
}

// enterNode gives a node to the system, as an entry of the folder with the number parent. The
// same node gets the same number as long as the system knows it.
func (s *fileSystem) enterNode(parent uint64, n *browse.Node) (id uint64) {
	id = s.inodeNumber(parent, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; ; id++ {
		in := s.inodes[id]
		if in == nil {
			s.inodes[id] = &inode{n, parent, 1}
			return id
		}
		if in.parent == parent && in.Name == n.Name && in.Content == n.Content && in.Commit == n.Commit {
			in.known++
			return id
		}
	}
}

// inodeNumber returns the number at which enterNode first looks for the inode of a node. A partial node
// has the same number. The seed is
// random, so an attacker cannot choose names with equal numbers.
func (s *fileSystem) inodeNumber(parent uint64, n *browse.Node) uint64 {
	type identity struct {
		parent  uint64
		name    string
		content object.ID
		commit  object.ID
	}
	return maphash.Comparable(s.seed, identity{parent, n.Name, tree.ContentID(&n.Entry), n.Commit}) | 2 // not 0, not that of the root
}

// Forget implements [fuse.RawFileSystem].
func (s *fileSystem) Forget(id, times uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.inodes[id]; in != nil && id != fuse.FUSE_ROOT_ID {
		if in.known -= min(times, in.known); in.known == 0 {
			delete(s.inodes, id)
		}
	}
}

// maxName is the length of the longest name in a commit, in bytes. The name of a version is
// longer by its number.
const maxName = 255

// Lookup implements [fuse.RawFileSystem].
func (s *fileSystem) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir := s.findInode(header.NodeId)
	if dir == nil {
		return fuse.ENOENT
	}
	ctx, done := newRequest(cancel)
	defer done()
	n, err := dir.Lookup(ctx, name)
	if errors.Is(err, tree.ErrNotExist) && len(name) > maxName {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	if errors.Is(err, tree.ErrNotExist) && dir.Fixed() {
		out.SetEntryTimeout(fixedTime) // there is none, and never will be
		return fuse.OK
	}
	if err != nil {
		return s.statusOf(name, err)
	}
	s.fillEntry(out, header.NodeId, dir.Node, n)
	return fuse.OK
}

// fillEntry enters n and describes it.
func (s *fileSystem) fillEntry(out *fuse.EntryOut, parent uint64, dir, n *browse.Node) {
	out.NodeId = s.enterNode(parent, n)
	out.SetEntryTimeout(changesTime)
	if dir.Fixed() {
		out.SetEntryTimeout(fixedTime)
	}
	out.SetAttrTimeout(attrTime(n))
	s.attrOf(&out.Attr, out.NodeId, n)
}

func attrTime(n *browse.Node) time.Duration {
	if n.Commit.IsZero() {
		return changesTime
	}
	return fixedTime
}

// GetAttr implements [fuse.RawFileSystem].
func (s *fileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := s.findInode(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	out.SetTimeout(attrTime(n.Node))
	s.attrOf(&out.Attr, in.NodeId, n.Node)
	return fuse.OK
}

// modes are the types of entries.
var modes = map[object.EntryType]uint32{
	object.TypeFile: syscall.S_IFREG, object.TypeDir: syscall.S_IFDIR, object.TypeSymlink: syscall.S_IFLNK,
	object.TypeFIFO: syscall.S_IFIFO, object.TypeSocket: syscall.S_IFSOCK,
	object.TypeCharDevice: syscall.S_IFCHR, object.TypeBlockDevice: syscall.S_IFBLK,
}

const blockSize = 512

// attrOf describes a node.
func (s *fileSystem) attrOf(out *fuse.Attr, id uint64, n *browse.Node) {
	when, ok := n.Modified()
	if !ok {
		when = s.began
	}
	out.Ino, out.Mode, out.Nlink, out.Owner = id, modes[n.Type]|uint32(n.Mode), 1, s.owner
	out.SetTimes(&when, &when, &when)
	switch n.Type {
	case object.TypeFile:
		out.Size = n.Size
		out.Blocks = (n.Size + blockSize - 1) / blockSize
	case object.TypeSymlink:
		out.Size = uint64(len(n.Target))
		out.Mode |= 0o777
	}
	if n.Meta != nil {
		out.Owner = fuse.Owner{Uid: n.Meta.UID, Gid: n.Meta.GID}
		out.Rdev = uint32(n.Meta.Device)
	}
}

// Readlink implements [fuse.RawFileSystem].
func (s *fileSystem) Readlink(_ <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	n := s.findInode(header.NodeId)
	if n == nil || n.Type != object.TypeSymlink {
		return nil, fuse.EINVAL
	}
	return []byte(n.Target), fuse.OK
}

// GetXAttr implements [fuse.RawFileSystem].
func (s *fileSystem) GetXAttr(_ <-chan struct{}, header *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	n := s.findInode(header.NodeId)
	if n == nil || n.Meta == nil {
		return 0, fuse.ENOATTR
	}
	value, ok := n.Meta.Xattrs[name]
	if !ok {
		return 0, fuse.ENOATTR
	}
	return copyOut(dest, value)
}

// ListXAttr implements [fuse.RawFileSystem].
func (s *fileSystem) ListXAttr(_ <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n := s.findInode(header.NodeId)
	if n == nil || n.Meta == nil {
		return 0, fuse.OK
	}
	var names []string
	for name := range n.Meta.Xattrs {
		names = append(names, name+"\x00")
	}
	slices.Sort(names)
	return copyOut(dest, []byte(strings.Join(names, "")))
}

// copyOut copies value to dest. An empty dest asks for the size only.
func copyOut(dest, value []byte) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	copy(dest, value)
	return uint32(len(value)), fuse.OK
}

// StatFs implements [fuse.RawFileSystem].
func (s *fileSystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 1023
	return fuse.OK
}

// Open implements [fuse.RawFileSystem].
func (s *fileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := s.findInode(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return fuse.EROFS
	}
	ctx, done := newRequest(cancel)
	defer done()
	f, err := n.Open(ctx)
	if err != nil {
		return s.statusOf(n.Name, err)
	}
	out.Fh = s.keepOpen(f)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE // the content of an inode never changes
	return fuse.OK
}

// keepOpen returns a handle for an open file or folder.
func (s *fileSystem) keepOpen(open any) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.handles[s.last] = open
	return s.last
}

// findOpen returns the open file or folder of a handle.
func (s *fileSystem) findOpen(handle uint64) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[handle]
}

// dropOpen ends a handle, and returns the open file or folder.
func (s *fileSystem) dropOpen(handle uint64) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.handles[handle]
	delete(s.handles, handle)
	return open
}

// Read implements [fuse.RawFileSystem]. It answers with the bytes in the cache, without a copy.
func (s *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	f, ok := s.findOpen(in.Fh).(*browse.FileReader)
	if !ok {
		return nil, fuse.EBADF
	}
	ctx, done := newRequest(cancel)
	defer done()
	parts, err := f.Parts(ctx, int64(in.Offset), int(in.Size))
	if err != nil {
		return nil, s.statusOf(f.Name(), err)
	}
	return fuse.ReadResultVector(parts), fuse.OK
}

// Release implements [fuse.RawFileSystem].
func (s *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { s.dropOpen(in.Fh) }

// statusOf returns the status for an error, and warns of its reason.
func (s *fileSystem) statusOf(name string, err error) fuse.Status {
	switch {
	case errors.Is(err, tree.ErrNotExist):
		return fuse.ENOENT
	case errors.Is(err, tree.ErrNotDir):
		return fuse.ENOTDIR
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	}
	s.warnings.addWarning(fmt.Sprintf("%q: %s", name, s.words(err)))
	if errors.Is(err, object.ErrLost) || errors.Is(err, object.ErrPurged) || errors.Is(err, object.ErrExpired) {
		return fuse.ENODATA
	}
	return fuse.EIO
}

// request is the context of a request. The system cancels a request at any signal to the
// reading program. Most reads end soon, so the context ends only after patience.
type request struct {
	cancel <-chan struct{}

	once sync.Once
	done chan struct{} // see Done
	over chan struct{} // closed at the end of the request
}

// patience is how long a request that the system has cancelled may still take.
const patience = time.Second

// newRequest returns the context of a request. The caller calls over at its end.
func newRequest(cancel <-chan struct{}) (r *request, over func()) {
	r = &request{cancel: cancel, done: make(chan struct{}), over: make(chan struct{})}
	return r, func() { close(r.over) }
}

// Deadline implements [context.Context].
func (*request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context].
func (*request) Value(any) any { return nil }

// Done implements [context.Context]. It is called only by a request that has to wait.
func (r *request) Done() <-chan struct{} {
	r.once.Do(func() {
		go func() {
			select {
			case <-r.over:
				return
			case <-r.cancel:
			}
			select {
			case <-r.over:
			case <-time.After(patience):
				close(r.done)
			}
		}()
	})
	return r.done
}

// Err implements [context.Context].
func (r *request) Err() error {
	select {
	case <-r.done:
		return context.Canceled
	default:
		return nil
	}
}
