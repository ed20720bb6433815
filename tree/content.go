package tree

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist/object"
)

// SplitFunc cuts content into chunks and calls emit for each, in order. A
// chunk is valid only during the call. The method Split of a chunker is a
// SplitFunc.
type SplitFunc func(r io.Reader, emit func(chunk []byte) error) error

// splitEven is the default SplitFunc. It cuts after every mebibyte.
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

// storeContent stores data as the content of a file entry.
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

// readContent returns the content of a file entry. The caller has bounded its
// size.
func readContent(ctx context.Context, r object.Reader, e *object.Entry) ([]byte, error) {
	data := make([]byte, e.Size)
	_, err := io.ReadFull(object.NewContentReader(ctx, r, *e), data)
	return data, err
}

// readText returns the content of a file entry, and whether it is text. Nil
// entries and other types have no content and count as text. Purged content
// does not: it cannot be read.
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
