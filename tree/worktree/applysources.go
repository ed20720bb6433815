package worktree

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// RemovableLate returns those of some paths, of files that ops remove, whose removal can wait until all other operations are done: no
// operation makes something in their place. Some file systems ignore the case of names, so that does not count.
func RemovableLate(ops []Op, paths []string) map[string]bool {
	late := map[string]bool{}
	if len(paths) == 0 {
		return late
	}
	files, folders := map[string]bool{}, map[string]bool{} // that ops make
	for i := range ops {
		op := &ops[i]
		if op.New == nil {
			continue
		}
		at := foldCase(op.Path)
		if !op.makesType(object.TypeDir) {
			files[at] = true
			at, _ = tree.Split(at)
		}
		for ; at != "" && !folders[at]; at, _ = tree.Split(at) {
			folders[at] = true
		}
	}
	for _, path := range paths {
		at := foldCase(path)
		free := !folders[at]
		for ; at != "" && free; at, _ = tree.Split(at) {
			free = !files[at]
		}
		if free {
			late[path] = true
		}
	}
	return late
}

// sources are the files that are removed as soon as others are written, because their content is read from them.
type sources struct {
	place  map[string]int        // of the removal, by path
	of     map[string][]string   // sources by path of a file to write
	before map[string]index.Stat // of the sources

	mu   sync.Mutex     // guards the following
	left map[string]int // number of files to write, by path of a source
}

// findSources finds the sources among the operations.
func (a *applier) findSources() {
	if len(a.o.Sources) == 0 {
		return
	}
	s := &sources{place: map[string]int{}, of: map[string][]string{}, before: map[string]index.Stat{}, left: map[string]int{}}
	made := map[string]bool{}
	for i := range a.ops {
		op := &a.ops[i]
		if op.makesType(object.TypeFile) {
			made[op.Path] = true
		} else if op.Old != nil && op.New == nil && len(a.o.Sources[op.Path]) > 0 {
			s.place[op.Path] = i
		}
	}
	for path := range s.place {
		if info, err := a.w.Lstat(path); err == nil {
			s.before[path] = info.Stat
		}
		for _, file := range a.o.Sources[path] {
			if made[file] {
				s.of[file] = append(s.of[file], path)
				s.left[path]++
			}
		}
	}
	a.sources = s
}

// isSource reports whether the removal of a path waits for other operations.
func (a *applier) isSource(path string) bool { return a.sources != nil && a.sources.left[path] > 0 }

// removeSources removes the files that are needed no more when the file at path is written.
func (a *applier) removeSources(ctx context.Context, path string) {
	if a.sources == nil {
		return
	}
	for _, source := range a.sources.of[path] {
		a.sources.mu.Lock()
		a.sources.left[source]--
		last := a.sources.left[source] == 0
		a.sources.mu.Unlock()
		if last {
			w := &applyWorker{applier: a}
			w.runGroup(ctx, []int{a.sources.place[source]}, countAsDone, (*applyWorker).removeSource)
		}
	}
}

// removeSource removes a source, unless somebody has changed it while the others were written: the error is then [ErrChanged].
func (w *applyWorker) removeSource(d folder, name string, i int) error {
	path := w.ops[i].Path
	before := w.sources.before[path]
	if info, err := w.w.Lstat(path); err == nil && before.Inode != 0 && !before.Same(info.Stat) {
		return ErrChanged
	}
	return w.removeFile(d, name, i)
}

// removeLeft removes the folders that the removal of sources has emptied.
func (a *applier) removeLeft(ctx context.Context) {
	if a.sources != nil {
		a.removeFolders(ctx)
	}
}
