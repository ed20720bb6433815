package worktree

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"syscall"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// makeFiles writes files.
func (a *applier) makeFiles(ctx context.Context) {
	groups := a.ops.groupByFolder(func(op *Op) bool {
		_, links := a.links[op.Path]
		return op.New != nil && !links && op.New.Type != object.TypeDir && op.New.Type != object.TypeSymlink
	})
	ahead := newContentAhead(a.r, groups, a.o.PassFrom)
	a.eachOp(ctx, groups, makeMissing, func(w *applyWorker, d folder, name string, i int) error {
		ahead.bring(ctx, a.ops, i)
		err := w.makeEntry(ctx, d, name, i)
		if err == nil {
			a.removeSources(ctx, a.ops[i].Path)
		}
		return err
	})
}

// makeLinks makes symlinks. They come last, so that no other operation can go through one.
func (a *applier) makeLinks(ctx context.Context) {
	groups := a.ops.groupByFolder(func(op *Op) bool { _, links := a.links[op.Path]; return !links && op.makesType(object.TypeSymlink) })
	a.eachOp(ctx, groups, makeMissing, func(w *applyWorker, d folder, name string, i int) error {
		return w.makeEntry(ctx, d, name, i)
	})
}

// placeFile calls write to make a file or symlink under a temporary name, and
// renames it to its final name. If the temporary folder is on another file
// system, it tries once more beside the final name. The error is a [*CollisionError] if
// another name has the place.
func (w *applyWorker) placeFile(ctx context.Context, d folder, name string, i int, write func(context.Context, tempFile, int) (file, error)) error {
	e := w.ops[i].New
	dir, _ := tree.Split(w.ops[i].Path)
	for {
		temp := w.temp
		if w.isBeside {
			temp = nil
		}
		at := temp.newPlace(d)
		f, err := write(ctx, at, i)
		var st index.Stat
		if err == nil {
			st, err = w.placeStaged(at, f, d, name)
		}
		if f != nil {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}
		if errnoOf(err) == syscall.EXDEV && !w.isBeside {
			w.isBeside = true
			w.sweepBeside(dir, d)
			continue
		}
		if err != nil {
			return inFolder(dir, err)
		}
		w.markDone(i, st)
		if e.Type != object.TypeFile {
			w.meter.addProgress(w.o.Progress, 1, 0)
		}
		return nil
	}
}

// placeEarly is place for a file that an EarlyWriter wrote. It reports whether it
// succeeded; otherwise placeFile must write the file and report errors.
func (w *applyWorker) placeEarly(ctx context.Context, d folder, name string, i int) bool {
	e := w.ops[i].New
	at, f := w.w.early.Load().takeFile(w.ops[i].Path, e)
	if f == nil {
		return false
	}
	defer f.Close()

	if _, err := w.r.Get(ctx, e.Content); w.isBeside || err != nil || w.setMetadata(f, e) != nil {
		at.removeTemp()
		return false
	}
	st, err := w.placeStaged(at, f, d, name)
	if err != nil {
		return false
	}

	w.markDone(i, st)
	w.meter.addProgress(w.o.Progress, 1, int64(e.Size))
	return true
}

// placeStaged renames a file to its final name. It returns the stat data after the rename,
// which changes the ctime. A file that nobody else has changed or opened since is not racy.
func (w *applyWorker) placeStaged(at tempFile, f file, d folder, name string) (index.Stat, error) {
	var before fileStat
	if f != nil {
		before, _ = f.stat() // without it, the file is racy
	}
	if err := at.moveTo(d, name); err != nil {
		return index.Stat{}, err
	}

	readAt := w.w.readClock()
	if f != nil {
		alone := f.isOpenOnce()
		if st, err := f.stat(); err != nil || st.mode != 0 {
			stat := st.indexStat(readAt)
			if alone && st.isUnchanged(&before) && st.isDistinct() {
				stat = stat.Written()
			}
			return stat, err
		}
	}
	st, err := d.lstat(name)
	return st.indexStat(readAt), err
}

// isUnchanged reports whether only a rename can lie between before and st.
func (st *fileStat) isUnchanged(before *fileStat) bool {
	return st.ino == before.ino && st.dev == before.dev && st.size == before.size && st.mtime == before.mtime
}

// isDistinct reports whether each later change of the file gives it another mtime. The
// clock that set the ctime gives later changes that time or a later one. So an earlier
// mtime never comes back. Neither does a mtime of one nanosecond more: the clock ticks in
// milliseconds, see [applyWorker.setMetadata].
func (st *fileStat) isDistinct() bool {
	const farFuture = 1 << 33 // seconds; nanoseconds since 1970 would overflow
	if st.mtime.Sec < 0 || st.mtime.Sec > farFuture {
		return st.mtime.Sec < 0
	}
	mtime := nanoseconds(st.mtime)
	return mtime < st.ctime || mtime == st.ctime+1
}

// writeFile makes a complete file with permission bits and time. If it fails,
// it removes the file.
func (w *applyWorker) writeFile(ctx context.Context, at tempFile, i int) (file, error) {
	e := w.ops[i].New
	ctx = w.o.passing(ctx, e)
	switch {
	case e.Content.IsZero():
		return w.writeSmall(at, e, e.Inline)
	case e.Content.Kind != object.KindManifest:
		var f file
		err := object.GetBriefly(ctx, w.r, e.Content, func(data []byte) (err error) {
			f, err = w.writeSmall(at, e, data)
			return err
		})
		return f, err
	}

	f, err := w.fillFile(at, e, func(f file) error { return w.writeChunks(ctx, f, e) })
	if err == nil {
		w.meter.addProgress(w.o.Progress, 1, 0)
	}

	return f, err
}

// writeSmall makes a file of at most one chunk. Its content is data.
func (w *applyWorker) writeSmall(at tempFile, e *object.Entry, data []byte) (file, error) {
	if uint64(len(data)) != e.Size {
		return nil, &object.CorruptError{Key: e.Content, Err: fmt.Errorf("%d bytes, want %d as in the entry", len(data), e.Size)}
	}

	f, err := w.fillFile(at, e, func(f file) error {
		if len(data) == 0 {
			return nil
		}
		_, err := f.WriteAt(data, 0)
		return err
	})
	if err == nil {
		w.meter.addProgress(w.o.Progress, 1, int64(len(data)))
	}

	return f, err
}

// fillFile makes a file, calls fill to write its content, and sets its metadata.
func (w *applyWorker) fillFile(at tempFile, e *object.Entry, fill func(file) error) (file, error) {
	f, err := at.dir.create(at.name, uint32(w.inherits.newMode(&w.w.opt, e.Mode, false)&0o777))
	if err != nil {
		return nil, err
	}
	if err = fill(f); err == nil {
		err = w.setMetadata(f, e)
	}
	if err != nil {
		f.Close()
		at.removeTemp()
		return nil, err
	}

	return f, nil
}

// setMetadata sets the permission bits, if the file was created with others, and the time.
// If the file keeps the time of writing, setMetadata adds a nanosecond. Then a change within
// the same tick of the clock shows in the mtime.
func (w *applyWorker) setMetadata(f file, e *object.Entry) error {
	st, err := f.stat()
	if err != nil {
		return err
	}
	if err := w.setProperties(f, e, st.perm()); err != nil {
		return err
	}
	if when, ok := w.timeOf(e); ok {
		return f.chtimes(when)
	}
	if !f.isOpenOnce() {
		return nil // it stays racy
	}
	if st, err = f.stat(); err != nil {
		return err
	}
	return f.chtimes(st.mtime.Time().Add(1))
}

// writeChunks writes a file of many chunks. Several chunks are written at once
// while some goroutines have no file of their own. It returns after all of its
// writes have ended.
func (w *applyWorker) writeChunks(ctx context.Context, f file, e *object.Entry) error {
	if err := f.truncate(int64(e.Size)); err != nil {
		return err
	}

	var group sync.WaitGroup
	var once sync.Once
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	write := func(c object.ChunkAt) {
		if err := w.writeChunk(ctx, f, c); err != nil {
			once.Do(func() { failed = err; cancel() })
		}
	}

	var listErr error
	for c, err := range chunksAhead(ctx, w.r, e) {
		if err != nil {
			listErr = err
			break
		}
		select {
		case w.tokens <- struct{}{}:
			group.Go(func() {
				defer func() { <-w.tokens }()
				write(c)
			})
		default:
			write(c)
		}
		if ctx.Err() != nil {
			break
		}
	}

	group.Wait()
	if failed != nil {
		return failed
	}
	if listErr != nil {
		return listErr
	}

	return ctx.Err()
}

// chunksAhead is [object.Chunks] of a file whose chunks are read in their order. It prefetches them.
func chunksAhead(ctx context.Context, r object.Reader, e *object.Entry) iter.Seq2[object.ChunkAt, error] {
	chunks := object.Chunks(ctx, r, e.Content, e.Size, 0)
	if !object.HasFar(r) {
		return chunks
	}
	return func(yield func(object.ChunkAt, error) bool) {
		var batch []object.ChunkAt
		var keys []object.Key
		size := int64(0)
		flush := func() bool {
			object.Prefetch(ctx, r, keys)
			for _, c := range batch {
				if !yield(c, nil) {
					return false
				}
			}
			batch, keys, size = nil, nil, 0
			return true
		}

		for c, err := range chunks {
			if size += int64(c.Size); (err != nil || size > object.MaxPrefetch/2) && !flush() {
				return
			}
			if err != nil {
				yield(c, err)
				return
			}
			batch = append(batch, c)
			keys = append(keys, object.Key{Kind: object.KindChunk, ID: c.ID})
		}
		flush()
	}
}

func (w *applyWorker) writeChunk(ctx context.Context, f file, c object.ChunkAt) error {
	key := object.Key{Kind: object.KindChunk, ID: c.ID}
	return object.GetBriefly(ctx, w.r, key, func(data []byte) error {
		if len(data) != int(c.Size) {
			return &object.CorruptError{Key: key, Err: fmt.Errorf("%d bytes, want %d as in the manifest", len(data), c.Size)}
		}
		if err := writeSparse(f, data, int64(c.Offset)); err != nil {
			return err
		}
		w.meter.addProgress(w.o.Progress, 0, int64(len(data)))
		return nil
	})
}

// holeSize is the length of a run of zeros that is left as a hole. The file
// was truncated to its size, so holes read as zeros.
const holeSize = 32 << 10

var zeros [holeSize]byte

// writeSparse writes data at off and skips long runs of zeros.
func writeSparse(f file, data []byte, off int64) error {
	for len(data) > 0 {
		// Find the next part to write. It begins and ends between blocks.
		skip := 0
		for skip < len(data) {
			n := blockAt(off+int64(skip), len(data)-skip)
			if !bytes.Equal(data[skip:skip+n], zeros[:n]) {
				break
			}
			skip += n
		}
		data, off = data[skip:], off+int64(skip)
		end := 0
		for end < len(data) {
			n := blockAt(off+int64(end), len(data)-end)
			if n == holeSize && bytes.Equal(data[end:end+n], zeros[:n]) {
				break
			}
			end += n
		}
		if end > 0 {
			if _, err := f.WriteAt(data[:end], off); err != nil {
				return err
			}
		}
		data, off = data[end:], off+int64(end)
	}

	return nil
}

// blockAt returns how many of n bytes at off lie in the first block.
func blockAt(off int64, n int) int { return min(n, holeSize-int(off%holeSize)) }

// writeLink makes a symlink.
func (w *applyWorker) writeLink(ctx context.Context, at tempFile, i int) (file, error) {
	e := w.ops[i].New
	if err := at.dir.symlink(e.Target, at.name); err != nil {
		return nil, err
	}
	if err := w.setNamed(at, e); err != nil {
		at.removeTemp()
		return nil, err
	}
	return nil, nil
}
