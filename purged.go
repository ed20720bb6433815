package kist

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
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
	c.said, c.err = r.purges.View()
	return c
}

// Unpurged is Contents for what a session has, too.
func (r *Repository) Unpurged(rw object.ReadWriter) object.ReadWriter {
	return struct {
		object.Lender
		object.Writer
	}{r.contents(rw), rw}
}

// contents reads what was not purged.
type contents struct {
	object.Reader
	purges *Purges
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
	if said, _ := c.purges.View(); said != nil {
		if rec, purged := said.Purged(key); purged {
			return &PurgedError{Key: key, Record: rec}
		}
	}
	return err
}

// Withheld is a writer that does not store again what was purged.
type Withheld struct {
	object.Writer
	Said *record.View
}

// Put implements [object.Writer].
func (w *Withheld) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id := object.Sum(data)
	if _, purged := w.Said.Purged(object.Key{Kind: kind, ID: id}); purged {
		return id, ctx.Err()
	}
	return w.Writer.Put(ctx, kind, data)
}

// Purges says what was purged, by the records as they are on disk. They are
// read when the file is another one than before. If they are damaged, nothing
// was purged, as far as is known. It is safe for concurrent use.
type Purges struct {
	dir     string
	damaged func(error) // is called with the damage
	last    atomic.Pointer[loadedPurges]
}

type loadedPurges struct {
	info fs.FileInfo // of the file that was read
	said *record.View
}

func (p *Purges) View() (*record.View, error) {
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
	if IsRecordDamage(err) {
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
	said, err := r.purges.View()
	if err != nil {
		return nil, err
	}
	return r.PurgedIn(ctx, said, r.objects, e)
}

// PurgedIn is Purged by what the records said, for a content of which the list
// of chunks is in objects.
func (r *Repository) PurgedIn(ctx context.Context, said *record.View, objects object.Reader, e *object.Entry) (*PurgedError, error) {
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
