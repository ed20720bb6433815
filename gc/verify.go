package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

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

	// Unknown are the files below the .kist folder that no version known here makes.
	Unknown []string

	// Unchecked is the number of needed objects that are only on a remote, and for which no
	// remote could be asked. Why is the reason; nil without [volume.Store.Elsewhere].
	Unchecked int
	Why       error

	// Unkept is the number of needed objects that are only on a remote, although no remote promises to
	// keep them. The next push renews the promise, or a command that has the bytes stores them.
	Unkept int

	// Lent counts the objects that were read in files of the worktree.
	Lent volume.LentReport
}

// VerifyOptions select the checks that [Verify] makes.
type VerifyOptions struct {
	Volumes volume.CheckOptions // how much of the stored data is read
	Records *record.Effects     // list objects that may be missing

	// Promised, if not nil, knows the objects that may be away.
	Promised *kist.Promised

	// Progress, if not nil, receives the number of nodes read, now and then. It
	// is called after the check of the volumes, during the walk of history.
	Progress func(nodes int)

	// Files, if not nil, yields the paths and contents of files that are in no
	// commit, and of folders with their trees. A problem names these paths too, if it
	// affects them.
	Files iter.Seq2[string, object.Key]
}

// VerifyRepository checks every volume, every ref, the index, and everything
// reachable from them. Problems are in the report.
func VerifyRepository(ctx context.Context, r *kist.Repository, o VerifyOptions) (*Report, error) {
	records, err := r.RecordView()
	return VerifyBy(ctx, r, records, err, o)
}

// VerifyBy is VerifyRepository with given records. Damage, if not nil, is the
// problem with the records themselves.
func VerifyBy(ctx context.Context, r *kist.Repository, records *record.Effects, damage error, o VerifyOptions) (*Report, error) {
	var problems []*Problem
	if damage != nil {
		problems = append(problems, &Problem{Err: damage})
	}
	needed, unreadable := findNeeds(ctx, r, records, nil)
	for _, err := range unreadable {
		problems = append(problems, &Problem{Err: err})
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
		o.Files = func(yield func(string, object.Key) bool) { stagedContents(r, yield) }
	}
	o.Promised = needed.Promised
	report, err := Verify(ctx, r.Objects(), needed.Roots, o)
	if err != nil {
		return nil, err
	}
	report.Problems = append(dropRepeats(problems), report.Problems...)
	return report, nil
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
	seen, err := r.Refs().List(refs.Remotes + m.Name + "/")
	if err == nil && len(seen) > 0 && transfer.LacksHead(registry.Dir(r, m.Name)) {
		head := filepath.Join(registry.Dir(r, m.Name), transfer.HeadFile)
		damage = append(damage, &object.DamageError{Name: head, Err: errNoHead, Kind: transfer.ErrState})
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

var errNoHead = errors.New("missing, though a copy of the root is here: a remote that was set back would not be noticed")

// stagedContents yields the staged files with their content, and the folders that are left out of the worktree with their trees.
func stagedContents(r *kist.Repository, yield func(string, object.Key) bool) {
	idx, err := r.Index()
	if err != nil {
		return // FindNeeds reports it
	}
	for path, e := range idx.All() {
		if !e.Content.IsZero() && !yield(path, e.Content) {
			return
		}
	}
	for path, d := range index.LeftOutDirs(idx) {
		if info, ok := d.Tree(); ok && !yield(path, info.Key()) {
			return
		}
	}
}

// dropRepeats drops problems whose text repeats.
func dropRepeats(problems []*Problem) []*Problem {
	seen := map[string]bool{}
	return slices.DeleteFunc(problems, func(p *Problem) bool {
		text := p.Error()
		defer func() { seen[text] = true }()
		return seen[text]
	})
}

// Verify checks a store and all objects reachable from roots. Files of volumes
// must be intact, nodes must be well formed and consistent, and linked objects
// must be present. Roots that are hints are not checked.
//
// The report lists the problems, with the commits and paths that they affect.
// An error means that nothing could be verified.
func Verify(ctx context.Context, store *volume.Store, roots []Root, o VerifyOptions) (*Report, error) {
	v := &verifier{store: store, records: o.Records, report: &Report{}, bad: map[object.Key]*Problem{}, seen: map[object.Key]bool{}, away: map[object.Key]string{}}

	var damaged []volume.Problem
	checked, err := store.Check(ctx, o.Volumes, func(p volume.Problem) { damaged = append(damaged, p) })
	if err != nil {
		return nil, err
	}

	if o.Volumes.ReadData && o.Volumes.Subset == nil {
		if v.report.Lent, err = volume.CheckLent(ctx, store); err != nil {
			return nil, err
		}
	}

	for _, p := range damaged {
		v.report.Damaged = append(v.report.Damaged, p.Volume)
		where := path.Join("volumes", p.Volume, p.File)
		// A successful read is not enough: the damage may be in bytes that a
		// reader does not check.
		if !p.Key.IsZero() && store.HasIntact(ctx, p.Key) {
			v.report.Healed = append(v.report.Healed, &Problem{Key: p.Key, Where: where, Err: p.Err})
		} else {
			v.addProblem(p.Key, where, p.Err)
		}
	}

	slices.Sort(v.report.Damaged)
	v.report.Damaged = slices.Compact(v.report.Damaged)
	v.report.Objects, v.report.Bytes = checked.Objects, checked.Bytes+v.report.Lent.Bytes

	present := &presenceReader{Reader: volume.OnlyHere(store), store: store, promised: o.Promised, unknown: map[object.Key]bool{}, unkept: map[object.Key]bool{}}
	v.objects = present
	if o.Progress != nil {
		v.objects = &countingReader{Reader: present, tell: o.Progress}
	}
	v.trees = &tree.Verifier{Reader: v.objects, Sizes: store, Records: o.Records, Report: func(p tree.Problem) { v.addProblem(p.Key, "", p.Err) }}

	for _, root := range roots {
		if root.Hint || o.Records.Skips(object.Key{}, root.Key) {
			continue
		}
		if err := v.checkHistory(ctx, root); err != nil {
			return nil, err
		}
	}

	if err := v.checkAway(ctx, present, o.Promised); err != nil {
		return nil, err
	}
	v.report.Unchecked, v.report.Why, v.report.Unkept = len(present.unknown), present.why, len(present.unkept)
	v.report.Commits = len(v.commits)
	v.report.Problems = slices.DeleteFunc(v.report.Problems, func(p *Problem) bool {
		return errors.Is(p.Err, object.ErrNotFound) && o.Records.Lost(p.Key)
	})
	return v.report, v.addAffected(ctx, o.Files)
}

// presenceReader is a reader for which an evicted object is missing if no remote has it.
type presenceReader struct {
	object.Reader
	store   *volume.Store
	unknown map[object.Key]bool // no remote could be asked
	why     error               // the last reason for that
	unkept  map[object.Key]bool // no remote promises to keep them

	promised *kist.Promised // nil: nothing is away
}

// Missing implements [object.Reader].
func (p *presenceReader) Missing(ctx context.Context, wanted []object.Key) ([]object.Key, error) {
	report, err := volume.CheckAway(ctx, p.store, wanted)
	if err != nil {
		return nil, err
	}
	missing, err := p.Reader.Missing(ctx, wanted) // now it knows which came back
	if err == nil {
		missing, err = p.withoutAway(ctx, missing, report)
	}
	if err != nil {
		return nil, err
	}
	for _, key := range report.Unknown {
		p.unknown[key] = true
		p.why = cmp.Or(report.Why, p.why)
	}
	for _, key := range report.Unkept {
		p.unkept[key] = true
	}
	gone := report.Gone
	if len(gone) == 0 {
		return missing, nil
	}

	absent := make(map[object.Key]bool, len(missing)+len(gone))
	for _, key := range slices.Concat(missing, gone) {
		absent[key] = true
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(key object.Key) bool { return !absent[key] }), nil
}

// withoutAway returns the missing objects that cannot be away. If a remote has an object that nobody has promised, it counts as unkept.
func (p *presenceReader) withoutAway(ctx context.Context, missing []object.Key, report volume.AwayReport) (left []object.Key, err error) {
	if p.promised == nil {
		return missing, nil
	}
	unasked := map[object.Key]bool{}
	for _, key := range slices.Concat(report.Gone, report.Unknown) {
		unasked[key] = true
	}
	for _, key := range missing {
		away, err := p.promised.Has(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case away:
		case key.Kind.CanBeAway() && !unasked[key] && p.promised.Any():
			p.unkept[key] = true
		default:
			left = append(left, key)
		}
	}
	return left, nil
}

// checkAway looks for the nodes that are away, and for the sizes of chunks that are: a node that is not promised must be here, and a promised one
// on a remote.
func (v *verifier) checkAway(ctx context.Context, present *presenceReader, promised *kist.Promised) error {
	keys := slices.SortedFunc(maps.Keys(v.away), object.Key.Compare)
	for batch := range slices.Chunk(keys, 1024) {
		missing, err := present.Missing(ctx, batch)
		if err != nil {
			return err
		}
		for _, key := range missing {
			v.addProblem(key, v.away[key], &object.AbsentError{Key: key})
		}
	}
	return nil
}

// countingReader is a reader that reports the number of objects read.
type countingReader struct {
	object.Reader
	tell func(int)
	n    int
}

// Get implements [object.Reader].
func (c *countingReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if c.n++; c.n%100 == 0 {
		c.tell(c.n)
	}
	return c.Reader.Get(ctx, key)
}

type verifier struct {
	store   *volume.Store
	records *record.Effects
	objects object.Reader // the store, perhaps with progress
	report  *Report
	trees   *tree.Verifier
	bad     map[object.Key]*Problem // by object
	seen    map[object.Key]bool     // commits, tags, and roots of other kinds
	commits []object.ID             // in the order of the walk
	away    map[object.Key]string   // objects that are not here and perhaps away, with the root that needs them
}

// addProblem adds a problem to the report. An object gets only one problem: later
// ones at most add the place if it is unknown.
func (v *verifier) addProblem(key object.Key, where string, err error) {
	if away, ok := errors.AsType[*object.AwayError](err); ok {
		v.away[away.Key] = cmp.Or(v.away[away.Key], where)
		return
	}
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

// checkHistory checks all objects reachable from a root.
func (v *verifier) checkHistory(ctx context.Context, root Root) error {
	return graph.Walk(ctx, v.seen, []object.Key{root.Key}, func(key object.Key) ([]object.Key, error) {
		more, err := v.checkObject(ctx, key)
		if endsWalk(ctx, err) {
			return nil, err
		}
		if err != nil {
			v.addProblem(key, root.Name, err)
		}
		return more, nil
	})
}

// checkObject checks an object and returns the objects at which the check goes on.
func (v *verifier) checkObject(ctx context.Context, key object.Key) (more []object.Key, err error) {
	switch key.Kind {
	case object.KindCommit:
		return v.checkCommit(ctx, key.ID)
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
	return v.checkContent(ctx, key)
}

func (v *verifier) checkCommit(ctx context.Context, id object.ID) (more []object.Key, err error) {
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
	if (info.Files != c.Files || info.Bytes != c.Bytes) && len(v.bad)+len(v.away) == 0 {
		err = fmt.Errorf("%w: the commit has %d files of %d bytes, its tree %d of %d", object.ErrCorrupt, c.Files, c.Bytes, info.Files, info.Bytes)
	}
	for _, e := range object.AllSkipped(ctx, v.objects, c) {
		if e != nil && err == nil {
			err = e
		}
	}

	return more, err
}

// checkContent checks a chunk or manifest that belongs to no tree, such as the
// content of a staged file. It returns the links that need checks too.
func (v *verifier) checkContent(ctx context.Context, key object.Key) (more []object.Key, err error) {
	if key.Kind == object.KindChunk {
		missing, err := v.objects.Missing(ctx, []object.Key{key})
		if err == nil && len(missing) > 0 {
			err = &object.AbsentError{Key: key}
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

// addAffected adds to the problems the commits and paths that they affect.
func (v *verifier) addAffected(ctx context.Context, files iter.Seq2[string, object.Key]) error {
	if len(v.bad) == 0 {
		return nil
	}
	a := &affectedFinder{objects: volume.OnlyHere(v.store), records: v.records, bad: v.bad, needs: map[object.Key]bool{}}
	for _, id := range v.commits {
		if err := a.addCommit(ctx, id); endsWalk(ctx, err) {
			return err
		}
	}

	if files == nil {
		return nil
	}
	for path, key := range files {
		if err := a.addStaged(ctx, key, path); endsWalk(ctx, err) {
			return err
		}
	}

	return nil
}

// endsWalk reports whether err ends the walk. Errors about an object (damaged,
// missing, away, of a newer format) do not, unless ctx is done.
func endsWalk(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || !object.IsUnreadable(err) && !object.IsAway(err) && !errors.Is(err, object.ErrNewerFormat))
}
