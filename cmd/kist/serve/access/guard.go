package access

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// The keys of the configuration. The rules stand for those of the top folder, which has no
// attributes. [KeyBranch] names the served branch.
const (
	KeyBranch   = "serve.branch"
	KeyTop      = "serve.acl"
	KeyTopRead  = "serve.acl-read"
	KeyTopWrite = "serve.acl-write"
)

// errBranchGone means that the served branch was deleted while a server ran. Then nobody but
// the owner may read anything.
var errBranchGone = errors.New("the branch with the rules of access is gone; start the server again to follow another one")

// Guard finds the rules for every commit of a repository. They depend on the served branch,
// never on HEAD: the owner can check out anything while a server runs. A Guard is safe for
// concurrent use.
type Guard struct {
	repo   *kist.Repository
	branch string    // the served branch, in full; "": a commit is served
	commit object.ID // the served commit, if there is no branch
	found  atomic.Bool
	top    effective // of the top folder
	err    error     // the served branch is not known

	past   *past
	recent *recent
}

// Open returns the guard of a repository. The served branch is that of the configuration, or
// the branch of HEAD now.
func Open(r *kist.Repository) *Guard {
	m := newMemory()
	g := &Guard{repo: r, past: newPast(r, m), recent: newRecent(m)}
	setting := func(key string) *string {
		if value, set := r.Config().Get(key); set {
			return &value
		}
		return nil
	}
	both := setting(KeyTop)
	g.top = effective{both, both}.overridden(effective{setting(KeyTopRead), setting(KeyTopWrite)})

	if name := setting(KeyBranch); name != nil {
		g.branch = refs.Heads + *name
		_, err := r.Refs().Get(g.branch)
		if g.found.Store(true); err != nil { // a wrong name must not serve without rules
			g.err = fmt.Errorf("%s: %w", KeyBranch, err)
		}
		return g
	}
	head, err := r.Refs().Head()
	if g.err = err; head.Branch != "" {
		g.branch = refs.Heads + head.Branch
		g.found.Store(!head.ID.IsZero())
		return g
	}
	g.commit = head.ID
	return g
}

// Err returns the reason why the guard denies everything, or nil.
func (g *Guard) Err() error { return g.err }

// servedHead returns the last commit of the served branch, zero if there is none yet.
func (g *Guard) servedHead() (object.ID, error) {
	if g.err != nil || g.branch == "" {
		return g.commit, g.err
	}
	id, err := g.repo.Refs().Get(g.branch)
	if errors.Is(err, refs.ErrNotFound) {
		if g.found.Load() {
			return id, errBranchGone
		}
		return object.ID{}, nil
	}
	if err == nil {
		g.found.Store(true)
	}
	return id, err
}

// Rules returns the rules of a user for a commit, or for a tree with changes that follow it: its
// own, those of the served branch, and those of all commits of that branch that are not in the
// history of the commit. If they cannot be read, it returns an error, and nothing may be read.
// Without a commit, at.Commit is zero.
func (g *Guard) Rules(ctx context.Context, user User, at compare.Side) (*Rules, error) {
	if user.Owner {
		return New(user, at.Objects), nil
	}
	head, err := g.servedHead()
	if err != nil {
		return nil, err
	}
	present, err := kist.CommitTree(ctx, g.repo, head)
	if err != nil {
		return nil, err
	}
	r := New(user, at.Objects, at.Tree, present)
	r.top, r.recent = g.top, g.recent
	r.later, err = g.past.laterRules(ctx, head, at.Commit)
	return r, err
}

// Warm reads the rules of all history of the served branch, so that no request has to wait
// for them.
func (g *Guard) Warm(ctx context.Context) error {
	head, err := g.servedHead()
	if err != nil || head.IsZero() {
		return err
	}
	present, err := kist.CommitTree(ctx, g.repo, head)
	if err != nil {
		return err
	}
	if _, err := g.recent.rulesOf(ctx, g.repo.Objects(), present); err != nil { // the most popular tree
		return err
	}
	_, err = g.past.laterRules(ctx, head, object.ID{})
	return err
}

// recent has the rules of the trees that were looked at last.
type recent struct {
	memory *memory
	turn   chan struct{} // holds an element while somebody uses the list
	list   []ruledTree   // the latest last
}

type ruledTree struct {
	root  object.ID
	rules *ruleFolder
}

// maxRecent is the most trees in a [recent].
const maxRecent = 64

func newRecent(m *memory) *recent { return &recent{memory: m, turn: make(chan struct{}, 1)} }

// rulesOf returns the rules of a tree.
func (c *recent) rulesOf(ctx context.Context, r object.Reader, root object.ID) (*ruleFolder, error) {
	if root.IsZero() {
		return nil, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	for _, t := range c.list {
		if t.root == root {
			return t.rules, nil
		}
	}
	var last ruledTree
	if len(c.list) > 0 {
		last = c.list[len(c.list)-1] // most trees differ little from it
	}
	rules, err := c.memory.rulesOf(ctx, r, last.rules, last.root, root)
	if err != nil {
		return nil, err
	}
	if len(c.list) >= maxRecent {
		c.list = c.list[1:]
	}
	c.list = append(c.list, ruledTree{root, rules})
	return rules, nil
}
