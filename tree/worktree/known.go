package worktree

import (
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// A file from a repository with other parameters is cut at other places than
// here. If it were cut again by our parameters, an unchanged file would look
// changed and be stored a second time.

// storeKnown stores a file of size bytes with the chunk boundaries of its
// known content. It reports false if the content has changed. It also reports
// false if our chunker makes the same first cut, because then storing it as
// usual gives the same chunks. It sets only Content and Size of e.
func (s *storer) storeKnown(ctx context.Context, f file, known *index.Entry, size int64, e *object.Entry) (ok bool, err error) {
	objects := s.w.opt.Objects
	if objects == nil || known == nil || known.Type != object.TypeFile || known.Size != uint64(size) || known.Content.IsZero() {
		return false, nil
	}
	if known.Content.Kind == object.KindChunk && size <= int64(s.w.opt.Chunker.Params().Min) {
		return false, nil // we would not cut it either
	}

	done, ok, err := s.storeChunks(ctx, f, known)
	if ok {
		e.Content, e.Size = known.Content, known.Size
		return true, nil
	}
	if s.bytes != nil {
		s.bytes(-done) // they are read again
	}
	if err == nil {
		err = f.rewind()
	}
	return false, err
}

// storeChunks stores a file with the chunk boundaries of its known content, and returns
// the number of bytes stored. Ok is false if the content has changed.
func (s *storer) storeChunks(ctx context.Context, f file, known *index.Entry) (done int64, ok bool, err error) {
	size := int64(known.Size)
	var buf []byte
	for chunk, err := range object.Chunks(ctx, s.w.opt.Objects, known.Content, known.Size, 0) {
		if err != nil {
			return done, false, ctx.Err() // without the chunk list, cut it like any other file
		}
		if chunk.Offset == 0 {
			if cut, err := s.cutsAt(f, int64(chunk.Size), size); err != nil || cut {
				return done, false, err
			}
		}
		if int(chunk.Size) > len(buf) {
			buf = make([]byte, chunk.Size)
		}
		data := buf[:chunk.Size]
		if _, err := io.ReadFull(f, data); err != nil {
			return done, false, atEnd(err)
		}
		if object.Sum(data) != chunk.ID {
			return done, false, nil
		}
		if _, err := s.dst.Put(ctx, object.KindChunk, data); err != nil { // the store may have lost it
			return done, false, &storeError{err}
		}
		if done += int64(len(data)); s.bytes != nil {
			s.bytes(int64(len(data)))
		}
	}

	return done, true, nil
}

// cutsAt reports whether our chunker makes its first cut in a file of size
// bytes at place. It rewinds the file.
func (s *storer) cutsAt(f file, place, size int64) (bool, error) {
	errFirst := errors.New("the first chunk is known")
	first := int64(0)
	// Read one byte more, because the chunker also cuts at the end.
	err := s.w.opt.Chunker.Split(io.LimitReader(f, min(place+1, size)), func(chunk []byte) error {
		first = int64(len(chunk))
		return errFirst
	})
	if err != nil && err != errFirst {
		return false, err
	}
	return first == place, f.rewind()
}

// atEnd returns nil instead of an error that means that the file became
// shorter. The caller then reads the file again.
func atEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
