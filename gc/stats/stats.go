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
	"github.com/kist-vcs/kist/tree/look/log"
)

// Options select the spaces that [Totals] accounts for.
type Options struct {
	// Revs are names of refs, each with its history, or other revisions, each
	// a single commit. None means all refs, the index and the logs.
	Revs []string

	// Commits accounts for each commit that Revs reach. Revs may then be
	// ranges, as in [log.Options]; none means all refs.
	Commits bool

	Number int      // with Commits: only this many, the newest; 0: all
	Paths  []string // account for these paths in the commits of Revs; without Revs in all commits

	Progress func(objects int64) // receives the number of objects visited; may be nil
}

// SpaceKind is the kind of thing that takes space.
type SpaceKind string

// The kinds of spaces. Their values are for programs to read.
const (
	SpaceBranch SpaceKind = "branch" // with its history
	SpaceTag    SpaceKind = "tag"    // with its history
	SpaceRef    SpaceKind = "ref"    // another ref or a detached HEAD, with its history
	SpaceCommit SpaceKind = "commit" // the content of one commit
	SpacePath   SpaceKind = "path"   // the content of one path in some commits
	SpaceIndex  SpaceKind = "index"  // the index
	SpaceHold   SpaceKind = "hold"   // held commits, with their history
	SpaceLogs   SpaceKind = "logs"   // commits in logs, and ORIG_HEAD and others
)

// Space is the space that something takes in the store.
type Space struct {
	Kind SpaceKind
	Name string    // full name of a ref, or path
	ID   object.ID // the newest commit

	Commits      int    // number of commits; for a path, of the commits that have it
	Files, Bytes uint64 // in the newest commit
	History      uint64 // size of all commits, as if each were stored on its own

	gc.Share // Own is what gc could remove without this one, and without logs
}

// Stats accounts for the spaces in a repository.
type Stats struct {
	Spaces  []Space
	Commits int       // number of commits that refs, HEAD and holds reach
	History uint64    // size of all these commits
	Named   gc.Amount // their objects, with content; only if all refs were selected

	// Account has the amount that only these Spaces use together, and the
	// total.
	Account *gc.Account
}

// Totals accounts for the space that o selects. Logs and names such as
// ORIG_HEAD keep objects only for a while, so Totals reports the objects that
// only they keep separately.
func Totals(ctx context.Context, r *kist.Repository, o Options) (*Stats, error) {
	c, err := newCensus(ctx, r)
	if err != nil {
		return nil, err
	}

	c.progress = o.Progress
	if len(o.Paths) > 0 {
		return c.accountPaths(ctx, o)
	}
	if o.Commits {
		ids, err := c.reachableCommits(ctx, o)
		if err != nil {
			return nil, err
		}
		return c.countContents(ctx, ids)
	}
	if len(o.Revs) == 0 {
		return c.accountRefs(ctx, nil)
	}

	names, ids, err := c.resolveRevs(ctx, o.Revs)
	switch {
	case err != nil:
		return nil, err
	case len(names) > 0 && len(ids) > 0:
		return nil, ErrMixedRevs
	case len(ids) > 0:
		return c.countContents(ctx, ids)
	}

	return c.accountRefs(ctx, names)
}

// ErrMixedRevs means that some revisions stand for histories and some for
// single commits, so they cannot be compared.
var ErrMixedRevs = errors.New("branches or tags, which stand for all of their history, and single commits cannot be asked for together")

// census lists everything that keeps objects in a repository.
type census struct {
	r        *kist.Repository
	graph    commitGraph
	named    int // the first commits of the graph, which refs and HEAD reach
	names    []namedRoot
	index    []gc.Root
	logs     []namedRoot
	head     string // name of the ref that is checked out, or HEAD
	headID   object.ID
	progress func(int64)
}

// namedRoot is a gc root: a ref, a detached HEAD, a hold, or a log entry.
type namedRoot struct {
	name   string
	key    object.Key
	commit object.ID
}

func newCensus(ctx context.Context, r *kist.Repository) (*census, error) {
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return nil, gc.RootError(err)
	}
	needed, err := gc.FindNeeds(ctx, r, records, nil)
	if err != nil {
		return nil, err
	}

	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	c := &census{r: r, head: "HEAD", headID: head.ID, graph: commitGraph{objects: r.Objects(), skips: needed.Records.Skips, at: map[object.ID]int{}}}
	if head.Branch != "" {
		c.head = refs.Heads + head.Branch
	}

	for _, root := range needed.Roots {
		switch {
		case root.Name == "index" || root.Key.Kind == object.KindTree: // HEAD's tree stays even if it has expired
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
				err = c.graph.addHistory(ctx, root.commit)
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

// resolveRevs splits revisions into names of refs and single commits.
func (c *census) resolveRevs(ctx context.Context, revs []string) (names []string, ids []object.ID, err error) {
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

// reachableCommits returns the reachable commits, newest first.
func (c *census) reachableCommits(ctx context.Context, o Options) ([]object.ID, error) {
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

// accountFor computes the account of holders, and fills in the shares of spaces, which are the
// holders from number 1 on. If ours is set, holder 0 is the index and 1 is HEAD's ref or commit.
func (c *census) accountFor(ctx context.Context, list []gc.Holder, spaces []Space, ours bool, members func(ctx context.Context, first int, visit func(gc.Member) error) error) (*Stats, error) {
	h := gc.Holders{List: list, Members: members, Skips: c.graph.skips, Progress: c.progress}
	if ours {
		h.Head = 1
	}
	a, err := gc.NewAccount(ctx, c.r.Objects(), h)
	if err != nil {
		return nil, err
	}
	s := &Stats{Spaces: spaces, Commits: c.named, Account: a}
	for i := range spaces {
		spaces[i].Share = a.Shares[1+i]
	}
	for _, commit := range c.graph.commits[:c.named] {
		s.History += commit.contentSize()
	}
	return s, nil
}

// holderBit returns the set of holder i, among the 64 holders from first on.
func holderBit(i, first int) uint64 {
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

// visitRoots visits roots for a set of holders.
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

// notReached returns the error for an unreachable commit.
func notReached(id object.ID) error {
	return fmt.Errorf("commit %s: no branch, tag or log has it any more", id)
}
