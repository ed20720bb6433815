package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/operation"
)

// Lost returns the accepted losses that are still missing.
func Lost(ctx context.Context, r *kist.Repository) ([]object.Key, error) {
	return r.Objects().Lost(ctx)
}

// orphans returns all present commits as hints if the loss of a commit was
// accepted. No name reaches the commits before the lost one, but they must
// stay.
func orphans(ctx context.Context, r *kist.Repository) ([]Root, error) {
	lost, err := Lost(ctx, r)
	if err != nil || !slices.ContainsFunc(lost, func(key object.Key) bool { return key.Kind == object.KindCommit }) {
		return nil, err
	}
	ids, err := r.Objects().Prefix(ctx, object.KindCommit, "", math.MaxInt)
	roots := make([]Root, len(ids))
	for i, id := range ids {
		roots[i] = Root{Name: kist.LostFile, Key: object.Key{Kind: object.KindCommit, ID: id}, Hint: true}
	}
	return roots, err
}

// CheckRemoteState returns the damaged files of the remotes' local state.
func CheckRemoteState(ctx context.Context, r *kist.Repository, m registry.Remote) ([]*Problem, error) {
	if kist.CheckRemoteName(m.Name) != nil {
		return nil, nil // it has no folder
	}
	damage, err := transfer.CheckState(ctx, registry.Dir(r, m.Name))
	if err != nil {
		return nil, err
	}
	problems := make([]*Problem, len(damage))
	for i, d := range damage {
		file, err := filepath.Rel(r.Dir(), d.Name)
		if err != nil {
			return nil, err
		}
		problems[i] = &Problem{Where: filepath.ToSlash(file), Err: d}
	}
	return problems, nil
}

// RewrittenDir is the folder, below .kist, with the lists of rewritten
// commits.
const RewrittenDir = "rewritten"

// Rewritten returns the commits that were replaced by rewritten ones. It skips
// lines that it cannot parse.
func Rewritten(r *kist.Repository) (map[object.ID]bool, error) {
	dir := filepath.Join(r.Dir(), RewrittenDir)
	list, err := disk.ReadDir(dir)
	old := map[object.ID]bool{}
	if errors.Is(err, fs.ErrNotExist) {
		return old, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		data, err := disk.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			first, _, _ := strings.Cut(line, " ")
			if id, err := object.ParseID(first); err == nil && !id.IsZero() {
				old[id] = true
			}
		}
	}
	return old, nil
}

// VerifyRepository checks every volume, every ref, the index, and everything
// reachable from them. Problems are in the report.
func VerifyRepository(ctx context.Context, r *kist.Repository, o VerifyOptions) (*Report, error) {
	records, err := r.RecordView()
	return VerifyBy(ctx, r, records, err, o)
}

// VerifyBy is VerifyRepository with given records. Damage, if not nil, is the
// problem with the records themselves.
func VerifyBy(ctx context.Context, r *kist.Repository, records *record.View, damage error, o VerifyOptions) (*Report, error) {
	needed, problems := FindNeeds(ctx, r, records, func(refs.LogEntry) bool { return true })
	if damage != nil {
		problems = append([]*Problem{{Err: damage}}, problems...)
	}
	if _, err := kist.ReadLost(r.Dir()); err != nil {
		problems = append(problems, &Problem{Where: kist.LostFile, Err: err})
	}
	for _, m := range registry.All(r) {
		state, err := CheckRemoteState(ctx, r, m)
		if err != nil {
			return nil, err
		}
		problems = append(problems, state...)
	}
	o.Records = needed.Records
	if o.Files == nil {
		o.Files = func(yield func(string, object.Key) bool) { staged(r, yield) }
	}
	report, err := Verify(ctx, r.Objects(), needed.Roots, o)
	if err != nil {
		return nil, err
	}
	report.Problems = append(distinct(problems), report.Problems...)
	return report, nil
}

// staged yields the staged files with their content.
func staged(r *kist.Repository, yield func(string, object.Key) bool) {
	idx, err := r.Index()
	if err != nil {
		return // FindNeeds reports it
	}
	for path, e := range idx.All() {
		if !e.Content.IsZero() && !yield(path, e.Content) {
			return
		}
	}
}

// distinct drops problems whose text repeats.
func distinct(problems []*Problem) []*Problem {
	seen := map[string]bool{}
	return slices.DeleteFunc(problems, func(p *Problem) bool {
		text := p.Error()
		defer func() { seen[text] = true }()
		return seen[text]
	})
}

// HoldRoot is the name of gc roots that come from holds.
const HoldRoot = "hold"

// FindNeeds returns the gc roots: refs, HEAD, the entries of reflogs that keep
// accepts, holds, the operation in progress and the index. It also returns a
// problem for each root that cannot be read.
func FindNeeds(ctx context.Context, r *kist.Repository, records *record.View, keep func(refs.LogEntry) bool) (Needed, []*Problem) {
	var roots []Root
	var problems []*Problem
	for _, id := range records.Holds() {
		roots = append(roots, Root{Name: HoldRoot, Key: object.Key{Kind: object.KindCommit, ID: id}})
	}
	names, err := r.Refs().RootsWith(ctx, keep)
	for _, err := range unjoin(err) {
		problems = append(problems, &Problem{Err: err})
	}
	for _, name := range names {
		if records.Lost(object.Key{Kind: object.KindCommit, ID: name.ID}) {
			continue
		}
		root := Root{Name: name.File, Key: object.Key{Kind: object.KindCommit, ID: name.ID}}
		tag := object.Key{Kind: object.KindTag, ID: name.ID}
		if is, err := r.Objects().Has(ctx, tag); err == nil && is {
			root.Key = tag
		}
		roots = append(roots, root)
		if strings.HasPrefix(name.File, "refs/") {
			roots = append(roots, expiredTrees(ctx, r, records, name.File, name.ID)...)
		}
	}
	head, err := r.Refs().Head()
	if err == nil && head.Unborn() {
		err = intact.BranchLost(r, head.Branch)
	}
	if err == nil && !head.Unborn() {
		roots = append(roots, expiredTrees(ctx, r, records, "HEAD", head.ID)...)
	}
	if err != nil {
		problems = append(problems, &Problem{Err: err})
	}
	if records.AnyExpired() {
		forks, err := Forks(ctx, r)
		if err != nil {
			problems = append(problems, &Problem{Err: err})
		}
		for id, why := range forks {
			roots = append(roots, expiredTrees(ctx, r, records, why[0], id)...)
		}
	}
	var state operation.State
	if err := operation.ReadRest(r, &state); err != nil {
		problems = append(problems, &Problem{Err: err})
	}
	for _, id := range append(state.Rest, state.Start, state.Left) {
		if !id.IsZero() {
			roots = append(roots, Root{Name: refs.RevertMsg, Key: object.Key{Kind: object.KindCommit, ID: id}})
		}
	}
	idx, err := r.Index()
	if err != nil {
		return Needed{Roots: roots, Records: records}, append(problems, &Problem{Err: err})
	}
	for key := range idx.Roots() {
		// The index only caches trees, and checks that a tree exists before it
		// uses it.
		roots = append(roots, Root{Name: "index", Key: key, Hint: key.Kind == object.KindTree})
	}
	return Needed{Roots: roots, Records: records}, problems
}

// expiredTrees returns the content of a named commit if the commit has
// expired. The content is a hint: as much as is here stays, even if another
// user made the commit expire.
func expiredTrees(ctx context.Context, r *kist.Repository, records *record.View, name string, id object.ID) []Root {
	id, err := refs.Peel(ctx, r.Objects(), id)
	if err != nil {
		return nil // verify reports it
	}
	if _, expired := records.Expired(id); !expired {
		return nil
	}
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return nil
	}
	root := Root{Name: name, Key: object.Key{Kind: object.KindTree, ID: c.Tree}, Hint: true}
	if c.SkippedRest.IsZero() {
		return []Root{root}
	}
	return []Root{root, {Name: name, Key: object.Key{Kind: object.KindChunk, ID: c.SkippedRest}, Hint: true}}
}

// unjoin returns the errors that errors.Join has combined.
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

// AffectedOn returns the problems found on a remote, with the affected commits
// and paths as far as these can be read here. The order stays the same.
func AffectedOn(ctx context.Context, r *kist.Repository, m *transfer.Remote, found []transfer.Problem) ([]*Problem, error) {
	problems := make([]*Problem, len(found))
	for i, p := range found {
		problems[i] = &Problem{Key: p.Key, Where: p.Blob, Err: p.Err}
	}
	if !slices.ContainsFunc(found, func(p transfer.Problem) bool { return !p.Key.IsZero() }) {
		return problems, nil
	}
	head, err := m.Head(ctx)
	if err != nil {
		return nil, err
	}
	return problems, Affected(ctx, r.Objects(), head.Records.View(), slices.Collect(maps.Values(head.Refs)), problems)
}
