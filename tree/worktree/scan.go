package worktree

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
)

// IgnoreFile is the name of the files with patterns of what to ignore.
const IgnoreFile = ".kistignore"

// ScanOptions say what [Worktree.Scan] looks at.
type ScanOptions struct {
	// Paths are files or folders to look at; nil is everything. A path that is
	// nowhere is reported as Absent, one that is ignored as Ignored.
	Paths []string

	// IncludeIgnored takes ignored paths for untracked ones.
	IncludeIgnored bool

	// ListIgnored reports ignored paths as Ignored.
	ListIgnored bool

	// ExcludeCaches ignores all but the tag in folders that have a CACHEDIR.TAG.
	ExcludeCaches bool

	// CollapseUntracked does not look into untracked or ignored folders.
	CollapseUntracked bool

	// NoUntracked reports nothing that the index does not have.
	NoUntracked bool
}

// Scan compares the worktree with the index and returns what differs, sorted
// by [tree.ComparePaths]: a folder comes before what is in it. Files are not
// opened (other than ignore files and, if asked for, cache tags): a file with
// the stat data that the index has is unchanged, unless that is racy.
//
// Paths that cannot be read are in the result; the error is about the scan as
// a whole. The index may be nil, and must not be changed meanwhile.
func (w *Worktree) Scan(ctx context.Context, idx *index.Index, o ScanOptions) ([]Found, error) {
	only, err := newSelection(o.Paths)
	if err != nil {
		return nil, err
	}
	if only != nil && only.kids == nil {
		return nil, nil // no path at all was asked for
	}
	s := &scanner{w: w, o: o}
	s.cond.L = &s.mu
	root := &scanTask{only: only, matcher: new(ignore.Matcher), out: new(scanned)}
	if idx != nil {
		root.tracked = idx.Dir("")
	}
	s.push(root)
	stop := context.AfterFunc(ctx, func() { s.fail(ctx.Err()) })
	defer stop()

	var workers sync.WaitGroup
	for range w.opt.Jobs {
		workers.Go(s.work)
	}
	workers.Wait()
	if err := s.failure(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := scanned{items: []scanItem{{below: root.out}}}
	return all.flatten(make([]Found, 0, s.count)), nil
}

// selection is a folder that [ScanOptions.Paths] restricts a scan to, and what
// in it. All of a folder is selected by nil.
type selection struct{ kids map[string]*selection }

// newSelection returns what paths select from the root on.
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
		root.add(path)
	}
	return root, nil
}

func (s *selection) add(path string) {
	for {
		name, rest := cutPath(path)
		kid, have := s.kids[name]
		if s.kids == nil {
			s.kids = map[string]*selection{}
		}
		switch {
		case have && kid == nil:
			return // all of it is selected already
		case rest == "":
			s.kids[name] = nil
			return
		case !have:
			kid = &selection{}
			s.kids[name] = kid
		}
		s, path = kid, rest
	}
}

// scanTask is a folder to be scanned.
type scanTask struct {
	path    string
	depth   int
	tracked *index.Dir // nil: the index does not have it
	only    *selection // nil: all of it
	matcher *ignore.Matcher
	ignored bool // it or a folder above is ignored: so is all in it that is not tracked
	out     *scanned
}

// scanned is the result for one folder.
type scanned struct {
	items    []scanItem
	replaces bool // self takes the place of what was reported for the folder
	self     *Found
}

// scanItem is a name in a folder that is reported, or a folder in which names
// may be, or both.
type scanItem struct {
	name  string
	found *Found
	below *scanned
}

// flatten appends what was found to dst in order.
func (s *scanned) flatten(dst []Found) []Found {
	slices.SortFunc(s.items, func(a, b scanItem) int { return strings.Compare(a.name, b.name) })
	for _, item := range s.items {
		found := item.found
		if item.below != nil && item.below.replaces {
			found = item.below.self
		}
		if found != nil {
			dst = append(dst, *found)
		}
		if item.below != nil {
			dst = item.below.flatten(dst)
		}
	}
	return dst
}

// scanner hands folders to workers, the last found first, so that few wait.
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

func (s *scanner) push(tasks ...*scanTask) {
	if len(tasks) == 0 {
		return
	}
	s.mu.Lock()
	s.stack = append(s.stack, tasks...)
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *scanner) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cond.Broadcast()
}

// next waits for a task; nil means that there will be none. The worker's last
// one is done.
func (s *scanner) next(first bool) *scanTask {
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

// failure returns why the scan has to end, nil if it has not.
func (s *scanner) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *scanner) work() {
	d := &dirScan{scanner: s}
	for task := s.next(true); task != nil; task = s.next(false) {
		d.scan(task)
		s.push(d.subs...)
		s.mu.Lock()
		s.count += d.count
		s.mu.Unlock()
	}
}
