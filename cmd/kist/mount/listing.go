package mount

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kist-vcs/kist/tree/look/browse"
)

// listing is an open folder. Entry 0 is the folder itself, entry 1 its parent.
type listing struct {
	dir    *inode
	number uint64 // of dir

	mu   sync.Mutex // guards the following
	ctx  swapped
	at   uint64 // number of the next entry
	next func() (*browse.Node, error, bool)
	stop func()
	kept *browse.Node // the next node, if it was read already
	err  error        // to return next
}

// swapped is the context of a listing: that of the present request.
type swapped struct{ now atomic.Pointer[request] }

// Deadline implements [context.Context].
func (*swapped) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context].
func (*swapped) Value(any) any { return nil }

// Done implements [context.Context].
func (c *swapped) Done() <-chan struct{} { return c.now.Load().Done() }

// Err implements [context.Context].
func (c *swapped) Err() error { return c.now.Load().Err() }

// OpenDir implements [fuse.RawFileSystem].
func (s *fileSystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := s.findInode(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	out.Fh = s.keepOpen(&listing{dir: n, number: in.NodeId})
	if n.Fixed() {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	}
	return fuse.OK
}

// ReleaseDir implements [fuse.RawFileSystem].
func (s *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	if l, ok := s.dropOpen(in.Fh).(*listing); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.endListing()
	}
}

// ReadDir implements [fuse.RawFileSystem].
func (s *fileSystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.readFolder(cancel, in, func(l *listing, n *browse.Node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus implements [fuse.RawFileSystem].
func (s *fileSystem) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.readFolder(cancel, in, func(l *listing, n *browse.Node, e fuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry != nil && n != nil && !n.IsPartial() { // the system looks up the others when it needs them
			s.fillEntry(entry, l.number, l.dir.Node, n)
		}
		return entry != nil
	})
}

// readFolder calls add with the entries of a folder, until it returns false. The node of the folder
// itself and that of its parent are nil.
func (s *fileSystem) readFolder(cancel <-chan struct{}, in *fuse.ReadIn, add func(*listing, *browse.Node, fuse.DirEntry) bool) fuse.Status {
	l, ok := s.findOpen(in.Fh).(*listing)
	if !ok {
		return fuse.EBADF
	}
	ctx, done := newRequest(cancel)
	defer done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx.now.Store(ctx)
	if l.at != in.Offset || l.next == nil {
		if err := l.seekEntry(in.Offset); err != nil {
			return s.statusOf(l.dir.Name, err)
		}
	}
	for first := l.at; ; l.at++ {
		n, e, err := l.nextEntry(s)
		if err != nil && l.at > first {
			l.err = err // after the entries that were read
			return fuse.OK
		}
		if err != nil {
			l.endListing()
			return s.statusOf(l.dir.Name, err)
		}
		if e.Name == "" || !add(l, n, e) {
			return fuse.OK
		}
		l.kept = nil
	}
}

// endListing ends the listing, which seekEntry begins again.
func (l *listing) endListing() {
	if l.stop != nil {
		l.stop()
	}
	l.next, l.stop, l.kept, l.err = nil, nil, nil, nil
}

// seekEntry goes to the entry with a number.
func (l *listing) seekEntry(to uint64) error {
	l.endListing()
	l.next, l.stop = iter.Pull2(l.dir.List(&l.ctx, ""))
	for l.at = min(to, 2); l.at < to; l.at++ {
		if _, err, ok := l.next(); err != nil || !ok {
			return err
		}
	}
	return nil
}

// nextEntry returns the next entry, without a name at the end. The entry stays the next one.
func (l *listing) nextEntry(s *fileSystem) (*browse.Node, fuse.DirEntry, error) {
	e := fuse.DirEntry{Off: l.at + 1, Mode: fuse.S_IFDIR, Ino: l.number}
	switch l.at {
	case 0:
		e.Name = "."
		return nil, e, nil
	case 1:
		e.Name, e.Ino = "..", max(l.dir.parent, fuse.FUSE_ROOT_ID)
		return nil, e, nil
	}
	if l.err != nil {
		return nil, e, l.err
	}
	if l.kept == nil {
		n, err, ok := l.next()
		if err != nil || !ok {
			return nil, e, err
		}
		l.kept = n
	}
	e.Name, e.Mode, e.Ino = l.kept.Name, modes[l.kept.Type], s.inodeNumber(l.number, l.kept)
	return l.kept, e, nil
}
