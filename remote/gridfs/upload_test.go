package gridfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// Put sends the chunks of a blob in full batches, then a count if there were
// several batches, and the files document last. The driver's bucket sends equal
// documents.
func TestUploadSends(t *testing.T) {
	const chunk = defaultChunkSize
	for _, test := range []struct {
		size, chunkSize int
		batches         []int // number of chunks in each
	}{
		{0, chunk, nil},
		{1, chunk, []int{1}},
		{chunk, chunk, []int{1}},
		{chunk + 1, chunk, []int{2}},
		{8 * chunk, chunk, []int{8}},
		{8*chunk + 1, chunk, []int{8, 1}},
		{19*chunk - 1, chunk, []int{8, 8, 3}},
		{2<<20 + 1, 1024, []int{2048, 1}},
		{2<<20 - 1, 2<<20 - 1, []int{1}},
		{2 << 20, 2<<20 - 1, []int{1, 1}},
		{2 * maxChunkSize, maxChunkSize, []int{1, 1}},
	} {
		t.Run(fmt.Sprintf("%d in %d", test.size, test.chunkSize), func(t *testing.T) {
			t.Parallel()
			f := startFake(t, replicaSet()...)
			f.countAll(test.size) // no chunk is missing
			var sent recorder
			b, err := open(context.Background(), f.url(fmt.Sprint("&chunksize=", test.chunkSize)), testEnv(), sent.monitor())
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			data := sample(test.size)
			mustPut(t, b, "packs/a", data)
			got := uploadOf(t, sent.take())

			var want []string
			for _, n := range test.batches {
				want = append(want, fmt.Sprint("chunks ", n))
			}
			if len(test.batches) > 1 {
				want = append(want, "count")
			}
			if want = append(want, "files 1"); !slices.Equal(got.steps, want) {
				t.Errorf("sent %q, want %q", got.steps, want)
			}
			if !bytes.Equal(got.data, data) {
				t.Errorf("the %d sent bytes differ from the %d bytes of the blob", len(got.data), len(data))
			}

			bucket := b.client.Database(b.database).GridFSBucket(options.GridFSBucket().SetName(b.bucket).SetChunkSizeBytes(b.chunkSize))
			if err := bucket.UploadFromStreamWithID(context.Background(), "packs/a", "packs/a", bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if driver := uploadOf(t, sent.take()); !slices.Equal(got.documents, driver.documents) {
				t.Errorf("kist sent the documents\n%.200q, the driver\n%.200q", got.documents, driver.documents)
			}
		})
	}
}

// A sentUpload describes the commands of an upload.
type sentUpload struct {
	steps     []string // "count", or the collection and the number of inserted documents
	data      []byte
	documents []string // without the bytes, the object IDs and the times
}

func uploadOf(t *testing.T, commands []bson.Raw) (u sentUpload) {
	t.Helper()
	ids := map[bson.ObjectID]bool{}
	for _, command := range commands {
		first := command.Index(0)
		if first.Key() == "aggregate" {
			u.steps = append(u.steps, "count")
		}
		if first.Key() != "insert" {
			continue
		}
		documents, err := command.Lookup("documents").Array().Values()
		if err != nil {
			t.Fatal(err)
		}

		u.steps = append(u.steps, fmt.Sprint(strings.TrimPrefix(first.Value().StringValue(), "kist."), " ", len(documents)))
		for _, document := range documents {
			elements, err := document.Document().Elements()
			if err != nil {
				t.Fatal(err)
			}

			var shown []string
			for _, e := range elements {
				text := fmt.Sprint(e.Key(), " ", e.Value().Type, " ")
				subtype, data, isData := e.Value().BinaryOK()
				id, isID := e.Value().ObjectIDOK()
				_, isTime := e.Value().DateTimeOK()
				switch {
				case isData:
					u.data = append(u.data, data...)
					text += fmt.Sprint(subtype, " ", len(data))
				case isID:
					if id.IsZero() || ids[id] {
						t.Errorf("_id %v is used twice", id)
					}
					ids[id] = true
				case !isTime:
					text += e.Value().String()
				}
				shown = append(shown, text)
			}

			u.documents = append(u.documents, strings.Join(shown, ", "))
		}
	}
	return u
}

// Put sends no files document if chunks are missing after the last batch, or if
// it cannot count them.
func TestUploadIncomplete(t *testing.T) {
	const size = 5000 * 1024 // three batches
	for _, test := range []struct {
		name   string
		answer func(f *fakeServer)
		stored bool
		kind   error
	}{
		{"all there", func(f *fakeServer) { f.countAll(5000) }, true, nil},
		{"one missing", func(f *fakeServer) { f.countAll(4999) }, false, remote.ErrTemporary},
		{"all missing", func(f *fakeServer) { f.countAll(0) }, false, remote.ErrTemporary},
		{"not counted", func(f *fakeServer) { f.on("aggregate", failed(13, "not authorized")) }, false, remote.ErrPermission},
	} {
		f := startFake(t, replicaSet()...)
		test.answer(f)
		var sent recorder
		b, err := open(context.Background(), f.url("&chunksize=1024"), testEnv(), sent.monitor())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		err = b.Put(context.Background(), "packs/a", bytes.NewReader(make([]byte, size)), size)
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.kind)
		}

		stored, deleted := false, false
		for _, command := range sent.take() {
			into, _ := command.Lookup("insert").StringValueOK()
			from, _ := command.Lookup("delete").StringValueOK()
			stored = stored || into == "kist.files"
			deleted = deleted || from == "kist.chunks"
		}
		if stored != test.stored || deleted == test.stored {
			t.Errorf("%s: files document sent %t, chunks deleted %t; want %t, %t", test.name, stored, deleted, test.stored, !test.stored)
		}
	}
}
