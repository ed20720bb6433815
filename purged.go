package kist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// PurgedError says that a content was asked for and was purged, whether or not
// it is still here. It matches [object.ErrPurged].
type PurgedError struct {
	Key    object.Key    // the chunk or manifest
	Record record.Record // when it was purged, by whom, and why
}

func (e *PurgedError) Error() string {
	text := "content was purged on " + e.Record.Time.Format("2006-01-02")
	if e.Record.Who != "" {
		text += " by " + e.Record.Who
	}
	if e.Record.Reason != "" {
		text += " (" + e.Record.Reason + ")"
	}
	return text
}

// Is makes errors.Is(err, object.ErrPurged) true.
func (e *PurgedError) Is(target error) bool { return target == object.ErrPurged }

// Contents returns the local store as it is to be read for what is in files:
// what was purged before is a [*PurgedError], whether or not it is still here.
func (r *Repository) Contents() object.Reader { return r.contents(r.objects) }

// contents is Contents for another store.
func (r *Repository) contents(objects object.Reader) *contents {
	c := &contents{Reader: objects, purges: r.purges}
	c.said, c.err = r.purges.view()
	return c
}

// unpurged is Contents for what a session has, too.
func (r *Repository) unpurged(rw object.ReadWriter) object.ReadWriter {
	return struct {
		object.Lender
		object.Writer
	}{r.contents(rw), rw}
}

// contents reads what was not purged.
type contents struct {
	object.Reader
	purges *purges
	said   *record.View
	err    error // the records cannot be read
}

// Get implements [object.Reader].
func (c *contents) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := c.check(key); err != nil {
		return nil, err
	}
	data, err := c.Reader.Get(ctx, key)
	return data, c.why(key, err)
}

// Lend implements [object.Lender].
func (c *contents) Lend(ctx context.Context, key object.Key, use func([]byte) error) error {
	if err := c.check(key); err != nil {
		return err
	}
	return c.why(key, object.Lend(ctx, c.Reader, key, use))
}

// check returns the error of what is not to be read.
func (c *contents) check(key object.Key) error {
	if key.Kind != object.KindChunk && key.Kind != object.KindManifest {
		return nil
	}
	if c.err != nil {
		return c.err
	}
	if rec, purged := c.said.Purged(key); purged {
		return &PurgedError{Key: key, Record: rec}
	}
	return nil
}

// why says of what is not there whether that was purged meanwhile.
func (c *contents) why(key object.Key, err error) error {
	if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	if said, _ := c.purges.view(); said != nil {
		if rec, purged := said.Purged(key); purged {
			return &PurgedError{Key: key, Record: rec}
		}
	}
	return err
}

// withheld is a writer that does not store again what was purged.
type withheld struct {
	object.Writer
	said *record.View
}

// Put implements [object.Writer].
func (w *withheld) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id := object.Sum(data)
	if _, purged := w.said.Purged(object.Key{Kind: kind, ID: id}); purged {
		return id, ctx.Err()
	}
	return w.Writer.Put(ctx, kind, data)
}

// purges says what was purged, by the records as they are on disk. They are
// read when the file is another one than before. If they are damaged, nothing
// was purged, as far as is known. It is safe for concurrent use.
type purges struct {
	dir     string
	damaged func(error) // is called with the damage
	last    atomic.Pointer[loadedPurges]
}

type loadedPurges struct {
	info fs.FileInfo // of the file that was read
	said *record.View
}

func (p *purges) view() (*record.View, error) {
	info, err := disk.Stat(filepath.Join(p.dir, record.File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, nil // a nil View is that of no records
	}
	if l := p.last.Load(); l != nil && os.SameFile(l.info, info) && l.info.ModTime().Equal(info.ModTime()) && l.info.Size() == info.Size() {
		return l.said, nil
	}
	set, err := record.Open(p.dir).Load()
	if isRecordDamage(err) {
		p.damaged(err)
	} else if err != nil {
		return nil, err
	}
	said := set.View()
	p.last.Store(&loadedPurges{info, said})
	return said, nil
}

// Purged returns the error that reading the content of an entry gives if it, or
// a part of it, was purged; nil otherwise. It reads lists of chunks, and no
// chunks.
func (r *Repository) Purged(ctx context.Context, e *object.Entry) (*PurgedError, error) {
	said, err := r.purges.view()
	if err != nil {
		return nil, err
	}
	return r.purgedIn(ctx, said, r.objects, e)
}

// purgedIn is Purged by what the records said, for a content of which the list
// of chunks is in objects.
func (r *Repository) purgedIn(ctx context.Context, said *record.View, objects object.Reader, e *object.Entry) (*PurgedError, error) {
	if !said.AnyPurged() || e == nil || e.Type != object.TypeFile || e.Content.IsZero() {
		return nil, nil
	}
	if rec, purged := said.Purged(e.Content); purged {
		return &PurgedError{Key: e.Content, Record: rec}, nil
	}
	if e.Content.Kind != object.KindManifest {
		return nil, nil
	}
	for c, err := range object.Chunks(ctx, r.contents(objects), e.Content, e.Size, 0) {
		var purged *PurgedError
		if errors.As(err, &purged) {
			return purged, nil
		}
		if err != nil {
			return nil, err
		}
		key := object.Key{Kind: object.KindChunk, ID: c.ID}
		if rec, purged := said.Purged(key); purged {
			return &PurgedError{Key: key, Record: rec}, nil
		}
	}
	return nil, nil
}

// scan looks for what has changed in the worktree. That a file is not there
// whose content was purged is no change: nobody has removed it.
func (r *Repository) scan(ctx context.Context, idx *index.Index, o worktree.ScanOptions) ([]worktree.Found, error) {
	found, err := r.worktree.Scan(ctx, idx, o)
	if err != nil {
		return nil, err
	}
	kept, _, err := r.withoutPurged(ctx, found)
	return kept, err
}

// withoutPurged returns what was found without tracked files that are gone and
// cannot be there, since their content was purged, and these apart. A folder
// that is gone, and had such a file, is left out too: the file is still
// tracked.
func (r *Repository) withoutPurged(ctx context.Context, found []worktree.Found) (rest, purged []worktree.Found, err error) {
	if said, err := r.purges.view(); err != nil || !said.AnyPurged() {
		return found, nil, err
	}
	without := map[string]bool{}
	for _, f := range found {
		if f.State != worktree.Deleted || f.Old == nil {
			continue
		}
		e := f.Old.Object()
		why, err := r.Purged(ctx, &e)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return nil, nil, err
		}
		if why == nil {
			continue
		}
		purged = append(purged, f)
		for path := f.Path; path != ""; path, _ = tree.Split(path) {
			without[path] = true
		}
	}
	for _, f := range found {
		if f.State != worktree.Deleted || !without[f.Path] {
			rest = append(rest, f)
		}
	}
	return rest, purged, nil
}

// onlyCopies returns the files that operations would remove or replace, and
// whose content was purged: what is in the worktree is all that is left of it.
func (r *Repository) onlyCopies(ops []worktree.Op) ([]Obstacle, error) {
	said, err := r.purges.view()
	if err != nil || !said.AnyPurged() {
		return nil, err
	}
	var list []Obstacle
	for _, op := range ops {
		if op.Old == nil || op.New != nil && op.New.Content == op.Old.Content {
			continue
		}
		if _, purged := said.Purged(op.Old.Content); purged && r.worktree.Exists(op.Path) {
			list = append(list, Obstacle{op.Path, "the only copy: its content was purged"})
		}
	}
	return list, nil
}

// clearPurged removes the files from the worktree that are to become others
// whose content turned out to be purged, unless they hold what is nowhere else.
// The old ones in their places would be taken for the new ones with changes.
func (r *Repository) clearPurged(ctx context.Context, idx *index.Index, ops []worktree.Op, failed *worktree.ApplyError) error {
	paths := map[string]bool{}
	for _, f := range failed.Failed {
		if errors.Is(f.Err, object.ErrPurged) {
			paths[f.Path] = true
		}
	}
	var removals []worktree.Op
	for _, op := range ops {
		if paths[op.Path] && op.Old != nil {
			removals = append(removals, worktree.Op{Path: op.Path, Old: op.Old})
		}
	}
	if len(removals) == 0 {
		return nil
	}
	kept, err := r.worktree.Check(ctx, idx, removals)
	if err != nil {
		return err
	}
	only, err := r.onlyCopies(removals)
	if err != nil {
		return err
	}
	for _, o := range append(r.obstacles(removals, kept), only...) {
		delete(paths, o.Path)
	}
	todo := removals[:0]
	for _, op := range removals {
		if paths[op.Path] {
			todo = append(todo, op)
		}
	}
	_, err = r.worktree.Apply(ctx, r.Contents(), todo, worktree.ApplyOptions{})
	if err != nil {
		return fmt.Errorf("remove what was before: %w", err)
	}
	return nil
}
