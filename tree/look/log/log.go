// Package log walks the history of commits in the order that log prints.
package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// Options select the commits that [Commits] yields.
type Options struct {
	// Revs are the revisions to start from; none means HEAD. "^REV" excludes the
	// commits that REV reaches. "A..B" means "^A B". "A...B" means the commits
	// that only one of both reaches.
	Revs  []string
	Paths []string // only commits that changed these paths or paths below them

	Select      func(path string) bool // selects among the paths; nil: all
	Follow      bool                   // follow the only path through renames
	FirstParent bool                   // follow only the first parent of a merge
	Topo        bool                   // no commit before all its children
	Reflog      bool                   // walk the moves of the refs in Revs instead of their history
	LeftRight   bool                   // set Logged.Mark to the side of A...B
	Lines       []FileLines            // only commits that changed these lines of the only start, see [OneStart]

	Since, Until time.Time                 // by the committer's time; zero: no limit
	Match        func(*object.Commit) bool // nil: all
}

// Logged is a commit in a log.
type Logged struct {
	ID object.ID
	*object.Commit
	Path string      // with Follow: the path in this commit
	Next []object.ID // with Topo: the parents; instead of a parent that is left out, the commits after it

	Mark   byte  // with LeftRight: '<' or '>', the side of A...B; otherwise 0
	Reflog *Move // with Reflog: the move of a ref to this commit; otherwise nil

	Lines []LineChange // with Lines: the changes of the commit in these lines; empty, not nil, for a merge

	Expired *record.Record // the record that allows the content to be missing; nil: not expired
	Held    *record.Record // the record that keeps the content; nil: not held
}

// Commits yields commits, newest first.
//
// With paths, a merge that has them from one of its parents is skipped, and
// only that parent is followed: the remaining commits explain the present
// state of the paths. The changes of an expired commit are unknown, so it is
// skipped. Commits after it are compared with those before it, see [Before].
func Commits(ctx context.Context, r *kist.Repository, o Options) iter.Seq2[Logged, error] {
	return func(yield func(Logged, error) bool) {
		if o.Follow && len(o.Paths) != 1 {
			yield(Logged{}, errors.New("one path can be followed, no more and no less"))
			return
		}
		records, err := r.RecordViewOrEmpty()
		if err != nil {
			yield(Logged{}, err)
			return
		}
		l := &commitSelector{r: r, o: o, records: records, paths: map[object.ID]string{}, past: map[object.ID]bool{}}
		if o.Reflog {
			l.yieldMoves(ctx, yield)
			return
		}
		b, err := boundsOf(ctx, r, o.Revs)
		if err == nil && o.LeftRight {
			l.left, err = b.leftSide(ctx, r)
		}
		if err != nil {
			yield(Logged{}, err)
			return
		}
		walk := history.Walk(ctx, r.Objects(), b.starts, history.Options{
			Exclude: b.exclude, FirstParent: o.FirstParent, Topo: o.Topo || len(o.Lines) > 0, Parents: l.parentSelector(ctx, b.exclude),
		})
		if len(o.Lines) > 0 {
			walk = l.traceLines(ctx, b.starts[0], walk)
		}
		if o.Topo && (len(b.exclude) > 0 || l.mayOmit()) {
			l.yieldSifted(ctx, walk, yield)
			return
		}
		for c, err := range walk {
			if err != nil {
				yield(Logged{}, err)
				return
			}
			if l.showsCommit(c) && !yield(l.loggedCommit(c.ID, c.Commit, l.nextCommits(c)), nil) {
				return
			}
		}
	}
}

// yieldSifted yields the commits to show in topological order, each with its
// next commits. These are known only at the end of the walk.
func (l *commitSelector) yieldSifted(ctx context.Context, walk iter.Seq2[history.Commit, error], yield func(Logged, error) bool) {
	type visit struct {
		id    object.ID
		after []object.ID
		shown bool
	}
	var visits []visit
	for c, err := range walk {
		if err != nil {
			yield(Logged{}, err)
			return
		}
		visits = append(visits, visit{c.ID, l.nextCommits(c), l.showsCommit(c)})
	}

	shown := map[object.ID][]object.ID{} // by visited commit: the commit itself, or the next shown ones
	for i, v := range slices.Backward(visits) {
		var next []object.ID
		for _, id := range v.after {
			for _, id := range shown[id] {
				if !slices.Contains(next, id) {
					next = append(next, id)
				}
			}
		}
		visits[i].after = next
		if shown[v.id] = next; v.shown {
			shown[v.id] = []object.ID{v.id}
		}
	}

	for _, v := range visits {
		if !v.shown {
			continue
		}
		c, err := object.ReadCommit(ctx, l.r.Objects(), v.id)
		if err != nil {
			yield(Logged{}, err)
			return
		}
		if !yield(l.loggedCommit(v.id, c, v.after), nil) {
			return
		}
	}
}

func (l *commitSelector) loggedCommit(id object.ID, c *object.Commit, next []object.ID) Logged {
	out := One(l.records, id, c)
	out.Path, out.Next, out.Lines = l.paths[id], next, l.changed[id]
	if l.o.LeftRight {
		out.Mark = '>'
		if l.left[id] {
			out.Mark = '<'
		}
	}
	return out
}

// One returns a commit with its records, without Path and Next.
func One(records *record.Effects, id object.ID, c *object.Commit) Logged {
	out := Logged{ID: id, Commit: c}
	if rec, expired := records.Expired(id); expired {
		out.Expired = new(rec)
	}
	if rec, held := records.Held(id); held {
		out.Held = new(rec)
	}
	return out
}

// logBounds are the commits that a log begins and ends with.
type logBounds struct {
	starts, exclude []object.ID
	left            []object.ID // each A of A...B, also in starts
}

// boundsOf resolves the revisions that a log begins and ends with.
func boundsOf(ctx context.Context, r *kist.Repository, revs []string) (b logBounds, err error) {
	if len(revs) == 0 {
		head, _, err := compare.HeadCommit(ctx, r) // the walk would pass over a lost commit
		return logBounds{starts: []object.ID{head.ID}}, err
	}
	for _, rev := range revs {
		rev, negated := strings.CutPrefix(rev, "^")
		starts, exclude, err := ParseRange(ctx, r, rev)
		if err != nil {
			return logBounds{}, err
		}
		if _, _, symmetric, _ := refs.SplitRange(rev); symmetric {
			b.left = append(b.left, starts[0])
		}
		if negated {
			starts, exclude = exclude, starts
		}
		b.starts, b.exclude = append(b.starts, starts...), append(b.exclude, exclude...)
	}

	if len(b.starts) == 0 && len(b.exclude) > 0 {
		id, err := r.Resolve(ctx, "HEAD")
		if err != nil {
			return logBounds{}, err
		}
		b.starts = []object.ID{id}
	}
	return b, nil
}

// leftSide returns the commits on the left sides of A...B.
func (b logBounds) leftSide(ctx context.Context, r *kist.Repository) (map[object.ID]bool, error) {
	excluded, err := history.Ancestors(ctx, r.Objects(), b.exclude)
	if err != nil {
		return nil, err
	}
	left := map[object.ID]bool{}
	for c, err := range history.Walk(ctx, r.Objects(), b.left, history.Options{
		Parents: func(c history.Commit, _ func(object.ID) bool) ([]object.ID, error) {
			if excluded[c.ID] {
				return nil, nil
			}
			return c.Parents, nil
		},
	}) {
		if err != nil {
			return nil, err
		}
		left[c.ID] = true
	}
	return left, nil
}

// ParseRange returns the commits that a revision, or a form for several, starts from and
// excludes: "^REV", "A..B", "A...B", and those of [refs.SplitParents].
func ParseRange(ctx context.Context, r *kist.Repository, text string) (starts, exclude []object.ID, err error) {
	resolve := func(list *[]object.ID, rev string) {
		var id object.ID
		if err == nil {
			id, err = r.Resolve(ctx, rev)
			*list = append(*list, id)
		}
	}

	from, to, symmetric, isRange := refs.SplitRange(text)
	rev, suffix, parent := refs.SplitParents(text)
	switch {
	case isRange:
		resolve(&starts, to)
		if !symmetric {
			resolve(&exclude, from)
			break
		}
		resolve(&starts, from)
		if err == nil {
			exclude, err = history.MergeBases(ctx, r.Objects(), starts[1], starts[0])
			slices.Reverse(starts)
		}
	case suffix != "":
		starts, exclude, err = withParents(ctx, r, rev, suffix, parent)
	case strings.HasPrefix(text, "^"):
		resolve(&exclude, text[1:])
	default:
		resolve(&starts, text)
	}
	return starts, exclude, err
}

// withParents is ParseRange for the forms of [refs.SplitParents].
func withParents(ctx context.Context, r *kist.Repository, rev, suffix string, parent int) (starts, exclude []object.ID, err error) {
	id, c, err := r.ReadCommit(ctx, rev)
	switch {
	case err != nil:
		return nil, nil, err
	case suffix == "^@":
		return c.Parents, nil, nil
	case suffix == "^!":
		return []object.ID{id}, c.Parents, nil
	case parent > len(c.Parents):
		return nil, nil, &refs.UnknownRevisionError{Rev: rev + suffix, Reason: fmt.Sprintf("commit %s has only %d of %d parents", id.Short(), len(c.Parents), parent)}
	}
	return []object.ID{id}, c.Parents[parent-1 : parent], nil
}

// Suspects returns the commits that a bisection between bad and good commits has to choose
// from, as [history.Halve] expects them. A commit with expired content cannot be tested.
// With paths, only commits that changed them are of interest.
func Suspects(ctx context.Context, r *kist.Repository, bad object.ID, good []object.ID, paths []string) ([]history.Suspect, error) {
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return nil, err
	}
	l := &commitSelector{r: r, o: Options{Paths: paths}, records: records, paths: map[object.ID]string{}, past: map[object.ID]bool{}}

	var list []history.Suspect
	for c, err := range history.Walk(ctx, r.Objects(), []object.ID{bad}, history.Options{Exclude: good, Parents: l.parentSelector(ctx, good)}) {
		if err != nil {
			return nil, err
		}
		s := history.Suspect{ID: c.ID, Parents: c.Parents, Same: l.same[c.ID]}
		if next := l.next[c.ID]; s.Same && !next.IsZero() {
			s.Parents = []object.ID{next}
		}
		_, s.Skip = records.Expired(c.ID)
		list = append(list, s)
	}
	return list, nil
}

// commitSelector selects the commits that a log shows, and the parents at which it continues.
type commitSelector struct {
	r       *kist.Repository
	o       Options
	records *record.Effects
	past    map[object.ID]bool      // commits whose changes are unknown
	paths   map[object.ID]string    // the followed path in a commit
	same    map[object.ID]bool      // commits that changed none of the paths
	next    map[object.ID]object.ID // by commit in same: the commit after it; zero after the first
	left    map[object.ID]bool      // commits on the left side of A...B

	changed map[object.ID][]LineChange // with Options.Lines: the changes of shown commits
	near    nearTrees
}

// nextCommits returns the commits that come after c in the log. They are known only with Topo;
// otherwise nextCommits returns none.
func (l *commitSelector) nextCommits(c history.Commit) []object.ID {
	if !l.o.Topo {
		return nil
	}
	parents := c.Parents
	if l.o.FirstParent && len(parents) > 1 {
		parents = parents[:1]
	}
	if l.same[c.ID] {
		parents = []object.ID{l.next[c.ID]}
	}
	var next []object.ID
	for _, id := range parents {
		for l.same[id] && !id.IsZero() {
			id = l.next[id]
		}
		if !id.IsZero() && !slices.Contains(next, id) {
			next = append(next, id)
		}
	}

	return next
}

// mayOmit reports whether commits may be left out because of their data.
func (l *commitSelector) mayOmit() bool {
	return l.o.Match != nil || len(l.o.Lines) > 0 || !l.o.Since.IsZero() || !l.o.Until.IsZero() || len(l.o.Paths) > 0 && l.records.AnyExpired()
}

func (l *commitSelector) showsCommit(c history.Commit) bool {
	return l.selectsAt(c, c.Committer.Time.Time())
}

// selectsAt reports whether the log shows a commit or move of this time.
func (l *commitSelector) selectsAt(c history.Commit, at time.Time) bool {
	switch {
	case l.same[c.ID], l.past[c.ID]:
		return false
	case !l.o.Since.IsZero() && at.Before(l.o.Since), !l.o.Until.IsZero() && at.After(l.o.Until):
		return false
	}
	return l.o.Match == nil || l.o.Match(c.Commit)
}

// parentSelector returns the function that selects the parents at which the log
// continues, or nil for all parents. As in git, a commit equal to a parent is
// skipped in favour of that parent. An exception is a parent that the log
// excludes but the user did not name: then the sides of a merge may have more
// to show.
func (l *commitSelector) parentSelector(ctx context.Context, exclude []object.ID) func(history.Commit, func(object.ID) bool) ([]object.ID, error) {
	if l.o.Select == nil && (len(l.o.Paths) == 0 || slices.Contains(l.o.Paths, "")) {
		return nil
	}
	l.same, l.next = map[object.ID]bool{}, map[object.ID]object.ID{}
	return func(c history.Commit, excluded func(object.ID) bool) ([]object.ID, error) {
		paths := l.o.Paths
		if l.o.Follow {
			if _, ok := l.paths[c.ID]; !ok {
				l.paths[c.ID] = l.o.Paths[0]
			}
			paths = []string{l.paths[c.ID]}
		}
		if _, expired := l.records.Expired(c.ID); expired {
			l.past[c.ID] = true
			for _, parent := range c.Parents {
				l.passPath(parent, paths[0])
			}
			return c.Parents, nil
		}
		if err := l.near.bringTrees(ctx, l, c.ID, paths); err != nil {
			return nil, err
		}
		if len(c.Parents) == 0 {
			changed, err := l.treesDiffer(ctx, object.ID{}, c.Tree, paths)
			l.same[c.ID] = !changed
			return nil, err
		}
		anyChanged := false
		for _, parent := range c.Parents {
			before, err := Before(ctx, l.r, l.records, parent)
			if err != nil {
				return nil, err
			}
			changed, err := l.treesDiffer(ctx, before.Tree, c.Tree, paths)
			if err != nil {
				return nil, err
			}
			anyChanged = anyChanged || changed
			if !changed && (!excluded(parent) || slices.Contains(exclude, parent)) {
				l.same[c.ID], l.next[c.ID] = true, parent
				l.passPath(parent, paths[0])
				return []object.ID{parent}, nil
			}
			if l.o.Follow {
				if err := l.followPath(ctx, before, c.Tree, paths[0]); err != nil {
					return nil, err
				}
				l.passPath(parent, paths[0]) // the parent's content may have expired
			}
		}
		l.same[c.ID] = !anyChanged
		return c.Parents, nil
	}
}

// Before returns the view that a log compares a commit with. It is the
// commit's parent or, if its content has expired by records, the first commit
// before it along first parents with content. If there is none, the view is
// empty.
func Before(ctx context.Context, r *kist.Repository, records *record.Effects, parent object.ID) (compare.Side, error) {
	v := compare.Side{Objects: r.Contents()}
	for id := parent; !id.IsZero(); {
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return v, err
		}
		if _, expired := records.Expired(id); !expired {
			v.Commit, v.Tree = id, c.Tree
			break
		}
		id = c.FirstParent()
	}
	return v, nil
}

func (l *commitSelector) passPath(parent object.ID, path string) {
	if _, ok := l.paths[parent]; !ok && l.o.Follow {
		l.paths[parent] = path
	}
}

// treesDiffer reports whether any of paths differs between two trees. A path in a folder
// that cannot be read counts as different.
func (l *commitSelector) treesDiffer(ctx context.Context, a, b object.ID, paths []string) (bool, error) {
	selects := l.o.Select
	for c, err := range tree.Diff(ctx, l.r.Contents(), a, b, tree.DiffOptions{Paths: paths, Recursive: selects != nil, Recorded: true}) {
		if err != nil || selects == nil || selects(c.Path) {
			return err == nil, err
		}
	}
	return false, nil
}

// followPath finds the path in a parent: the same path, or the one from which it was
// renamed.
func (l *commitSelector) followPath(ctx context.Context, before compare.Side, after object.ID, path string) error {
	if before.Tree.IsZero() {
		return nil
	}
	from, err := blame.FormerPath(ctx, before, compare.Side{Tree: after, Objects: l.r.Contents()}, path)
	if err != nil {
		return fmt.Errorf("follow %q: %w", path, err)
	}
	l.passPath(before.Commit, cmp.Or(from, path))
	return nil
}
