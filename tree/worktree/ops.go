package worktree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// Op is the wanted change of one path. With New, the path becomes that file,
// symlink or folder; other operations fill the folder. Without New, the path
// is removed: the file or symlink Old, or, if Old is nil too, a folder. A
// folder is kept if it is not empty.
type Op struct {
	Path string
	Old  *index.Entry  // the entry in the index; nil for a folder or an untracked path
	New  *object.Entry // the wanted entry, whose Name is not used; nil: remove the path

	// Above says that the wanted paths lie below New, a folder. If the folder exists, it
	// keeps its properties.
	Above bool
}

// makesType reports whether the operation makes something of type t.
func (o *Op) makesType(t object.EntryType) bool { return o.New != nil && o.New.Type == t }

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
		if i > 0 && op.contradictsOp(&list[i-1]) {
			return nil, fmt.Errorf("worktree: %q is to be made twice", op.Path)
		}
		twice = twice || i > 0 && op.isRepeatOf(&list[i-1])
	}

	if !twice {
		return list, nil
	}

	return slices.CompactFunc(slices.Clone(list), func(a, b Op) bool { return a.isRepeatOf(&b) }), nil
}

// compareOps orders operations by path. At the same path, removing comes
// before making.
func compareOps(a, b Op) int {
	return cmp.Or(tree.ComparePaths(a.Path, b.Path), cmp.Compare(b2i(a.New != nil), b2i(b.New != nil)))
}

// isRepeatOf reports whether another operation of the same path does the same.
func (o *Op) isRepeatOf(other *Op) bool {
	return o.Path == other.Path && (o.New == nil) == (other.New == nil) && (o.Old == nil) == (other.Old == nil)
}

// contradictsOp reports whether two operations make different things of a path.
func (o *Op) contradictsOp(other *Op) bool {
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

// groupByFolder returns the operations that want selects, as places in the list, in
// groups within the same folder.
func (l opList) groupByFolder(want func(op *Op) bool) [][]int {
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

// FailedPath is a path that could not be written.
type FailedPath struct {
	Path string
	Err  error
}

// ApplyError lists the paths that could not be written, or not in full. All others were
// written, unless Stopped is set.
type ApplyError struct {
	Failed  []FailedPath // sorted by path, never empty
	Stopped bool         // the last error ended the work, such as a full disk
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

// failures collects the errors of paths from many goroutines.
type failures struct {
	mu      sync.Mutex
	failed  []FailedPath
	stopped bool
}

// addFailure records that a path failed and reports whether to go on.
func (f *failures) addFailure(path string, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	var inner *fs.PathError
	if errors.As(err, &inner) && inner.Path == path {
		err = inner.Err
	}
	f.failed = append(f.failed, FailedPath{path, err})
	f.stopped = f.stopped || isFatal(err)
	return !f.stopped
}

func (f *failures) isStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

func (f *failures) err() error {
	if len(f.failed) == 0 {
		return nil
	}
	slices.SortStableFunc(f.failed, func(a, b FailedPath) int { return tree.ComparePaths(a.Path, b.Path) })
	return &ApplyError{Failed: f.failed, Stopped: f.stopped}
}
