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
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// Root is a gc root: an object that must be present with all objects reachable
// from it, and the name that refers to it. The name is a ref, a line of a
// reflog, or the index.
type Root struct {
	Name string
	Key  object.Key

	// Hint allows the object to be missing. If it is present, gc keeps it and
	// all present objects reachable from it.
	Hint bool
}

// HoldRoot is the name of gc roots that come from holds.
const HoldRoot = "hold"

// Needs returns the gc roots and the records. It is called several times and
// must read the present state each time. An error ends the collection, because
// a root may have been overlooked.
type Needs func(ctx context.Context) (Needed, error)

// Needed lists the gc roots. Everything reachable from them is kept, except
// objects that records allow to be missing.
type Needed struct {
	Roots   []Root
	Records *record.Effects

	// Promised, if not nil, knows the objects that may be away: nothing below them is needed here.
	Promised *kist.Promised
}

// NeededError is a reachable object that is damaged or missing. The objects
// below it are unknown, so nothing can be collected. It matches
// [object.ErrCorrupt].
type NeededError struct {
	Root string // the gc root that reaches it, or ""
	Err  error
}

func (e *NeededError) Error() string {
	if e.Root == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("needed by %s: %v", e.Root, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *NeededError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *NeededError) Unwrap() error { return e.Err }

// RootError returns the error for a gc root that cannot be read.
func RootError(err error) error {
	if errors.Is(err, object.ErrCorrupt) {
		return &NeededError{Err: err}
	}
	return err
}

// neededError returns the error for a failed walk from a gc root: a
// [*NeededError], unless err has nothing to do with an object.
func neededError(ctx context.Context, root string, err error) error {
	if err == nil || endsWalk(ctx, err) {
		return err
	}
	return &NeededError{Root: root, Err: err}
}

// FindNeeds returns the gc roots: refs, HEAD, the entries of reflogs that keep
// accepts, holds, the operation in progress and the index. If keep is nil, all
// entries count. If a root cannot be read, the error is that of [RootError].
func FindNeeds(ctx context.Context, r *kist.Repository, records *record.Effects, keep func(name string, e refs.LogEntry) bool) (Needed, error) {
	needed, problems := findNeeds(ctx, r, records, keep)
	for _, err := range problems {
		return needed, RootError(err)
	}
	return needed, nil
}

// findNeeds is FindNeeds that skips the roots that cannot be read, and returns
// an error for each.
func findNeeds(ctx context.Context, r *kist.Repository, records *record.Effects, keep func(name string, e refs.LogEntry) bool) (Needed, []error) {
	f := &rootFinder{r: r, records: records}
	for _, id := range records.Holds() {
		f.addRoot(HoldRoot, object.KindCommit, id)
	}

	names, err := r.Refs().RootsWith(ctx, keep)
	problems := splitErrors(err)
	tags := f.findTags(ctx, names)
	for _, name := range names {
		f.addName(ctx, name, tags)
	}

	for _, find := range []func(context.Context) error{f.addHead, f.addForks, f.addOperation, f.addIndex} {
		if err := find(ctx); err != nil {
			problems = append(problems, err)
		}
	}

	promised, err := kist.NewPromised(r)
	if err != nil {
		problems = append(problems, err)
	}
	return Needed{Roots: f.roots, Records: records, Promised: promised}, problems
}

// rootFinder collects gc roots.
type rootFinder struct {
	r       *kist.Repository
	records *record.Effects
	roots   []Root
}

func (f *rootFinder) addRoot(name string, kind object.Kind, id object.ID) {
	f.roots = append(f.roots, Root{Name: name, Key: object.Key{Kind: kind, ID: id}})
}

// findTags returns the tags among names. It looks all of them up at once, because the store
// lists its volumes once more before it reports a missing object.
func (f *rootFinder) findTags(ctx context.Context, names []refs.NamedObject) map[object.Key]bool {
	tags := map[object.Key]bool{}
	for _, name := range names {
		tags[object.Key{Kind: object.KindTag, ID: name.ID}] = true
	}

	missing, err := f.r.Objects().Missing(ctx, slices.Collect(maps.Keys(tags)))
	if err == nil {
		for _, key := range missing {
			delete(tags, key)
		}
		return tags
	}
	for key := range tags { // a damaged volume, which need not have had any of the tags
		if is, err := f.r.Objects().Has(ctx, key); err != nil || !is {
			delete(tags, key)
		}
	}

	return tags
}

// addName adds the commit or tag that a file names.
func (f *rootFinder) addName(ctx context.Context, name refs.NamedObject, tags map[object.Key]bool) {
	if f.records.Lost(object.Key{Kind: object.KindCommit, ID: name.ID}) {
		return
	}
	kind := object.KindCommit
	if tags[object.Key{Kind: object.KindTag, ID: name.ID}] {
		kind = object.KindTag
	}
	f.addRoot(name.File, kind, name.ID)
	if strings.HasPrefix(name.File, "refs/") {
		f.addExpired(ctx, name.File, name.ID)
	}
}

func (f *rootFinder) addHead(ctx context.Context) error {
	head, err := f.r.Refs().Head()
	if err != nil || head.Unborn() {
		return err
	}

	f.addExpired(ctx, "HEAD", head.ID)
	return nil
}

func (f *rootFinder) addForks(ctx context.Context) error {
	if !f.records.AnyExpired() {
		return nil
	}
	forks, err := Forks(ctx, f.r)
	for id, why := range forks {
		f.addExpired(ctx, why[0], id)
	}

	stashes, stashErr := Stashes(ctx, f.r)
	for id := range stashes {
		f.addExpired(ctx, "logs/"+refs.Stash, id)
	}
	return errors.Join(err, stashErr)
}

// Stashes returns the commits that stashes need, with the reasons: the stashes, and the
// commits on which they were made. It skips commits that cannot be read.
func Stashes(ctx context.Context, r *kist.Repository) (map[object.ID][]string, error) {
	log, err := r.Refs().Log(refs.Stash)
	if errors.Is(err, object.ErrCorrupt) {
		err = nil // the readable entries still need their commits
	}
	needed := map[object.ID][]string{}
	for n, e := range log {
		why := fmt.Sprintf("stash@{%d}", n)
		needed[e.New] = append(needed[e.New], why)
		c, err := object.ReadCommit(ctx, r.Objects(), e.New)
		if object.IsUnreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, id := range c.Parents {
			needed[id] = append(needed[id], "the base of "+why)
		}
	}
	return needed, err
}

func (f *rootFinder) addOperation(context.Context) error {
	state, err := operation.Recorded(f.r)
	for _, id := range state.Commits() {
		f.addRoot(refs.StepsMsg, object.KindCommit, id)
	}

	return err
}

func (f *rootFinder) addIndex(context.Context) error {
	idx, err := f.r.Index()
	if err != nil {
		return err
	}
	leftOut := map[object.ID]bool{}
	for _, d := range index.LeftOutDirs(idx) {
		info, _ := d.Tree() // it always has one
		leftOut[info.ID] = true
	}
	for key := range idx.Roots() {
		// The index only caches the trees of folders that it has, and checks that a tree exists before it
		// uses it.
		f.roots = append(f.roots, Root{Name: "index", Key: key, Hint: key.Kind == object.KindTree && !leftOut[key.ID]})
	}

	return nil
}

// addExpired adds the content of a named commit if the commit has expired. The
// content is a hint: the present part of it stays, even if another user made the
// commit expire. It skips an unreadable commit, which verify reports.
func (f *rootFinder) addExpired(ctx context.Context, name string, id object.ID) {
	id, err := refs.Peel(ctx, f.r.Objects(), id)
	if err != nil {
		return
	}
	if _, expired := f.records.Expired(id); !expired {
		return
	}
	c, err := object.ReadCommit(ctx, f.r.Objects(), id)
	if err != nil {
		return
	}
	for _, key := range []object.Key{{Kind: object.KindTree, ID: c.Tree}, {Kind: object.KindChunk, ID: c.SkippedRest}} {
		if !key.ID.IsZero() {
			f.roots = append(f.roots, Root{Name: name, Key: key, Hint: true})
		}
	}
}

// splitErrors returns the errors that errors.Join has combined.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{fmt.Errorf("refs: %w", err)}
}

// orphanRoots returns all present commits as hints if the loss of a commit was
// accepted. No name reaches the commits before the lost one, but they must
// stay.
func orphanRoots(ctx context.Context, r *kist.Repository) ([]Root, error) {
	lost, err := r.Objects().Lost(ctx)
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

// Forks returns the commits where unpushed history leaves pushed history, with
// the names of the branches that leave there. A merge with commits that others
// have pushed needs the content of these commits.
//
// For each branch these are the merge bases with its upstream, and the parents
// of unpushed commits that some remote-tracking branch reaches. Forks skips
// commits that cannot be read.
func Forks(ctx context.Context, r *kist.Repository) (map[object.ID][]string, error) {
	pushed, err := r.Refs().List(refs.Remotes)
	if err != nil || len(pushed) == 0 {
		return nil, err
	}
	local, err := r.Refs().List(refs.Heads)
	if err != nil {
		return nil, err
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	if head.Branch == "" {
		local = append(local, refs.Ref{Name: "HEAD", ID: head.ID})
	}
	tracked := map[object.ID]bool{}
	var tips []object.ID
	for _, ref := range pushed {
		tracked[ref.ID] = true
		tips = append(tips, ref.ID)
	}

	f := &forkFinder{r: r, found: map[object.ID][]string{}}
	for _, ref := range local {
		if tracked[ref.ID] {
			continue
		}
		name := "branch " + strings.TrimPrefix(ref.Name, refs.Heads)
		if ref.Name == "HEAD" {
			name = "HEAD"
		}
		if f.pushed == nil {
			f.pushed = map[object.ID]bool{}
			err := graph.Walk(ctx, f.pushed, tips, func(id object.ID) ([]object.ID, error) { return f.readParents(ctx, id) })
			if err != nil {
				return nil, err
			}
		}
		if err := f.addPushedParents(ctx, name, ref.ID); err != nil {
			return nil, err
		}
		if err := f.addUpstream(ctx, name, ref); err != nil {
			return nil, err
		}
	}

	return f.found, nil
}

// forkFinder finds the commits where branches leave pushed history.
type forkFinder struct {
	r      *kist.Repository
	pushed map[object.ID]bool // commits reachable from remote-tracking branches
	found  map[object.ID][]string
}

func (f *forkFinder) addFork(id object.ID, name string) {
	why := fmt.Sprintf("where %s leaves the pushed commits", name)
	if !slices.Contains(f.found[id], why) {
		f.found[id] = append(f.found[id], why)
	}
}

// readParents returns the parents of a commit, none if it cannot be read.
func (f *forkFinder) readParents(ctx context.Context, id object.ID) ([]object.ID, error) {
	c, err := object.ReadCommit(ctx, f.r.Objects(), id)
	if object.IsUnreadable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Parents, nil
}

// addPushedParents adds the pushed parents of unpushed commits.
func (f *forkFinder) addPushedParents(ctx context.Context, name string, tip object.ID) error {
	if f.pushed[tip] {
		return nil
	}
	return graph.Walk(ctx, map[object.ID]bool{}, []object.ID{tip}, func(id object.ID) ([]object.ID, error) {
		if f.pushed[id] {
			f.addFork(id, name)
			return nil, nil
		}
		return f.readParents(ctx, id)
	})
}

// addUpstream adds the merge bases of a branch and its upstream.
func (f *forkFinder) addUpstream(ctx context.Context, name string, ref refs.Ref) error {
	u, err := kist.UpstreamOf(f.r, strings.TrimPrefix(ref.Name, refs.Heads))
	if err != nil {
		return nil // the branch has no upstream
	}
	at, err := f.r.Refs().Get(u.Tracking())
	if errors.Is(err, refs.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	bases, err := history.MergeBases(ctx, f.r.Objects(), ref.ID, at)
	if object.IsUnreadable(err) {
		return nil
	}
	for _, id := range bases {
		f.addFork(id, name)
	}

	return err
}
