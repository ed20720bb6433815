package kist

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// Contents returns a reader for the contents of files. Reading a purged content is
// an [*object.AbsentError], even if its objects are still here.
func (r *Repository) Contents() object.Reader { return contentsOf(r, r.objects) }

// ContentsOf is [Repository.Contents] for another reader of the repository's objects, such as
// a cache.
func ContentsOf(r *Repository, objects object.Reader) object.Reader { return contentsOf(r, objects) }

// contentsOf is ContentsOf, with all methods of the reader.
func contentsOf(r *Repository, objects object.Reader) *contents {
	c := &contents{Reader: objects, purges: r.purges, lost: r.opt.Lost}
	c.records, c.err = r.purges.View()
	return c
}

// Unpurged is Contents for a session: it also reads the session's objects, and
// writes to it.
func (r *Repository) Unpurged(rw object.ReadWriter) object.ReadWriter {
	return struct {
		object.BriefReader
		object.Writer
	}{contentsOf(r, rw), rw}
}

// contents reads objects, but no purged ones.
type contents struct {
	object.Reader
	purges  *Purges
	records *record.Effects
	err     error // the records cannot be read
	lost    func(path string, key object.Key)
}

// PassOver implements [object.Lenient]: see [Options.Lost].
func (c *contents) PassOver(path string, _ object.Key, err error) bool {
	key, lost := object.AbsentKey(err, object.ErrLost)
	if !lost || c.lost == nil {
		return false
	}
	var at *tree.PathError // that is in the lost folder
	if errors.As(err, &at) {
		path, _ = tree.Split(at.Path)
	}
	c.lost(path, key)
	return true
}

// Get implements [object.Reader].
func (c *contents) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := c.check(key); err != nil {
		return nil, err
	}
	data, err := c.Reader.Get(ctx, key)
	return data, c.explainMissing(key, err)
}

// GetBriefly implements [object.BriefReader].
func (c *contents) GetBriefly(ctx context.Context, key object.Key, use func([]byte) error) error {
	if err := c.check(key); err != nil {
		return err
	}
	return c.explainMissing(key, object.GetBriefly(ctx, c.Reader, key, use))
}

// Prefetch implements [object.Prefetcher]. It brings no purged objects.
func (c *contents) Prefetch(ctx context.Context, keys []object.Key) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key object.Key) bool { return c.check(key) != nil })
	object.Prefetch(ctx, c.Reader, keys)
}

// HasFar implements [object.Prefetcher].
func (c *contents) HasFar() bool { return object.HasFar(c.Reader) }

// Below implements [object.Layer].
func (c *contents) Below() object.Reader { return c.Reader }

// check returns an error if key must not be read.
func (c *contents) check(key object.Key) error {
	if key.Kind != object.KindChunk && key.Kind != object.KindManifest {
		return nil
	}
	if c.err != nil {
		return c.err
	}
	return c.records.CheckPurged(key)
}

// explainMissing adds to a not-found error that another process purged key meanwhile, or that
// its loss was accepted.
func (c *contents) explainMissing(key object.Key, err error) error {
	if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	records, _ := c.purges.View()
	return records.ExplainMissing(c.Reader, key, err)
}

// Withheld is a writer that drops purged objects.
type Withheld struct {
	object.Writer
	Purges *record.Effects
}

// Put implements [object.Writer].
func (w *Withheld) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id := object.Sum(data)
	if _, purged := w.Purges.Purged(object.Key{Kind: kind, ID: id}); purged {
		return id, ctx.Err()
	}
	return w.Writer.Put(ctx, kind, data)
}

// Purges gives the purges that the records on disk hold. It reads the file again
// after a change. If the records are damaged, it calls damaged and takes nothing as
// purged. It is safe for concurrent use.
type Purges struct {
	dir     string
	damaged func(error) // receives the damage
	last    atomic.Pointer[loadedPurges]
}

type loadedPurges struct {
	info    fs.FileInfo // of the file that was read
	records *record.Effects
}

// View returns the purges. A nil view has none.
func (p *Purges) View() (*record.Effects, error) {
	info, err := disk.Stat(filepath.Join(p.dir, record.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	if l := p.last.Load(); l != nil && os.SameFile(l.info, info) && l.info.ModTime().Equal(info.ModTime()) && l.info.Size() == info.Size() {
		return l.records, nil
	}
	set, err := record.Open(p.dir).Load()
	if errors.Is(err, record.ErrDamaged) {
		p.damaged(err)
	} else if err != nil {
		return nil, err
	}
	records := set.View()
	p.last.Store(&loadedPurges{info, records})
	return records, nil
}

// Purged returns why the content of e cannot be read, an [*object.AbsentError], if that or a chunk
// of it was purged, and otherwise nil. It reads manifests, but no chunks.
func (r *Repository) Purged(ctx context.Context, e *object.Entry) (why, err error) {
	records, err := r.purges.View()
	if err != nil {
		return nil, err
	}
	return r.PurgedIn(ctx, records, r.objects, e)
}

// PurgedIn is Purged for the given records and for manifests in objects.
func (r *Repository) PurgedIn(ctx context.Context, records *record.Effects, objects object.Reader, e *object.Entry) (why, err error) {
	if !records.AnyPurged() {
		return nil, nil
	}
	err = records.CheckFile(ctx, contentsOf(r, objects), e)
	absent, ok := errors.AsType[*object.AbsentError](err)
	switch {
	case ok && errors.Is(absent, object.ErrPurged):
		return absent, nil
	case ok && errors.Is(absent, object.ErrLost):
		return nil, nil
	}
	return nil, err
}
