package worktree

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// ApplyOptions configure [Worktree.Apply].
type ApplyOptions struct {
	// RestoreTimes sets the recorded modification times. Otherwise files keep
	// the time at which they were written.
	RestoreTimes bool

	// KeepGit leaves git's own folders as they are, even with [Options.Git].
	KeepGit bool

	// Metadata restores everything that entries record. It may be nil.
	Metadata *FullMetadata

	// PassFrom is the size in bytes of the smallest files whose fetched content is not stored in the repository, too. 0: there
	// are none.
	PassFrom uint64

	// Sources has, by path of a file to remove, the paths of files to write before, because their content is read from it. It must be
	// removable late, see [RemovableLate]. If one of them cannot be written, it stays.
	Sources map[string][]string

	// Progress receives the number of files and bytes written so far. Calls
	// come one at a time, for every file and chunk. It may be nil.
	Progress func(files, bytes int64)
}

// passing returns the context for reads of the content of a file.
func (o *ApplyOptions) passing(ctx context.Context, e *object.Entry) context.Context {
	if o.PassFrom > 0 && e.Size >= o.PassFrom {
		return object.Passing(ctx)
	}
	return ctx
}

// Applied is an operation that was carried out.
type Applied struct {
	Path string
	New  *object.Entry // New of the operation; nil if the path was removed
	Stat index.Stat    // of files and symlinks
}

// Apply carries out operations, with file content from r. It overwrites any
// file in its way: call [Worktree.Check] first to find changes that would be
// lost.
//
// The order is: remove files, remove folders, make folders, make files, make
// symlinks, set the permission bits and times of folders. [ApplyOptions.Sources] are removed
// once the files are made that need them. Read-only folders
// that are to be removed or kept as folders are made writable first. Folders
// that remain get their permission bits back. A file is written under a
// temporary name and renamed when it is complete, so a kill leaves the old
// file or the new one. No component of a path may be a symlink, and the
// repository's own folder is never touched. This holds even if another process
// replaces folders by symlinks meanwhile. Git's own folders stay as they are, with the error
// [ErrGit] for each, unless [Options.Git] permits changes.
//
// Apply returns the completed operations, sorted by path, even if it fails. An
// [*ApplyError] lists the paths that failed. Other paths are still written,
// unless the error shows that this is pointless. The error of a path is a
// [*CollisionError] if the file system cannot hold two of the names together. A path with
// an [*XattrError] was written, and is among the completed operations.
func (w *Worktree) Apply(ctx context.Context, r object.Reader, ops []Op, o ApplyOptions) ([]Applied, error) {
	list, err := w.prepareOps(ops)
	if err != nil {
		return nil, err
	}

	var refused []Op
	if !w.opt.Git || o.KeepGit {
		list, refused = splitGit(list)
	}

	a := &applier{
		w: w, r: r, o: o, ops: list,
		done: make([]Applied, len(list)), state: make([]opState, len(list)),
		tokens: make(chan struct{}, w.opt.Jobs), locked: map[int]uint32{}, links: map[string]int{},
	}

	w.SweepTemp()
	left := a.leaveGit(refused)
	a.findLinks()
	a.findSources()
	for _, phase := range []func(context.Context){a.unlockFolders, a.removeFiles, a.removeFolders, a.makeFolders, a.makeFiles, a.makeLinks, a.makeHardLinks, a.removeLeft} {
		if ctx.Err() == nil && !a.fails.isStopped() {
			phase(ctx)
		}
	}

	a.lockFolders()
	a.finishFolders(ctx)
	applied := a.done[:0] // reuses the list, which may have a million items
	for i, state := range a.state {
		if state == opDone {
			applied = append(applied, a.done[i])
		}
	}
	if len(left) > 0 {
		applied = append(applied, left...)
		slices.SortStableFunc(applied, func(a, b Applied) int { return tree.ComparePaths(a.Path, b.Path) })
	}

	if err := ctx.Err(); err != nil {
		return applied, err
	}

	return applied, a.fails.err()
}

// prepareOps checks and sorts operations. The error is [ErrReadOnly] if the worktree is never
// written.
func (w *Worktree) prepareOps(ops []Op) (opList, error) {
	if w.opt.Roots != nil && len(ops) > 0 {
		return nil, ErrReadOnly
	}
	return newOpList(ops)
}

// applier is the state of one Apply.
type applier struct {
	w   *Worktree
	r   object.Reader
	o   ApplyOptions
	ops opList

	done   []Applied      // by place in ops
	state  []opState      // by place in ops
	locked map[int]uint32 // former permission bits of existing folders that keep theirs, by place in ops
	links  map[string]int // by path of a hard link to make: the place in ops of the operation that makes the file
	fails  failures
	tokens chan struct{} // one for each working goroutine
	meter  meter
	making sync.Mutex // serialises making folders that no operation makes

	spelled spellings
	beside  sweptFolders
	sources *sources // nil: there are none
}

// opState is the state of an operation.
type opState uint8

const (
	opWaits opState = iota
	opDone
	opFailed
)

// ifMissing selects the reaction to a missing parent folder.
type ifMissing uint8

const (
	reportMissing ifMissing = iota // report an error
	makeMissing                    // make the folder
	countAsDone                    // nothing to remove: the operation is done
)

// meter adds up progress from many goroutines.
type meter struct {
	mu           sync.Mutex
	files, bytes int64
}

func (m *meter) addProgress(report func(files, bytes int64), files, bytes int64) {
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
	temp   *tempFolder // nil: temporary files lie beside their final places
	gives  inheritance // of temp
	stages bool        // it makes files and symlinks
	ending bool        // Apply has failed: continue with the other paths and ignore their errors
	list   listing     // reused

	// Of the current folder:
	inherits inheritance // of new names in it
	isBeside bool        // temporary files lie in it, because files of temp would differ

	lostXattr *XattrError // of the current path: the last one that the file system cannot hold
	lostACL   bool        // of the current path: the system refused its access ACL
}

// eachOp runs f for every operation, with the open parent folder of its path.
// Different groups run in parallel.
func (a *applier) eachOp(ctx context.Context, groups [][]int, missing ifMissing, f func(w *applyWorker, d folder, name string, i int) error) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(a.w.opt.Jobs, len(groups)) {
		workers.Go(func() {
			a.tokens <- struct{}{}
			defer func() { <-a.tokens }()
			w := &applyWorker{applier: a}
			if w.stages = missing == makeMissing; w.stages {
				if temp, err := a.w.newTemp(); err == nil {
					defer temp.close()
					w.temp, w.gives = temp, inheritanceOf(temp.folder)
				}
			}
			for {
				at := int(next.Add(1)) - 1
				if at >= len(groups) || !w.runGroup(ctx, groups[at], missing, f) {
					return
				}
			}
		})
	}

	workers.Wait()
}

// runGroup runs f for the operations of one folder and reports whether to go on.
func (w *applyWorker) runGroup(ctx context.Context, group []int, missing ifMissing, f func(w *applyWorker, d folder, name string, i int) error) bool {
	d, err := w.openGroup(group, missing)
	if err == nil {
		defer d.Close()
	}

	gone := missing == countAsDone && (errors.Is(err, fs.ErrNotExist) || notFolder(err))
	for _, i := range group {
		if !w.ending && (ctx.Err() != nil || w.fails.isStopped()) {
			return false
		}
		op := &w.ops[i]
		if w.state[i] == opFailed {
			continue
		}
		_, name := tree.Split(op.Path)
		opErr := err
		w.lostXattr = nil
		if opErr == nil {
			opErr = f(w, d, name, i)
		} else if gone {
			opErr = nil
			w.markDone(i, index.Stat{})
		}
		if opErr != nil {
			w.state[i] = opFailed
			if !w.ending && (ctx.Err() != nil || !w.fails.addFailure(op.Path, opErr)) {
				return false
			}
		} else if w.lostXattr != nil && !w.ending {
			w.fails.addFailure(op.Path, w.lostXattr)
		}
	}

	return true
}

// openGroup opens the folder of a group of operations. The error is [fs.ErrNotExist] if nothing
// is to be removed, because the folder is another one in truth: its name has another spelling.
func (w *applyWorker) openGroup(group []int, missing ifMissing) (folder, error) {
	dir, _ := tree.Split(w.ops[group[0]].Path)
	d, err := w.w.openFolder(dir)
	if missing == makeMissing && errors.Is(err, fs.ErrNotExist) {
		w.making.Lock()
		d, err = w.w.openOrMakeFolder(dir)
		w.making.Unlock()
	}
	if err != nil {
		return nil, err
	}

	if err := w.spelled.checkFolder(w.w, dir); err != nil {
		d.Close()
		if missing == countAsDone {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	if missing == countAsDone {
		return d, nil
	}

	w.inherits = inheritanceOf(d)
	w.isBeside = w.temp == nil || w.inherits != w.gives
	if w.isBeside && w.stages {
		w.sweepBeside(dir, d)
	}
	return d, nil
}

// markDone marks an operation as done.
func (a *applier) markDone(i int, st index.Stat) {
	op := &a.ops[i]
	a.done[i] = Applied{op.Path, op.New, st}
	a.state[i] = opDone
}

// removeFiles removes files and symlinks that go away or give way to a folder.
func (a *applier) removeFiles(ctx context.Context) {
	groups := a.ops.groupByFolder(func(op *Op) bool {
		return op.Old != nil && (op.New == nil && !a.isSource(op.Path) || op.makesType(object.TypeDir))
	})
	a.eachOp(ctx, groups, countAsDone, (*applyWorker).removeFile)
}

func (w *applyWorker) removeFile(d folder, name string, i int) error {
	var err error
	if checkSpelling(d, name) == nil { // otherwise another name has the file
		err = d.unlink(name)
	}
	if err != nil {
		st, statErr := d.lstat(name)
		if errors.Is(statErr, fs.ErrNotExist) || statErr == nil && st.isDir() {
			err = nil // nothing to remove; a folder in its place belongs to the user
		}
	}
	if err == nil && w.ops[i].New == nil {
		w.markDone(i, index.Stat{})
	}
	return err
}

// removeFolders removes the folders that are empty by now, deepest first.
func (a *applier) removeFolders(ctx context.Context) {
	groups := a.ops.groupByFolder(func(op *Op) bool { return op.Old == nil && op.New == nil })
	slices.Reverse(groups)
	for _, group := range groups {
		slices.Reverse(group)
	}

	w := &applyWorker{applier: a}
	for _, group := range groups {
		if !w.runGroup(ctx, group, countAsDone, (*applyWorker).removeFolder) {
			return
		}
	}
}

func (w *applyWorker) removeFolder(d folder, name string, i int) error {
	err := fs.ErrNotExist // unless the name is another folder's
	if checkSpelling(d, name) == nil {
		err = d.rmdir(name)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || notFolder(err) || notEmpty(err) {
		w.markDone(i, index.Stat{})
		return nil
	}
	return err
}

// workingMode are the permission bits that a folder needs while files are made
// in it. finishFolders sets the final bits.
const workingMode = 0o700

func (a *applier) isFolder(op *Op) bool { return op.makesType(object.TypeDir) }

// unlockFolders makes read-only folders writable that an operation keeps or
// removes, because their content may have to be removed.
func (a *applier) unlockFolders(ctx context.Context) {
	w := &applyWorker{applier: a}
	groups := a.ops.groupByFolder(func(op *Op) bool { return a.isFolder(op) || op.Old == nil && op.New == nil })
	for _, group := range groups {
		dir, _ := tree.Split(a.ops[group[0]].Path)
		d, err := a.w.openFolder(dir)
		if err != nil {
			continue // a later write to it reports the error
		}
		for _, i := range group {
			_, name := tree.Split(a.ops[i].Path)
			w.unlockFolder(d, name, i)
		}
		d.Close()
		if ctx.Err() != nil {
			return
		}
	}
}

func (w *applyWorker) unlockFolder(d folder, name string, i int) {
	sub, err := d.openSub(name)
	if err != nil {
		return
	}
	defer sub.Close()
	st, err := sub.lstat("")
	if err != nil || w.w.isRepo(&st) {
		return
	}
	op := &w.ops[i]
	if st.mode&workingMode != workingMode && (checkSpelling(d, name) != nil || sub.chmodSelf(uint32(st.perm())|workingMode) != nil) {
		return
	}
	if op.Above || op.New == nil && st.mode&workingMode != workingMode {
		w.locked[i] = uint32(st.perm())
	}
}

// lockFolders restores the permission bits of folders that should have been
// removed but remain. They remain because they are not empty, or because Apply
// was cancelled.
func (a *applier) lockFolders() {
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(a.locked))) {
		if a.ops[i].New != nil {
			continue // finishFolder does it
		}
		dir, name := tree.Split(a.ops[i].Path)
		d, err := a.w.openFolder(dir)
		if err != nil {
			continue // removed meanwhile
		}
		if sub, err := d.openSub(name); err == nil {
			_ = sub.chmodSelf(a.locked[i])
			sub.Close()
		}
		d.Close()
	}
}

// makeFolders makes folders, parents first.
func (a *applier) makeFolders(ctx context.Context) {
	w := &applyWorker{applier: a}
	for _, group := range a.ops.groupByFolder(a.isFolder) {
		if !w.runGroup(ctx, group, makeMissing, (*applyWorker).makeFolder) {
			return
		}
	}
}

func (w *applyWorker) makeFolder(d folder, name string, i int) error {
	// The final bits, as far as the umask allows: if finishFolders is never reached,
	// most folders are right all the same.
	path := w.ops[i].Path
	mode := uint32(w.inherits.newMode(&w.w.opt, w.ops[i].New.Mode, true)&0o777) | workingMode
	err := d.mkdir(name, mode)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		w.spelled.noteFolder(path, nil)
		return err
	}

	dir, _ := tree.Split(path)
	err = inFolder(dir, checkSpelling(d, name))
	w.spelled.noteFolder(path, err)
	if err != nil {
		return err
	}
	return w.useFolder(d, name, mode)
}

// useFolder makes a folder in the place of an existing name, unless that is a folder.
func (w *applyWorker) useFolder(d folder, name string, mode uint32) error {
	sub, err := d.openSub(name)
	if notFolder(err) { // a file or symlink is in its place
		if err = d.unlink(name); err == nil {
			err = d.mkdir(name, mode)
		}
		return err
	}
	if err != nil {
		return err
	}
	defer sub.Close()

	st, err := sub.lstat("")
	if err == nil && w.w.isRepo(&st) {
		return errRepository
	}
	if err == nil && st.mode&workingMode != workingMode {
		err = sub.chmodSelf(uint32(st.perm()) | workingMode)
	}

	return err
}

// finishFolders sets the permission bits and times of folders, deepest first.
// It also does so after an error or a cancellation, because nothing would set
// them later.
func (a *applier) finishFolders(ctx context.Context) {
	groups := a.ops.groupByFolder(a.isFolder)
	w := &applyWorker{applier: a, ending: ctx.Err() != nil || a.fails.isStopped()}
	ctx = context.WithoutCancel(ctx)
	for g := len(groups) - 1; g >= 0; g-- {
		if !w.runGroup(ctx, groups[g], reportMissing, (*applyWorker).finishFolder) {
			return
		}
	}
}

func (w *applyWorker) finishFolder(d folder, name string, i int) error {
	e := w.ops[i].New
	sub, err := d.openSub(name)
	if err != nil {
		return err
	}
	defer sub.Close()

	st, err := sub.lstat("")
	if err != nil {
		return err
	}
	if perm, kept := w.locked[i]; kept {
		if uint32(st.perm()) != perm {
			err = sub.chmodSelf(perm)
		}
		w.markDone(i, index.Stat{})
		return err
	}
	a, err := sub.pin("")
	if err != nil {
		return err
	}
	defer a.Close()

	if err := w.setProperties(a, e, st.perm()); err != nil {
		return err
	}
	if when, ok := w.timeOf(e); ok {
		if err := d.chtimes(name, when); err != nil {
			return err
		}
	}

	w.markDone(i, index.Stat{})
	return nil
}

// openOrMakeFolder returns an open folder. It makes the folder and its parents if they are
// absent.
func (w *Worktree) openOrMakeFolder(path string) (folder, error) {
	at, err := w.fs.openFolder("")
	if err == nil {
		at, err = makeBelow(at, path, 0o777, w.refuseRepo)
	}
	if err != nil {
		return nil, pathError("mkdir", path, err)
	}
	return at, nil
}

// makeBelow opens the folder at path below at and makes missing folders on the
// way. It closes at, unless path is empty. Check may refuse a folder; it may be nil.
func makeBelow(at folder, path string, perm uint32, check func(folder) error) (folder, error) {
	if path == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		sub, err := at.openSub(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = at.mkdir(name, perm); err == nil || errors.Is(err, fs.ErrExist) {
				sub, err = at.openSub(name)
			}
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at = sub
		if check != nil {
			err = check(at)
		}
		if err != nil {
			at.Close()
			return nil, err
		}
	}
	return at, nil
}
