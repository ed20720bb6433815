package worktree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
)

// IgnoreFile is the name of the files with ignore patterns.
const IgnoreFile = ".kistignore"

// ScanOptions restrict and extend [Worktree.Scan].
type ScanOptions struct {
	// Paths are the files and folders to scan; nil means everything. A path
	// that does not exist is reported as Absent, an ignored one as Ignored.
	Paths []string

	// IncludeIgnored reports ignored paths as Untracked.
	IncludeIgnored bool

	// Git treats folders of git as any other. Otherwise an untracked one is left out, and
	// so is one that the index has from another worktree.
	Git bool

	// ListIgnored reports ignored paths as Ignored.
	ListIgnored bool

	// Exclude ignores more paths than ignore files do.
	Exclude Exclude

	// CollapseUntracked reports untracked and ignored folders without their content.
	CollapseUntracked bool

	// Times reports folders that differ only in the modification time, if it is recorded.
	Times bool

	// NoUntracked reports only paths that are in the index.
	NoUntracked bool

	// EmptyRoots takes the files of an empty root for deleted. Otherwise the root is
	// Unreadable, since its disk may not be mounted.
	EmptyRoots bool

	// Anchors gets the folders on which deletions depend, for [Anchors.Recheck]. Then
	// untracked paths that vanish during the scan are reported as Deleted, too. Nil: not.
	Anchors *Anchors
}

// Exclude selects more paths to ignore than ignore files do. The zero Exclude selects none.
type Exclude struct {
	Patterns      *ignore.Matcher // paths that match; nil: none
	Markers       []Marker        // the content of folders with such a file, except the file
	LargerThan    int64           // files with more bytes; 0: none
	OneFileSystem bool            // the content of folders where another file system is mounted

	// Drop reports excluded paths that are tracked as Deleted. Otherwise only
	// untracked paths are excluded.
	Drop bool
}

// Marker is a file that excludes its folder.
type Marker struct{ Name, Header string } // Header is the beginning of its content

// CacheTag marks a folder as a cache, by the Cache Directory Tagging Specification
// (https://bford.info/cachedir/).
var CacheTag = Marker{Name: "CACHEDIR.TAG", Header: "Signature: 8a477f597d28d172789f06886806bc55"}

// Scan compares the worktree with the index and returns the differences,
// sorted by [tree.ComparePaths]: a folder comes before its content. A file is
// unchanged if its stat data matches the index and is not racy. Scan opens no
// files, except ignore files and the files of [Exclude.Markers].
//
// Paths that cannot be read are in the result. An error means that the scan
// itself failed. The index may be nil. It must not change during the scan.
func (w *Worktree) Scan(ctx context.Context, idx *index.Index, o ScanOptions) ([]*Found, error) {
	only, err := newSelection(o.Paths)
	if err != nil {
		return nil, err
	}
	if only != nil && only.children == nil {
		return nil, nil // Paths is empty
	}

	roots, err := newSelection(w.opt.Roots)
	if err != nil {
		return nil, err
	}
	if roots != nil && roots.children == nil {
		return nil, ErrNoRoots
	}

	s := &scanner{w: w, o: o}
	s.cond.L = &s.mu
	root := &scanTask{only: only, roots: roots, matcher: new(ignore.Matcher), out: new(scanned)}
	if idx != nil {
		root.tracked = idx.Dir("")
	}

	s.pushTasks(root)
	stop := context.AfterFunc(ctx, func() { s.setError(ctx.Err()) })
	defer stop()

	var workers sync.WaitGroup
	for range w.opt.Jobs {
		workers.Go(s.runTasks)
	}

	workers.Wait()
	if err := s.firstError(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	all := scanned{items: []scanItem{{below: root.out}}}
	return all.appendTo(make([]*Found, 0, s.count)), nil
}

// selection holds the selected names in one folder, for [ScanOptions.Paths]. A
// nil selection is all of the folder.
type selection struct{ children map[string]*selection }

// newSelection returns the selection of paths at the root.
func newSelection(paths []string) (*selection, error) {
	if paths == nil {
		return nil, nil
	}

	root := &selection{}
	for _, path := range paths {
		path, err := cleanPath(path)
		if err != nil {
			return nil, err
		}
		if path == "" {
			return nil, nil
		}
		root.addPath(path)
	}

	return root, nil
}

func (s *selection) addPath(path string) {
	for {
		name, rest := cutPath(path)
		kid, have := s.children[name]
		if s.children == nil {
			s.children = map[string]*selection{}
		}
		switch {
		case have && kid == nil:
			return // already selected with everything below
		case rest == "":
			s.children[name] = nil
			return
		case !have:
			kid = &selection{}
			s.children[name] = kid
		}
		s, path = kid, rest
	}
}

// scanTask is a folder to be scanned.
type scanTask struct {
	path    string
	depth   int
	tracked *index.Dir // nil: not in the index
	only    *selection // nil: all of it
	roots   *selection // the folder is above these of [Options.Roots]; nil: it is a root or below one
	isRoot  bool
	above   uint64 // the file system of the folder above
	matcher *ignore.Matcher
	ignored bool // the folder or a parent is ignored, and so is every untracked path in it
	leftOut bool // the folder or a parent is left out, and the index does not have its content
	out     *scanned
}

// scanned is the result for one folder.
type scanned struct {
	items    []scanItem
	replaces bool // self replaces the result that the parent folder reported
	self     *Found
}

// scanItem is a name in a folder: its own result, the results below it, or
// both.
type scanItem struct {
	name  string
	found *Found
	below *scanned
}

// appendTo appends all results to dst in order.
func (s *scanned) appendTo(dst []*Found) []*Found {
	slices.SortFunc(s.items, func(a, b scanItem) int { return strings.Compare(a.name, b.name) })
	for _, item := range s.items {
		found := item.found
		if item.below != nil && item.below.replaces {
			found = item.below.self
		}
		if found != nil {
			dst = append(dst, found)
		}
		if item.below != nil {
			dst = item.below.appendTo(dst)
		}
	}

	return dst
}

// scanner hands folders to workers. The last one found comes first, so that the stack stays short.
type scanner struct {
	w *Worktree
	o ScanOptions

	mu    sync.Mutex
	cond  sync.Cond
	stack []*scanTask
	busy  int
	count int
	err   error
}

func (s *scanner) pushTasks(tasks ...*scanTask) {
	if len(tasks) == 0 {
		return
	}
	s.mu.Lock()
	s.stack = append(s.stack, tasks...)
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *scanner) setError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cond.Broadcast()
}

// nextTask waits for a task, after the worker has finished its previous one. It
// returns nil if there are no more.
func (s *scanner) nextTask(first bool) *scanTask {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !first {
		s.busy--
	}

	for len(s.stack) == 0 && s.busy > 0 && s.err == nil {
		s.cond.Wait()
	}

	if s.err != nil || len(s.stack) == 0 {
		s.cond.Broadcast()
		return nil
	}

	task := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	s.busy++
	return task
}

// firstError returns the error that ends the scan, or nil.
func (s *scanner) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *scanner) runTasks() {
	d := &dirScan{scanner: s}
	for task := s.nextTask(true); task != nil; task = s.nextTask(false) {
		d.scanFolder(task)
		s.pushTasks(d.subs...)
		s.mu.Lock()
		s.count += d.count
		s.mu.Unlock()
	}
}

// PathState is the way a path in the worktree differs from the index.
type PathState uint8

// The states of paths.
const (
	// Untracked is a path that is not in the index.
	Untracked PathState = iota + 1

	// Modified is a file or symlink whose stat data differs from the index or
	// is racy. Its content may still be the same: [Worktree.Confirm] finds
	// out.
	Modified

	// ModeChanged is a folder with other permission bits. After
	// [Worktree.Confirm] it may also be a file.
	ModeChanged

	// TypeChanged is a path whose type differs from the index, such as a
	// symlink in place of a file. If a file took the place of a folder, the
	// paths below the folder are Deleted.
	TypeChanged

	// Deleted is a path that is in the index but not in the worktree. See also
	// [ScanOptions.Anchors].
	Deleted

	// Unreadable is a path that could not be read; Err has the reason. The
	// paths below it are unknown and do not count as deleted.
	Unreadable

	// Special is a FIFO, a socket or a device. kist does not store it. Old is
	// the entry that the index has at its path, if any.
	Special

	// Nested is a name that is a form of ".kist": the folder of another
	// repository, or a remote of this one. kist does not look into it.
	Nested

	// Ignored is an untracked path that an ignore file excludes. It is
	// reported only if [ScanOptions] ask for it or name it.
	Ignored

	// Absent is a path in [ScanOptions.Paths] that is neither in the worktree
	// nor in the index.
	Absent
)

var stateNames = [...]string{
	Untracked: "untracked", Modified: "modified", ModeChanged: "mode changed", TypeChanged: "type changed",
	Deleted: "deleted", Unreadable: "unreadable", Special: "special file", Nested: "nested repository",
	Ignored: "ignored", Absent: "absent",
}

// String returns the state in lower-case words.
func (s PathState) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Found is a path in the worktree that differs from the index.
type Found struct {
	Path       string
	State      PathState
	Type       object.EntryType // the present type; 0: absent or unknown
	Dir        bool             // it is a folder, or was one before it was deleted
	Mode       uint16           // the present permission bits
	Properties *object.Entry    // of a present folder: mode, and, if recorded, mtime and metadata
	Stat       index.Stat       // the present stat data, without ReadAt; zero if deleted
	Old        *index.Entry     // the entry in the index, not a copy; nil for a folder or an untracked path
	Err        error            // the reason for Unreadable, Nested or Absent; of a folder also a [*LeftXattrsError]
	Excluded   bool             // Deleted because it is excluded, or below no root; it may exist
	Vanished   bool             // Deleted because it could not be found after its folder had been listed
	LeftOut    bool             // it lies in a folder that is left out; the index may have the path all the same
}
