package find

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// ParseSum reads the SHA-256 of a test sha256=.
func ParseSum(text string) (object.ID, error) {
	id, err := object.ParseID(strings.ToLower(text))
	if err != nil {
		err = errors.New("a SHA-256 has 64 hexadecimal digits")
	}
	return id, err
}

// sumTest returns the test sha256=. Equal bytes can have different IDs if other chunk sizes
// cut them. But they have the same size, so after a first match only few files are read.
func (q *Query) sumTest(value string) (test, error) {
	want, err := ParseSum(value)
	if err != nil {
		return test{}, err
	}

	var size uint64 // of the content, once sized is true
	sized := false
	reads := func(_ context.Context, f *File) []object.Entry {
		id := tree.ContentID(&f.Entry)
		if f.Entry.Content.Kind != object.KindManifest || sized && f.Entry.Size != size {
			return nil
		}
		if x, err := q.openVersions(); err == nil {
			if _, known := x.Sum(id); known {
				return nil
			}
		}
		return []object.Entry{f.Entry}
	}
	match := func(ctx context.Context, f *File) (bool, error) {
		if f.Entry.Type != object.TypeFile || sized && f.Entry.Size != size {
			return false, nil
		}
		sum, known, err := q.contentSum(ctx, f)
		if err != nil || !known || sum != want {
			return false, err
		}
		size, sized = f.Entry.Size, true
		return true, nil
	}
	return test{fromContent, match, reads}, nil
}

// unsavedBytes is how much content is read before the sums are saved.
const unsavedBytes = 1 << 30

// contentSum returns the SHA-256 of a file. Known is false if its content is left out. The ID of a
// file of one chunk is this hash. A longer file is read once, and the index keeps its hash.
func (q *Query) contentSum(ctx context.Context, f *File) (sum object.ID, known bool, err error) {
	id := tree.ContentID(&f.Entry)
	if f.Entry.Content.Kind != object.KindManifest {
		return id, true, nil
	}
	x, err := q.openVersions()
	if err != nil {
		return object.ID{}, false, err
	}
	if sum, known = x.Sum(id); known {
		return sum, true, nil
	}
	if sum, known = q.sums[id]; known {
		return sum, true, nil
	}

	hash := sha256.New()
	content := object.NewContentReader(ctx, q.at.Objects, f.Entry)
	n, err := io.CopyBuffer(countingWriter{hash, q}, struct{ io.Reader }{content}, make([]byte, 256<<10))
	if err != nil {
		return object.ID{}, false, q.readError(f, err)
	}
	sum = object.ID(hash.Sum(nil))
	q.sums[id] = sum
	if q.unsaved += n; q.unsaved >= unsavedBytes {
		q.saveSums(ctx)
	}
	return sum, true, nil
}

// countingWriter is a writer whose bytes count for the progress of a query.
type countingWriter struct {
	io.Writer
	q *Query
}

func (c countingWriter) Write(p []byte) (int, error) {
	c.q.reportProgress(0, int64(len(p)))
	return c.Writer.Write(p)
}

// saveSums adds the sums to the index, also if the search was interrupted.
func (q *Query) saveSums(ctx context.Context) {
	if len(q.sums) > 0 {
		q.index.AddSums(context.WithoutCancel(ctx), q.sums)
		q.sums, q.unsaved = map[object.ID]object.ID{}, 0
	}
}

// openVersions returns the index of the history. It is opened when it is used first.
func (q *Query) openVersions() (x *versions.Index, err error) {
	if q.index == nil {
		q.index, err = q.opt.Index()
	}
	return q.index, err
}

// readError returns an error of reading f. It is nil if the content is left out: because it is
// purged, or because the reader passes over it.
func (q *Query) readError(f *File, err error) error {
	path := strings.TrimPrefix(strings.TrimPrefix(f.Path, q.at.Path), "/") // as in a walk of the place
	if object.PassOverContent(q.at.Objects, path, f.Entry.Content, err) {
		return nil
	}
	return &tree.PathError{Path: f.Path, Err: err}
}

// likeTest is a file outside the repository, for the test like=.
type likeTest struct {
	id     object.ID
	size   uint64
	chunks map[object.ID]uint64 // the bytes that it has of each chunk
}

// likeTest returns the test like=: whether a file shares chunks with the named one.
func (q *Query) likeTest(ctx context.Context, name string) (test, error) {
	if q.like != nil {
		return test{}, errors.New("an expression has only one test like=")
	}
	f, err := q.opt.Open(name)
	if err != nil {
		return test{}, err
	}
	defer f.Close()

	l := &likeTest{chunks: map[object.ID]uint64{}}
	list := object.NewManifestWriter(object.Discard)
	err = q.r.Chunker().Split(f, func(chunk []byte) error {
		id := object.Sum(chunk)
		l.chunks[id] += uint64(len(chunk))
		return list.Add(ctx, object.ChunkRef{ID: id, Size: uint32(len(chunk))})
	})
	if err != nil {
		return test{}, fmt.Errorf("read %q: %w", name, err)
	}
	content, size, err := list.Finish(ctx)
	if err != nil {
		return test{}, err
	}

	l.size, l.id = size, content.ID
	if content.IsZero() {
		l.id = object.Sum(nil)
	}
	q.like = l
	return test{cost: fromTree, match: func(ctx context.Context, f *File) (bool, error) { return l.noteShared(ctx, q, f) }}, nil
}

// noteShared notes how much f shares with the file.
func (l *likeTest) noteShared(ctx context.Context, q *Query, f *File) (bool, error) {
	if f.Entry.Type != object.TypeFile {
		return false, nil
	}
	if tree.ContentID(&f.Entry) == l.id {
		f.Same, f.Shared = true, l.size
		return true, nil
	}
	if f.Entry.Content.Kind != object.KindManifest {
		f.Shared = l.chunks[tree.ContentID(&f.Entry)]
		return f.Shared > 0, nil
	}

	seen := map[object.ID]bool{}
	for c, err := range object.Chunks(ctx, q.at.Objects, f.Entry.Content, f.Entry.Size, 0) {
		if err != nil {
			return f.Shared > 0, q.readError(f, err)
		}
		if !seen[c.ID] {
			seen[c.ID] = true
			f.Shared += l.chunks[c.ID]
		}
	}
	return f.Shared > 0, nil
}
