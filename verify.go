package kist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Verify checks that the repository is whole: every volume, every ref, the
// index, and all that they refer to. What is wrong is in the report.
func (r *Repository) Verify(ctx context.Context, o gc.VerifyOptions) (*gc.Report, error) {
	said, err := r.Said()
	return r.verifyBy(ctx, said, err, o)
}

// verifyBy is Verify by what records say, unless damage says that they cannot be
// read.
func (r *Repository) verifyBy(ctx context.Context, said *record.View, damage error, o gc.VerifyOptions) (*gc.Report, error) {
	needed, problems := r.needs(ctx, said, func(refs.LogEntry) bool { return true })
	if damage != nil {
		problems = append([]*gc.Problem{{Err: damage}}, problems...)
	}
	if _, err := readLost(r.dir); err != nil {
		problems = append(problems, &gc.Problem{Where: lostFile, Err: err})
	}
	for _, m := range r.Remotes() {
		state, err := r.checkRemoteState(ctx, m)
		if err != nil {
			return nil, err
		}
		problems = append(problems, state...)
	}
	o.Records = needed.Records
	if o.Files == nil {
		o.Files = r.staged
	}
	report, err := gc.Verify(ctx, r.objects, needed.Roots, o)
	if err != nil {
		return nil, err
	}
	report.Problems = append(distinct(problems), report.Problems...)
	return report, nil
}

// staged yields the files that are staged, with their content.
func (r *Repository) staged(yield func(string, object.Key) bool) {
	idx, err := r.Index()
	if err != nil {
		return // that is told
	}
	for path, e := range idx.All() {
		if !e.Content.IsZero() && !yield(path, e.Content) {
			return
		}
	}
}

// distinct returns problems without those that tell what another one told.
func distinct(problems []*gc.Problem) []*gc.Problem {
	told := map[string]bool{}
	return slices.DeleteFunc(problems, func(p *gc.Problem) bool {
		text := p.Error()
		defer func() { told[text] = true }()
		return told[text]
	})
}

// holdRoot is the name of the roots that are held.
const holdRoot = "hold"

// needs returns what has to be kept: what refs, those entries of their logs
// that keep accepts, holds, an operation under way and the index refer to, but
// for what said says; and what of these cannot be read.
func (r *Repository) needs(ctx context.Context, said *record.View, keep func(refs.LogEntry) bool) (gc.Needed, []*gc.Problem) {
	var roots []gc.Root
	var problems []*gc.Problem
	for _, id := range said.Holds() {
		roots = append(roots, gc.Root{Name: holdRoot, Key: object.Key{Kind: object.KindCommit, ID: id}})
	}
	names, err := r.refs.RootsWith(ctx, keep)
	for _, err := range unjoin(err) {
		problems = append(problems, &gc.Problem{Err: err})
	}
	for _, name := range names {
		if said.Lost(object.Key{Kind: object.KindCommit, ID: name.ID}) {
			continue
		}
		root := gc.Root{Name: name.File, Key: object.Key{Kind: object.KindCommit, ID: name.ID}}
		tag := object.Key{Kind: object.KindTag, ID: name.ID}
		if is, err := r.objects.Has(ctx, tag); err == nil && is {
			root.Key = tag
		}
		roots = append(roots, root)
		if strings.HasPrefix(name.File, "refs/") {
			roots = append(roots, r.named(ctx, said, name.File, name.ID)...)
		}
	}
	head, err := r.refs.Head()
	if err == nil && head.Unborn() {
		err = r.branchLost(head.Branch)
	}
	if err == nil && !head.Unborn() {
		roots = append(roots, r.named(ctx, said, "HEAD", head.ID)...)
	}
	if err != nil {
		problems = append(problems, &gc.Problem{Err: err})
	}
	if said.AnyExpired() {
		forks, err := r.forks(ctx)
		if err != nil {
			problems = append(problems, &gc.Problem{Err: err})
		}
		for id, why := range forks {
			roots = append(roots, r.named(ctx, said, why[0], id)...)
		}
	}
	var state State
	if err := r.readRest(&state); err != nil {
		problems = append(problems, &gc.Problem{Err: err})
	}
	for _, id := range append(state.Rest, state.Start, state.Left) {
		if !id.IsZero() {
			roots = append(roots, gc.Root{Name: refs.RevertMsg, Key: object.Key{Kind: object.KindCommit, ID: id}})
		}
	}
	idx, err := r.Index()
	if err != nil {
		return gc.Needed{Roots: roots, Records: said}, append(problems, &gc.Problem{Err: err})
	}
	for key := range idx.Roots() {
		// A tree that the index remembers is only a help, and asked for before
		// it is used.
		roots = append(roots, gc.Root{Name: "index", Key: key, Hint: key.Kind == object.KindTree})
	}
	return gc.Needed{Roots: roots, Records: said}, problems
}

// named returns the content of the commit that a ref names, if it has expired:
// as far as it is here it stays, even if somebody else had it expire.
func (r *Repository) named(ctx context.Context, said *record.View, name string, id object.ID) []gc.Root {
	id, err := refs.Peel(ctx, r.objects, id)
	if err != nil {
		return nil // that is told
	}
	if _, expired := said.Expired(id); !expired {
		return nil
	}
	c, err := object.ReadCommit(ctx, r.objects, id)
	if err != nil {
		return nil
	}
	root := gc.Root{Name: name, Key: object.Key{Kind: object.KindTree, ID: c.Tree}, Hint: true}
	if c.SkippedRest.IsZero() {
		return []gc.Root{root}
	}
	return []gc.Root{root, {Name: name, Key: object.Key{Kind: object.KindChunk, ID: c.SkippedRest}, Hint: true}}
}

// lacks reports whether an object is not there.
func (r *Repository) lacks(ctx context.Context, key object.Key) bool {
	missing, err := r.objects.Missing(ctx, []object.Key{key})
	return err == nil && len(missing) > 0
}

// branchLost returns an error if HEAD's branch has no commit, but its log says
// that it was moved from one to another. (The log is written before the branch:
// it may tell of a first commit that never came to be.)
func (r *Repository) branchLost(branch string) error {
	log, err := r.refs.Log(refs.Heads + branch)
	if err != nil || len(log) == 0 || log[0].Old.IsZero() {
		return nil // a damaged log has been told of
	}
	return &refs.CorruptError{File: refs.Heads + branch, Err: fmt.Errorf("missing, its log says that it is at %s", log[0].New)}
}

// unjoin takes apart what errors.Join put together.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{fmt.Errorf("refs: %w", err)}
}

// AffectedOn tells which commits of a remote, and which of their paths, are
// affected by what was found to be wrong there, as far as these can be read here.
// What is returned is in the order of the problems.
func (r *Repository) AffectedOn(ctx context.Context, m *transfer.Remote, found []transfer.Problem) ([]*gc.Problem, error) {
	problems := make([]*gc.Problem, len(found))
	for i, p := range found {
		problems[i] = &gc.Problem{Key: p.Key, Where: p.Blob, Err: p.Err}
	}
	if !slices.ContainsFunc(found, func(p transfer.Problem) bool { return !p.Key.IsZero() }) {
		return problems, nil
	}
	head, err := m.Head(ctx)
	if err != nil {
		return nil, err
	}
	return problems, gc.Affected(ctx, r.objects, head.Records.View(), slices.Collect(maps.Values(head.Refs)), problems)
}
