package worktree

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// ApplyOptions say how [Worktree.Apply] writes.
type ApplyOptions struct {
	// RestoreTimes sets the recorded modification times. Otherwise files have
	// the time at which they are written.
	RestoreTimes bool

	// Progress is told how many files, and bytes of them, have been written.
	// It is called by one goroutine at a time, for every file and chunk. It may
	// be nil.
	Progress func(files, bytes int64)
}

// Applied is a path that is now as an operation wanted it.
type Applied struct {
	Path string
	New  *object.Entry // that of the operation; nil if it was removed
	Stat index.Stat    // of files and symlinks
}

// Apply makes paths in the worktree what operations say, reading content from
// r. It overwrites whatever files are there: [Worktree.Check] tells what would
// be lost.
//
// First it removes files, then folders; then it makes folders, files, and last
// of all symlinks; then folders get their permission bits and times. Folders
// that are to be removed, or to be folders, are made writable before, and those that
// stay get their bits back. A file is
// written under a temporary name and moved to its own when it is complete, so
// that it is old or new whenever the process is killed. No component of a path
// may be a symlink, and nothing in the repository's own folder is touched, even
// while another process exchanges folders for symlinks.
//
// It returns what was done, sorted by path, with an error or without. A path
// that fails is in an [*ApplyError], and all others are written unless the error
// shows that it is of no use. The error for a path is a [*CollisionError] where
// the file system cannot hold both of two names.
func (w *Worktree) Apply(ctx context.Context, r object.Reader, ops []Op, o ApplyOptions) ([]Applied, error) {
	list, err := newOpList(ops)
	if err != nil {
		return nil, err
	}
	a := &applier{
		w: w, r: r, o: o, ops: list,
		done: make([]Applied, len(list)), state: make([]opState, len(list)),
		tokens: make(chan struct{}, w.opt.Jobs), locked: map[int]uint32{},
	}
	w.SweepTemp()
	a.refuseCollisions()
	for _, phase := range []func(context.Context){a.unlockFolders, a.removeFiles, a.removeFolders, a.makeFolders, a.makeFiles, a.makeLinks} {
		if ctx.Err() == nil && !a.fails.stop() {
			phase(ctx)
		}
	}
	a.lockFolders()
	a.finishFolders(ctx)
	applied := a.done[:0] // with a million files, a second list would be much
	for i, state := range a.state {
		if state == opDone {
			applied = append(applied, a.done[i])
		}
	}
	if err := ctx.Err(); err != nil {
		return applied, err
	}
	return applied, a.fails.err()
}

// applier is one run of Apply.
type applier struct {
	w   *Worktree
	r   object.Reader
	o   ApplyOptions
	ops opList

	done   []Applied      // by place in ops
	state  []opState      // by place in ops
	locked map[int]uint32 // permission bits of folders to be removed that were made writable, by place in ops
	fails  failures
	tokens chan struct{} // one for each goroutine at work
	meter  meter
	making sync.Mutex // folders that no operation makes
}

// opState says how far an operation is.
type opState uint8

const (
	opWaits opState = iota
	opDone
	opFailed
)

// ifMissing says what to do where the folder of a path is absent.
type ifMissing uint8

const (
	fail   ifMissing = iota
	makeIt           // make the folder
	isDone           // there is nothing to remove
)

// meter adds up progress.
type meter struct {
	mu           sync.Mutex
	files, bytes int64
}

func (m *meter) add(report func(files, bytes int64), files, bytes int64) {
	if report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files += files
	m.bytes += bytes
	report(m.files, m.bytes)
}

// applyWorker is a goroutine of an applier.
type applyWorker struct {
	*applier
	temp   *tempFolder // nil: files are made beside their places
	beside bool        // the folder at hand is on another file system than temp
	stops  bool        // what can still be done is done, and what fails is not told
}

// each runs f for operations, in parallel for different groups, with the folder
// that the path is in.
func (a *applier) each(ctx context.Context, groups [][]int, missing ifMissing, f func(w *applyWorker, d folder, name string, i int) error) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(a.w.opt.Jobs, len(groups)) {
		workers.Go(func() {
			a.tokens <- struct{}{}
			defer func() { <-a.tokens }()
			w := &applyWorker{applier: a}
			if missing == makeIt {
				if temp, err := a.w.newTemp(); err == nil {
					defer temp.close()
					w.temp = temp
				}
			}
			for {
				at := int(next.Add(1)) - 1
				if at >= len(groups) || !w.group(ctx, groups[at], missing, f) {
					return
				}
			}
		})
	}
	workers.Wait()
}

// group runs f for the operations of one folder and reports whether to go on.
func (w *applyWorker) group(ctx context.Context, group []int, missing ifMissing, f func(w *applyWorker, d folder, name string, i int) error) bool {
	dir, _ := tree.Split(w.ops[group[0]].Path)
	d, err := w.w.openFolder(dir)
	if missing == makeIt && errors.Is(err, fs.ErrNotExist) {
		w.making.Lock()
		d, err = w.w.makeFolder(dir)
		w.making.Unlock()
	}
	if err == nil {
		defer d.Close()
	}
	w.beside = w.temp == nil
	gone := missing == isDone && (errors.Is(err, fs.ErrNotExist) || notFolder(err))
	for _, i := range group {
		if !w.stops && (ctx.Err() != nil || w.fails.stop()) {
			return false
		}
		op := &w.ops[i]
		if w.state[i] == opFailed {
			continue
		}
		_, name := tree.Split(op.Path)
		opErr := err
		if opErr == nil {
			opErr = f(w, d, name, i)
		} else if gone {
			opErr = nil
			w.finish(i, index.Stat{})
		}
		if opErr != nil {
			w.state[i] = opFailed
			if !w.stops && (ctx.Err() != nil || !w.fails.add(op.Path, opErr)) {
				return false
			}
		}
	}
	return true
}

// finish notes that an operation is done.
func (a *applier) finish(i int, st index.Stat) {
	op := &a.ops[i]
	a.done[i] = Applied{op.Path, op.New, st}
	a.state[i] = opDone
}

// removeFiles removes what is removed, or becomes a folder.
func (a *applier) removeFiles(ctx context.Context) {
	groups := a.ops.groups(func(op *Op) bool { return op.Old != nil && (op.New == nil || op.makes(object.TypeDir)) })
	a.each(ctx, groups, isDone, func(w *applyWorker, d folder, name string, i int) error {
		err := d.unlink(name)
		if err != nil {
			st, statErr := d.lstat(name)
			if errors.Is(statErr, fs.ErrNotExist) || statErr == nil && st.isDir() {
				err = nil // nothing to remove; a folder in its place is not ours
			}
		}
		if err == nil && a.ops[i].New == nil {
			a.finish(i, index.Stat{})
		}
		return err
	})
}

// removeFolders removes folders that are empty now, the deepest first.
func (a *applier) removeFolders(ctx context.Context) {
	groups := a.ops.groups(func(op *Op) bool { return op.Old == nil && op.New == nil })
	slices.Reverse(groups)
	for _, group := range groups {
		slices.Reverse(group)
	}
	w := &applyWorker{applier: a}
	for _, group := range groups {
		if !w.group(ctx, group, isDone, (*applyWorker).removeFolder) {
			return
		}
	}
}

func (w *applyWorker) removeFolder(d folder, name string, i int) error {
	err := d.rmdir(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || notFolder(err) || notEmpty(err) {
		w.finish(i, index.Stat{})
		return nil
	}
	return err
}
