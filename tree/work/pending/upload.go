package pending

import (
	"bytes"
	"context"
	"io"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// maxSmall is the size, in bytes, of the largest content that the journal takes.
const maxSmall = 256 << 10

// fileMode is the mode of new files.
const fileMode = 0o644

// Upload is the content of a file that was received and belongs to no path yet.
type Upload struct {
	Entry object.Entry // type, mode, time, size and content

	data []byte   // a chunk that is not stored yet; nil: none
	tx   *kist.Tx // has the content of a large file; nil: none
}

// Receive reads the content of a file from r to its end. It keeps little of it in memory. The
// caller closes the upload.
func (c *Changes) Receive(ctx context.Context, r io.Reader) (*Upload, error) {
	small := int64(min(maxSmall, c.repo.Chunker().Params().Min))
	var start bytes.Buffer
	_, err := io.CopyN(&start, r, small+1)
	switch {
	case err == io.EOF:
		return c.newSmallUpload(start.Bytes()), nil
	case err != nil:
		return nil, err
	}

	u := &Upload{tx: c.repo.Begin(volume.SessionOptions{})}
	stored, err := c.repo.Worktree().StoreStream(ctx, u.tx, io.MultiReader(&start, r), nil)
	if err != nil {
		u.Close()
		return nil, err
	}
	u.Entry = stored.Entry
	u.Entry.Mode = fileMode &^ c.repo.Options().Umask
	return u, nil
}

// newSmallUpload returns the upload of a content that the journal takes.
func (c *Changes) newSmallUpload(data []byte) *Upload {
	o := c.repo.Options()
	u := &Upload{Entry: object.Entry{Type: object.TypeFile, Mode: fileMode &^ o.Umask, MTime: object.TimeOf(o.Now()), Size: uint64(len(data))}}
	switch {
	case len(data) == 0:
	case len(data) <= object.MaxInline:
		u.Entry.Inline = data
	default:
		u.data = data
		u.Entry.Content = object.Key{Kind: object.KindChunk, ID: object.Sum(data)}
	}
	return u
}

// Close ends the upload. If no change has used the content, it is garbage.
func (u *Upload) Close() {
	if u.tx != nil {
		u.tx.Close()
	}
}
