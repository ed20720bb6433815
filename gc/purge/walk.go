package purge

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// HistorySearch searches all of history for contents. It reads each tree node and
// manifest once, and folders with targets once more for each commit.
type HistorySearch struct {
	r       *kist.Repository
	here    *localReader
	commits []history.Commit // newest first

	Targets map[object.Key]*Content
	parts   map[object.Key]bool         // all objects of targets; true if other contents share them
	lists   map[object.Key][]object.Key // targets in other manifests
	holds   map[object.ID]bool          // by tree node: whether targets are in or below it
	Records *record.Effects
	places  map[usePlace]int // index of a path in the uses of a content
}

// localReader is a reader of the local store that passes over the missing objects of
// expired commits and of accepted losses.
type localReader struct {
	*volume.Store
	expired bool // the present commit has expired
	passed  int  // number of objects passed over
}

// PassOver implements [object.Lenient].
func (h *localReader) PassOver(_ string, key object.Key, err error) bool {
	if !errors.Is(err, object.ErrNotFound) || !h.expired && !h.IsLost(key) {
		return false
	}
	h.passed++
	return true
}

// setCommit sets the present commit.
func (w *HistorySearch) setCommit(commit object.ID) { _, w.here.expired = w.Records.Expired(commit) }

// usePlace is a path in a list of uses.
type usePlace struct {
	uses *[]Use
	path string
}

// NewHistorySearch returns a search without targets.
func NewHistorySearch(r *kist.Repository) *HistorySearch {
	return &HistorySearch{
		r: r, here: &localReader{Store: r.Objects()}, Targets: map[object.Key]*Content{}, parts: map[object.Key]bool{},
		lists: map[object.Key][]object.Key{}, holds: map[object.ID]bool{}, places: map[usePlace]int{},
	}
}

// findCommits finds all reachable commits with present content.
func (w *HistorySearch) findCommits(ctx context.Context) error {
	records, err := w.r.RecordView()
	if err != nil {
		return err
	}

	needed, err := gc.FindNeeds(ctx, w.r, records, nil)
	if err != nil {
		return err
	}

	w.Records = records
	var tips []object.ID
	for _, root := range needed.Roots {
		if root.Key.Kind != object.KindCommit && root.Key.Kind != object.KindTag {
			continue
		}
		id, err := refs.Peel(ctx, w.r.Objects(), root.Key.ID)
		if err != nil {
			return err
		}
		tips = append(tips, id)
	}

	for c, err := range history.Walk(ctx, w.r.Objects(), tips, history.Options{}) {
		if err != nil {
			return err
		}
		if !kist.IsContentGone(ctx, w.r, records, c.ID, c.Commit) {
			w.commits = append(w.commits, c)
		}
	}

	slices.SortFunc(w.commits, func(a, b history.Commit) int {
		return cmp.Or(b.Committer.Time.Compare(a.Committer.Time), a.ID.Compare(b.ID))
	})
	return w.bringNodes(ctx)
}

// bringNodes brings near all trees and lists of the commits, which a search reads.
func (w *HistorySearch) bringNodes(ctx context.Context) error {
	var roots []object.ID
	for _, c := range w.commits {
		roots = append(roots, c.Tree)
	}
	return tree.Bring(ctx, w.here, true, roots...)
}

// findUses finds the uses of targets, and other contents that share their parts.
func (w *HistorySearch) findUses(ctx context.Context) error {
	err := graph.Walk(ctx, map[object.Key]bool{}, slices.Collect(maps.Keys(w.Targets)), func(part object.Key) ([]object.Key, error) {
		w.parts[part] = false
		return w.presentLinks(ctx, part)
	})
	if err != nil {
		return err
	}

	for _, c := range w.commits {
		if err := w.addUses(ctx, c); err != nil {
			return err
		}
	}

	if err := EachStaged(ctx, w.r, func(path string, e *object.Entry) error { return w.addStaged(ctx, path, e) }); err != nil {
		return err
	}

	for _, c := range w.Targets {
		for _, uses := range [][]Use{c.Uses, c.PartOf} {
			slices.SortFunc(uses, func(a, b Use) int { return tree.ComparePaths(a.Path, b.Path) })
		}
	}

	return nil
}

// EachStaged calls visit for each file of the index, also in folders that are left out of the worktree. It returns the first error.
func EachStaged(ctx context.Context, r *kist.Repository, visit func(path string, e *object.Entry) error) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	for path, e := range idx.All() {
		entry := e.Object()
		if err := visit(path, &entry); err != nil {
			return err
		}
	}
	for folder, d := range index.LeftOutDirs(idx) {
		info, _ := d.Tree() // it always has one
		err := tree.Walk(ctx, r.Objects(), info.ID, func(path string, e object.Entry) error {
			if e.Type == object.TypeDir {
				return nil
			}
			return visit(tree.Join(folder, path), &e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addStaged looks for targets in a file of the index.
func (w *HistorySearch) addStaged(ctx context.Context, path string, e *object.Entry) error {
	if c := w.Targets[e.Content]; c != nil {
		c.Staged, c.Size = append(c.Staged, path), e.Size
		return nil
	}
	_, err := w.Has(ctx, e)
	return err
}

// heldBy returns the holds in records that block the purge: the held commit,
// or an ancestor whose content has not expired, has a target.
func (w *HistorySearch) heldBy(ctx context.Context, records *record.Effects) ([]record.Record, error) {
	var list []record.Record
	for _, hold := range retain.HoldsOf(records) {
		needs, err := w.reachesTarget(ctx, records, hold.Key.ID)
		if err != nil {
			return nil, err
		}
		if needs {
			list = append(list, hold)
		}
	}
	return list, nil
}

// reachesTarget reports whether a commit or one of its ancestors has a target.
// Expired commits do not count.
func (w *HistorySearch) reachesTarget(ctx context.Context, records *record.Effects, commit object.ID) (bool, error) {
	for c, err := range history.Walk(ctx, w.r.Objects(), []object.ID{commit}, history.Options{}) {
		if err != nil {
			return false, err
		}
		if _, expired := records.Expired(c.ID); expired {
			continue
		}
		w.setCommit(c.ID)
		if below, err := w.hasTargets(ctx, c.Tree); below || err != nil {
			return below, err
		}
	}

	return false, nil
}

// addUses adds the paths of a commit that have targets.
func (w *HistorySearch) addUses(ctx context.Context, c history.Commit) error {
	return w.Files(ctx, c, func(path string, e *object.Entry) {
		if target := w.Targets[e.Content]; target != nil {
			target.Size = e.Size
			w.countUse(&target.Uses, path, c.ID)
			return
		}
		for _, key := range w.lists[e.Content] {
			w.countUse(&w.Targets[key].PartOf, path, c.ID)
		}
	})
}

// Files calls each for the files of a commit. It skips nodes without targets.
func (w *HistorySearch) Files(ctx context.Context, c history.Commit, each func(path string, e *object.Entry)) error {
	return w.eachFile(ctx, c, func(_ string, node object.ID) (bool, error) { return w.hasTargets(ctx, node) }, each)
}

// eachFile calls each for the files of a commit in the nodes that into selects.
func (w *HistorySearch) eachFile(ctx context.Context, c history.Commit, into nodeFilter, each func(path string, e *object.Entry)) error {
	w.setCommit(c.ID)
	return tree.WalkInto(ctx, w.here, c.Tree, into, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir {
			each(path, &e)
		}
		return nil
	})
}

// nodeFilter reports whether a walk goes into a tree node at a path.
type nodeFilter func(path string, node object.ID) (bool, error)

// firstVisits returns a filter that selects each node the first time.
func firstVisits() nodeFilter {
	seen := map[object.ID]bool{}
	return func(_ string, node object.ID) (bool, error) {
		first := !seen[node]
		seen[node] = true
		return first, nil
	}
}

// countUse adds a commit to the uses at a path.
func (w *HistorySearch) countUse(uses *[]Use, path string, commit object.ID) {
	i, known := w.places[usePlace{uses, path}]
	if !known {
		i = len(*uses)
		w.places[usePlace{uses, path}] = i
		*uses = append(*uses, Use{Path: path})
	}
	u := &(*uses)[i]
	if u.Count++; len(u.Commits) < maxPurgeCommits {
		u.Commits = append(u.Commits, commit)
	}
}

// hasTargets reports whether there are targets in a tree node or below it. It recurses
// instead of using [graph.Fold], because it forgets a result if objects of an
// expired commit were missing.
func (w *HistorySearch) hasTargets(ctx context.Context, id object.ID) (bool, error) {
	if has, known := w.holds[id]; known {
		return has, nil
	}

	passed := w.here.passed
	t, err := object.ReadTree(ctx, w.here, id)
	if object.PassOver(w.here, "", object.Key{Kind: object.KindTree, ID: id}, err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	has := false
	for _, c := range t.Children {
		sub, err := w.hasTargets(ctx, c.ID)
		if err != nil {
			return false, err
		}
		has = has || sub
	}

	for i := range t.Entries {
		var sub bool
		if e := &t.Entries[i]; e.Type == object.TypeDir {
			sub, err = w.hasTargets(ctx, e.Content.ID)
		} else {
			sub, err = w.Has(ctx, e)
		}
		if err != nil {
			return false, err
		}
		has = has || sub
	}

	if passed == w.here.passed { // with missing nodes, the result may differ for the next commit
		w.holds[id] = has
	}

	return has, nil
}

// Has reports whether a file's content is a target or contains one.
func (w *HistorySearch) Has(ctx context.Context, e *object.Entry) (bool, error) {
	if e.Content.IsZero() {
		return false, nil
	}
	if w.Targets[e.Content] != nil {
		return true, nil
	}
	in, err := w.targetsIn(ctx, e.Content)
	return len(in) > 0, err
}

// targetsIn returns the targets that are parts of another content. It also marks
// the parts of targets that this content shares, unless it is purged itself. The
// recursion is at most [object.MaxLevel] deep.
func (w *HistorySearch) targetsIn(ctx context.Context, key object.Key) ([]object.Key, error) {
	if _, gone := w.Records.Purged(key); gone {
		return nil, nil
	}
	if _, part := w.parts[key]; part {
		w.parts[key] = true
	}
	if key.Kind != object.KindManifest {
		return nil, nil
	}
	if in, known := w.lists[key]; known {
		return in, nil
	}
	links, err := w.presentLinks(ctx, key)
	if err != nil {
		return nil, err
	}

	var in []object.Key
	for _, link := range links {
		if w.Targets[link] != nil {
			in = append(in, link)
			continue
		}
		sub, err := w.targetsIn(ctx, link)
		if err != nil {
			return nil, err
		}
		in = append(in, sub...)
	}

	slices.SortFunc(in, object.Key.Compare)
	in = slices.Compact(in)
	w.lists[key] = in
	return in, nil
}

// sumSpace adds up the space of the targets.
func (w *HistorySearch) sumSpace(ctx context.Context, p *Plan) error {
	for key, shared := range w.parts {
		_, stored, err := w.r.Objects().StoredSize(ctx, key)
		switch {
		case errors.Is(err, object.ErrNotFound):
		case err != nil:
			return err
		case shared:
			p.Shared += stored
		default:
			p.Freed += stored
		}
	}

	return nil
}

// presentLinks returns the links of an object, none if the object is missing.
func (w *HistorySearch) presentLinks(ctx context.Context, key object.Key) ([]object.Key, error) {
	links, err := graph.Links(ctx, w.r.Objects(), key)
	if errors.Is(err, object.ErrNotFound) {
		err = nil
	}
	return links, err
}

// TargetsOf calls each for the targets in a commit and its ancestors.
func (w *HistorySearch) TargetsOf(ctx context.Context, commit object.ID, each func(object.Key)) error {
	first := firstVisits()
	into := func(path string, node object.ID) (bool, error) {
		if ok, err := first(path, node); !ok {
			return false, err
		}
		return w.hasTargets(ctx, node)
	}

	for c, err := range history.Walk(ctx, w.r.Objects(), []object.ID{commit}, history.Options{}) {
		if err != nil {
			return err
		}
		if kist.IsContentGone(ctx, w.r, w.Records, c.ID, c.Commit) {
			continue
		}
		if err := w.eachFile(ctx, c, into, func(_ string, e *object.Entry) { w.EachTarget(e, each) }); err != nil {
			return err
		}
	}

	return nil
}

// EachTarget calls each for the targets in a file. The walk must have visited the file.
func (w *HistorySearch) EachTarget(e *object.Entry, each func(object.Key)) {
	if w.Targets[e.Content] != nil {
		each(e.Content)
	}
	for _, key := range w.lists[e.Content] {
		each(key)
	}
}
