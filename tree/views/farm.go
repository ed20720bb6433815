// Package views keeps views: folders of symlinks that show the files of a commit under other
// names. The links lead to a pool of read-only files, which all views of a repository share.
//
// All data of views is below .kist/views: a folder for each view that has no other place, the
// pool in .pool, and the state of each view in .state. Only the definitions, in the
// configuration, cannot be rebuilt.
package views

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// The folders of all views.
const (
	viewsDir = "views"
	poolDir  = ".pool"
	stateDir = ".state"
)

// newSuffix ends the name of a folder that will become a view.
const newSuffix = ".kist-new"

// ErrNoView is matched by the error for a view that is not configured.
var ErrNoView = errors.New("no such view")

// ErrName is matched by the error for an invalid name of a view.
var ErrName = errors.New("a view's name has 1 to 64 letters, digits, - and _, and does not begin with -")

var validName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)
})

// View is the definition of a view.
type View struct {
	Name     string
	Template string
	Dir      string // absolute
	Rev      string // the revision that it shows, such as refs/heads/main
}

// All returns the views in the configuration, sorted by name. It leaves out invalid ones.
func All(r *kist.Repository) []View {
	var list []View
	for name, c := range r.Config().View {
		if !validName().MatchString(name) {
			continue
		}
		v := View{name, c.Template, c.Dir, c.Rev}
		if v.Dir == "" {
			v.Dir = defaultDir(r, name)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func defaultDir(r *kist.Repository, name string) string {
	return filepath.Join(r.Dir(), viewsDir, name)
}

// Find returns the view with a name. The error matches [ErrNoView].
func Find(r *kist.Repository, name string) (View, error) {
	for _, v := range All(r) {
		if v.Name == name {
			return v, nil
		}
	}
	return View{}, fmt.Errorf("%w: %q", ErrNoView, name)
}

// viewUpdate is a change of one view. It holds the lock of all views.
type viewUpdate struct {
	View
	repo     *kist.Repository
	template *template
	pool     *pool
	old      *state // nil: missing or damaged
	lock     *disk.FileLock

	entries map[object.ID]object.Entry // a file with each content that next has met
	skipped int                        // files that placeFile skipped
}

// beginUpdate takes the lock of the views, and reads the state of one.
func beginUpdate(ctx context.Context, r *kist.Repository, v View) (*viewUpdate, error) {
	t, err := parseTemplate(v.Template)
	if err != nil {
		return nil, err
	}
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), "views.lock"), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return nil, err
	}
	w := &viewUpdate{View: v, repo: r, template: t, lock: lock, entries: map[object.ID]object.Entry{}}
	if w.pool, err = openPool(r); err != nil {
		lock.Unlock()
		return nil, err
	}
	if w.old, err = loadState(r, v.Name); err != nil && !errors.Is(err, ErrState) {
		w.endWork()
		return nil, err
	}
	w.learnSums(w.old)
	return w, nil
}

func (w *viewUpdate) endWork() {
	w.pool.close()
	w.lock.Unlock()
}

// learnSums notes the SHA-256 of contents, so that they need not be read again.
func (w *viewUpdate) learnSums(s *state) {
	if s == nil {
		return
	}
	for _, f := range s.files {
		if !f.manifest.IsZero() {
			w.pool.known[f.manifest] = f.sum
		}
	}
}

// learnAll is learn for the states of all views.
func (w *viewUpdate) learnAll() {
	for _, v := range All(w.repo) {
		if s, err := loadState(w.repo, v.Name); err == nil {
			w.learnSums(s)
		}
	}
}

// Add makes a view. The folder gets all links at once; if that fails, the folder is missing or
// unchanged. An interrupted Add can be repeated, and so can a finished one with the same
// definition. An empty Dir means a folder in .kist. An empty Rev means HEAD's branch.
//
// The error matches [kist.ErrNameTaken], [ErrName], [ErrTemplate] or [ErrFolder], or is a
// [*CollisionError] or a [*ForeignError].
func Add(ctx context.Context, r *kist.Repository, v View) (*Report, error) {
	if !validName().MatchString(v.Name) {
		return nil, fmt.Errorf("%q: %w", v.Name, ErrName)
	}
	rev, err := fullRev(r, v.Rev)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{"template": v.Template, "rev": rev}
	if v.Rev = rev; v.Dir == "" {
		v.Dir = defaultDir(r, v.Name)
	} else if v.Dir, err = checkDir(r, v); err != nil {
		return nil, err
	} else {
		settings["dir"] = v.Dir
	}

	was, err := Find(r, v.Name)
	if err == nil && was == v {
		return Verify(ctx, r, v.Name, VerifyOptions{Fix: true, Vacuum: true, Rebuild: true})
	}
	if err == nil {
		return nil, fmt.Errorf("view %q %w", v.Name, kist.ErrNameTaken)
	}
	w, err := beginUpdate(ctx, r, v)
	if err != nil {
		return nil, err
	}
	defer w.endWork()

	w.old = nil // of a view that was removed from the configuration by hand
	w.learnAll()
	s, err := w.buildState(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := w.createFolder(s); err != nil {
		return nil, err
	}
	if err := s.save(r, v.Name); err != nil {
		return nil, err
	}
	err = r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(settings, "view", v.Name) })
	return w.newReport(s), err
}

// fullRev returns the revision of a view: the full name of a branch, if rev names one.
func fullRev(r *kist.Repository, rev string) (string, error) {
	if rev == "" {
		head, err := r.Refs().Head()
		if err != nil || head.Branch == "" {
			return "HEAD", err
		}
		return refs.Heads + head.Branch, nil
	}
	if refs.CheckShort(rev) == nil {
		if _, err := r.Refs().Get(refs.Heads + rev); err == nil {
			return refs.Heads + rev, nil
		}
	}
	return rev, nil
}

// checkDir returns the real path of the folder of a new view. It must lie outside the
// worktree, all repositories and all other views.
func checkDir(r *kist.Repository, v View) (string, error) {
	dir, err := realPath(v.Dir)
	if err != nil {
		return "", err
	}
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%q %w: %s", dir, ErrFolder, why) }
	recorded := []string{r.Root()}
	if r.IsBare() {
		recorded = append(r.Config().Values(kist.KeyBackupPaths), r.Dir())
	}
	for _, path := range recorded {
		if path, err := realPath(path); err == nil && isBelow(dir, path) {
			return refuse("it is in " + fmt.Sprintf("%q", path) + ", so the links would be recorded as files")
		}
	}
	if slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool { return strings.EqualFold(name, kist.Dir) }) {
		return refuse("it is in a repository")
	}
	for _, other := range All(r) {
		if other.Name != v.Name && (isBelow(dir, other.Dir) || isBelow(other.Dir, dir)) {
			return refuse(fmt.Sprintf("the folder of view %q is there", other.Name))
		}
	}
	return dir, nil
}

// realPath returns an absolute path without symlinks. The last parts need not exist.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return real, err
	}
	if _, lerr := disk.Lstat(path); lerr == nil { // a symlink to nowhere
		return "", err
	}
	above, err := realPath(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// isBelow is [tree.Below] for absolute paths, where dir may be "/".
func isBelow(path, dir string) bool { return tree.Below(path, strings.TrimSuffix(dir, "/")) }

// createFolder makes the folder of a view with all links: below another name, and then renamed.
func (w *viewUpdate) createFolder(s *state) error {
	for _, dir := range []string{w.Dir + newSuffix, w.Dir} {
		foreign, err := clearFolder(dir, w.pool.dir, nil, false)
		if len(foreign) > 0 {
			return &ForeignError{dir, foreign}
		}
		if err != nil {
			return err
		}
	}
	temp := w.Dir + newSuffix
	removeEmpty(temp)
	left, err := disk.ReadDir(w.Dir)
	if len(left) > 0 { // empty folders
		return &ForeignError{w.Dir, []string{left[0].Name()}}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := disk.MkdirAll(temp, 0o777); err != nil {
		return err
	}
	f, err := openFolder(temp, w.pool.dir)
	if err == nil {
		err = f.updateLinks(nil, f.wantedLinks(s.linkSums()))
		f.close()
	}
	if err == nil {
		err = disk.Rename(temp, w.Dir)
	}
	if err != nil {
		_, cerr := clearFolder(temp, w.pool.dir, nil, false)
		return errors.Join(err, cerr)
	}
	return nil
}

// removeEmpty removes a folder and the folders in it, if they are empty.
func removeEmpty(dir string) {
	list, _ := disk.ReadDir(dir)
	for _, d := range list {
		if d.IsDir() {
			removeEmpty(filepath.Join(dir, d.Name()))
		}
	}
	_ = disk.Remove(dir) // it may be absent, or hold a file
}

// Remove ends a view. It removes the links that kist made, and the files of the pool that no
// other view needs. It returns the files in the folder that kist did not make, and keeps them.
func Remove(ctx context.Context, r *kist.Repository, name string) (foreign []string, err error) {
	v, err := Find(r, name)
	if err != nil {
		return nil, err
	}
	w, err := beginUpdate(ctx, r, v)
	if err != nil {
		return nil, err
	}
	defer w.endWork()

	var have map[string]object.ID
	if w.old != nil {
		have = w.old.linkSums()
	}
	if foreign, err = clearFolder(v.Dir, w.pool.dir, have, true); err != nil {
		return foreign, err
	}
	if err := disk.Remove(statePath(r, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return foreign, err
	}
	err = r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(nil, "view", name) })
	if err != nil {
		return foreign, err
	}
	_, err = w.vacuumPool(nil, true, false)
	return foreign, err
}

// vacuumPool returns the files of the pool that no view needs or whose content was purged, and
// removes them if remove is set. It counts s as the state of w's view, and the other states as
// they are on disk. A view without a state is an error, or needs no file if broken is set.
func (w *viewUpdate) vacuumPool(s *state, remove, broken bool) ([]string, error) {
	states := []*state{s}
	for _, v := range All(w.repo) {
		if v.Name == w.Name {
			continue
		}
		other, err := loadState(w.repo, v.Name)
		if err != nil && !(broken && errors.Is(err, ErrState)) {
			return nil, fmt.Errorf("view %q: %w", v.Name, err)
		}
		states = append(states, other)
	}
	records, err := w.repo.Purges().View()
	if err != nil {
		return nil, err
	}
	used := map[object.ID]bool{}
	for _, s := range states {
		if s == nil {
			continue
		}
		for _, f := range s.files {
			key := object.Key{Kind: object.KindChunk, ID: f.sum}
			if !f.manifest.IsZero() {
				key = object.Key{Kind: object.KindManifest, ID: f.manifest}
			}
			_, purged := records.Purged(key)
			used[f.sum] = used[f.sum] || !purged
		}
	}
	return w.pool.unusedFiles(used, remove)
}

// Follow makes the views of r follow their branches from now on: each publication that moves
// the source of a view updates it. A view that cannot be updated is only a warning. A view that
// was out of date before stays so until its source moves. Ctx ends the updates.
func Follow(ctx context.Context, r *kist.Repository) {
	f := &follower{repo: r, sources: map[string]source{}}
	list := All(r)
	if len(list) > 0 {
		f.purges, _ = purgesOf(r)
	}
	for _, v := range list {
		f.sources[v.Name], _ = sourceOf(ctx, r, v)
	}
	r.Objects().Published = func(context.Context) { f.updateViews(ctx) }
}

// follower updates views when their sources have moved.
type follower struct {
	repo *kist.Repository

	mu      sync.Mutex // guards the following
	purges  object.ID
	sources map[string]source // by view, at the last look
}

// updateViews updates the views whose source has moved since the last call.
func (f *follower) updateViews(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := All(f.repo)
	if len(list) == 0 || ctx.Err() != nil {
		return
	}

	warn := f.repo.Options().Warn
	if now, err := purgesOf(f.repo); err == nil && now != f.purges {
		if err := dropPurged(ctx, f.repo); err == nil {
			f.purges = now // else the next publication tries again
		} else {
			warn(fmt.Sprintf("the files of views may still have purged content: %v", err))
		}
	}
	for _, v := range list {
		was, known := f.sources[v.Name]
		now, err := sourceOf(ctx, f.repo, v)
		if known && now == was || !known && IsCurrent(ctx, f.repo, v) {
			continue
		}
		f.sources[v.Name] = now
		if err == nil {
			err = Update(ctx, f.repo, v)
		}
		if err != nil {
			warn(fmt.Sprintf("the view %q was not updated: %v; 'kist view rebuild %s' does it", v.Name, err, v.Name))
		}
	}
}

// dropPurged removes purged content from the pool, even if no view can be updated. A view
// without a state loses its files: kist does not know which of them were purged.
func dropPurged(ctx context.Context, r *kist.Repository) error {
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), "views.lock"), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	w := &viewUpdate{repo: r, lock: lock}
	if w.pool, err = openPool(r); err != nil {
		lock.Unlock()
		return err
	}
	defer w.endWork()
	_, err = w.vacuumPool(nil, true, true)
	return err
}

// IsCurrent reports whether a view shows the present state of its revision.
func IsCurrent(ctx context.Context, r *kist.Repository, v View) bool {
	now, err := sourceOf(ctx, r, v)
	if err != nil {
		return false
	}
	s, err := loadState(r, v.Name)
	return err == nil && s.source == now && s.template == v.Template
}

// Update brings a view to the present state of its revision. It looks only at files that have
// changed, if the definition, tags and purges have not. The error matches [ErrState] if the
// view has to be rebuilt, and [ErrFolder] if its folder is no view.
func Update(ctx context.Context, r *kist.Repository, v View) error {
	w, err := beginUpdate(ctx, r, v)
	if err != nil {
		return err
	}
	defer w.endWork()

	if w.old == nil {
		return ErrState
	}
	s, err := w.buildState(ctx, false)
	if err != nil {
		return err
	}
	if s.source.purges != w.old.source.purges { // even if the links cannot be changed
		if _, err := w.vacuumPool(s, true, true); err != nil {
			return err
		}
	}
	f, err := openFolder(v.Dir, w.pool.dir)
	if err != nil {
		return err
	}
	defer f.close()

	if !f.isView() {
		return fmt.Errorf("%q %w: it has no link %s to the pool", v.Dir, ErrFolder, markName)
	}
	if err := w.relinkFolder(f, s); err != nil {
		return err
	}
	return s.save(r, v.Name)
}

// relinkFolder brings the links from the old state to s. The file dirty is there meanwhile. If a
// kill left it, relinkFolder compares all links.
func (w *viewUpdate) relinkFolder(f *folder, s *state) error {
	dirty := statePath(w.repo, w.Name) + ".dirty"
	err := disk.Create(dirty, nil)
	switch {
	case errors.Is(err, fs.ErrExist):
		report := w.newReport(s)
		err = w.checkLinks(s, report, VerifyOptions{Fix: true, Vacuum: true})
		if err == nil && slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Kind == MissingLink && !p.Fixed }) {
			err = report.foreignError()
		}
	case err == nil:
		err = f.updateLinks(f.differentLinks(w.old.linkSums(), s.linkSums()))
	}
	if err != nil {
		return err
	}
	return disk.Remove(dirty)
}

// differentLinks returns the links that are not in both.
func (f *folder) differentLinks(a, b map[string]object.ID) (have, want links) {
	have, want = links{}, links{}
	for link, sum := range a {
		if b[link] != sum {
			have[link] = f.linkTarget(link, sum)
		}
	}
	for link, sum := range b {
		if a[link] != sum {
			want[link] = f.linkTarget(link, sum)
		}
	}
	return have, want
}
