package gridfs

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// makeIndexes makes the two indexes of GridFS if they are missing. The unique
// index on chunks keeps two uploads with one name apart.
func (c *collections) makeIndexes(ctx context.Context) error {
	if c.indexed.Load() {
		return nil
	}
	if err := makeIndex(ctx, c.files, false, "filename", "uploadDate"); err != nil {
		return err
	}
	if err := makeIndex(ctx, c.chunks, true, "files_id", "n"); err != nil {
		return err
	}
	c.indexed.Store(true)
	return nil
}

func makeIndex(ctx context.Context, in *mongo.Collection, unique bool, fields ...string) error {
	cursor, err := in.Indexes().List(ctx)
	if err != nil {
		return err
	}

	var indexes []bson.Raw
	if err := cursor.All(ctx, &indexes); err != nil {
		return err
	}

	for _, index := range indexes {
		if !isOn(index, fields) {
			continue
		}
		if is, _ := index.Lookup("unique").BooleanOK(); unique && !is {
			name, _ := index.Lookup("name").StringValueOK()
			return &remote.Error{Op: "put", Kind: remote.ErrUnsupported, Err: fmt.Errorf("index %q of %s on {%s} is not unique; drop it, and kist makes a unique one",
				name, in.Name(), strings.Join(fields, ", "))}
		}
		return nil
	}

	keys := bson.D{}
	for _, field := range fields {
		keys = append(keys, bson.E{Key: field, Value: int32(1)})
	}

	_, err = in.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys, Options: options.Index().SetUnique(unique)})
	return err
}

// isOn reports whether an index covers exactly these fields, ascending, for
// all documents.
func isOn(index bson.Raw, fields []string) bool {
	keys, ok := index.Lookup("key").DocumentOK()
	if !ok || index.Lookup("partialFilterExpression").Type != 0 {
		return false
	}

	elements, err := keys.Elements()
	if err != nil || len(elements) != len(fields) {
		return false
	}

	for i, e := range elements {
		if n, ok := e.Value().AsInt64OK(); !ok || n != 1 || e.Key() != fields[i] {
			return false
		}
	}

	return true
}
