package gc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
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

// Problem is something wrong in a repository.
type Problem struct {
	Key     object.Key  // the object; zero if it is no single one
	Where   string      // the file, or the root, in which it was found
	Err     error       // the cause
	Commits []object.ID // commits that it affects, the first 100
	Paths   []string    // paths in them, the first 100
}

// Error returns the place, the object and the error.
func (p *Problem) Error() string {
	text := p.Err.Error()
	if !p.Key.IsZero() {
		text = fmt.Sprintf("%s %s: %s", p.Key.Kind, p.Key.ID, text)
	}
	if p.Where != "" {
		text = p.Where + ": " + text
	}
	return text
}

func (p *Problem) affects(commit object.ID, path string) {
	if !commit.IsZero() && len(p.Commits) < maxAffected && !slices.Contains(p.Commits, commit) {
		p.Commits = append(p.Commits, commit)
	}
	if path != "" && len(p.Paths) < maxAffected && !slices.Contains(p.Paths, path) {
		p.Paths = append(p.Paths, path)
	}
}

// Report is what [Verify] found.
type Report struct {
	Objects  int   // checked objects of all volumes, further copies included
	Bytes    int64 // size of the objects that were read
	Commits  int   // commits that the roots reach
	Problems []*Problem

	// Healed are damaged copies of objects with another, intact copy.
	Healed []*Problem

	// Damaged are the sorted names of the volumes with damage.
	Damaged []string
}

// VerifyOptions select the checks that [Verify] makes.
type VerifyOptions struct {
	Volumes volume.CheckOptions // how much of the stored data is read
	Records *record.View        // list objects that may be missing

	// Progress, if not nil, receives the number of nodes read, now and then. It
	// is called after the check of the volumes, during the walk of history.
	Progress func(nodes int)

	// Files, if not nil, yields the paths and contents of files that are in no
	// commit. A problem names these paths too, if it affects them.
	Files iter.Seq2[string, object.Key]
}

// Verify checks a store and all objects reachable from roots. Files of volumes
// must be intact, nodes must be well formed and consistent, and linked objects
// must be present. Roots that are hints are not checked.
//
// The report lists the problems, with the commits and paths that they affect.
// An error means that nothing could be verified.
func Verify(ctx context.Context, store *volume.Store, roots []Root, o VerifyOptions) (*Report, error) {
	v := &verifier{store: store, records: o.Records, report: &Report{}, bad: map[object.Key]*Problem{}, seen: map[object.Key]bool{}}

	var damaged []volume.Problem
	checked, err := store.Check(ctx, o.Volumes, func(p volume.Problem) { damaged = append(damaged, p) })
	if err != nil {
		return nil, err
	}

	for _, p := range damaged {
		v.report.Damaged = append(v.report.Damaged, p.Volume)
		where := path.Join("volumes", p.Volume, p.File)
		if v.healed(ctx, p.Key) {
			v.report.Healed = append(v.report.Healed, &Problem{Key: p.Key, Where: where, Err: p.Err})
		} else {
			v.found(p.Key, where, p.Err)
		}
	}
	slices.Sort(v.report.Damaged)
	v.report.Damaged = slices.Compact(v.report.Damaged)
	v.report.Objects, v.report.Bytes = checked.Objects, checked.Bytes

	v.objects = store
	if o.Progress != nil {
		v.objects = &counted{Reader: store, tell: o.Progress}
	}
	v.trees = &tree.Verifier{Reader: v.objects, Sizes: store, Records: o.Records, Report: func(p tree.Problem) { v.found(p.Key, "", p.Err) }}

	for _, root := range roots {
		if root.Hint || o.Records.Skips(object.Key{}, root.Key) {
			continue
		}
		if err := v.history(ctx, root); err != nil {
			return nil, err
		}
	}

	v.report.Commits = len(v.commits)
	v.report.Problems = slices.DeleteFunc(v.report.Problems, func(p *Problem) bool {
		return errors.Is(p.Err, object.ErrNotFound) && o.Records.Lost(p.Key)
	})
	return v.report, v.affected(ctx, o.Files)
}

// counted is a reader that reports the number of objects read.
type counted struct {
	object.Reader
	tell func(int)
	n    int
}

// Get implements [object.Reader].
func (c *counted) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if c.n++; c.n%100 == 0 {
		c.tell(c.n)
	}
	return c.Reader.Get(ctx, key)
}

type verifier struct {
	store   *volume.Store
	records *record.View
	objects object.Reader // the store, perhaps with progress
	report  *Report
	trees   *tree.Verifier
	bad     map[object.Key]*Problem // by object
	seen    map[object.Key]bool     // commits, tags, and roots of other kinds
	commits []object.ID             // in the order of the walk
}

// found adds a problem to the report. An object gets only one problem: later
// ones at most add the place if it is unknown.
func (v *verifier) found(key object.Key, where string, err error) {
	if p := v.bad[key]; p != nil {
		if p.Where == "" {
			p.Where = where
		}
		return
	}
	p := &Problem{Key: key, Where: where, Err: err}
	v.report.Problems = append(v.report.Problems, p)
	if !key.IsZero() {
		v.bad[key] = p
	}
}

// healed reports whether a damaged object has another, intact copy. A
// successful read is not enough: the damage may be in bytes that a reader does
// not check.
func (v *verifier) healed(ctx context.Context, key object.Key) bool {
	return !key.IsZero() && v.store.HasIntact(ctx, key)
}

// history checks all objects reachable from a root.
func (v *verifier) history(ctx context.Context, root Root) error {
	return graph.Walk(ctx, v.seen, []object.Key{root.Key}, func(key object.Key) ([]object.Key, error) {
		more, err := v.object(ctx, key)
		if aborts(ctx, err) {
			return nil, err
		}
		if err != nil {
			v.found(key, root.Name, err)
		}
		return more, nil
	})
}

// object checks an object and returns the objects at which the check goes on.
func (v *verifier) object(ctx context.Context, key object.Key) (more []object.Key, err error) {
	switch key.Kind {
	case object.KindCommit:
		return v.commit(ctx, key.ID)
	case object.KindTag:
		t, err := object.ReadTag(ctx, v.objects, key.ID)
		if err != nil {
			return nil, err
		}
		return []object.Key{{Kind: object.KindCommit, ID: t.Target}}, nil
	case object.KindTree:
		_, err := v.trees.Verify(ctx, key.ID)
		return nil, err
	}
	return v.content(ctx, key)
}

func (v *verifier) commit(ctx context.Context, id object.ID) (more []object.Key, err error) {
	c, err := object.ReadCommit(ctx, v.objects, id)
	if err != nil {
		return nil, err
	}
	v.commits = append(v.commits, id)
	for _, p := range c.Parents {
		more = append(more, object.Key{Kind: object.KindCommit, ID: p})
	}
	if _, expired := v.records.Expired(id); expired {
		return more, nil
	}
	info, err := v.trees.Verify(ctx, c.Tree)
	if err != nil {
		return more, err
	}

	// The tree's sums are too small if an object below it cannot be read.
	if (info.Files != c.Files || info.Bytes != c.Bytes) && len(v.bad) == 0 {
		err = fmt.Errorf("%w: it says %d files of %d bytes, its tree has %d of %d", object.ErrCorrupt, c.Files, c.Bytes, info.Files, info.Bytes)
	}
	for _, e := range object.AllSkipped(ctx, v.store, c) {
		if e != nil && err == nil {
			err = e
		}
	}
	return more, err
}

// content checks a chunk or manifest that belongs to no tree, such as the
// content of a staged file. It returns the links that need checks too.
func (v *verifier) content(ctx context.Context, key object.Key) (more []object.Key, err error) {
	if key.Kind == object.KindChunk {
		missing, err := v.store.Missing(ctx, []object.Key{key})
		if err == nil && len(missing) > 0 {
			err = &object.NotFoundError{Key: key}
		}
		return nil, err
	}
	data, err := v.objects.Get(ctx, key)
	if err == nil {
		err = object.Check(key.Kind, data)
	}
	if err != nil {
		return nil, err
	}
	links, err := object.Links(key.Kind, data)
	return slices.DeleteFunc(links, func(link object.Key) bool { return v.records.Skips(key, link) }), err
}

// aborts reports whether err ends the walk. Errors about an object (damaged,
// missing, of a newer format) do not, unless ctx is done.
func aborts(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, object.ErrNotFound) && !errors.Is(err, object.ErrNewerFormat))
}

// affected adds to the problems the commits and paths that they affect.
func (v *verifier) affected(ctx context.Context, files iter.Seq2[string, object.Key]) error {
	if len(v.bad) == 0 {
		return nil
	}
	a := &affected{objects: v.store, records: v.records, bad: v.bad, needs: map[object.Key]bool{}}
	for _, id := range v.commits {
		if err := a.commit(ctx, id); aborts(ctx, err) {
			return err
		}
	}
	if files == nil {
		return nil
	}
	for path, key := range files {
		if err := a.content(ctx, object.ID{}, key, path); aborts(ctx, err) {
			return err
		}
	}
	return nil
}
