// Package stats accounts for the space that commits, refs and paths use.
package stats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/log"
)

// Options say what [Totals] is asked for.
type Options struct {
	// Revs are names of branches, tags and other refs, each of which stands for
	// all of its history, or other revisions, each for one commit. None: all
	// refs, and what else keeps objects.
	Revs []string

	// Commits asks for each commit that Revs reach. They may be ranges, as in
	// [log.Options]. None: that any ref reaches.
	Commits bool

	Number int      // with Commits: only the newest; 0: all
	Paths  []string // asks for these paths in the commits that Revs stand for; none: in all

	Progress func(objects int64) // if not nil: told how many objects were looked at
}

// SpaceKind says what takes space.
type SpaceKind string

// What takes space. Their values are for programs to read.
const (
	SpaceBranch SpaceKind = "branch" // with all of its history
	SpaceTag    SpaceKind = "tag"    // with all of its history
	SpaceRef    SpaceKind = "ref"    // another ref, or a detached HEAD, with all of its history
	SpaceCommit SpaceKind = "commit" // the content of one commit
	SpacePath   SpaceKind = "path"   // the content of one path in some commits
	SpaceIndex  SpaceKind = "index"  // what is staged
	SpaceHold   SpaceKind = "hold"   // what is held, with all of its history
	SpaceLogs   SpaceKind = "logs"   // what logs tell of, and ORIG_HEAD and the like
)

// Space is what something takes in the store.
type Space struct {
	Kind SpaceKind
	Name string    // full name of a ref, or path
	ID   object.ID // the newest commit

	Commits      int    // how many; that have the path
	Files, Bytes uint64 // in the newest of them
	History      uint64 // bytes in all of them: what they would take one beside the other

	gc.Share // Own is what gc could remove if just this went, and no log told of it
}

// Stats tells what takes space in a repository.
type Stats struct {
	Spaces  []Space
	Commits int       // that refs, HEAD and holds reach
	History uint64    // bytes in all of these
	Named   gc.Amount // what they have with their content; only if all refs were asked for

	// Account has what all Spaces have together that nothing else has, and what
	// there is in all.
	Account *gc.Account
}

// Totals finds out what takes space. Names that keep something for a while (logs,
// and names such as ORIG_HEAD) do not count: what is only theirs is told apart.
func Totals(ctx context.Context, r *kist.Repository, o Options) (*Stats, error) {
	c, err := newCensus(ctx, r)
	if err != nil {
		return nil, err
	}
	c.progress = o.Progress
	if len(o.Paths) > 0 {
		return c.paths(ctx, o)
	}
	if o.Commits {
		ids, err := c.logged(ctx, o)
		if err != nil {
			return nil, err
		}
		return c.contents(ctx, ids)
	}
	if len(o.Revs) == 0 {
		return c.refs(ctx, nil)
	}
	names, ids, err := c.resolve(ctx, o.Revs)
	switch {
	case err != nil:
		return nil, err
	case len(names) > 0 && len(ids) > 0:
		return nil, ErrMixedRevs
	case len(ids) > 0:
		return c.contents(ctx, ids)
	}
	return c.refs(ctx, names)
}

// ErrMixedRevs is the error for revisions of which some stand for histories and
// some for commits, so that they cannot be compared.
var ErrMixedRevs = errors.New("branches or tags, which stand for all of their history, and single commits cannot be asked for together")

// census is what keeps objects in a repository.
type census struct {
	r        *kist.Repository
	graph    histories
	named    int // commits of the graph, the first ones, that refs and HEAD reach
	names    []namedRoot
	index    []gc.Root
	logs     []namedRoot
	head     string // name of the ref that is checked out, or HEAD
	headID   object.ID
	progress func(int64)
}

// namedRoot is a ref, a detached HEAD or a hold, or one that is no more than an
// entry of a log.
type namedRoot struct {
	name   string
	key    object.Key
	commit object.ID
}

func newCensus(ctx context.Context, r *kist.Repository) (*census, error) {
	said, err := r.RecordViewOrEmpty()
	if err != nil {
		return nil, gc.RootError(&gc.Problem{Err: err})
	}
	needed, problems := gc.FindNeeds(ctx, r, said, func(refs.LogEntry) bool { return true })
	if len(problems) > 0 {
		return nil, gc.RootError(problems[0])
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	c := &census{r: r, head: "HEAD", headID: head.ID, graph: histories{objects: r.Objects(), skips: needed.Records.Skips, at: map[object.ID]int{}}}
	if head.Branch != "" {
		c.head = refs.Heads + head.Branch
	}
	for _, root := range needed.Roots {
		switch {
		case root.Name == "index" || root.Key.Kind == object.KindTree: // that of HEAD, which stays even if it has expired
			c.index = append(c.index, root)
		case root.Name != "HEAD" && root.Name != gc.HoldRoot && !strings.HasPrefix(root.Name, "refs/"):
			c.logs = append(c.logs, namedRoot{name: root.Name, key: root.Key})
		default:
			c.names = append(c.names, namedRoot{name: root.Name, key: root.Key})
		}
	}
	for k, list := range [][]namedRoot{c.names, c.logs} {
		for i := range list {
			root := &list[i]
			root.commit, err = refs.Peel(ctx, r.Objects(), root.key.ID)
			if err == nil {
				err = c.graph.add(ctx, root.commit)
			}
			if err != nil {
				return nil, &gc.NeededError{Root: root.name, Err: err}
			}
		}
		if k == 0 {
			c.named = len(c.graph.commits)
		}
	}
	return c, nil
}

// resolve tells names of refs and commits apart.
func (c *census) resolve(ctx context.Context, revs []string) (names []string, ids []object.ID, err error) {
	for _, rev := range revs {
		name, err := c.r.Refs().Expand(ctx, rev)
		isName := err == nil && strings.HasPrefix(name, "refs/") && !strings.ContainsAny(rev, "~^") // not for "main~0"
		if isName && slices.ContainsFunc(c.names, func(n namedRoot) bool { return n.name == name }) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			continue
		}
		id, err := c.r.Resolve(ctx, rev)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return names, ids, nil
}

// logged returns the commits that are reached, newest first.
func (c *census) logged(ctx context.Context, o Options) ([]object.ID, error) {
	revs := o.Revs
	if len(revs) == 0 {
		for _, n := range c.names {
			revs = append(revs, n.commit.String())
		}
	}
	var ids []object.ID
	for l, err := range log.Commits(ctx, c.r, log.Options{Revs: revs}) {
		if err != nil {
			return nil, err
		}
		if ids = append(ids, l.ID); len(ids) == o.Number {
			break
		}
	}
	return ids, nil
}

// account has holders counted, of which the first is the index, and the second,
// if ours is true, what is checked out.
func (c *census) account(ctx context.Context, list []gc.Holder, ours bool, members func(ctx context.Context, first int, visit func(gc.Member) error) error) (*gc.Account, error) {
	h := gc.Holders{List: list, Members: members, Skips: c.graph.skips, Progress: c.progress}
	if ours {
		h.Head = 1
	}
	return gc.NewAccount(ctx, c.r.Objects(), h)
}

// stats returns the stats of spaces, which the holders from number first on
// have.
func (c *census) stats(a *gc.Account, spaces []Space, first int) *Stats {
	s := &Stats{Spaces: spaces, Commits: c.named, Account: a}
	for i := range spaces {
		spaces[i].Share = a.Shares[first+i]
	}
	for _, commit := range c.graph.commits[:c.named] {
		s.History += commit.history()
	}
	return s
}

// bit returns the set that has holder number i, of the 64 from number first on.
func bit(i, first int) uint64 {
	if i < first || i >= first+64 {
		return 0
	}
	return 1 << (i - first)
}

func spaceKind(name string) SpaceKind {
	switch {
	case strings.HasPrefix(name, refs.Heads):
		return SpaceBranch
	case strings.HasPrefix(name, refs.Tags):
		return SpaceTag
	case name == gc.HoldRoot:
		return SpaceHold
	}
	return SpaceRef
}

// visitRoots visits roots that some holders have.
func visitRoots(roots []gc.Root, holders uint64, visit func(gc.Member) error) error {
	if holders == 0 {
		return nil
	}
	for _, root := range roots {
		if err := visit(gc.Member{Key: root.Key, Holders: holders, Hint: root.Hint}); err != nil {
			return err
		}
	}
	return nil
}

// notReached is the error for a commit that nothing reaches.
func notReached(id object.ID) error {
	return fmt.Errorf("commit %s: no branch, tag or log has it any more", id)
}
