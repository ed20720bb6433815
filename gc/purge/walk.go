package purge

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// Walk looks for contents in all of history. Each folder's node and each
// list of chunks is read once, and folders that have what is looked for once
// more for each commit.
type Walk struct {
	r       *kist.Repository
	here    *here
	commits []walkedCommit // the newest first

	Targets map[object.Key]*Content
	parts   map[object.Key]bool         // all objects of targets; whether others need them too
	lists   map[object.Key][]object.Key // other manifests that were looked at, and the targets in them
	holds   map[object.ID]bool          // folders' nodes that were looked at, and whether targets are below
	Said    *record.View
	places  map[place]int // of a path, in the uses of a content
}

// here reads folders without what is missing of a commit that has expired, or was
// accepted as lost.
type here struct {
	*volume.Store
	expired bool // the commit under way has
	passed  int
}

// PassOver implements [object.Lenient].
func (h *here) PassOver(_ string, key object.Key, err error) bool {
	if !errors.Is(err, object.ErrNotFound) || !h.expired && !h.IsLost(key) {
		return false
	}
	h.passed++
	return true
}

// begin notes which commit is looked at next.
func (w *Walk) begin(commit object.ID) { _, w.here.expired = w.Said.Expired(commit) }

// place is a path that has a content, or has it in a part.
type place struct {
	uses *[]Use
	path string
}

type walkedCommit struct {
	id object.ID
	*object.Commit
}

func NewWalk(r *kist.Repository) *Walk {
	return &Walk{
		r: r, here: &here{Store: r.Objects()}, Targets: map[object.Key]*Content{}, parts: map[object.Key]bool{},
		lists: map[object.Key][]object.Key{}, holds: map[object.ID]bool{}, places: map[place]int{},
	}
}

// findCommits finds all commits of which the content is here.
func (w *Walk) findCommits(ctx context.Context) error {
	said, err := w.r.RecordView()
	if err != nil {
		return err
	}
	needed, problems := gc.FindNeeds(ctx, w.r, said, func(refs.LogEntry) bool { return true })
	if len(problems) > 0 {
		return gc.RootError(problems[0])
	}
	w.Said = said
	hints := map[object.ID]bool{}
	var tips []object.ID
	for _, root := range needed.Roots {
		switch root.Key.Kind {
		case object.KindCommit, object.KindTag:
			tips = append(tips, root.Key.ID)
			hints[root.Key.ID] = root.Hint
		}
	}
	err = graph.Walk(ctx, map[object.ID]bool{}, tips, func(id object.ID) ([]object.ID, error) {
		commit, err := refs.Peel(ctx, w.r.Objects(), id)
		if errors.Is(err, object.ErrNotFound) && hints[id] {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if commit != id {
			return []object.ID{commit}, nil
		}
		c, err := object.ReadCommit(ctx, w.r.Objects(), id)
		if err != nil {
			return nil, err
		}
		if _, expired := said.Expired(id); !expired || !intact.IsMissing(ctx, w.r, TreeOf(c)) {
			w.commits = append(w.commits, walkedCommit{id, c})
		}
		return c.Parents, nil
	})
	slices.SortFunc(w.commits, func(a, b walkedCommit) int {
		return cmp.Or(b.Committer.Time.Compare(a.Committer.Time), strings.Compare(a.id.String(), b.id.String()))
	})
	return err
}

func TreeOf(c *object.Commit) object.Key { return object.Key{Kind: object.KindTree, ID: c.Tree} }

// findUses finds out where targets are, and what else needs their parts.
func (w *Walk) findUses(ctx context.Context) error {
	err := graph.Walk(ctx, map[object.Key]bool{}, slices.Collect(maps.Keys(w.Targets)), func(part object.Key) ([]object.Key, error) {
		w.parts[part] = false
		return w.links(ctx, part)
	})
	if err != nil {
		return err
	}
	for i := range w.commits {
		w.begin(w.commits[i].id)
		if err := w.uses(ctx, &w.commits[i]); err != nil {
			return err
		}
	}
	idx, err := w.r.Index()
	if err != nil {
		return err
	}
	for path, e := range idx.Dir("").All() {
		entry := e.Object()
		if c := w.Targets[entry.Content]; c != nil {
			c.Staged, c.Size = append(c.Staged, path), entry.Size
		} else if _, err := w.Has(ctx, &entry); err != nil {
			return err
		}
	}
	for _, c := range w.Targets {
		for _, uses := range [][]Use{c.Uses, c.PartOf} {
			slices.SortFunc(uses, func(a, b Use) int { return tree.ComparePaths(a.Path, b.Path) })
		}
	}
	return nil
}

// heldBy returns the holds in said whose commits need a target: the commit that
// is held, or one before it whose content has not expired.
func (w *Walk) heldBy(ctx context.Context, said *record.View) ([]record.Record, error) {
	var list []record.Record
	for _, hold := range retain.HoldsOf(said) {
		needs, err := w.reaches(ctx, said, hold.Key.ID)
		if err != nil {
			return nil, err
		}
		if needs {
			list = append(list, hold)
		}
	}
	return list, nil
}

// reaches reports whether a commit, or one before it, needs a target. Expired
// commits need none.
func (w *Walk) reaches(ctx context.Context, said *record.View, commit object.ID) (bool, error) {
	for c, err := range history.Walk(ctx, w.r.Objects(), []object.ID{commit}, history.Options{}) {
		if err != nil {
			return false, err
		}
		if _, expired := said.Expired(c.ID); expired {
			continue
		}
		w.begin(c.ID)
		if below, err := w.below(ctx, c.Tree); below || err != nil {
			return below, err
		}
	}
	return false, nil
}

// uses notes which paths of a commit have targets.
func (w *Walk) uses(ctx context.Context, c *walkedCommit) error {
	return w.Files(ctx, c.Tree, func(path string, e *object.Entry) {
		if target := w.Targets[e.Content]; target != nil {
			target.Size = e.Size
			w.used(&target.Uses, path, c.id)
			return
		}
		for _, key := range w.lists[e.Content] {
			w.used(&w.Targets[key].PartOf, path, c.id)
		}
	})
}

// Files calls each for the files below a folder, passing over nodes without
// targets.
func (w *Walk) Files(ctx context.Context, root object.ID, each func(path string, e *object.Entry)) error {
	into := func(_ string, node object.ID) (bool, error) { return w.below(ctx, node) }
	return tree.WalkInto(ctx, w.here, root, into, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir {
			each(path, &e)
		}
		return nil
	})
}

// used adds a commit to the uses at a path.
func (w *Walk) used(uses *[]Use, path string, commit object.ID) {
	i, known := w.places[place{uses, path}]
	if !known {
		i = len(*uses)
		w.places[place{uses, path}] = i
		*uses = append(*uses, Use{Path: path})
	}
	(*uses)[i].add(commit)
}

func (u *Use) add(commit object.ID) {
	if u.Count++; len(u.Commits) < maxPurgeCommits {
		u.Commits = append(u.Commits, commit)
	}
}

// below reports whether there are targets in a folder's node, or below it.
func (w *Walk) below(ctx context.Context, id object.ID) (bool, error) {
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
		sub, err := w.below(ctx, c.ID)
		if err != nil {
			return false, err
		}
		has = has || sub
	}
	for i := range t.Entries {
		var sub bool
		if e := &t.Entries[i]; e.Type == object.TypeDir {
			sub, err = w.below(ctx, e.Content.ID)
		} else {
			sub, err = w.Has(ctx, e)
		}
		if err != nil {
			return false, err
		}
		has = has || sub
	}
	if passed == w.here.passed { // otherwise the next commit may need more
		w.holds[id] = has
	}
	return has, nil
}

// Has reports whether a file has a target as its content, or in it.
func (w *Walk) Has(ctx context.Context, e *object.Entry) (bool, error) {
	if e.Content.IsZero() {
		return false, nil
	}
	if w.Targets[e.Content] != nil {
		return true, nil
	}
	in, err := w.other(ctx, e.Content)
	return len(in) > 0, err
}

// other looks at a content that is no target: what it has in common with
// targets stays, unless that is purged itself. It returns the targets that it
// has in it.
func (w *Walk) other(ctx context.Context, key object.Key) ([]object.Key, error) {
	if _, gone := w.Said.Purged(key); gone {
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
	links, err := w.links(ctx, key)
	if err != nil {
		return nil, err
	}
	var in []object.Key
	for _, link := range links {
		if w.Targets[link] != nil {
			in = append(in, link)
			continue
		}
		sub, err := w.other(ctx, link)
		if err != nil {
			return nil, err
		}
		in = append(in, sub...)
	}
	slices.SortFunc(in, func(a, b object.Key) int { return strings.Compare(a.String(), b.String()) })
	in = slices.Compact(in)
	w.lists[key] = in
	return in, nil
}

// sum adds up what the targets take.
func (w *Walk) sum(ctx context.Context, p *Plan) error {
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

// links returns the links of an object, none if the object is missing.
func (w *Walk) links(ctx context.Context, key object.Key) ([]object.Key, error) {
	links, err := graph.Links(ctx, w.r.Objects(), key)
	if errors.Is(err, object.ErrNotFound) {
		err = nil
	}
	return links, err
}
