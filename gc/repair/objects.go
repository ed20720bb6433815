package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/view"
)

// repairObjects stores damaged and missing objects anew, as far as a good copy can be
// found: on a remote, or in the worktree.
func (p *repairer) repairObjects(ctx context.Context, report *gc.Report) (did bool, err error) {
	keys := p.extra
	p.extra = nil
	for _, problem := range report.Problems {
		if !problem.Key.IsZero() {
			keys = append(keys, problem.Key)
		}
	}
	keys = append(keys, p.perhapsTags(ctx, report)...)
	lost, err := p.repo.Objects().Lost(ctx)
	if err != nil {
		return false, err
	}
	for _, key := range lost { // somebody may have it by now
		keys = append(keys, key)
		p.noteKey(key)
	}
	return p.restore(ctx, keys)
}

// restore stores those of keys anew that were not tried before, as far as a good
// copy can be found. It reports whether there was any.
func (p *repairer) restore(ctx context.Context, keys []object.Key) (did bool, err error) {
	w := &wanted{repairer: p, keys: map[object.Key]bool{}}
	if w.said, err = p.said(); err != nil {
		return false, nil // what may be restored is not known
	}
	for _, key := range keys {
		if p.try(key) {
			w.want(ctx, key)
		}
	}
	if len(w.keys) == 0 {
		return false, nil
	}
	w.session = p.repo.Objects().Begin(volume.SessionOptions{DryRun: p.o.DryRun})
	err = w.search(ctx)
	return w.got > 0, errors.Join(err, w.session.Close())
}

// perhapsTags returns the annotated tags that commits which are missing may be in
// truth: as long as what a ref names is not there, nothing tells which it is.
func (p *repairer) perhapsTags(ctx context.Context, report *gc.Report) (tags []object.Key) {
	named := map[object.ID]bool{}
	for _, problem := range report.Problems {
		if problem.Key.Kind == object.KindCommit && errors.Is(problem.Err, object.ErrNotFound) {
			named[problem.Key.ID] = false
		}
	}
	if len(named) == 0 {
		return nil
	}
	names, _ := p.repo.Refs().Roots(ctx) // what is damaged has been told
	for _, name := range names {
		if found, missing := named[name.ID]; missing && !found {
			named[name.ID] = true
			tags = append(tags, object.Key{Kind: object.KindTag, ID: name.ID})
			p.noteKey(tags[len(tags)-1])
		}
	}
	return tags
}

// wanted are objects for which a good copy is looked for. It is an
// [object.ReadWriter] that keeps what is wanted of all that is put into it, and
// lacks everything. It is safe for concurrent use.
type wanted struct {
	*repairer
	session *volume.Session
	said    *record.View
	from    string // what is being searched

	mu   sync.Mutex
	keys map[object.Key]bool
	got  int
	all  int // that were ever wanted
}

// want adds an object, unless there is a good copy, or it was purged.
func (w *wanted) want(ctx context.Context, key object.Key) {
	if _, purged := w.said.Purged(key); purged || w.keys[key] || w.stores.Found(key) {
		return
	}
	if _, err := w.repo.Objects().Get(ctx, key); err != nil {
		w.keys[key] = true
		w.all++
	}
}

// search looks everywhere.
func (w *wanted) search(ctx context.Context) error {
	sources, err := w.remotes(ctx)
	if err != nil {
		return err
	}
	for _, s := range sources {
		for before := -1; w.got != before && len(w.keys) > 0; { // what refers to more was found
			before = w.got
			if err := w.rescue(ctx, s); err != nil {
				return err
			}
		}
	}
	if len(w.keys) == 0 {
		return nil
	}
	return w.searchFiles(ctx)
}

// rescue takes what a remote has.
func (w *wanted) rescue(ctx context.Context, s *source) error {
	if s.failed {
		return nil
	}
	keys := make([]object.Key, 0, len(w.keys))
	for key := range w.keys {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, object.Key.Compare)
	w.from = fmt.Sprintf("from the remote %q", s.name)
	var stored error
	err := s.remote.Rescue(ctx, keys, func(key object.Key, value []byte, raw int) error {
		stored = w.session.PutStored(ctx, key, value, raw)
		var damage *object.CorruptError
		if errors.As(stored, &damage) {
			stored = nil
			w.repo.Options().Warn(damage.Error())
			return nil
		}
		if stored == nil {
			w.took(key)
		}
		return stored
	})
	switch {
	case stored != nil:
		return stored
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		s.failed = true
		w.repo.Options().Warn(fmt.Sprintf("remote %q: %v", s.name, err))
	}
	// What was found may refer to more that is missing.
	for _, key := range keys {
		if w.keys[key] || !key.Kind.IsNode() || w.o.DryRun {
			continue
		}
		data, err := w.session.Get(ctx, key)
		if err != nil {
			return err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			continue // verify tells
		}
		for _, link := range links {
			if !w.said.Skips(key, link) && w.try(link) {
				w.want(ctx, link)
			}
		}
	}
	return nil
}

// took notes that an object was stored.
func (w *wanted) took(key object.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
	w.how[key] = w.from
	if w.got++; w.o.Restoring != nil {
		w.o.Restoring(int64(w.got), int64(w.all))
	}
}

// searchFiles looks in the worktree: the files that the index, or HEAD, says have
// content that is wanted are read and cut again. What the index knows gives back
// folders, too.
func (w *wanted) searchFiles(ctx context.Context) error {
	idx, err := w.repo.Index()
	if err != nil {
		head, herr := view.HeadTree(ctx, w.repo)
		if herr == nil {
			idx, herr = index.FromTree(ctx, view.NewKnown(w.repo.Objects()), head)
		}
		if herr != nil {
			return ctx.Err() // nothing tells what to look for
		}
	}
	w.from = "from the index"
	if _, err := idx.PreviewTree(ctx, w); err != nil && ctx.Err() != nil {
		return err
	}
	for path, e := range idx.All() {
		if len(w.keys) == 0 {
			break
		}
		if !w.mayHave(ctx, e.Content) {
			continue
		}
		w.from = fmt.Sprintf("from the file %q", path)
		_, err := w.repo.Worktree().Store(ctx, w, path)
		if err := ctx.Err(); err != nil {
			return err
		}
		var stop *stopError
		if errors.As(err, &stop) {
			return stop.err
		}
	}
	return nil
}

// mayHave reports whether a file with some content has something that is wanted.
func (w *wanted) mayHave(ctx context.Context, content object.Key) bool {
	if content.IsZero() || w.keys[content] {
		return !content.IsZero()
	}
	if content.Kind != object.KindManifest {
		return false
	}
	data, err := w.repo.Objects().Get(ctx, content)
	if err != nil {
		return true
	}
	links, err := object.Links(content.Kind, data)
	return err != nil || slices.ContainsFunc(links, func(link object.Key) bool {
		return w.keys[link] || link.Kind == object.KindManifest && w.mayHave(ctx, link)
	})
}

// stopError says that what was found cannot be stored.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// Put implements [object.Writer].
func (w *wanted) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	key := object.Key{Kind: kind, ID: object.Sum(data)}
	w.mu.Lock()
	asked := w.keys[key]
	w.mu.Unlock()
	if !asked {
		return key.ID, nil
	}
	if _, err := w.session.Put(ctx, kind, data); err != nil {
		return key.ID, &stopError{err}
	}
	w.took(key)
	return key.ID, nil
}

// Get implements [object.Reader].
func (w *wanted) Get(ctx context.Context, key object.Key) ([]byte, error) {
	return w.repo.Objects().Get(ctx, key)
}

// Missing implements [object.Reader].
func (w *wanted) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return keys, ctx.Err()
}

// source is a remote that good copies may come from.
type source struct {
	name   string
	remote *transfer.Remote
	failed bool
}

// remotes opens the remotes. What cannot be reached is warned of.
func (p *repairer) remotes(ctx context.Context) ([]*source, error) {
	if p.sources != nil {
		return p.sources, nil
	}
	p.sources = []*source{}
	names := p.o.Remotes
	if names == nil {
		for _, m := range registry.All(p.repo) {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		opened, err := registry.OpenNamed(ctx, p.repo, name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", name, err))
			continue
		}
		p.sources = append(p.sources, &source{name: name, remote: opened})
	}
	return p.sources, nil
}

func (p *repairer) close() {
	for _, s := range p.sources {
		s.remote.Close()
	}
}
