package gridfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

func sample(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func mustPut(t *testing.T, b *Backend, name string, data []byte) {
	t.Helper()
	if err := b.Put(context.Background(), name, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func wantGet(t *testing.T, b *Backend, name string, off, n int, want []byte) {
	t.Helper()
	p := make([]byte, n)
	if n, err := b.Get(context.Background(), name, p, int64(off)); err != nil || !bytes.Equal(p[:n], want) {
		t.Errorf("get %d bytes from %d: %d bytes, %v; want %d bytes", len(p), off, n, err, len(want))
	}
}

// Get reads only the chunks with wanted bytes.
func TestRanges(t *testing.T) {
	var sent recorder
	b := openTest(t, testURL(t, "&chunksize=1024"), sent.monitor())
	data := sample(10*1024 + 100)
	mustPut(t, b, "packs/a", data)
	mustPut(t, b, "packs/b", data) // chunks that no read wants
	for _, test := range []struct{ off, n, chunks int }{
		{0, 1, 1}, {1023, 1, 1}, {1023, 2, 2}, {1024, 1024, 1}, {1000, 1048, 2}, {5000, 2, 1}, {4096, 3 * 1024, 3},
		{10 * 1024, 100, 1}, {10*1024 + 99, 1, 1}, {10*1024 - 1, 101, 2}, {10 * 1024, 5000, 1}, {0, 10*1024 + 100, 11}, {0, 20_000, 11},
		{10*1024 + 100, 10, 0}, {1 << 30, 10, 0}, {0, 0, 0},
	} {
		sent.takeReceived("")
		wantGet(t, b, "packs/a", test.off, test.n, data[min(test.off, len(data)):min(test.off+test.n, len(data))])
		if n := sent.takeReceived("chunks"); n != test.chunks {
			t.Errorf("%d bytes from %d: received %d chunks, want %d", test.n, test.off, n, test.chunks)
		}
	}
	// Get reads the files document again only if the range reaches the end of the blob.
	sent.takeReceived("")
	for off := range 10 {
		wantGet(t, b, "packs/a", off*1000, 1000, data[off*1000:][:1000])
	}
	if n := sent.takeReceived("files"); n != 0 {
		t.Errorf("received %d files documents of a known blob, want 0", n)
	}
}

// Get detects damage of the stored documents and describes it.
func TestDamage(t *testing.T) {
	ctx := context.Background()
	data := sample(5*1024 + 100)
	chunk := func(n int) bson.D { return bson.D{{Key: "files_id", Value: "packs/a"}, {Key: "n", Value: n}} }

	setData := func(n int, data any) func(*collections) error {
		return func(c *collections) error {
			_, err := c.chunks.UpdateOne(ctx, chunk(n), bson.D{{Key: "$set", Value: bson.D{{Key: "data", Value: data}}}})
			return err
		}
	}

	setFile := func(field string, value any) func(*collections) error {
		return func(c *collections) error {
			_, err := c.files.UpdateOne(ctx, byID("packs/a"), bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
			return err
		}
	}
	for _, test := range []struct {
		name      string
		damage    func(c *collections) error
		off, n    int // of a read that must fail
		reason    string
		elsewhere bool // reads of other chunks succeed
	}{
		{"deleted", func(c *collections) error { _, err := c.chunks.DeleteOne(ctx, chunk(2)); return err }, 2048, 10, "chunk 2 of 6 is missing", true},
		{"the last deleted", func(c *collections) error { _, err := c.chunks.DeleteOne(ctx, chunk(5)); return err }, 5000, 1000, "chunk 5 of 6 is missing", true},
		{"all deleted", func(c *collections) error { _, err := c.chunks.DeleteMany(ctx, chunksOf("packs/a")); return err }, 0, 10, "chunk 0 of 6 is missing", false},
		{"shortened", setData(3, bson.Binary{Data: make([]byte, 1023)}), 3072, 10, "chunk 3 of 6 has 1023 bytes instead of 1024", true},
		{"emptied", setData(3, bson.Binary{}), 3072, 10, "chunk 3 of 6 has 0 bytes instead of 1024", true},
		{"lengthened", setData(3, bson.Binary{Data: make([]byte, 1025)}), 3072, 10, "chunk 3 of 6 has 1025 bytes instead of 1024", true},
		{"the last lengthened", setData(5, bson.Binary{Data: make([]byte, 101)}), 5 * 1024, 10, "chunk 5 of 6 has 101 bytes instead of 100", true},
		{"no bytes", setData(1, "text"), 1024, 10, "chunk 1 of 6 has 0 bytes instead of 1024", true},
		{"doubled", func(c *collections) error {
			if err := c.chunks.Indexes().DropAll(ctx); err != nil {
				return err
			}
			double := append(chunk(1), bson.E{Key: "data", Value: bson.Binary{Data: make([]byte, 1024)}})
			_, err := c.chunks.InsertOne(ctx, double)
			for start := time.Now(); mongo.IsDuplicateKeyError(err) && time.Since(start) < time.Minute; {
				time.Sleep(10 * time.Millisecond) // FerretDB may enforce an index for a moment after its drop
				_, err = c.chunks.InsertOne(ctx, double)
			}
			return err
		}, 1030, 10, "chunk 1 of 6 is there twice", true},
		{"a length that is too large", setFile("length", 7000), 6000, 1000, "chunk 5 of 7 has 100 bytes instead of 1024", true},
		{"a negative length", setFile("length", -1), 0, 10000, "length", false},
		{"a length that is no number", setFile("length", "long"), 0, 10000, "length", false},
		{"chunks of no size", setFile("chunkSize", 0), 0, 10000, "the size of its chunks is 0", false},
		{"chunks of another size", setFile("chunkSize", 512), 0, 10000, "chunk 0 of 11 has 1024 bytes instead of 512", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := testURL(t, "&chunksize=1024")
			b := openTest(t, url, nil)
			mustPut(t, b, "packs/a", data)
			if err := test.damage(b.opened.Load()); err != nil {
				t.Fatal(err)
			}

			p := make([]byte, test.n)
			_, err := b.Get(ctx, "packs/a", p, int64(test.off))
			if !errors.Is(err, remote.ErrDamaged) || !strings.Contains(err.Error(), test.reason) || !strings.Contains(err.Error(), "packs/a") {
				t.Errorf("error %v, want ErrDamaged with %q", err, test.reason)
			}
			if test.elsewhere {
				wantGet(t, b, "packs/a", 4096+10, 100, data[4096+10:][:100])
			}
		})
	}
}

// A known blob that another client deleted is reported as not found, not as
// damaged.
func TestDeletedByAnother(t *testing.T) {
	ctx := context.Background()
	url := testURL(t, "&chunksize=1024")
	b := openTest(t, url, nil)
	other, err := open(ctx, url, testEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	data := sample(3000)
	mustPut(t, b, "packs/a", data)
	wantGet(t, b, "packs/a", 0, 10, data[:10])
	if err := other.Delete(ctx, "packs/a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := b.Get(ctx, "packs/a", make([]byte, 10), 0); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
	}
}

// Get returns ErrDamaged if the bytes of a record do not fit its length.
func TestDamagedRecord(t *testing.T) {
	ctx := context.Background()
	b := openTest(t, testURL(t, ""), nil)
	for i, set := range []bson.D{{{Key: "data", Value: bson.Binary{Data: []byte("shor")}}}, {{Key: "data", Value: 7}}, {{Key: "length", Value: 6}}} {
		name := rootName(int64(i))
		if err := b.Create(ctx, name, []byte("bytes")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.opened.Load().roots.UpdateOne(ctx, byID(int64(i)), bson.D{{Key: "$set", Value: set}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(ctx, name, make([]byte, 10), 0); !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("%v: error %v, want ErrDamaged", set, err)
		}
	}
}

// The driver's bucket can read the blobs of kist, and kist the files of the
// driver's bucket.
func TestOtherClients(t *testing.T) {
	ctx := context.Background()
	b := openTest(t, testURL(t, "&chunksize=5000"), nil)
	bucket := b.client.Database(b.database).GridFSBucket(options.GridFSBucket().SetName(b.bucket).SetChunkSizeBytes(1000))
	data := sample(12_345)
	mustPut(t, b, "packs/a", data)
	stream, err := bucket.OpenDownloadStreamByName(ctx, "packs/a")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(stream)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the driver read %d bytes of %d, error %v", len(got), len(data), err)
	}
	large := sample(5 << 20) // several batches
	mustPut(t, b, "state/large", large)
	var all bytes.Buffer
	if _, err := bucket.DownloadToStream(ctx, "state/large", &all); err != nil || !bytes.Equal(all.Bytes(), large) {
		t.Errorf("the driver read %d bytes of %d, error %v", all.Len(), len(large), err)
	}
	if f := stream.GetFile(); f.ChunkSize != 5000 || f.Name != "packs/a" || f.ID != any("packs/a") {
		t.Errorf("files document %+v, want packs/a with chunks of 5000 bytes", f)
	}

	if err := bucket.UploadFromStreamWithID(ctx, "packs/b", "packs/b", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	// Files whose _id is not a name of a blob are not listed.
	if _, err := bucket.UploadFromStream(ctx, "holiday.jpg", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := bucket.UploadFromStreamWithID(ctx, "Holiday 2.jpg", "x", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	wantGet(t, b, "packs/b", 500, 2000, data[500:2500])
	names := fmt.Sprint(listNames(t, b, "", ""))
	if names != "[packs/a packs/b state/large]" {
		t.Errorf("list %s, want the three blobs", names)
	}
	// Clients write numbers in various types.
	for _, set := range []bson.D{
		{{Key: "length", Value: int32(12_345)}, {Key: "chunkSize", Value: int64(1000)}},
		{{Key: "length", Value: float64(12_345)}, {Key: "chunkSize", Value: float64(1000)}},
	} {
		if _, err := b.opened.Load().files.UpdateOne(ctx, byID("packs/b"), bson.D{{Key: "$set", Value: set}}); err != nil {
			t.Fatal(err)
		}
		b.forgetFile("packs/b")
		wantGet(t, b, "packs/b", 500, 20000, data[500:])
	}
}

func listNames(t *testing.T, b *Backend, prefix, after string) (names []string) {
	t.Helper()
	for info, err := range b.ListAfter(context.Background(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}
