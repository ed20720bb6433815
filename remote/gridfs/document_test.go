package gridfs

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/kist-vcs/kist/remote"
)

// The documents of the largest record and the largest chunk fit into MongoDB's
// 16 MiB, with 64 KiB for their other fields.
const (
	_ = uint(16<<20 - 64<<10 - remote.MaxRecord)
	_ = uint(16<<20 - 64<<10 - maxChunkSize)
)

// FuzzDocument decodes arbitrary documents of a server.
func FuzzDocument(f *testing.F) {
	for _, doc := range []bson.D{
		{{Key: "_id", Value: "packs/a"}, {Key: "length", Value: int64(1)}, {Key: "chunkSize", Value: 1}, {Key: "uploadDate", Value: bson.DateTime(1)}},
		{{Key: "_id", Value: int64(7)}, {Key: "length", Value: 1.5}, {Key: "setName", Value: "rs0"}, {Key: "msg", Value: 1}},
		{{Key: "key", Value: bson.D{{Key: "files_id", Value: 1}, {Key: "n", Value: 1}}}, {Key: "unique", Value: true}},
	} {
		data, err := bson.Marshal(doc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc := bson.Raw(data)
		if doc.Validate() != nil { // the driver returns valid documents only
			return
		}
		fileOf(doc)
		isAlone(doc)
		isOn(doc, []string{"files_id", "n"})
		if name := blobName(doc.Lookup("_id")); name != "" && remote.CheckBlob(name) != nil {
			t.Errorf("blobName returned the invalid name %q", name)
		}
		if name := recordName(doc.Lookup("_id")); name != "" && remote.CheckRecord(name, 0) != nil {
			t.Errorf("recordName returned the invalid name %q", name)
		}
	})
}
