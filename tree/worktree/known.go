package worktree

import (
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// Files that come from a repository with other parameters are cut in other
// places than ours. Cut anew, what has not changed would look as if it had, and
// be stored once more.

// storeKnown stores a file of so many bytes that has the content that is known of
// it, cut as that is; ok is false if it has not, or if that is cut in the places
// where it would be cut now. It changes nothing else of e.
func (s *storer) storeKnown(ctx context.Context, f file, known *index.Entry, size int64, e *object.Entry) (ok bool, err error) {
	objects := s.w.opt.Objects
	if objects == nil || known == nil || known.Type != object.TypeFile || known.Size != uint64(size) || known.Content.IsZero() {
		return false, nil
	}
	if known.Content.Kind == object.KindChunk && size <= int64(s.w.opt.Chunker.Params().Min) {
		return false, nil // nobody would cut that
	}
	done := int64(0)
	defer func() {
		if s.bytes != nil && !ok {
			s.bytes(-done) // they are read again
		}
		if err == nil && !ok {
			err = f.rewind()
		}
	}()
	var buf []byte
	for chunk, err := range object.Chunks(ctx, objects, known.Content, known.Size, 0) {
		if err != nil {
			return false, ctx.Err() // without the list, it is a file like any other
		}
		if chunk.Offset == 0 {
			if cut, err := s.cutsAt(f, int64(chunk.Size), size); err != nil || cut {
				return false, err
			}
		}
		if int(chunk.Size) > len(buf) {
			buf = make([]byte, chunk.Size)
		}
		data := buf[:chunk.Size]
		if _, err := io.ReadFull(f, data); err != nil {
			return false, atEnd(err)
		}
		if object.Sum(data) != chunk.ID {
			return false, nil
		}
		if _, err := s.dst.Put(ctx, object.KindChunk, data); err != nil { // it may be gone
			return false, &storeError{err}
		}
		if done += int64(len(data)); s.bytes != nil {
			s.bytes(int64(len(data)))
		}
	}
	e.Content, e.Size = known.Content, known.Size
	return true, nil
}

// cutsAt reports whether the first cut in a file of so many bytes is at a place.
// The file is rewound.
func (s *storer) cutsAt(f file, place, size int64) (bool, error) {
	errFirst := errors.New("the first chunk is known")
	first := int64(0)
	// One byte more, since the end is a cut, too.
	err := s.w.opt.Chunker.Split(io.LimitReader(f, min(place+1, size)), func(chunk []byte) error {
		first = int64(len(chunk))
		return errFirst
	})
	if err != nil && err != errFirst {
		return false, err
	}
	return first == place, f.rewind()
}

// atEnd makes of an error that says that a file has become shorter none: it is
// read again.
func atEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
