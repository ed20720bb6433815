package tree

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist/object"
)

// SplitFunc cuts content into chunks and calls emit for each, in order; a
// chunk is valid during the call only. It is the method Split of a chunker
// with the repository's parameters.
type SplitFunc func(r io.Reader, emit func(chunk []byte) error) error

// splitEven is the SplitFunc for want of a better one: it cuts after every
// mebibyte.
func splitEven(r io.Reader, emit func(chunk []byte) error) error {
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := emit(buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// storeContent stores data and makes it the content of a file entry.
func storeContent(ctx context.Context, w object.Writer, split SplitFunc, data []byte, e *object.Entry) error {
	e.Size, e.Inline, e.Content = uint64(len(data)), nil, object.Key{}
	if len(data) <= object.MaxInline {
		e.Inline = append(e.Inline, data...)
		return nil
	}
	if split == nil {
		split = splitEven
	}
	list := object.NewManifestWriter(w)
	err := split(bytes.NewReader(data), func(chunk []byte) error {
		id, err := w.Put(ctx, object.KindChunk, chunk)
		if err != nil {
			return err
		}
		return list.Add(ctx, object.ChunkRef{ID: id, Size: uint32(len(chunk))})
	})
	if err != nil {
		return err
	}
	e.Content, _, err = list.Finish(ctx)
	return err
}

// readContent returns the content of a file entry, whose size the caller has
// bounded.
func readContent(ctx context.Context, r object.Reader, e *object.Entry) ([]byte, error) {
	data := make([]byte, e.Size)
	_, err := io.ReadFull(object.NewContentReader(ctx, r, *e), data)
	return data, err
}

// readText returns the content of a file entry if it is text. A nil entry and
// one that is not a file have no content. What was purged is no text: nothing
// can be made of it.
func readText(ctx context.Context, r object.Reader, e *object.Entry) (data []byte, ok bool, err error) {
	switch {
	case e == nil || e.Type != object.TypeFile:
		return nil, true, nil
	case e.Size > MaxText:
		return nil, false, nil
	}
	data, err = readContent(ctx, r, e)
	switch {
	case errors.Is(err, object.ErrPurged):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return data, IsText(data), nil
}
