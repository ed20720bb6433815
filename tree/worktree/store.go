package worktree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// linkMode is the mode of every symlink entry. The mode of the link itself has
// no meaning.
const linkMode = 0o777

// maxRereads is how many more times a file is read if it changes during the read.
const maxRereads = 2

// Stored is a file, symlink or folder after it was read.
type Stored struct {
	Entry        object.Entry // a folder's entry has only name, type and permission bits
	Stat         index.Stat
	HasOpenLinks bool // the file has several names, and its hard-link group has yet to be chosen

	// Unstable means that the file changed during each read, or may have
	// changed with no visible sign. Entry is the last read, which may mix two
	// versions of the file. Stat is zero.
	Unstable bool

	// LeftXattrs is a [*LeftXattrsError] if Entry cannot hold all extended attributes. Then Stat is zero, so that each
	// scan finds the path again, and each add reports it.
	LeftXattrs error
}

// Store reads the file, symlink or folder at path and puts a file's content
// into dst. With [object.Discard] as dst it only computes the entry. It never
// opens FIFOs, sockets and devices: the error is [ErrSpecial]. The error is
// [ErrGone] if the path does not exist.
func (w *Worktree) Store(ctx context.Context, dst object.Writer, path string) (Stored, error) {
	path, err := cleanPath(path)
	if err != nil {
		return Stored{}, err
	}
	s := w.newStorer(dst, nil)
	defer s.close()

	stored, err := s.storeItem(ctx, path, nil, nil)
	if isStoreError(err) {
		err = errors.Unwrap(err)
	}
	return stored, err
}

// storer stores files one after the other, in one goroutine.
type storer struct {
	w         *Worktree
	dst       object.Writer
	tokens    chan struct{}   // one for each chunk stored by a goroutine of its own
	report    func(n int64)   // adds to the progress; many goroutines call it; may be nil
	small     []byte          // buffer for a small file and one byte more
	zeroChunk object.ChunkRef // a chunk of zeros in dst, if the size is not 0
	waited    int             // number of files for which awaitQuiet waited in vain

	dir    string // the path of folder, if folder is open
	folder folder
}

func (w *Worktree) newStorer(dst object.Writer, report func(n int64)) *storer {
	return &storer{w: w, dst: dst, report: report, tokens: make(chan struct{}, w.opt.Jobs)}
}

func (s *storer) close() {
	if s.folder != nil {
		s.folder.Close()
		s.folder = nil
	}
}

// storeError is an error of the store or its context. It ends all storing,
// unlike the error of one path.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// isStoreError reports whether a storer's error is a storeError.
func isStoreError(err error) bool {
	_, ok := err.(*storeError)
	return ok
}

// storeItem stores the file, symlink or folder at path. Seen is the scan's result
// for the path, and known the entry whose content it may still have. Both may
// be nil.
func (s *storer) storeItem(ctx context.Context, path string, seen *Found, known *index.Entry) (Stored, error) {
	if err := ctx.Err(); err != nil {
		return Stored{}, &storeError{err}
	}
	stored, err := s.storePath(ctx, path, seen, known)
	switch {
	case err == nil || isStoreError(err):
	case errors.Is(err, fs.ErrNotExist), notFolder(err), errors.Is(err, errNotRegular):
		err = pathError("read", path, ErrGone)
	default:
		err = pathError("read", path, err)
	}

	return stored, err
}

// storePath is storeItem, but an error of the path is that of the file system, without the path.
func (s *storer) storePath(ctx context.Context, path string, seen *Found, known *index.Entry) (Stored, error) {
	dir, name := tree.Split(path)
	if s.folder == nil || s.dir != dir {
		s.close()
		d, err := s.w.openFolder(dir)
		if err != nil {
			return Stored{}, err
		}
		s.dir, s.folder = dir, d
	}
	if seen != nil && seen.Type == object.TypeFile {
		return s.storeFile(ctx, name, known)
	}

	readAt := s.w.readClock()
	st, err := s.folder.lstat(name)
	if err != nil {
		return Stored{}, err
	}

	e := object.Entry{Name: name, Type: st.entryType(), Mode: st.perm()}
	switch e.Type {
	case object.TypeFile:
		return s.storeFile(ctx, name, known)
	case object.TypeDir:
		e, err = s.w.describeDir(s.folder, name, &st, nil)
		left, err := splitLeft(err)
		return Stored{Entry: e, Stat: st.indexStat(readAt), LeftXattrs: left}, err
	case object.TypeSymlink:
		e.Mode, e.MTime = linkMode, st.mtime
		e.Target, err = s.folder.readlink(name)
	default:
		if !s.w.opt.Metadata || e.Type == 0 {
			err = ErrSpecial
		}
	}

	if err == nil {
		err = s.w.addProperties(&e, &st, known, func(want wantXattr) (map[string][]byte, error) { return s.folder.xattrs(name, want) })
	}
	stored := Stored{Entry: e, Stat: st.indexStat(readAt), HasOpenLinks: isHardLink(&e)}
	if stored.LeftXattrs, err = splitLeft(err); stored.LeftXattrs != nil {
		stored.Stat = index.Stat{}
	}
	return stored, err
}

// storeFile stores a file. It reads the file again if it changed meanwhile.
func (s *storer) storeFile(ctx context.Context, name string, known *index.Entry) (stored Stored, err error) {
	for range 1 + maxRereads {
		var hidden bool
		stored, hidden, err = s.readFile(ctx, name, known)
		if err != nil || !stored.Unstable {
			return stored, err
		}
		if hidden {
			break // awaitQuiet was patient enough
		}
	}
	stored.Stat = index.Stat{} // the next scan will report it as modified
	return stored, nil
}

// readFile stores a file. The result is Unstable if the file changed
// meanwhile, or may have. Hidden means that a change need not show in the
// file's times.
func (s *storer) readFile(ctx context.Context, name string, known *index.Entry) (stored Stored, hidden bool, err error) {
	f, err := s.folder.open(name)
	if err != nil {
		return Stored{}, false, err
	}
	defer f.Close()

	before, stat, hidden, err := s.awaitQuiet(ctx, f)
	if err != nil {
		return Stored{}, false, err
	}

	found := s.w.opt.findPerm(&before, f.xattrs)
	e := object.Entry{Name: name, Type: object.TypeFile, Mode: found.alone, MTime: before.mtime}
	if known != nil && known.Type == object.TypeFile {
		e.Mode = s.w.opt.modeToRecord(s.folder, found, known.Mode, false)
	}

	isKnown, err := s.storeKnown(ctx, f, known, before.size, &e)
	switch {
	case err != nil || isKnown:
	case before.size <= int64(s.w.opt.Chunker.Params().Min):
		err = s.storeSmall(ctx, f, before.size, &e)
	default:
		// Data appended meanwhile is not read: a growing file might never end.
		err = s.storeLarge(ctx, io.LimitReader(f.contentReader(), before.size), &e)
		if err == nil {
			err = s.inlineShort(ctx, f, &e)
		}
	}

	if err == nil {
		err = s.w.addProperties(&e, &before, known, f.xattrs)
	}
	left, err := splitLeft(err)
	if left != nil {
		stat = index.Stat{}
	}
	if err != nil {
		return Stored{}, false, err
	}

	after, err := f.stat()
	if err != nil {
		return Stored{}, false, err
	}

	unstable := hidden || !after.looksUnchanged(&before) || e.Size != uint64(before.size)
	return Stored{Entry: e, Stat: stat, HasOpenLinks: isHardLink(&e), Unstable: unstable, LeftXattrs: left}, hidden, nil
}

// quietTime is how long a file must stay unchanged if another process has it
// open for writing. A writer that pauses in the middle of its work usually
// continues sooner.
const quietTime = time.Second

// maxQuietWaits is the number of files that a storer waits for.
const maxQuietWaits = 8

// StoreStream puts the content that r yields into dst, and returns the entry of a file
// with this content: it has no name, only the owner may read and write it, and its time
// is the present. An error of r ends it. Progress, which may be nil, gets the bytes done
// so far.
func (w *Worktree) StoreStream(ctx context.Context, dst object.Writer, r io.Reader, progress func(files, bytes int64)) (Stored, error) {
	var done meter
	s := w.newStorer(dst, func(n int64) { done.addProgress(progress, 0, n) })
	e := object.Entry{Type: object.TypeFile, Mode: 0o600, MTime: object.TimeOf(w.opt.Now())}

	start := make([]byte, w.opt.Chunker.Params().Min+1)
	n, err := io.ReadFull(r, start)
	whole := err == io.EOF || err == io.ErrUnexpectedEOF
	switch content := bytes.NewReader(start[:n]); {
	case err != nil && !whole:
		return Stored{}, err
	case whole:
		err = s.storeSmall(ctx, content, int64(n), &e)
	default:
		err = s.storeLarge(ctx, io.MultiReader(content, r), &e)
	}

	if isStoreError(err) {
		err = errors.Unwrap(err)
	}
	return Stored{Entry: e}, err
}

// awaitQuiet returns the state of a file that is about to be read. If the file
// is to be stored and another process seems to be changing it, awaitQuiet
// waits a while. It never waits for a file that is only compared, because that
// may change right afterwards anyway.
func (s *storer) awaitQuiet(ctx context.Context, f file) (st fileStat, stat index.Stat, hidden bool, err error) {
	for delay := time.Millisecond; ; delay *= 2 {
		st, stat, hidden, err = s.w.statBeforeRead(f, s.dst != object.Discard)
		if err != nil || !hidden {
			return st, stat, false, err
		}
		if delay > quietTime || s.waited >= maxQuietWaits {
			return st, stat, true, nil
		}
		if delay > quietTime/2 {
			s.waited++
		}
		select {
		case <-ctx.Done():
			return st, stat, true, &storeError{ctx.Err()}
		case <-time.After(delay):
		}
	}
}

// statBeforeRead returns the state of a file that is about to be read. If its times
// are fresh, statBeforeRead finds out whether later changes will show in them. Hidden
// is set only for files to be stored. It means that some changes may not show,
// or that another process is changing the file now.
func (w *Worktree) statBeforeRead(f file, stores bool) (st fileStat, stat index.Stat, hidden bool, err error) {
	readAt := w.readClock()
	st, err = f.stat()
	if err == nil && !st.isRegular() {
		err = errNotRegular
	}

	stat = st.indexStat(readAt)
	if err != nil || !stat.Racy() {
		return st, stat, false, err
	}

	// Read the times again. If they are older than readAt, every change that
	// they do not show is older, too.
	others := f.otherWriters()
	clean := stores && others == writersSome && f.cleanPages()
	if st, err = f.stat(); err != nil {
		return st, stat, false, err
	}

	stat = st.indexStat(readAt)
	sameClock := st.dev == w.clockDev
	switch {
	case others == writersNone && sameClock:
		stat = stat.Settled()
	case others == writersSome && stores:
		hidden = !clean || sameClock && readAt-max(stat.MTime, stat.CTime) < int64(quietTime)
	}

	return st, stat, hidden, nil
}

// storeSmall sets the size and the content of e to those of a file of at most one chunk, which it
// stores.
func (s *storer) storeSmall(ctx context.Context, f io.Reader, size int64, e *object.Entry) error {
	if s.small == nil {
		s.small = make([]byte, s.w.opt.Chunker.Params().Min+1)
	}

	n := 0
	for n < len(s.small) {
		m, err := f.Read(s.small[n:])
		n += m
		if err == io.EOF || err == nil && int64(n) == size {
			break // if the file grew, readFile sees its new size
		}
		if err != nil {
			return err
		}
	}

	n = min(n, len(s.small)-1)
	e.Size = uint64(n)
	switch data := s.small[:n]; {
	case n == 0:
	case n <= object.MaxInline:
		e.Inline = append([]byte(nil), data...)
	default:
		id, err := s.dst.Put(ctx, object.KindChunk, data)
		if err != nil {
			return &storeError{err}
		}
		e.Content = object.Key{Kind: object.KindChunk, ID: id}
	}

	if s.report != nil {
		s.report(int64(n))
	}

	return nil
}

// chunkJob is a chunk that is being stored.
type chunkJob struct {
	size uint32
	id   object.ID
	err  error
	done chan struct{} // closed when the chunk is stored; nil if it was stored at once
}

// storeLarge sets the size and the content of e to those of r. It stores the chunks, several at once.
func (s *storer) storeLarge(ctx context.Context, r io.Reader, e *object.Entry) error {
	var group sync.WaitGroup
	defer group.Wait()

	manifest := object.NewManifestWriter(s.dst)
	var jobs []*chunkJob // in the file's order; earlier chunks are in the manifest
	drain := func(all bool) error {
		for len(jobs) > 0 {
			job := jobs[0]
			if job.done != nil {
				if !all {
					select {
					case <-job.done:
					default:
						return nil
					}
				}
				<-job.done
			}
			jobs = jobs[1:]
			err := job.err
			if err == nil {
				err = manifest.Add(ctx, object.ChunkRef{ID: job.id, Size: job.size})
			}
			if err != nil {
				return &storeError{err}
			}
		}
		return nil
	}

	err := s.w.opt.Chunker.SplitBuffers(r, func(b *chunker.Buffer) error {
		job := &chunkJob{size: uint32(len(b.Bytes()))}
		jobs = append(jobs, job)
		put := func(store func(context.Context, []byte) (object.ID, error)) {
			job.id, job.err = store(ctx, b.Bytes())
			b.Release()
			if s.report != nil {
				s.report(int64(job.size))
			}
		}
		if isZero(b.Bytes()) {
			put(s.putZeros)
			return drain(false)
		}
		select {
		case s.tokens <- struct{}{}:
			job.done = make(chan struct{})
			group.Go(func() {
				put(s.putChunk)
				close(job.done)
				<-s.tokens
			})
		default:
			put(s.putChunk)
		}
		return drain(false)
	})
	if err != nil {
		return err
	}
	if err := drain(true); err != nil {
		return err
	}

	e.Content, e.Size, err = manifest.Finish(ctx)
	if err != nil {
		return &storeError{err}
	}
	return nil
}

// putChunk puts a chunk into the destination. It is safe for concurrent use.
func (s *storer) putChunk(ctx context.Context, data []byte) (object.ID, error) {
	return s.dst.Put(ctx, object.KindChunk, data)
}

// putZeros is putChunk for a chunk of zeros. It is quick if the chunk before had the same size, as
// in a long hole: the chunker cuts zeros as soon as it may.
func (s *storer) putZeros(ctx context.Context, data []byte) (object.ID, error) {
	if int(s.zeroChunk.Size) == len(data) {
		return s.zeroChunk.ID, nil
	}
	id, err := s.putChunk(ctx, data)
	if err == nil {
		s.zeroChunk = object.ChunkRef{ID: id, Size: uint32(len(data))}
	}
	return id, err
}

// isZero reports whether all bytes are zero.
func isZero(data []byte) bool {
	for n := 0; len(data) > 0; data = data[n:] {
		n = min(len(data), len(zeros))
		if !bytes.Equal(data[:n], zeros[:n]) {
			return false
		}
	}
	return true
}

// inlineShort moves the content into the entry if the file became that short meanwhile.
func (s *storer) inlineShort(ctx context.Context, f file, e *object.Entry) error {
	if e.Size > object.MaxInline {
		return nil
	}
	if err := f.rewind(); err != nil {
		return err
	}
	e.Content = object.Key{}
	return s.storeSmall(ctx, f, 0, e)
}

// A file from a repository with other parameters is cut at other places than
// here. If it were cut again by our parameters, an unchanged file would look
// changed and be stored a second time.

// storeKnown stores a file of size bytes with the chunk boundaries of its
// known content. It reports false if the content has changed. It also reports
// false if our chunker makes the same first cut, because then storing it as
// usual gives the same chunks. It sets only Content and Size of e.
func (s *storer) storeKnown(ctx context.Context, f file, known *index.Entry, size int64, e *object.Entry) (ok bool, err error) {
	objects := s.w.opt.Objects
	if objects == nil || known == nil || known.Type != object.TypeFile || known.Size != uint64(size) || known.Content.IsZero() {
		return false, nil
	}
	if known.Content.Kind == object.KindChunk && size <= int64(s.w.opt.Chunker.Params().Min) {
		return false, nil // we would not cut it either
	}

	done, ok, err := s.storeChunks(ctx, f, known)
	if ok {
		e.Content, e.Size = known.Content, known.Size
		return true, nil
	}
	if s.report != nil {
		s.report(-done) // they are read again
	}
	if err == nil {
		err = f.rewind()
	}
	return false, err
}

// storeChunks stores a file with the chunk boundaries of its known content, and returns
// the number of bytes stored. Ok is false if the content has changed.
func (s *storer) storeChunks(ctx context.Context, f file, known *index.Entry) (done int64, ok bool, err error) {
	size := int64(known.Size)
	var buf []byte
	content := f.contentReader()
	for chunk, err := range object.Chunks(ctx, s.w.opt.Objects, known.Content, known.Size, 0) {
		if err != nil {
			return done, false, ctx.Err() // without the chunk list, cut it like any other file
		}
		if chunk.Offset == 0 {
			if cut, err := s.cutsAt(f, int64(chunk.Size), size); err != nil || cut {
				return done, false, err
			}
		}
		if int(chunk.Size) > len(buf) {
			buf = make([]byte, chunk.Size)
		}
		data := buf[:chunk.Size]
		if _, err := io.ReadFull(content, data); err != nil {
			return done, false, atEnd(err)
		}
		store := s.putChunk // gc may have removed it
		if isZero(data) {
			store = s.putZeros
		} else if object.Sum(data) != chunk.ID {
			return done, false, nil
		}
		id, err := store(ctx, data)
		if err != nil {
			return done, false, &storeError{err}
		}
		if id != chunk.ID {
			return done, false, nil
		}
		if done += int64(len(data)); s.report != nil {
			s.report(int64(len(data)))
		}
	}

	return done, true, nil
}

// cutsAt reports whether our chunker makes its first cut in a file of size
// bytes at place. It rewinds the file.
func (s *storer) cutsAt(f file, place, size int64) (bool, error) {
	errFirst := errors.New("the first chunk is known")
	first := int64(0)
	// Read one byte more, because the chunker also cuts at the end.
	err := s.w.opt.Chunker.Split(io.LimitReader(f.contentReader(), min(place+1, size)), func(chunk []byte) error {
		first = int64(len(chunk))
		return errFirst
	})
	if err != nil && err != errFirst {
		return false, err
	}
	return first == place, f.rewind()
}

// atEnd returns nil instead of an error that means that the file became
// shorter. The caller then reads the file again.
func atEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
