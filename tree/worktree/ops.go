package worktree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// Op is the wanted change of one path. With New, the path becomes that file,
// symlink or folder; other operations fill the folder. Without New, the path
// is removed: the file or symlink Old, or, if Old is nil too, a folder. A
// folder stays if it is not empty.
type Op struct {
	Path string
	Old  *index.Entry  // the entry in the index; nil for a folder or an untracked path
	New  *object.Entry // the wanted entry, whose Name is not used; nil: remove the path
}

// makes reports whether the operation makes something of type t.
func (o *Op) makes(t object.EntryType) bool { return o.New != nil && o.New.Type == t }

// opList is a checked list of operations in the order of their paths.
type opList []Op

// newOpList checks operations and sorts them. Two operations may make the same
// path only if they make the same of it. The result may share memory with ops
// and must not be changed.
func newOpList(ops []Op) (opList, error) {
	list := ops
	if !slices.IsSortedFunc(list, compareOps) {
		list = slices.Clone(ops)
		slices.SortStableFunc(list, compareOps)
	}

	twice := false
	for i := range list {
		op := &list[i]
		if err := tree.CheckPath(op.Path); err != nil {
			return nil, fmt.Errorf("worktree: %w", err)
		}
		if op.New != nil && op.New.Mode > 0o7777 {
			return nil, fmt.Errorf("worktree: %q: mode %o has more than permission bits", op.Path, op.New.Mode)
		}
		if i > 0 && op.contradicts(&list[i-1]) {
			return nil, fmt.Errorf("worktree: %q is to be made twice", op.Path)
		}
		twice = twice || i > 0 && op.repeats(&list[i-1])
	}

	if !twice {
		return list, nil
	}

	return slices.CompactFunc(slices.Clone(list), func(a, b Op) bool { return a.repeats(&b) }), nil
}

// compareOps orders operations by path. At the same path, removing comes
// before making.
func compareOps(a, b Op) int {
	return cmp.Or(tree.ComparePaths(a.Path, b.Path), cmp.Compare(b2i(a.New != nil), b2i(b.New != nil)))
}

// repeats reports whether another operation of the same path does the same.
func (o *Op) repeats(other *Op) bool {
	return o.Path == other.Path && (o.New == nil) == (other.New == nil) && (o.Old == nil) == (other.Old == nil)
}

// contradicts reports whether two operations make different things of a path.
func (o *Op) contradicts(other *Op) bool {
	return o.Path == other.Path && o.New != nil && other.New != nil && !tree.ContentEqual(o.New, other.New)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A group has at most maxGroup operations. It also ends with the operation
// that brings its files to maxGroupBytes.
const (
	maxGroup      = 128
	maxGroupBytes = 8 << 20
)

// groups returns the operations that want selects, as places in the list, in
// groups within the same folder.
func (l opList) groups(want func(op *Op) bool) [][]int {
	var all [][]int
	var group []int
	var size uint64
	last := ""
	for i := range l {
		if !want(&l[i]) {
			continue
		}
		dir, _ := tree.Split(l[i].Path)
		if len(group) > 0 && (dir != last || len(group) == maxGroup || size >= maxGroupBytes) {
			all = append(all, group)
			group, size = nil, 0
		}
		group, last = append(group, i), dir
		if l[i].New != nil {
			size += l[i].New.Size
		}
	}

	if len(group) > 0 {
		all = append(all, group)
	}

	return all
}

// Failed is a path that could not be written.
type Failed struct {
	Path string
	Err  error
}

// ApplyError lists the paths that could not be written, or not in full. All others were
// written, unless Stopped is set.
type ApplyError struct {
	Failed  []Failed // sorted by path, never empty
	Stopped bool     // the last error ended the work, such as a full disk
}

func (e *ApplyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "write %q: %v", e.Failed[0].Path, e.Failed[0].Err)
	if n := len(e.Failed) - 1; n > 0 {
		fmt.Fprintf(&b, ", and %d more", n)
	}
	return b.String()
}

// Unwrap returns the paths' errors.
func (e *ApplyError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	return errs
}

// CollisionError means that a name cannot be written beside Other, because
// this file system ignores the difference between them.
type CollisionError struct{ Other string }

func (e *CollisionError) Error() string {
	return fmt.Sprintf("the file system treats the name as equal to %q", e.Other)
}

// failures collects the errors of paths from many goroutines.
type failures struct {
	mu      sync.Mutex
	failed  []Failed
	stopped bool
}

// add records that a path failed and reports whether to go on.
func (f *failures) add(path string, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	var inner *fs.PathError
	if errors.As(err, &inner) && inner.Path == path {
		err = inner.Err
	}
	f.failed = append(f.failed, Failed{path, err})
	f.stopped = f.stopped || isFatal(err)
	return !f.stopped
}

func (f *failures) stop() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

func (f *failures) err() error {
	if len(f.failed) == 0 {
		return nil
	}
	slices.SortStableFunc(f.failed, func(a, b Failed) int { return tree.ComparePaths(a.Path, b.Path) })
	return &ApplyError{Failed: f.failed, Stopped: f.stopped}
}

// findFold reports whether the file system ignores the case of names. It tries
// the name of the repository's folder in upper case, or else that of a new
// temporary file.
func (w *Worktree) findFold() bool {
	root, err := w.fs.openFolder("")
	if err != nil {
		return false
	}
	defer root.Close()

	name := w.opt.RepoName
	st, have := w.repo()
	if !have {
		at := (*tempFolder)(nil).stage(root)
		f, err := root.create(at.name, 0o600)
		if err != nil {
			return false
		}
		defer at.drop()
		defer f.Close()
		if st, err = f.stat(); err != nil {
			return false
		}
		name = at.name
	}

	other, err := root.lstat(strings.ToUpper(name))
	return err == nil && name != strings.ToUpper(name) && other.ino == st.ino && other.dev == st.dev
}

// refuseCollisions marks operations as failed if the file system would give
// two of their paths, or of the folders above, the same name.
func (a *applier) refuseCollisions() {
	if !a.w.foldsCase() {
		return
	}

	spellings := map[string][2]string{} // by folded path: the first two spellings
	for i := range a.ops {
		if a.ops[i].New == nil {
			continue
		}
		for path, folded := range prefixes(a.ops[i].Path) {
			have := spellings[folded]
			if have[0] == path {
				break // the folders above are known, too
			}
			switch {
			case have[0] == "":
				have[0] = path
			case have[1] == "":
				have[1] = path
			}
			spellings[folded] = have
		}
	}

	for i := range a.ops {
		if a.ops[i].New == nil {
			continue
		}
		for path, folded := range prefixes(a.ops[i].Path) {
			if have := spellings[folded]; have[1] != "" {
				other := have[0]
				if other == path {
					other = have[1]
				}
				a.state[i] = opFailed
				a.fails.add(a.ops[i].Path, &CollisionError{Other: other})
				break
			}
		}
	}
}

// prefixes yields a path and all folders above it, longest first, each as it
// is and folded.
func prefixes(path string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for folded := foldCase(path); path != ""; {
			if !yield(path, folded) {
				return
			}
			path, _ = tree.Split(path)
			folded, _ = tree.Split(folded)
		}
	}
}

// foldCase returns the same string for all paths that differ only in case.
func foldCase(path string) string {
	if !utf8.ValidString(path) {
		return path
	}
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, path)
}
