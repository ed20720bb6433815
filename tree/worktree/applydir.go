package worktree

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// workingMode has the permission bits that a folder needs while files are made
// in it. finishFolders sets the final bits.
const workingMode = 0o700

func (a *applier) isFolder(op *Op) bool { return op.makes(object.TypeDir) }

// unlockFolders makes existing read-only folders writable if an operation is
// about them, because something may have to be removed from them.
func (a *applier) unlockFolders(ctx context.Context) {
	w := &applyWorker{applier: a}
	groups := a.ops.groups(func(op *Op) bool { return a.isFolder(op) || op.Old == nil && op.New == nil })
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
	sub, err := d.sub(name)
	if err != nil {
		return
	}
	defer sub.Close()
	st, err := sub.self()
	if err == nil && !w.w.isRepo(&st) && st.mode&workingMode != workingMode {
		if sub.chmodSelf(uint32(st.perm())|workingMode) == nil && w.ops[i].New == nil {
			w.locked[i] = uint32(st.perm())
		}
	}
}

// lockFolders restores the permission bits of folders that should have been
// removed but remain. They remain because they are not empty, or because Apply
// was cancelled.
func (a *applier) lockFolders() {
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(a.locked))) {
		dir, name := tree.Split(a.ops[i].Path)
		d, err := a.w.openFolder(dir)
		if err != nil {
			continue // removed meanwhile
		}
		if sub, err := d.sub(name); err == nil {
			_ = sub.chmodSelf(a.locked[i])
			sub.Close()
		}
		d.Close()
	}
}

// makeFolders makes folders, parents first.
func (a *applier) makeFolders(ctx context.Context) {
	w := &applyWorker{applier: a}
	for _, group := range a.ops.groups(a.isFolder) {
		if !w.group(ctx, group, makeIt, (*applyWorker).makeFolder) {
			return
		}
	}
}

func (w *applyWorker) makeFolder(d folder, name string, _ int) error {
	err := d.mkdir(name, workingMode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}

	sub, err := d.sub(name)
	if notFolder(err) { // a file or symlink is in its place
		if err = d.unlink(name); err == nil {
			err = d.mkdir(name, workingMode)
		}
		return err
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	st, err := sub.self()
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
	groups := a.ops.groups(a.isFolder)
	w := &applyWorker{applier: a, stops: ctx.Err() != nil || a.fails.stop()}
	ctx = context.WithoutCancel(ctx)
	for g := len(groups) - 1; g >= 0; g-- {
		if !w.group(ctx, groups[g], fail, (*applyWorker).finishFolder) {
			return
		}
	}
}

func (w *applyWorker) finishFolder(d folder, name string, i int) error {
	e := w.ops[i].New
	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	st, err := sub.self()
	if err != nil {
		return err
	}
	if mode := w.w.opt.written(e.Mode); st.perm() != mode {
		if err := sub.chmodSelf(uint32(mode)); err != nil {
			return err
		}
	}
	if w.o.RestoreTimes && !e.MTime.IsZero() {
		if err := d.chtimes(name, e.MTime.Time()); err != nil {
			return err
		}
	}

	w.finish(i, index.Stat{})
	return nil
}

// makeFolder opens a folder. It makes the folder and its parents if they are
// absent.
func (w *Worktree) makeFolder(path string) (folder, error) {
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
		sub, err := at.sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = at.mkdir(name, perm); err == nil || errors.Is(err, fs.ErrExist) {
				sub, err = at.sub(name)
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
