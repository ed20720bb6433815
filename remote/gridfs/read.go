package gridfs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

const (
	maxBatch = 8 << 20 // approximate bytes of chunks in one answer
	maxKnown = 4096    // remembered files documents
)

// A file has the data of a blob's files document.
type file struct {
	length    int64
	chunkSize int64
	modified  time.Time
}

// Get implements [remote.Blobs]. It reads only the chunks with wanted bytes.
// Each of these must exist once and have the right length.
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	c, err := b.beginCall(ctx, "get", name, remote.CheckName(name))
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &remote.Error{Op: "get", Name: name, Err: errors.New("negative offset")}
	}
	if remote.IsRecord(name) {
		data, err := b.readRecord(ctx, c, name)
		if err != nil {
			return 0, err
		}
		return copy(p, data[min(off, int64(len(data))):]), nil
	}

	f, known := b.remembered(name)
	if !known || off > f.length-int64(len(p)) || len(p) == 0 { // the length must be up to date
		if f, err = b.readFileDocument(ctx, c, "get", name); err != nil {
			return 0, err
		}
	}

	for {
		n, err := c.readChunks(ctx, name, f, p, off)
		if err == nil {
			return n, nil
		}
		damage, ok := errors.AsType[*damageError](err)
		if !ok {
			return 0, b.convertError(ctx, "get", name, err)
		}
		now, err := b.readFileDocument(ctx, c, "get", name) // the blob may have been deleted meanwhile
		if err != nil {
			return 0, err
		}
		if now == f {
			return 0, &remote.Error{Op: "get", Name: name, Kind: remote.ErrDamaged, Err: damage}
		}
		f = now
	}
}

// damageError describes the damage of a stored file.
type damageError struct{ text string }

func (e *damageError) Error() string { return e.text }

func damagedError(format string, args ...any) error {
	return &damageError{fmt.Sprintf(format, args...)}
}

// readChunks reads from the chunks of a stored file.
func (c *collections) readChunks(ctx context.Context, name string, f file, p []byte, off int64) (n int, err error) {
	if off >= f.length || len(p) == 0 {
		return 0, nil
	}
	if f.chunkSize <= 0 {
		return 0, damagedError("the size of its chunks is %d", f.chunkSize)
	}

	p = p[:min(int64(len(p)), f.length-off)]
	first, last := off/f.chunkSize, (off+int64(len(p))-1)/f.chunkSize
	all := (f.length-1)/f.chunkSize + 1
	batch := min(last-first+2, max(1, maxBatch/f.chunkSize)) // one more than needed, so that the cursor ends
	cursor, err := c.chunks.Find(ctx,
		bson.D{{Key: "files_id", Value: name}, {Key: "n", Value: bson.D{{Key: "$gte", Value: first}, {Key: "$lte", Value: last}}}},
		options.Find().SetSort(bson.D{{Key: "n", Value: 1}}).SetBatchSize(int32(batch)).
			SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "n", Value: 1}, {Key: "data", Value: 1}}))
	if err != nil {
		return 0, err
	}
	defer closeCursor(ctx, cursor)
	want := first
	for cursor.Next(ctx) {
		i, isNumber := cursor.Current.Lookup("n").AsInt64OK()
		_, data, isBinary := cursor.Current.Lookup("data").BinaryOK()
		size := min(f.chunkSize, f.length-i*f.chunkSize)
		switch {
		case !isNumber || i < want:
			return 0, damagedError("chunk %d of %d is there twice", i, all)
		case i > want:
			return 0, damagedError("chunk %d of %d is missing", want, all)
		case !isBinary || int64(len(data)) != size:
			return 0, damagedError("chunk %d of %d has %d bytes instead of %d", i, all, len(data), size)
		}
		n += copy(p[n:], data[max(0, off-i*f.chunkSize):])
		want++
	}
	if err := cursor.Err(); err != nil {
		return 0, err
	}
	if want <= last {
		return 0, damagedError("chunk %d of %d is missing", want, all)
	}

	return n, nil
}

// Stat implements [remote.Blobs].
func (b *Backend) Stat(ctx context.Context, name string) (remote.Info, error) {
	c, err := b.beginCall(ctx, "stat", name, remote.CheckName(name))
	if err != nil {
		return remote.Info{}, err
	}
	f, err := b.readFileDocument(ctx, c, "stat", name)
	if err != nil {
		return remote.Info{}, err
	}

	return remote.Info{Name: name, Size: f.length, Modified: f.modified}, nil
}

// infoFields are the fields of files documents and records that describe a
// blob.
var infoFields = bson.D{{Key: "length", Value: 1}, {Key: "chunkSize", Value: 1}, {Key: "uploadDate", Value: 1}}

// readFileDocument reads the files document of a blob, or the document of a record, and
// remembers it.
func (b *Backend) readFileDocument(ctx context.Context, c *collections, op, name string) (file, error) {
	doc, err := b.findOne(ctx, c, op, name, infoFields)
	if err != nil {
		b.forgetFile(name)
		return file{}, err
	}

	f := fileOf(doc)
	if f.length < 0 {
		return file{}, &remote.Error{Op: op, Name: name, Kind: remote.ErrDamaged, Err: errors.New("its length is negative, or no number")}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxKnown {
		clear(b.known)
	}

	b.known[name] = f
	return f, nil
}

func (b *Backend) remembered(name string) (file, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.known[name]
	return f, ok
}

func (b *Backend) forgetFile(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, name)
}

// fileOf decodes a files document. Clients write its numbers in various types.
func fileOf(doc bson.Raw) file {
	number := func(field string) int64 {
		n, ok := doc.Lookup(field).AsInt64OK()
		if !ok {
			return -1
		}
		return n
	}
	f := file{length: number("length"), chunkSize: number("chunkSize")}
	if ms, ok := doc.Lookup("uploadDate").DateTimeOK(); ok {
		f.modified = time.UnixMilli(ms)
	}
	return f
}

// readRecord reads the bytes of a record.
func (b *Backend) readRecord(ctx context.Context, c *collections, name string) ([]byte, error) {
	doc, err := b.findOne(ctx, c, "get", name, bson.D{{Key: "length", Value: 1}, {Key: "data", Value: 1}})
	if err != nil {
		return nil, err
	}
	_, data, ok := doc.Lookup("data").BinaryOK()
	if length := fileOf(doc).length; !ok || int64(len(data)) != length {
		return nil, &remote.Error{Op: "get", Name: name, Kind: remote.ErrDamaged, Err: fmt.Errorf("it has %d bytes instead of %d", len(data), length)}
	}
	return data, nil
}

// findOne reads fields of the document of a record or a blob. The error of a missing
// one is ErrNotFound.
func (b *Backend) findOne(ctx context.Context, c *collections, op, name string, fields bson.D) (bson.Raw, error) {
	in, id := c.files, any(name)
	if remote.IsRecord(name) {
		in, id = c.roots, recordID(name)
	}
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	doc, err := in.FindOne(short, byID(id), options.FindOne().SetProjection(fields)).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, &remote.Error{Op: op, Name: name, Kind: remote.ErrNotFound}
	}
	if err != nil {
		return nil, b.convertError(ctx, op, name, err)
	}
	return doc, nil
}

// closeCursor ends a query, also at the server if it has more results.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_ = cursor.Close(ctx)
}

const rootFolder = "root/"

// recordID returns the _id of a record: an int64 for the numbered roots, such
// as root/00000000000000000042, and otherwise its name.
func recordID(name string) any {
	digits, ok := strings.CutPrefix(name, rootFolder)
	if seq, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && seq >= 0 && rootName(seq) == name {
		return seq
	}
	return name
}

func rootName(seq int64) string { return fmt.Sprintf("%s%020d", rootFolder, seq) }

// List implements [remote.Blobs].
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return b.ListAfter(ctx, prefix, "")
}

// ListAfter is List without the names up to and including after.
func (b *Backend) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		c, err := b.beginCall(ctx, "list", prefix, remote.CheckPrefix(prefix))
		if err != nil {
			yield(remote.Info{}, err)
			return
		}
		sources := []*source{
			{in: c.files, filter: withPrefix("_id", prefix, after), name: blobName},
			{in: c.manyRoots, filter: withPrefix("_id", prefix, after), name: recordName},
		}
		if strings.HasPrefix(rootFolder, prefix) {
			sources = append(sources, &source{in: c.manyRoots, filter: bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: int64(0)}}}}, name: recordName})
		}
		for _, s := range sources {
			defer s.close(ctx)
		}
		for {
			next, err := firstSource(ctx, sources, after)
			if err != nil {
				yield(remote.Info{}, b.convertError(ctx, "list", prefix, err))
				return
			}
			if next == nil || !yield(next.info, nil) {
				return
			}
			next.info = remote.Info{}
		}
	}
}

// withPrefix returns a filter for strings in a field that begin with prefix
// and come after another.
func withPrefix(field, prefix, after string) bson.D {
	from := bson.E{Key: "$gte", Value: prefix}
	if after > prefix {
		from = bson.E{Key: "$gt", Value: after}
	}
	bounds := bson.D{from}
	if folder, ok := strings.CutSuffix(prefix, "/"); ok {
		bounds = append(bounds, bson.E{Key: "$lt", Value: folder + "0"}) // the character after the slash
	}
	return bson.D{{Key: field, Value: bounds}}
}

// A source yields the entries of a collection, in the order of _id.
type source struct {
	in     *mongo.Collection
	filter bson.D
	name   func(id bson.RawValue) string // "": not a document of kist

	cursor *mongo.Cursor
	ended  bool
	info   remote.Info // the next entry; none if it has no name
}

// firstSource returns the source with the smallest next entry, or nil.
func firstSource(ctx context.Context, sources []*source, after string) (*source, error) {
	var first *source
	for _, s := range sources {
		if err := s.fillNext(ctx, after); err != nil {
			return nil, err
		}
		if !s.ended && (first == nil || s.info.Name < first.info.Name) {
			first = s
		}
	}
	return first, nil
}

// fillNext reads the next entry, unless it was read already.
func (s *source) fillNext(ctx context.Context, after string) (err error) {
	if s.cursor == nil {
		s.cursor, err = s.in.Find(ctx, s.filter, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetProjection(infoFields))
		if err != nil {
			return err
		}
	}

	for !s.ended && s.info.Name == "" {
		if !s.cursor.Next(ctx) {
			s.ended = true
			return s.cursor.Err()
		}
		if name := s.name(s.cursor.Current.Lookup("_id")); name > after {
			f := fileOf(s.cursor.Current)
			s.info = remote.Info{Name: name, Size: f.length, Modified: f.modified}
		}
	}

	return nil
}

func (s *source) close(ctx context.Context) {
	if s.cursor != nil {
		closeCursor(ctx, s.cursor)
	}
}

// blobName returns the name of a blob from the _id of its files document or
// the files_id of a chunk.
func blobName(id bson.RawValue) string {
	name, ok := id.StringValueOK()
	if !ok || remote.CheckBlob(name) != nil {
		return ""
	}
	return name
}

// recordName returns the name of a record from its _id.
func recordName(id bson.RawValue) string {
	if name, ok := id.StringValueOK(); ok {
		if remote.CheckRecord(name, 0) != nil || recordID(name) != any(name) {
			return ""
		}
		return name
	}
	if seq, ok := id.AsInt64OK(); ok && seq >= 0 {
		return rootName(seq)
	}
	return ""
}
