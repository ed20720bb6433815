package views

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// sourceOf returns the present source of a view.
func sourceOf(ctx context.Context, r *kist.Repository, v View) (source, error) {
	t, err := parseTemplate(v.Template)
	if err != nil {
		return source{}, err
	}
	var s source
	if s.commit, err = r.Resolve(ctx, v.Rev); err != nil {
		return source{}, err
	}
	if t.usesFact("tag") {
		list, err := r.Refs().List(refs.Tags)
		if err != nil {
			return source{}, err
		}
		s.tags = object.Sum(fmt.Append(nil, list))
	}
	s.purges, err = purgesOf(r)
	return s, err
}

// purgesOf returns a hash of all purges, or zero if there are none.
func purgesOf(r *kist.Repository) (object.ID, error) {
	records, err := r.Purges().View()
	if err != nil || !records.AnyPurged() {
		return object.ID{}, err
	}
	keys := slices.SortedFunc(slices.Values(records.AllPurged()), object.Key.Compare)
	var all bytes.Buffer
	for _, key := range keys {
		all.Write(key.ID[:])
	}
	return object.Sum(all.Bytes()), nil
}

// buildState returns the state of the view as it should be, and puts the contents into the pool.
// With all, it looks at every file, and otherwise only at changed ones.
func (w *viewUpdate) buildState(ctx context.Context, all bool) (*state, error) {
	from, err := sourceOf(ctx, w.repo, w.View)
	if err != nil {
		return nil, err
	}
	top, err := kist.CommitTree(ctx, w.repo, from.commit)
	if err != nil {
		return nil, err
	}
	s := &state{w.Template, from, map[string]file{}}
	var was object.ID // the tree to compare with
	if !all && !w.template.needsInherited() && w.old.template == w.Template && w.old.source.tags == from.tags && w.old.source.purges == from.purges {
		if was, err = kist.CommitTree(ctx, w.repo, w.old.source.commit); err == nil {
			maps.Copy(s.files, w.old.files)
		} else if !object.IsUnreadable(err) && !errors.Is(err, object.ErrExpired) {
			return nil, err
		}
	}

	changed, err := w.changedFiles(ctx, was, top)
	if err != nil {
		return nil, err
	}
	p, err := w.newPlacer(ctx, from.commit, s)
	if err != nil {
		return nil, err
	}
	p.top = top
	if err := p.addTouched(ctx, w, changed); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		delete(s.files, path)
		if changed[path] == nil {
			continue
		}
		if err := p.placeFile(ctx, w, path, changed[path]); err != nil {
			return nil, fmt.Errorf("%q: %w", path, err)
		}
	}
	return s, s.checkCollisions()
}

// changedFiles returns the files that differ between two trees. The value is nil if there is no
// file now.
func (w *viewUpdate) changedFiles(ctx context.Context, was, now object.ID) (map[string]*object.Entry, error) {
	changed := map[string]*object.Entry{}
	for c, err := range tree.Diff(ctx, w.repo.Contents(), was, now, tree.DiffOptions{Recursive: true, Exact: true}) {
		switch {
		case err != nil:
			return nil, err
		case c.New != nil && c.New.Type == object.TypeFile:
			changed[c.Path] = c.New
		case c.Old != nil && !tree.IsDir(c.Old):
			changed[c.Path] = nil
		}
	}
	return changed, nil
}

// placer finds the links of files.
type placer struct {
	tip     object.ID // the commit
	top     object.ID // its tree
	records *record.Effects
	state   *state
	history *versions.Index // nil: the template does not need it
	origins map[object.ID]*commitFacts
	tags    map[object.ID]string // the first tag of a commit, by name
}

func (w *viewUpdate) newPlacer(ctx context.Context, tip object.ID, s *state) (*placer, error) {
	p := &placer{tip: tip, state: s, origins: map[object.ID]*commitFacts{}, tags: map[object.ID]string{}}
	var err error
	if p.records, err = w.repo.Purges().View(); err != nil || !w.template.fromHistory() {
		return p, err
	}
	if p.history, err = versions.Open(ctx, w.repo, nil, tip); err != nil || !w.template.usesFact("tag") {
		return p, err
	}
	list, err := w.repo.Refs().List(refs.Tags)
	if err != nil {
		return nil, err
	}
	for _, ref := range list {
		commit, err := refs.Peel(ctx, w.repo.Objects(), ref.ID)
		if object.IsUnreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(ref.Name, refs.Tags)
		p.tags[commit] = cmp.Or(min(p.tags[commit], name), p.tags[commit], name)
	}
	return p, nil
}

// addTouched adds to changed the files that were changed and then changed back.
func (p *placer) addTouched(ctx context.Context, w *viewUpdate, changed map[string]*object.Entry) error {
	if p.history == nil {
		return nil
	}
	for path, f := range p.state.files {
		if _, known := changed[path]; known || p.history.LastChange(p.tip, path) == f.commit {
			continue
		}
		e, err := tree.Find(ctx, w.repo.Contents(), p.top, path)
		if err != nil {
			return err
		}
		changed[path] = &e
	}
	return nil
}

// placeFile puts a file into the pool and the state. It skips a file whose content was purged or
// lost, or whose link would be in a folder of git.
func (p *placer) placeFile(ctx context.Context, w *viewUpdate, path string, e *object.Entry) error {
	purge, err := w.repo.PurgedIn(ctx, p.records, w.repo.Objects(), e)
	if err != nil {
		return err
	}
	var sum object.ID
	if purge == nil {
		sum, err = w.pool.putFile(ctx, e)
	}
	if purge != nil || errors.Is(err, object.ErrLost) || errors.Is(err, object.ErrPurged) {
		w.skipped++
		return nil
	}
	if err != nil {
		return err
	}

	f := file{sum: sum}
	if e.Content.Kind == object.KindManifest {
		f.manifest = e.Content.ID
	}
	facts := fileFacts{path: path, entry: *e, sum: sum}
	if p.history != nil {
		f.commit = p.history.LastChange(p.tip, path)
		if facts.commit, err = p.originOf(ctx, w, f.commit); err != nil {
			return err
		}
	}
	if err := w.addFacts(ctx, p.top, &facts); err != nil {
		return err
	}
	if f.link, err = w.template.linkPath(facts); err != nil {
		return err
	}
	if tree.GitFolder(f.link) != "" { // git would run commands from it
		w.skipped++
		return nil
	}
	p.state.files[path] = f
	w.entries[sum] = *e
	return nil
}

// addFacts adds the attributes and the media type, if the template needs them.
func (w *viewUpdate) addFacts(ctx context.Context, top object.ID, s *fileFacts) (err error) {
	s.attrs = (&tree.Inheritance{}).At(s.path, &s.entry)
	if w.template.needsInherited() {
		if _, s.attrs, err = (&tree.Inheritance{}).Find(ctx, w.repo.Contents(), top, s.path); err != nil {
			return err
		}
	}
	if w.template.usesFact(tree.ContentType) {
		if s.media = s.attrs[tree.ContentType].Value; s.media == "" {
			s.media, err = tree.DetectType(ctx, w.repo.Contents(), s.entry)
		}
	}
	return err
}

// originOf returns the facts of a commit.
func (p *placer) originOf(ctx context.Context, w *viewUpdate, id object.ID) (*commitFacts, error) {
	if o := p.origins[id]; o != nil {
		return o, nil
	}
	c, err := object.ReadCommit(ctx, w.repo.Objects(), id)
	if err != nil {
		return nil, err
	}
	o := &commitFacts{id, c.Author.Name, c.Author.Email, c.Author.When(), p.tags[id]}
	p.origins[id] = o
	return o, nil
}
