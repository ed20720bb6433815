package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// repairObjects restores the damaged and missing objects that a remote or the
// worktree has intact.
func (p *repairer) repairObjects(ctx context.Context, report *gc.Report) (did bool, err error) {
	keys := p.extra
	p.extra = nil
	for _, problem := range report.Problems {
		if !problem.Key.IsZero() {
			keys = append(keys, problem.Key)
		}
	}

	keys = append(keys, p.candidateTags(ctx, report)...)
	lost, err := p.repo.Objects().Lost(ctx)
	if err != nil {
		return false, err
	}

	for _, key := range lost { // a remote may have it by now
		keys = append(keys, key)
		p.noteKey(key)
	}

	return p.restoreObjects(ctx, keys)
}

// restoreObjects stores intact copies of keys, unless it already tried them. It
// reports whether it found any.
func (p *repairer) restoreObjects(ctx context.Context, keys []object.Key) (did bool, err error) {
	w := &wantedObjects{repairer: p, keys: map[object.Key]bool{}}
	if w.records, err = p.currentRecords(); err != nil {
		return false, nil // unknown which objects must not come back
	}

	for _, key := range keys {
		if p.isFirstTry(key) {
			w.addWanted(ctx, key)
		}
	}

	if len(w.keys) == 0 {
		return false, nil
	}

	w.session = p.repo.Objects().Begin(volume.SessionOptions{DryRun: p.o.DryRun})
	err = w.searchSources(ctx)
	return w.got > 0, errors.Join(err, w.session.Close())
}

// candidateTags returns tag keys for the missing commits that refs name. A ref
// does not record whether it names a commit or an annotated tag, so only the
// object shows it.
func (p *repairer) candidateTags(ctx context.Context, report *gc.Report) (tags []object.Key) {
	named := map[object.ID]bool{}
	for _, problem := range report.Problems {
		if problem.Key.Kind == object.KindCommit && errors.Is(problem.Err, object.ErrNotFound) {
			named[problem.Key.ID] = false
		}
	}

	if len(named) == 0 {
		return nil
	}

	names, _ := p.repo.Refs().Roots(ctx) // the report has the damaged refs
	for _, name := range names {
		if found, missing := named[name.ID]; missing && !found {
			named[name.ID] = true
			tags = append(tags, object.Key{Kind: object.KindTag, ID: name.ID})
			p.noteKey(tags[len(tags)-1])
		}
	}

	return tags
}

// wantedObjects is a search for intact copies of objects. As an [object.ReadWriter]
// it stores only wanted objects, and every object counts as missing in it. It
// is safe for concurrent use.
type wantedObjects struct {
	*repairer
	session *volume.Session
	records *record.Effects
	from    string // the present source, for messages

	mu   sync.Mutex
	keys map[object.Key]bool
	got  int
	all  int // objects that were ever wanted
}

// addWanted adds an object, unless it was purged or an intact copy is here.
func (w *wantedObjects) addWanted(ctx context.Context, key object.Key) {
	if _, purged := w.records.Purged(key); purged || w.keys[key] || w.stores.Found(key) {
		return
	}
	if _, err := w.repo.Objects().Get(ctx, key); err != nil {
		w.keys[key] = true
		w.all++
	}
}

// searchSources searches the remotes and then the worktree.
func (w *wantedObjects) searchSources(ctx context.Context) error {
	sources, err := w.openRemotes(ctx)
	if err != nil {
		return err
	}

	for _, s := range sources {
		for before := -1; w.got != before && len(w.keys) > 0; { // a restored node may refer to more missing objects
			before = w.got
			if err := w.rescueFrom(ctx, s); err != nil {
				return err
			}
		}
	}

	if len(w.keys) == 0 {
		return nil
	}

	return w.searchFiles(ctx)
}

// rescueFrom restores the wanted objects that a remote has.
func (w *wantedObjects) rescueFrom(ctx context.Context, s *remoteSource) error {
	if s.failed {
		return nil
	}

	keys := slices.SortedFunc(maps.Keys(w.keys), object.Key.Compare)
	w.from = fmt.Sprintf("from the remote %q", s.name)
	var stored error
	err := s.remote.Rescue(ctx, keys, func(key object.Key, value []byte, raw int) error {
		stored = w.session.PutStored(ctx, key, value, raw, nil)
		var damage *object.CorruptError
		if errors.As(stored, &damage) {
			stored = nil
			w.repo.Options().Warn(damage.Error())
			return nil
		}
		if stored == nil {
			w.countRestored(key)
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

	// Restored nodes may refer to more missing objects.
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
			continue // verify reports it
		}
		for _, link := range links {
			if !w.records.Skips(key, link) && w.isFirstTry(link) {
				w.addWanted(ctx, link)
			}
		}
	}

	return nil
}

// countRestored counts an object as restored.
func (w *wantedObjects) countRestored(key object.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
	w.how[key] = w.from
	if w.got++; w.o.Restoring != nil {
		w.o.Restoring(int64(w.got), int64(w.all))
	}
}

// searchFiles reads the files of the worktree that should contain wanted
// objects, according to the index or HEAD, and cuts them into chunks again.
// The index also gives back tree nodes.
func (w *wantedObjects) searchFiles(ctx context.Context) error {
	idx, err := w.repo.Index()
	if err != nil {
		head, herr := compare.HeadTree(ctx, w.repo)
		if herr == nil {
			idx = index.New()
			herr = index.ReadTreeIn(ctx, idx, compare.NewKnown(w.repo.Objects()), head, w.repo.Config().Cone())
		}
		if herr != nil {
			return ctx.Err() // without index and HEAD, no file is known
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

// mayHave reports whether a file with this content may contain a wanted
// object.
func (w *wantedObjects) mayHave(ctx context.Context, content object.Key) bool {
	if content.IsZero() {
		return false
	}
	found := false
	err := graph.Walk(ctx, map[object.Key]bool{}, []object.Key{content}, func(key object.Key) ([]object.Key, error) {
		if found = found || w.keys[key]; found || key.Kind != object.KindManifest {
			return nil, nil
		}
		return graph.Links(ctx, w.repo.Objects(), key)
	})
	return found || err != nil
}

// stopError means that the store failed, so the search must end.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// Put implements [object.Writer].
func (w *wantedObjects) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	key := object.Key{Kind: kind, ID: object.Sum(data)}
	w.mu.Lock()
	wanted := w.keys[key]
	w.mu.Unlock()
	if !wanted {
		return key.ID, nil
	}
	if _, err := w.session.Put(ctx, kind, data); err != nil {
		return key.ID, &stopError{err}
	}
	w.countRestored(key)
	return key.ID, nil
}

// Get implements [object.Reader].
func (w *wantedObjects) Get(ctx context.Context, key object.Key) ([]byte, error) {
	return w.repo.Objects().Get(ctx, key)
}

// Missing implements [object.Reader].
func (w *wantedObjects) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return keys, ctx.Err()
}

// remoteSource is a remote that may have intact copies.
type remoteSource struct {
	name   string
	remote transfer.Source
	failed bool
}

// openRemotes opens the remotes, once. It warns of remotes that cannot be reached
// and leaves them out.
func (p *repairer) openRemotes(ctx context.Context) ([]*remoteSource, error) {
	if p.sources != nil {
		return p.sources, nil
	}

	p.sources = []*remoteSource{}
	names := p.o.Remotes
	if names == nil {
		for _, m := range registry.All(p.repo) {
			names = append(names, m.Name)
		}
	}

	for _, name := range names {
		opened, err := registry.OpenNamedSource(ctx, p.repo, name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", name, err))
			continue
		}
		p.sources = append(p.sources, &remoteSource{name: name, remote: opened})
	}

	return p.sources, nil
}

func (p *repairer) close() {
	for _, s := range p.sources {
		s.remote.Close()
	}
}
