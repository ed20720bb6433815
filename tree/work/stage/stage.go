// Package stage combines the index with the worktree: it stages files, reports
// their status, and writes files to the worktree.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// AddOptions select the paths that [Add] stages.
type AddOptions struct {
	Paths        []string // slash-separated, below the worktree's root; none, or "", means all
	Update       bool     // only tracked paths
	Force        bool     // also ignored files
	Git          bool     // also git's own folders
	Exclude      worktree.Exclude
	Worktree     *worktree.Worktree // nil: the repository's
	Times        bool               // a file with a new modification time is modified, even if nothing else has changed
	AllowMissing bool               // skip Paths that do not exist; tracked ones stay as they are staged
	MaxDeleted   DeletedLimit       // the error is a [*DeletedError] above it
	AskRemotes   bool               // also read unchanged files whose content is on no remote any more
	Stream       *worktree.Stored   // the new content of the only path, from [worktree.Worktree.StoreStream]; the worktree is not read
	Intent       bool               // only note the untracked files as to be added, see [index.SetIntent]
	DryRun       bool               // store and stage nothing
	Progress     kist.Progress      // may be nil
}

// AddResult is the result of [Add], also of a dry run. Lists are sorted by
// path. A new or deleted folder is listed only if it is empty; otherwise its
// content is.
type AddResult struct {
	Added             tree.PathList // without bytes
	Modified, Deleted []string
	Resolved          []string // had conflicts
	Folders           int      // in Added and Modified

	Skipped     []object.Skipped // could not be read, or changed meanwhile; commits record this
	NeverStored []object.Skipped // never stored: FIFOs, sockets, devices, other repositories
	Ignored     []string         // named by the user, but ignored

	Restored int // unchanged files that were read because their content was lost

	Read  kist.Amount // files read in the worktree
	Stats volume.Stats
}

// Add stores and stages the changes in the worktree. A path that cannot be
// read is skipped and keeps its staged state. Conflicts at the paths count as
// resolved. The error is [kist.ErrNoMatch], and nothing is staged, if a path
// is neither in the worktree nor in the index.
func Add(ctx context.Context, r *kist.Repository, o AddOptions) (*AddResult, error) {
	var result *AddResult
	err := r.UpdateWith(ctx, volume.SessionOptions{DryRun: o.DryRun}, func(tx *kist.Tx) (err error) {
		result, err = add(ctx, tx, o)
		return err
	})
	return result, err
}

// add is one attempt of Add.
func add(ctx context.Context, tx *kist.Tx, o AddOptions) (*AddResult, error) {
	r := tx.Repository()
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	if o.Intent {
		return addIntents(ctx, tx, idx, o)
	}

	p, err := Prepare(ctx, r, tx, idx, o)
	if err != nil {
		return nil, err
	}
	if p.HasChanges() {
		p.noteEdits(ctx, tx)
	}
	p.Result.Stats = tx.Stats()
	return p.Result, nil
}

// Prepared has stored files and the edits of the index that stage them.
type Prepared struct {
	Result *AddResult

	stager       *stager
	edits        *edits
	refilledDirs []string // lost folders that get new content
	isSaved      bool     // the stored index has the edits
}

// Prepare scans the worktree, stores the changed files, and returns the edits of idx that
// follow. Errors are as for [Add].
func Prepare(ctx context.Context, r *kist.Repository, objects object.ReadWriter, idx *index.Index, o AddOptions) (*Prepared, error) {
	if err := CheckPaths(idx, o.Paths...); err != nil {
		return nil, err
	}
	s, err := newStager(r, objects, idx, o.Progress)
	if err != nil {
		return nil, err
	}
	s.worktree, s.timesCount = cmp.Or(o.Worktree, s.worktree), o.Times
	var stored *edits
	if o.Stream != nil {
		stored, err = s.editOfStream(ctx, o.Paths[0], *o.Stream)
	} else {
		stored, err = s.scanAndStore(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkDeleted(stored, o.MaxDeleted); err != nil {
		return nil, err
	}
	s.addNoteEdits(stored, o)
	result := stored.summarize(idx)
	result.Restored = s.restored
	return &Prepared{Result: result, stager: s, edits: stored, refilledDirs: stored.lostDirsRefilled(idx)}, nil
}

// scanAndStore scans the worktree and stores the changed files.
func (s *stager) scanAndStore(ctx context.Context, o AddOptions) (*edits, error) {
	r, idx := s.repo, s.idx
	var anchors worktree.Anchors
	found, err := scan(ctx, r, s.worktree, idx, worktree.ScanOptions{
		Paths: o.Paths, IncludeIgnored: o.Force, Git: o.Git, Exclude: o.Exclude, NoUntracked: o.Update, Times: true, EmptyRoots: o.MaxDeleted.EmptyRoots, Anchors: &anchors,
	})
	if err != nil {
		return nil, err
	}
	if o.AllowMissing {
		found = skipMissing(s.worktree, found, o.Paths)
	}
	for _, f := range found {
		if _, conflict := idx.Conflict(f.Path); f.State == worktree.Absent && !conflict {
			return nil, fmt.Errorf("path %q: %w", f.Path, kist.ErrNoMatch)
		}
	}

	lost, err := s.findLost(ctx, found, o)
	if err != nil {
		return nil, err
	}
	s.restored = len(lost)
	stored, err := s.storeFound(ctx, append(found, lost...))
	if err != nil {
		return nil, err
	}
	s.recheckDeleted(stored, &anchors)
	return stored, nil
}

// editOfStream returns the edit for a file that [worktree.Worktree.StoreStream] stored. The error matches
// [object.ErrNotFound] if gc removed a part of its content since then.
func (s *stager) editOfStream(ctx context.Context, path string, stored worktree.Stored) (*edits, error) {
	if s.idx.Dir(path) != nil {
		return nil, fmt.Errorf("%q is a folder", path)
	}
	f := &worktree.Found{Path: path, State: worktree.Untracked, Old: s.idx.Entry(path)}
	if f.Old != nil {
		f.State = worktree.Modified
	}
	if f.Old != nil {
		stored.Entry.SetAttrs(f.Old.Attrs())
	}
	e, err := s.editOfStored(ctx, f, stored, nil)
	if key := stored.Entry.Content; err == nil && e.kind == editSet && !key.IsZero() {
		err = graph.CheckPresent(ctx, s.objects, key)
	}
	return &edits{list: []edit{e}}, err
}

// HasChanges reports whether the edits change anything.
func (p *Prepared) HasChanges() bool { return p.edits.hasChanges() }

// Apply makes the edits in the index that the caller gave to Prepare. [Prepared.NoteIndex]
// notes that index.
func (p *Prepared) Apply() error { return p.edits.applyTo(p.stager.idx) }

// ErrChanged means that another process changed the index or purged content, so that an
// index that was prepared cannot be written.
var ErrChanged = errors.New("the index was changed by another process")

// NoteIndex notes that the index becomes the one that Apply changed. The error of Publish is
// [ErrChanged] if another process changed the index meanwhile.
func (p *Prepared) NoteIndex(tx *kist.Tx) {
	s := p.stager
	p.noteIndexEdit(tx, func(now *index.Index) error {
		purges, err := s.repo.Purges().View()
		if err == nil && (purges != s.purges || now != s.idx) {
			err = ErrChanged
		}
		return err
	})
}

// noteEdits notes the edits of the index that Prepare got, or of a newer one.
func (p *Prepared) noteEdits(ctx context.Context, tx *kist.Tx) {
	p.noteIndexEdit(tx, func(now *index.Index) error {
		if err := p.stager.checkUnpurged(ctx, p.edits); err != nil {
			return err
		}
		return p.edits.applyTo(now)
	})
}

// noteIndexEdit notes a change of the index. After it, p warns about lost folders.
func (p *Prepared) noteIndexEdit(tx *kist.Tx, edit func(now *index.Index) error) {
	var files []lentFile
	if object.HasFar(p.stager.repo.Objects()) {
		files = p.edits.lentFiles()
	}
	tx.EditIndex(p.stager.idx, edit)
	tx.NoteStep(func(ctx context.Context) error {
		p.isSaved = true
		recordLent(ctx, p.stager.repo, files, false)
		p.stager.warnLost(p.refilledDirs)
		return nil
	})
}

// Saved reports whether the stored index has the edits.
func (p *Prepared) Saved() bool { return p != nil && p.isSaved }

// skipMissing makes paths that do not exist unreadable, in place of the results at and
// below them. So a folder on a disk that is not mounted is not taken for deleted.
func skipMissing(w *worktree.Worktree, found []*worktree.Found, paths []string) []*worktree.Found {
	for _, path := range paths {
		if path == "" || w.Exists(path) {
			continue
		}
		found = slices.DeleteFunc(found, func(f *worktree.Found) bool { return tree.Below(f.Path, path) })
		found = append(found, &worktree.Found{Path: path, State: worktree.Unreadable, Err: fs.ErrNotExist})
	}
	return found
}

// stager stores changed files of the worktree and returns the edits of the index
// that result.
type stager struct {
	repo       *kist.Repository
	worktree   *worktree.Worktree
	timesCount bool // see AddOptions.Times
	objects    object.ReadWriter
	idx        *index.Index
	purges     *record.Effects // when the stager was made
	progress   kist.Progress
	restored   int // see AddResult.Restored
}

func newStager(r *kist.Repository, objects object.ReadWriter, idx *index.Index, progress kist.Progress) (*stager, error) {
	purges, err := r.Purges().View()
	return &stager{repo: r, worktree: r.Worktree(), objects: objects, idx: idx, purges: purges, progress: progress}, err
}

// storeFound stores the files of a scan, and returns the edits for all that it found.
// Purged content counts as unreadable. The caller must not use found afterwards.
func (s *stager) storeFound(ctx context.Context, found []*worktree.Found) (*edits, error) {
	var result edits
	files := found[:0] // to be read
	tracked := 0       // of them
	var total kist.Amount
	for i, f := range found {
		if needsContent(f) {
			files = append(files, f)
			if f.State != worktree.Untracked {
				tracked++
			}
			total.Files++
			total.Bytes += f.Stat.Size
		} else if e, ok := s.editWithoutContent(f, found[i+1:]); ok {
			result.list = append(result.list, e)
		}
	}

	clear(found[len(files):])
	result.list = slices.Grow(result.list, tracked)
	err := s.storeFiles(ctx, files, &result, total)
	if err == nil {
		result.groupLinks(s.idx)
		result.carryAttrs()
	}
	return &result, err
}

// needsContent reports whether f is a file whose content is to be stored.
func needsContent(f *worktree.Found) bool {
	switch f.State {
	case worktree.Absent, worktree.Ignored, worktree.Deleted, worktree.Unreadable, worktree.Special, worktree.Nested:
		return false
	case worktree.Untracked:
		return !f.Dir && !f.LeftOut
	}
	return !f.Dir
}

// editWithoutContent returns the edit for a path of a scan that needs no content. Next are the paths that follow it.
// It returns false if there is nothing to do or to say.
func (s *stager) editWithoutContent(f *worktree.Found, next []*worktree.Found) (edit, bool) {
	if f.LeftOut && f.State == worktree.Untracked {
		return edit{path: f.Path, state: worktree.Unreadable, reason: index.ErrLeftOut.Error()}, !f.Dir
	}
	e := edit{path: f.Path, state: f.State, old: f.Old, properties: f.Properties, excluded: f.Excluded, vanished: f.Vanished}
	e.isImplied = f.Dir && (f.State == worktree.Untracked || f.State == worktree.Deleted) && impliesFolder(f.Path, next)
	switch f.State {
	case worktree.Absent:
		return e, false
	case worktree.Ignored:
		e.reason = f.State.String()
	case worktree.Deleted:
		if !f.Vanished || Indexed(s.idx, f.Path) != nil {
			e.kind = editRemove
		}
	case worktree.Unreadable:
		e.reason = ReasonWithoutPath(f.Err)
	case worktree.Special, worktree.Nested:
		if e.reason = f.State.String(); errors.Is(f.Err, worktree.ErrRemote) {
			e.reason = f.Err.Error()
		}
		if Indexed(s.idx, f.Path) != nil {
			e.kind = editRemove
		}
	default: // a folder
		if e.kind = editDir; f.Err != nil {
			e.reason = f.Err.Error()
		}
	}
	return e, true
}

// storeFiles stores files, total in all, and adds an edit to result for each. It
// frees each part of files after use: the edits take more and more memory.
func (s *stager) storeFiles(ctx context.Context, files []*worktree.Found, result *edits, total kist.Amount) error {
	dst := object.Writer(s.objects)
	if s.purges.AnyPurged() {
		dst = &kist.Withheld{Writer: dst, Purges: s.purges}
	}
	var before, now kist.Amount // done before this part, and with it
	report := func(files, bytes int64) {
		now = kist.Amount{Files: before.Files + files, Bytes: before.Bytes + bytes}
		if s.progress != nil {
			s.progress(now, total)
		}
	}

	done := make([]edit, min(len(files), filesAtOnce))
	for len(files) > 0 {
		part := files[:min(len(files), filesAtOnce)]
		err := s.worktree.StoreAll(ctx, dst, part, func(at int, stored worktree.Stored, err error) error {
			done[at], err = s.editOfStored(ctx, part[at], stored, err)
			return err
		}, report)
		if err != nil {
			return err
		}
		for i := range part {
			result.addStored(&done[i])
		}
		files, before = files[len(part):], now
		clear(part)
	}

	return nil
}

// filesAtOnce is the number of files that are stored before their results of the scan are freed.
const filesAtOnce = 16 << 10

// editOfStored returns the edit for a file that was stored, or that failed with err.
func (s *stager) editOfStored(ctx context.Context, f *worktree.Found, stored worktree.Stored, err error) (edit, error) {
	e := edit{path: f.Path, state: f.State, old: f.Old}
	switch {
	case errors.Is(err, worktree.ErrGone):
		e.state, e.vanished = worktree.Deleted, true
		if Indexed(s.idx, e.path) != nil {
			e.kind = editRemove
		}
		return e, nil
	case err != nil:
		e.state, e.reason = worktree.Unreadable, ReasonWithoutPath(err)
		return e, nil
	}

	entry := index.NewEntry(stored.Entry, stored.Stat)
	if e.old != nil && e.old.SameData(&entry) && !entry.HasMetadata() && !s.timesCount {
		entry.MTime, entry.Meta = e.old.MTime, e.old.Meta // a change of the time alone is no change
	} else if why, err := s.repo.PurgedIn(ctx, s.purges, s.objects, &stored.Entry); err != nil && !errors.Is(err, object.ErrNotFound) {
		return e, err
	} else if why != nil {
		e.state, e.reason = worktree.Unreadable, why.Error()
		return e, nil
	}
	e.kind, e.entry, e.hasOpenLinks = editSet, &entry, stored.HasOpenLinks
	if stored.Unstable {
		e.reason = "changed while it was read"
	} else if stored.LeftXattrs != nil {
		e.reason = stored.LeftXattrs.Error()
	}
	return e, nil
}

// impliesFolder reports whether the results in a folder show that the folder was
// added or deleted. found begins with the first result after the folder.
func impliesFolder(dir string, found []*worktree.Found) bool {
	for _, f := range found {
		switch {
		case !tree.Below(f.Path, dir):
			return false
		case f.State == worktree.Untracked || f.State == worktree.Deleted:
			return true
		}
	}
	return false
}

// addNoteEdits puts edits before stored that remove the notes of the index about the other
// selected paths: conflicts, which count as resolved now, and unreadable paths.
func (s *stager) addNoteEdits(stored *edits, o AddOptions) {
	idx := s.idx
	if len(idx.Conflicts())+len(idx.Skipped()) == 0 {
		return
	}

	touched := map[string]bool{}
	for e := range stored.all() {
		touched[e.path] = true
	}

	open := func(path string) bool { return Selected(path, o.Paths) && !touched[path] }
	// An untracked file that the scan ignored does not mean that the user
	// decided to remove the path.
	decided := func(path string) bool { return Indexed(idx, path) != nil || !s.worktree.Exists(path) }

	var list []edit
	for _, c := range idx.Conflicts() {
		if open(c.Path) && decided(c.Path) {
			list = append(list, edit{path: c.Path, kind: editResolve})
		}
	}

	for _, p := range idx.Skipped() {
		if open(p.Path) && (!o.Update || decided(p.Path)) {
			list = append(list, edit{path: p.Path, kind: editForgive})
		}
	}

	stored.list = append(list, stored.list...)
}

// warnLost warns that lost folders get new content.
func (s *stager) warnLost(dirs []string) {
	for _, path := range dirs {
		s.repo.Options().Warn(fmt.Sprintf("folder %q was lost; the next commit will contain only what you add to it", path))
	}
}

// checkUnpurged returns a [*volume.StaleError] if new content in list was purged
// since the stager was made.
func (s *stager) checkUnpurged(ctx context.Context, list *edits) error {
	if now, err := s.repo.Purges().View(); err != nil || now == s.purges {
		return err
	}
	for e := range list.all() {
		if e.kind != editSet || e.old != nil && e.old.SameContent(e.entry) {
			continue
		}
		entry := e.entry.Object()
		why, err := s.repo.Purged(ctx, &entry)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		if key, purged := object.AbsentKey(why, object.ErrPurged); purged {
			return &volume.StaleError{Keys: []object.Key{key}}
		}
	}
	return nil
}

// edit is the change of the index that follows from one path in the worktree.
type edit struct {
	path         string
	reason       string        // the reason why the index may differ from the worktree
	old          *index.Entry  // the former entry in the index; nil for a directory or an untracked path
	entry        *index.Entry  // the new entry; nil for a directory
	properties   *object.Entry // of a directory
	hasOpenLinks bool          // entry is one name of several, and its hard-link group is open

	kind      editKind
	state     worktree.PathState
	isImplied bool // the listed children of the directory imply the edit

	excluded, vanished bool // the reason why the path is deleted, see [worktree.Found]
}

// editKind is the change of the index that an edit makes.
type editKind uint8

const (
	editNone    editKind = iota
	editSet              // stages entry
	editDir              // stages a directory with properties
	editRemove           // removes the path
	editResolve          // clears the conflict at the path
	editForgive          // clears the note that the path could not be read
)

// edits are the edits of one command. Those of new files take little memory, because there
// may be millions.
type edits struct {
	list     []edit        // edits that change only notes come first
	newFiles tree.PathList // edits for which [edit.isNewFile] holds: their entries, packed; they come last
}

// addStored adds the edit for a file.
func (l *edits) addStored(e *edit) {
	if e.isNewFile() {
		if packed, ok := index.Pack(nil, e.entry); ok {
			l.newFiles.Add(e.path, packed)
			return
		}
	}
	l.list = append(l.list, *e)
}

// isNewFile reports whether path, state, kind and entry are all there is to an edit, which
// stages an untracked file.
func (e *edit) isNewFile() bool {
	rest := *e
	rest.path, rest.entry = "", nil
	return rest == edit{state: worktree.Untracked, kind: editSet}
}

// all yields the edits in order. That of a new file is valid until the next one.
func (l *edits) all() iter.Seq[*edit] {
	return func(yield func(*edit) bool) {
		for i := range l.list {
			if !yield(&l.list[i]) {
				return
			}
		}
		unpackFiles(l.newFiles.All())(yield)
	}
}

// unpackFiles yields the edits of new files. Each is valid until the next one.
func unpackFiles(files iter.Seq2[string, []byte]) iter.Seq[*edit] {
	return func(yield func(*edit) bool) {
		var unpacker index.Unpacker
		var entry index.Entry
		var e edit
		for path, packed := range files {
			_, name := tree.Split(path)
			unpacker.Unpack(&entry, name, packed)
			e = edit{path: path, state: worktree.Untracked, kind: editSet, entry: &entry}
			if !yield(&e) {
				return
			}
		}
	}
}

// isSkipped reports whether a commit must record that the path differs from the
// worktree.
func (e *edit) isSkipped() bool {
	return e.state == worktree.Unreadable || (e.kind == editSet || e.kind == editDir) && e.reason != ""
}

// hasChanges reports whether the edits change anything.
func (l *edits) hasChanges() bool {
	return l.newFiles.Len() > 0 || slices.ContainsFunc(l.list, func(e edit) bool {
		return e.kind != editNone || e.isSkipped()
	})
}

// endsConflict reports whether the edit ends a conflict about its path.
func (e *edit) endsConflict() bool { return e.kind != editNone && e.kind != editForgive }

// lostDirsRefilled returns the lost directories that get new content.
func (l *edits) lostDirsRefilled(idx *index.Index) (dirs []string) {
	for path := range idx.LostDirs() {
		for e := range l.all() {
			if (e.kind == editSet || e.kind == editDir) && e.path != path && tree.Below(e.path, path) {
				dirs = append(dirs, path)
				break
			}
		}
	}
	return dirs
}

// applyTo changes idx. It clears the entries that it has set, and forgets the new files, to save
// memory.
func (l *edits) applyTo(idx *index.Index) error {
	for i := range l.list {
		err := l.list[i].applyTo(idx)
		l.list[i].entry = nil
		if err != nil {
			return err
		}
	}
	for e := range unpackFiles(l.newFiles.Drain()) {
		if err := e.applyTo(idx); err != nil {
			return err
		}
	}
	return nil
}

// applyTo changes idx.
func (e *edit) applyTo(idx *index.Index) (err error) {
	switch e.kind {
	case editResolve:
		idx.ClearConflict(e.path)
	case editForgive:
		idx.ClearSkipped(e.path)
	case editRemove:
		idx.Remove(e.path)
	case editSet:
		err = idx.Set(e.path, *e.entry)
	case editDir:
		err = idx.SetDir(e.path, *e.properties)
	}
	if err == nil && e.isSkipped() {
		err = idx.SetSkipped(e.path, e.reason)
	}
	return err
}

// summarize summarises the edits for the user. It must come before apply, which
// clears entries.
func (l *edits) summarize(idx *index.Index) *AddResult {
	result := &AddResult{Folders: l.countFolders()}
	for e := range l.all() {
		if _, conflict := idx.Conflict(e.path); conflict && e.endsConflict() {
			result.Resolved = append(result.Resolved, e.path)
		}
		switch {
		case e.isImplied || e.kind == editNone || e.kind == editResolve || e.kind == editForgive:
		case e.kind == editRemove:
			result.Deleted = append(result.Deleted, e.path)
		case e.state == worktree.Untracked: // see listAdded
		case e.kind == editDir || e.old == nil || !e.old.SameContent(e.entry):
			result.Modified = append(result.Modified, e.path)
		}
		if e.kind == editSet {
			result.Read.Files++
			result.Read.Bytes += int64(e.entry.Size)
		}
		switch left := (object.Skipped{Path: e.path, Reason: e.reason}); {
		case e.isSkipped():
			result.Skipped = append(result.Skipped, left)
		case e.state == worktree.Special || e.state == worktree.Nested:
			result.NeverStored = append(result.NeverStored, left)
		case e.state == worktree.Ignored:
			result.Ignored = append(result.Ignored, e.path)
		}
	}

	for _, paths := range [][]string{result.Modified, result.Deleted, result.Resolved, result.Ignored} {
		slices.SortFunc(paths, tree.ComparePaths)
	}

	for _, left := range [][]object.Skipped{result.Skipped, result.NeverStored} {
		slices.SortFunc(left, func(a, b object.Skipped) int {
			return cmp.Or(tree.ComparePaths(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
		})
	}

	l.listAdded(&result.Added)
	return result
}

// listAdded appends the paths that are new to the index, sorted. Those of new files are sorted
// already, as the scan found them.
func (l *edits) listAdded(added *tree.PathList) {
	var others []string
	for i := range l.list {
		e := &l.list[i]
		if (e.kind == editSet || e.kind == editDir) && e.state == worktree.Untracked && !e.isImplied {
			others = append(others, e.path)
		}
	}
	slices.SortFunc(others, tree.ComparePaths)

	for path := range l.newFiles.All() {
		for len(others) > 0 && tree.ComparePaths(others[0], path) < 0 {
			added.Add(others[0], nil)
			others = others[1:]
		}
		added.Add(path, nil)
	}
	for _, path := range others {
		added.Add(path, nil)
	}
}

// countFolders counts the folders that the user sees as added or modified.
func (l *edits) countFolders() (n int) {
	for i := range l.list {
		if l.list[i].kind == editDir && !l.list[i].isImplied {
			n++
		}
	}
	return n
}

// ReasonWithoutPath returns the message of an error without its path, which the caller shows beside it.
func ReasonWithoutPath(err error) string {
	if purged, ok := errors.AsType[*object.AbsentError](err); ok && errors.Is(purged, object.ErrPurged) {
		return purged.Error()
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// Selected reports whether a path is equal to or below one of paths. It is
// always true if paths is nil.
func Selected(path string, paths []string) bool {
	return paths == nil || slices.ContainsFunc(paths, func(p string) bool { return tree.Below(path, p) })
}
