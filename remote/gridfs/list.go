package gridfs

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

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
		c, err := b.begin(ctx, "list", prefix, remote.CheckPrefix(prefix))
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
			next, err := first(ctx, sources, after)
			if err != nil {
				yield(remote.Info{}, b.failure(ctx, "list", prefix, err))
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

// first returns the source with the smallest next entry, or nil.
func first(ctx context.Context, sources []*source, after string) (*source, error) {
	var first *source
	for _, s := range sources {
		if err := s.fill(ctx, after); err != nil {
			return nil, err
		}
		if !s.ended && (first == nil || s.info.Name < first.info.Name) {
			first = s
		}
	}
	return first, nil
}

// fill reads the next entry, unless it was read already.
func (s *source) fill(ctx context.Context, after string) (err error) {
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
