package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// maxUnwritten is the number of changes after which an update writes a block.
const maxUnwritten = 50_000

// updater adds commits to an index.
type updater struct {
	*Index
	commit   object.Reader   // reads commits
	objects  *tolerantReader // reads everything else
	records  *record.Effects
	progress func(int)

	trees map[int32]object.ID // of added commits and their parents

	added            int
	commits0         int // the parts that are written
	changes0, paths0 int32
}

// addCommits adds the commits that tips reach and that the index lacks.
func (x *Index) addCommits(ctx context.Context, r *kist.Repository, progress func(int)) error {
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	for i := range x.commits {
		if _, expired := records.Expired(x.commits[i].id); expired != x.commits[i].expired {
			x.reset()
			break
		}
	}

	u := &updater{Index: x, commit: r.Objects(), objects: &tolerantReader{Reader: r.Contents()}, records: records, progress: progress, trees: map[int32]object.ID{}}
	u.noteWritten()
	if err := u.bringTrees(ctx); err != nil {
		return err
	}
	for _, tip := range x.tips {
		if u.isLostCommit(tip.Commit) {
			continue
		}
		read := func(id object.ID) (*object.Commit, []object.ID, error) {
			c, err := object.ReadCommit(ctx, u.commit, id)
			if u.objects.PassOver("", object.Key{Kind: object.KindCommit, ID: id}, err) {
				c, err = &object.Commit{}, nil // as if it were the first one, with an empty folder
			}
			if err != nil {
				return nil, nil, err
			}
			links := u.keptParents(c)
			slices.Reverse(links) // so that the first parent is added first, and its chain goes on
			return c, links, nil
		}
		value := func(id object.ID, c *object.Commit) (int32, error) { return u.indexCommit(ctx, id, c) }
		if _, err := graph.Fold(ctx, x.commitNumbers, tip.Commit, read, value); err != nil {
			u.writeNew(ctx)
			return err
		}
		u.writeNew(ctx)
	}
	u.objects.warnDamaged(r, x)
	return nil
}

// bringTrees brings the trees of the commits to add near, if they may be far away.
func (u *updater) bringTrees(ctx context.Context) error {
	if !object.HasFarNodes(u.objects) {
		return nil
	}
	var tips []object.ID
	for _, tip := range u.tips {
		tips = append(tips, tip.Commit)
	}
	var pairs [][2]object.ID
	err := graph.Walk(ctx, map[object.ID]bool{}, tips, func(id object.ID) ([]object.ID, error) {
		if _, known := u.commitNumbers[id]; known || u.isLostCommit(id) {
			return nil, nil
		}
		c, err := object.ReadCommit(ctx, u.commit, id)
		if err != nil {
			return nil, nil // a read of the commit finds the error
		}
		parents := u.keptParents(c)
		if _, expired := u.records.Expired(id); expired {
			return parents, nil
		}
		if len(parents) == 0 {
			pairs = append(pairs, [2]object.ID{{}, c.Tree})
		}
		for _, p := range parents {
			pairs = append(pairs, [2]object.ID{u.treeOf(ctx, p), c.Tree})
		}
		return parents, nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(pairs) // parents first, as they are added
	return tree.BringDiffs(ctx, u.objects, pairs, nil)
}

// treeOf returns the tree of a commit. It is zero if the commit has expired or cannot be read.
func (u *updater) treeOf(ctx context.Context, id object.ID) object.ID {
	if _, expired := u.records.Expired(id); expired {
		return object.ID{}
	}
	c, err := object.ReadCommit(ctx, u.commit, id)
	if err != nil {
		return object.ID{}
	}
	return c.Tree
}

func (u *updater) noteWritten() {
	u.commits0, u.changes0, u.paths0 = len(u.commits), u.changes.len(), u.paths.len()
}

// writeNew writes the new part of the index, unless damage made it incomplete.
func (u *updater) writeNew(ctx context.Context) {
	if u.objects.damaged == nil && len(u.commits) > u.commits0 {
		u.disk.appendBlock(ctx, func(w io.Writer) error { return u.encodeBlock(w, u.commits0, u.changes0, u.paths0, nil) })
		u.noteWritten()
	}
}

func (u *updater) isLostCommit(commit object.ID) bool {
	return object.IsLost(u.commit, object.Key{Kind: object.KindCommit, ID: commit})
}

// keptParents returns the parents of a commit without lost ones.
func (u *updater) keptParents(c *object.Commit) (list []object.ID) {
	for _, p := range c.Parents {
		if !u.isLostCommit(p) {
			list = append(list, p)
		}
	}
	return list
}

// indexCommit adds a commit whose parents are in the index.
func (u *updater) indexCommit(ctx context.Context, id object.ID, c *object.Commit) (int32, error) {
	number := int32(len(u.commits))
	out := commit{id: id, seconds: c.Committer.Time.Sec}
	for _, p := range u.keptParents(c) {
		out.parents = append(out.parents, u.commitNumbers[p])
	}

	var before []object.ID
	for _, p := range out.parents {
		root, err := u.contentTree(ctx, p)
		if err != nil {
			return 0, err
		}
		before = append(before, root)
	}
	if len(before) == 0 {
		before = append(before, object.ID{})
	}
	root := c.Tree // zero for a damaged commit
	if _, out.expired = u.records.Expired(id); out.expired {
		root = before[0]
	}
	err := u.addChanges(ctx, number, before, root)
	if errors.Is(err, tree.ErrTooMany) || errors.Is(err, tree.ErrTooDeep) { // made to stop this
		u.writeNew(ctx)
		u.objects.damaged = cmp.Or(u.objects.damaged, fmt.Errorf("commit %s: %w", id, err))
		root, err = before[0], nil
	}
	if err != nil {
		return 0, fmt.Errorf("commit %s: %w", id, err)
	}

	u.addCommit(out)
	u.trees[number] = root
	if u.added++; u.progress != nil {
		u.progress(u.added)
	}
	if u.changes.len()-u.changes0 > maxUnwritten {
		u.writeNew(ctx)
	}
	return number, nil
}

// contentTree returns the tree of a commit in the index. For an expired commit it is that of the
// last first parent with content.
func (u *updater) contentTree(ctx context.Context, number int32) (object.ID, error) {
	for at := number; at >= 0; at = u.commits[at].firstParent() {
		if root, ok := u.trees[at]; ok {
			return root, nil
		}
		id := u.commits[at].id
		if _, expired := u.records.Expired(id); expired {
			continue
		}
		c, err := object.ReadCommit(ctx, u.commit, id)
		if err != nil {
			return object.ID{}, err
		}
		u.trees[number] = c.Tree
		return c.Tree, nil
	}
	return object.ID{}, nil
}

// addChanges adds the changes of the next commit, whose parents have the trees before. After an error it has added none.
func (u *updater) addChanges(ctx context.Context, number int32, before []object.ID, root object.ID) error {
	changes, paths := u.changes.len(), u.paths.len()
	if len(before) == 1 {
		done, err := u.addUnmoved(ctx, number, before[0], root)
		if done {
			return nil
		}
		u.changes.cut(changes)
		if err != nil {
			u.paths.cutPaths(paths)
			return err
		}
	}
	list, err := u.changesOf(ctx, number, before, root)
	if err != nil {
		u.paths.cutPaths(paths)
		return err
	}
	for _, c := range list {
		u.changes.add(c)
	}
	return nil
}

// addUnmoved adds the changes of a commit with one parent, or none, that removes no path, and so moves no file. It stops at the
// first removal, and done is false then. It keeps no entries of trees in memory: the first commit may have millions.
func (u *updater) addUnmoved(ctx context.Context, number int32, parent, root object.ID) (done bool, err error) {
	for c, err := range u.eachChange(ctx, parent, root) {
		if err != nil || c.New == nil {
			return false, err
		}
		out := change{commit: number, path: u.paths.numberOf(c.Path), from: -1}
		out.setEntry(c.New)
		out.setFlag(flagAdded, oldKind(c.Old)&oldKind(c.New) == 0)
		u.changes.add(out)
	}
	return true, nil
}

// eachChange yields the changes from a tree to another one. The last one is that of the root itself.
func (u *updater) eachChange(ctx context.Context, from, to object.ID) iter.Seq2[tree.Change, error] {
	return func(yield func(tree.Change, error) bool) {
		for c, err := range tree.Diff(ctx, u.objects, from, to, tree.DiffOptions{Recursive: true, Recorded: true, Dirs: true}) {
			if !yield(c, err) || err != nil {
				return
			}
		}
		if from == to {
			return
		}
		dir := object.Entry{Type: object.TypeDir, Content: object.Key{Kind: object.KindTree, ID: to}}
		c := tree.Change{Old: &dir, New: &dir}
		if from.IsZero() {
			c.Old = nil
		}
		yield(c, nil)
	}
}

// changesOf returns the changes of the next commit, whose parents have the trees before.
func (u *updater) changesOf(ctx context.Context, number int32, before []object.ID, root object.ID) ([]change, error) {
	diffs := make([][]tree.Change, len(before))
	for i, parent := range before {
		for c, err := range u.eachChange(ctx, parent, root) {
			if err != nil {
				return nil, err
			}
			diffs[i] = append(diffs[i], c)
		}
	}

	m := newMerged(diffs)
	from, err := m.findRenames(ctx, u.objects)
	if err != nil {
		return nil, err
	}
	moved := map[string]bool{}
	for _, path := range from {
		moved[path] = true
	}

	var list []change
	at := map[string]int{} // by path: its place in list
	for _, c := range diffs[0] {
		out := change{commit: number, path: u.paths.numberOf(c.Path), from: -1}
		switch out.same = m.sameParent(c.Path); {
		case out.same > 0:
		case c.New == nil:
			out.setFlag(flagDir, tree.IsDir(c.Old))
			out.setFlag(flagMoved, moved[c.Path])
		default:
			out.setEntry(c.New)
			out.setFlag(flagAdded, m.isAdded(c.Path, c.New))
			if old, ok := from[c.Path]; ok {
				out.from = u.paths.numberOf(old)
			}
		}
		if i, twice := at[c.Path]; !twice {
			at[c.Path] = len(list)
			list = append(list, out)
		} else if c.New != nil { // a folder became a file, or a file a folder
			list[i] = out
		}
	}
	return list, nil
}

func (c *change) setFlag(flag uint8, on bool) {
	if on {
		c.flags |= flag
	}
}

// setEntry notes the state of a path.
func (c *change) setEntry(e *object.Entry) {
	c.kind, c.mode, c.size, c.mtime, c.id = e.Type, e.Mode, e.Size, e.MTime, tree.ContentID(e)
	c.manifest, c.attrs = e.Content.Kind == object.KindManifest, encodeAttrs(e)
	if e.Type == object.TypeDir {
		c.size, c.mtime = 0, object.Time{}
	}
}

// mergeDiff compares a commit with all its parents.
type mergeDiff struct {
	diffs [][]tree.Change
	olds  []map[string]uint8 // by parent, by changed path: what the parent has there
}

// The bits of merged.olds.
const (
	oldFile = 1
	oldDir  = 2
)

// oldKind returns the bit of an entry, 0 for nil.
func oldKind(e *object.Entry) uint8 {
	switch {
	case e == nil:
		return 0
	case tree.IsDir(e):
		return oldDir
	}
	return oldFile
}

func newMerged(diffs [][]tree.Change) *mergeDiff {
	m := &mergeDiff{diffs: diffs}
	for _, diff := range diffs {
		olds := make(map[string]uint8, len(diff))
		for _, c := range diff {
			olds[c.Path] |= oldKind(c.Old)
		}
		m.olds = append(m.olds, olds)
	}
	return m
}

// sameParent returns the first parent that has a path as the commit has it, or 0. The path
// differs from the first one.
func (m *mergeDiff) sameParent(path string) int32 {
	for i, olds := range m.olds {
		if _, differs := olds[path]; !differs {
			return int32(i)
		}
	}
	return 0
}

// isAdded reports whether no parent has a file at the path of an entry, or no folder if the
// entry is a folder. The path differs from all parents.
func (m *mergeDiff) isAdded(path string, e *object.Entry) bool {
	for _, olds := range m.olds {
		if olds[path]&oldKind(e) != 0 {
			return false
		}
	}
	return true
}

// findRenames returns the old path of each file that differs from all parents and was
// renamed since one of them.
func (m *mergeDiff) findRenames(ctx context.Context, r object.Reader) (map[string]string, error) {
	from := map[string]string{}
	for _, diff := range m.diffs {
		wanted := false
		for _, c := range diff {
			wanted = wanted || c.Old == nil && m.sameParent(c.Path) == 0
		}
		if !wanted {
			continue
		}
		changes, err := tree.DetectRenames(ctx, r, diff)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if _, known := from[c.Path]; !known && c.From != "" && m.sameParent(c.Path) == 0 {
				from[c.Path] = c.From
			}
		}
	}
	return from, nil
}

// tolerantReader takes damaged content as missing, and damaged or missing parts of folders and
// history as empty. So the rest of history can be indexed.
type tolerantReader struct {
	object.Reader
	damaged error // the first reason for which history is incomplete: damage, or a tree with too many paths
}

// Below implements [object.Layer].
func (t *tolerantReader) Below() object.Reader { return t.Reader }

// warnDamaged warns if something was damaged, and notes damage in x.
func (t *tolerantReader) warnDamaged(r *kist.Repository, x *Index) {
	if t.damaged == nil {
		return
	}
	r.Options().Warn("history is incomplete: " + t.damaged.Error())
	if x.damaged == nil && !errors.Is(t.damaged, tree.ErrTooMany) {
		x.damaged = t.damaged
	}
}

// Get implements [object.Reader].
func (t *tolerantReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := t.Reader.Get(ctx, key)
	if key.Kind <= object.KindManifest && errors.Is(err, object.ErrCorrupt) {
		t.damaged = cmp.Or(t.damaged, err)
		err = &object.AbsentError{Key: key}
	}
	return data, err
}

// PassOver implements [object.Lenient].
func (t *tolerantReader) PassOver(path string, key object.Key, err error) bool {
	if errors.Is(err, object.ErrLost) {
		object.PassOver(t.Reader, path, key, err)
		return true
	}
	if !object.IsUnreadable(err) {
		return false
	}
	t.damaged = cmp.Or(t.damaged, err)
	return true
}
