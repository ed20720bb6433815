package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// RefusalReason is the reason why an operation must not overwrite a path.
type RefusalReason uint8

// The reasons.
const (
	LocalChange    RefusalReason = iota + 1 // a tracked path matches neither the index nor the operation's result
	UntrackedInWay                          // an untracked path would be overwritten
	CannotRead                              // the path cannot be read, so its changes are unknown
)

// String returns the reason in lower-case words.
func (r RefusalReason) String() string {
	switch r {
	case LocalChange:
		return "local change"
	case UntrackedInWay:
		return "untracked"
	case CannotRead:
		return "unreadable"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Obstacle is a path that operations would destroy though no other copy
// exists.
type Obstacle struct {
	Path   string // the path that would be lost; not always that of an operation
	Reason RefusalReason
	Err    error // the reason for CannotRead, nil otherwise
}

// Check returns the paths that operations would destroy, sorted: files and
// symlinks with local changes, and untracked paths, ignored or not. A path
// that already matches the operation's result is no obstacle, so an
// interrupted Apply can be repeated. Nor is a path that Apply leaves as it is, because it
// belongs to git. If an operation has New but no Old, the
// old entry comes from the index, which may be nil.
func (w *Worktree) Check(ctx context.Context, idx *index.Index, ops []Op) ([]Obstacle, error) {
	list, err := newOpList(ops)
	if err != nil {
		return nil, err
	}

	if !w.opt.Git {
		list, _ = splitGit(list) // Apply leaves the others
	}
	c := &checker{w: w, idx: idx, ops: list, removed: map[string]bool{}, found: map[string]Obstacle{}}
	for i := range c.ops {
		op := &c.ops[i]
		if op.New == nil || op.makesType(object.TypeDir) {
			c.removed[op.Path] = op.Old != nil || op.New != nil
		}
	}

	all := c.ops.groupByFolder(func(*Op) bool { return true })
	if err := w.eachGroup(ctx, all, func(s *storer, group []int) { c.checkGroup(ctx, s, group) }); err != nil {
		return nil, err
	}

	obstacles := make([]Obstacle, 0, len(c.found))
	for _, o := range c.found {
		obstacles = append(obstacles, o)
	}

	slices.SortFunc(obstacles, func(a, b Obstacle) int { return tree.ComparePaths(a.Path, b.Path) })
	return obstacles, nil
}

// eachGroup calls f for groups of operations, several at once. The storer stores nothing.
// The error is that of ctx.
func (w *Worktree) eachGroup(ctx context.Context, groups [][]int, f func(s *storer, group []int)) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(w.opt.Jobs, len(groups)) {
		workers.Go(func() {
			s := w.newStorer(object.Discard, nil)
			defer s.close()
			for at := int(next.Add(1)) - 1; at < len(groups) && ctx.Err() == nil; at = int(next.Add(1)) - 1 {
				f(s, groups[at])
			}
		})
	}

	workers.Wait()
	return ctx.Err()
}

// Overwrite selects the existing files that [Worktree.Pending] leaves as they are. Files that
// equal their entry in type, permission bits, time, content and metadata always stay.
type Overwrite uint8

// The other files that stay. Permission bits, owners and extended attributes of folders are
// always written, except by OverwriteNever.
const (
	OverwriteAlways    Overwrite = iota // none
	OverwriteIfChanged                  // files of equal type, permission bits, time, size and metadata: their content is not read
	OverwriteIfNewer                    // files that are not older than their entry, also in the place of a folder
	OverwriteNever                      // everything that exists
)

// Pending returns the operations that Apply still has to carry out, sorted by path. It leaves
// out the files and symlinks that stay. How selects these, and o has the options for Apply. Denied
// metadata of files that stay counts, as in Apply. Operations that Apply refuses as a whole give
// the same error here.
func (w *Worktree) Pending(ctx context.Context, ops []Op, how Overwrite, o ApplyOptions) ([]Op, error) {
	list, err := w.prepareOps(ops)
	if err != nil {
		return nil, err
	}

	done := make([]bool, len(list))
	made := list.groupByFolder(func(op *Op) bool { return op.New != nil })
	err = w.eachGroup(ctx, made, func(st *storer, group []int) {
		dir, _ := tree.Split(list[group[0]].Path)
		d, err := w.openFolder(dir)
		if err != nil {
			return // Apply makes the folder, or reports the error
		}
		defer d.Close()
		s := stayingFiles{w: w, how: how, o: &o, inherits: inheritanceOf(d)}
		for _, i := range group {
			_, name := tree.Split(list[i].Path)
			done[i] = s.isLeft(ctx, st, d, &list[i]) && checkSpelling(d, name) == nil
		}
	})
	if err != nil {
		return nil, err
	}

	if how != OverwriteNever && how != OverwriteIfNewer {
		w.keepLinks(list, done)
	}
	var pending []Op
	for i, op := range list {
		if !done[i] {
			pending = append(pending, op)
		}
	}

	return pending, nil
}

// stayingFiles decides which files Apply need not write.
type stayingFiles struct {
	w        *Worktree
	how      Overwrite
	o        *ApplyOptions
	inherits inheritance // of the current folder
}

// isLeft reports whether the path of op, in folder d, is left as it is.
func (t stayingFiles) isLeft(ctx context.Context, s *storer, d folder, op *Op) bool {
	_, name := tree.Split(op.Path)
	st, err := d.lstat(name)
	if err != nil {
		return false
	}
	want := op.New
	_, timed := want.Modified()
	switch {
	case t.how == OverwriteNever:
		return true
	case want.Type == object.TypeDir && st.isDir():
		return false
	case t.how == OverwriteIfNewer && want.MTime.Compare(st.mtime) <= 0:
		return true
	case want.Type != st.entryType():
		return false
	case want.Type == object.TypeFile && (want.Size != uint64(st.size) || timed && want.MTime != st.mtime):
		return false
	case want.Type == object.TypeFile && timed && t.how == OverwriteIfChanged:
		have := object.Entry{Name: name, Type: want.Type}
		err := t.w.addProperties(&have, &st, nil, func(want wantXattr) (map[string][]byte, error) { return d.xattrs(name, want) })
		_, err = splitLeft(err)
		return err == nil && t.sameMetadata(want, &have, &st)
	}

	known := index.NewEntry(*want, index.Stat{})
	stored, err := s.storeItem(ctx, op.Path, nil, &known)
	if err != nil || stored.Unstable {
		return false
	}
	now := index.NewEntry(stored.Entry, index.Stat{})
	known.Mode = now.Mode // compared below
	return known.SameData(&now) && t.sameMetadata(want, &stored.Entry, &st)
}

// sameMetadata reports whether Apply would leave the metadata of a path as it is: it is
// equal, or this user may not change it. Have has the present metadata.
func (t stayingFiles) sameMetadata(want, have *object.Entry, st *fileStat) bool {
	w := applyWorker{applier: &applier{w: t.w, o: *t.o}, inherits: t.inherits}
	mode := w.restoreMode(want)
	if want.Meta == nil || have.Meta == nil {
		return want.Type != object.TypeFile || mode == st.perm()
	}

	a, b := w.comparablePart(want.Meta), w.comparablePart(have.Meta)
	var denied Denied
	if full := t.o.Metadata; full != nil {
		a.UID, a.GID = full.localOwner(want.Meta)
		if a.Xattrs[selinux] == nil {
			delete(b.Xattrs, selinux) // Apply leaves it
		}
		denied = full.withoutDenied(a, b)
		if denied.Owners > 0 {
			mode &^= setID
		}
	}
	old, new := object.Entry{Type: want.Type, Meta: a}, object.Entry{Type: want.Type, Meta: b}
	same := want.MTime == st.mtime && (want.Type == object.TypeSymlink || mode == st.perm()) && tree.ContentEqual(&old, &new)
	if same && denied != (Denied{}) {
		t.o.Metadata.addDenied(denied)
	}
	return same
}

// keepLinks clears done for all names of a file if one of them has to be written, or if
// they are not one file.
func (w *Worktree) keepLinks(list opList, done []bool) {
	groups := map[uint64][]int{}
	for i, op := range list {
		if op.New != nil && op.New.Meta != nil && op.New.Meta.HardLink != 0 {
			groups[op.New.Meta.HardLink] = append(groups[op.New.Meta.HardLink], i)
		}
	}
	for _, group := range groups {
		whole := true
		var first Info
		for n, i := range group {
			info, err := w.Lstat(list[i].Path)
			if n == 0 {
				first = info
			}
			whole = whole && done[i] && err == nil && info.Stat.Inode == first.Stat.Inode
		}
		for _, i := range group {
			done[i] = done[i] && whole
		}
	}
}

type checker struct {
	w       *Worktree
	idx     *index.Index // may be nil
	ops     opList
	removed map[string]bool // paths that lose their file or symlink (true), or only an empty folder (false)

	mu    sync.Mutex
	found map[string]Obstacle
}

func (c *checker) addObstacle(path string, reason RefusalReason, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.found[path]; !ok {
		c.found[path] = Obstacle{path, reason, err}
	}
}

// checkGroup checks the operations of one folder.
func (c *checker) checkGroup(ctx context.Context, s *storer, group []int) {
	dir, _ := tree.Split(c.ops[group[0]].Path)
	for _, i := range group {
		if at := c.gitInWay(c.ops[i]); at != "" {
			c.addObstacle(at, UntrackedInWay, nil)
		}
	}
	d, err := c.w.openFolder(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case notFolder(err):
		c.checkAbove(dir, group)
		return
	case err != nil:
		c.addObstacle(dir, CannotRead, err)
		return
	}

	defer d.Close()
	for _, i := range group {
		if ctx.Err() != nil {
			return
		}
		op := c.ops[i]
		if op.Old == nil && op.New != nil && c.idx != nil {
			op.Old = c.idx.Entry(op.Path)
		}
		c.checkOp(ctx, s, d, &op)
	}
}

// gitInWay returns the path of git's folder, or of a file in its place, if the operation
// would write into it and the index has nothing there. Otherwise a fetched commit
// could install hooks that git runs.
func (c *checker) gitInWay(op Op) string {
	if op.New == nil || c.idx == nil || tree.GitFolder(op.Path) == "" {
		return ""
	}
	for at := op.Path; at != ""; {
		above, name := tree.Split(at)
		if object.IsGitName(name) && c.idx.Entry(at) == nil && c.idx.Dir(at) == nil {
			if _, err := c.w.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
				return at
			}
		}
		at = above
	}
	return ""
}

// checkAbove finds the file or symlink that lies where a parent folder must
// be, unless the group only removes.
func (c *checker) checkAbove(dir string, group []int) {
	if !slices.ContainsFunc(group, func(i int) bool { return c.ops[i].New != nil }) {
		return
	}

	for path := dir; path != ""; path, _ = tree.Split(path) {
		above, name := tree.Split(path)
		d, err := c.w.openFolder(above)
		if notFolder(err) {
			continue
		}
		if err == nil {
			_, err = d.lstat(name)
			d.Close()
		}
		if err == nil && !c.removed[path] {
			c.addObstacle(path, UntrackedInWay, nil)
		}
		return
	}
}

// checkOp adds the obstacle of one operation, if there is one.
func (c *checker) checkOp(ctx context.Context, s *storer, d folder, op *Op) {
	if op.Old == nil && op.New == nil {
		return // removes a folder, and only if it is empty
	}

	_, name := tree.Split(op.Path)
	st, err := d.lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.addObstacle(op.Path, CannotRead, err)
	case st.isDir():
		if op.New != nil && op.New.Type != object.TypeDir {
			c.checkBelow(op.Path)
		}
	case op.Old != nil && op.Old.Stat.Same(st.indexStat(0)) && !op.Old.Stat.Racy():
	default:
		c.checkContent(ctx, s, op, &st)
	}
}

// checkContent reads a file or symlink. It is an obstacle unless its content is Old's or New's.
func (c *checker) checkContent(ctx context.Context, s *storer, op *Op, st *fileStat) {
	reason := LocalChange
	if op.Old == nil {
		reason = UntrackedInWay
	}

	may := func(kind object.EntryType, size uint64) bool {
		return kind == st.entryType() && (kind != object.TypeFile || size == uint64(st.size))
	}

	if !(op.Old != nil && may(op.Old.Type, op.Old.Size)) && !(op.New != nil && may(op.New.Type, op.New.Size)) {
		c.addObstacle(op.Path, reason, nil)
		return
	}

	known := op.Old
	if op.New != nil && (known == nil || known.Size != uint64(st.size)) {
		e := index.NewEntry(*op.New, index.Stat{})
		known = &e
	}

	stored, err := s.storeItem(ctx, op.Path, nil, known)
	if errors.Is(err, ErrGone) {
		return
	}
	if err != nil {
		c.addObstacle(op.Path, CannotRead, err)
		return
	}

	now := index.NewEntry(stored.Entry, index.Stat{})
	if !stored.Unstable {
		if op.Old != nil && op.Old.SameContent(&now) {
			return
		}
		if op.New != nil {
			want := index.NewEntry(*op.New, index.Stat{})
			want.Mode = now.Mode // permission bits and metadata alone are no loss
			if want.SameData(&now) {
				return
			}
		}
	}

	c.addObstacle(op.Path, reason, nil)
}

// checkBelow adds an obstacle for each path in a folder that no operation
// removes. A file or symlink is about to replace the folder.
func (c *checker) checkBelow(path string) {
	d, err := c.w.openFolder(path)
	if err != nil {
		c.addObstacle(path, CannotRead, err)
		return
	}
	defer d.Close()

	var l listing
	if err := d.readNames(&l); err != nil {
		c.addObstacle(path, CannotRead, err)
		return
	}

	for i := range l.entries {
		at := path + "/" + l.nameAt(i)
		st, err := d.lstatListed(&l, i)
		file, removed := c.removed[at]
		switch {
		case err != nil:
			c.addObstacle(at, CannotRead, err)
		case !removed || !file && !st.isDir():
			c.addObstacle(at, UntrackedInWay, nil)
		case st.isDir():
			c.checkBelow(at)
		}
	}
}

// Surplus returns the operations that remove the paths below a folder for which keep returns
// KeepNothing. It does not look into folders with KeepAll, nor into folders with a form of the
// name .kist, which are always kept. Apply removes a folder only if it is then empty. A folder that
// does not exist has no surplus.
func (w *Worktree) Surplus(ctx context.Context, dir string, keep func(path string, isDir bool) Keep) ([]Op, error) {
	d, err := w.openFolder(dir)
	if errors.Is(err, fs.ErrNotExist) || notFolder(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()

	var l listing
	if err := d.readNames(&l); err != nil {
		return nil, err
	}

	var ops []Op
	for i := range l.entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st, err := d.lstatListed(&l, i)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		path := tree.Join(dir, l.nameAt(i))
		what := keep(path, st.isDir())
		switch {
		case what == KeepAll || object.CheckName(l.nameAt(i)) != nil:
		case st.isDir():
			below, err := w.Surplus(ctx, path, keep)
			if err != nil {
				return nil, err
			}
			if ops = append(ops, below...); what == KeepNothing {
				ops = append(ops, Op{Path: path})
			}
		case what == KeepNothing:
			ops = append(ops, Op{Path: path, Old: &index.Entry{}})
		}
	}

	return ops, nil
}

// Keep selects the paths that [Worktree.Surplus] keeps.
type Keep uint8

const (
	KeepNothing Keep = iota // the path goes
	KeepFolder              // the path stays; paths below it may go
	KeepAll                 // the path stays with everything below it
)
