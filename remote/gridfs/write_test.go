package gridfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// A body calls do, once, when a read first reaches beyond an offset.
type body struct {
	data []byte
	at   int64 // the offset
	do   func() error
	done bool
}

func (r *body) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > r.at && !r.done {
		r.done = true
		if err := r.do(); err != nil {
			return 0, err
		}
	}
	return bytes.NewReader(r.data).ReadAt(p, off)
}

func count(t *testing.T, in *mongo.Collection, filter bson.D) int64 {
	t.Helper()
	n, err := in.CountDocuments(context.Background(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func orphans(t *testing.T, b *Backend) (names []string) {
	t.Helper()
	for info, err := range b.InterruptedUploads(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// An upload that fails after it sent some chunks deletes them.
func TestFailedUpload(t *testing.T) {
	b := openTest(t, testURL(t, "&chunksize=1048576"), nil)
	b.endTime = time.Minute // a slow server must not fail the test
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	failure := errors.New("disk on fire")
	for _, test := range []struct {
		name string
		ctx  context.Context
		do   func() error
		want error
	}{
		{"packs/body", context.Background(), func() error { return failure }, failure},
		{"packs/cancelled", ctx, func() error { cancel(); return nil }, context.Canceled},
	} {
		var sent int64
		do := func() error {
			sent = count(t, b.opened.Load().chunks, chunksOf(test.name))
			return test.do()
		}

		err := b.Put(test.ctx, test.name, &body{data: sample(5 << 20), at: 4<<20 + 1, do: do}, 5<<20)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		}
		if sent == 0 {
			t.Errorf("%s: no chunk was sent before the failure", test.name)
		}

		c := b.opened.Load()
		if n := count(t, c.chunks, chunksOf(test.name)); n != 0 {
			t.Errorf("%s: %d chunks left, want none", test.name, n)
		}
		if n := count(t, c.files, bson.D{}); n != 0 {
			t.Errorf("%s: %d files documents, want none", test.name, n)
		}
	}

	if names := orphans(t, b); len(names) > 0 {
		t.Errorf("orphans %q, want none", names)
	}
}

// A Put under a taken name fails and leaves the stored blob intact.
func TestTakenName(t *testing.T) {
	b := openTest(t, testURL(t, "&chunksize=1048576"), nil)
	data := sample(3 << 20)
	mustPut(t, b, "packs/a", data)
	for _, n := range []int{len(data), 1000, 5 << 20} {
		err := b.Put(context.Background(), "packs/a", bytes.NewReader(make([]byte, n)), int64(n))
		if !errors.Is(err, remote.ErrExists) {
			t.Errorf("put of %d bytes: error %v, want ErrExists", n, err)
		}
		wantGet(t, b, "packs/a", 0, len(data)+1, data)
	}
	failure := errors.New("disk on fire")
	err := b.Put(context.Background(), "packs/a", &body{data: data, do: func() error { return failure }}, 1000)
	if !errors.Is(err, failure) {
		t.Errorf("put of a body that fails: error %v, want %v", err, failure)
	}
	wantGet(t, b, "packs/a", 0, len(data)+1, data)
}

// Of two concurrent uploads with one name, the second fails and leaves the
// chunks of the first alone.
func TestTwoUploads(t *testing.T) {
	b := openTest(t, testURL(t, "&chunksize=1048576"), nil)
	ctx := context.Background()
	data := sample(5 << 20)
	second := func() error {
		if err := b.Put(ctx, "packs/a", bytes.NewReader(make([]byte, len(data))), int64(len(data))); !errors.Is(err, remote.ErrExists) {
			t.Errorf("second upload: error %v, want ErrExists", err)
		}
		return nil
	}
	if err := b.Put(ctx, "packs/a", &body{data: data, at: 4<<20 + 1, do: second}, int64(len(data))); err != nil {
		t.Errorf("first upload: error %v", err)
	}
	wantGet(t, b, "packs/a", 0, len(data)+1, data)
}

// If remote gc takes the chunks of a running upload for orphans and deletes
// them, the upload fails and stores no partial blob.
func TestCollectedUpload(t *testing.T) {
	b := openTest(t, testURL(t, "&chunksize=1048576"), nil)
	ctx := context.Background()
	collect := func() error {
		if names := orphans(t, b); !slices.Equal(names, []string{"packs/a"}) {
			t.Errorf("orphans %q, want the running upload", names)
		}
		return b.Delete(ctx, "packs/a")
	}
	err := b.Put(ctx, "packs/a", &body{data: sample(5 << 20), at: 4<<20 + 1, do: collect}, 5<<20)
	if !errors.Is(err, remote.ErrTemporary) {
		t.Errorf("put: error %v, want ErrTemporary", err)
	}
	if _, err := b.Stat(ctx, "packs/a"); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("stat: error %v, want ErrNotFound", err)
	}
	if n := count(t, b.opened.Load().chunks, bson.D{}); n != 0 {
		t.Errorf("%d chunks left, want none", n)
	}
}

func TestOrphans(t *testing.T) {
	ctx := context.Background()
	b := openTest(t, testURL(t, "&chunksize=1024"), nil)
	if names := orphans(t, b); names != nil {
		t.Errorf("orphans of an empty bucket: %q", names)
	}

	for _, name := range []string{"index/whole", "packs/0/whole", "packs/a", "packs/z", "state/empty"} {
		size := 3000
		if name == "state/empty" {
			size = 0
		}
		mustPut(t, b, name, sample(size))
	}

	c := b.opened.Load()
	for _, chunk := range []struct {
		id any
		n  int
	}{{"packs/0/half", 0}, {"packs/0/half", 1}, {"packs/zz", 2}, {"a", 0}, {bson.NewObjectID(), 0}, {"Not a name", 0}, {"root/1", 0}} {
		if _, err := c.chunks.InsertOne(ctx, bson.D{{Key: "files_id", Value: chunk.id}, {Key: "n", Value: chunk.n}, {Key: "data", Value: bson.Binary{Data: []byte("x")}}}); err != nil {
			t.Fatal(err)
		}
	}

	want := []string{"a", "packs/0/half", "packs/zz"}
	if names := orphans(t, b); !slices.Equal(names, want) {
		t.Errorf("orphans %q, want %q", names, want)
	}

	for info := range b.InterruptedUploads(ctx) {
		if age := time.Since(info.Modified); info.Name != "a" || age < -time.Minute || age > time.Minute {
			t.Errorf("first orphan %v, want a, sent just now", info)
		}
		break
	}

	for _, name := range want {
		if _, err := b.Stat(ctx, name); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("stat of orphan %q: error %v, want ErrNotFound", name, err)
		}
		if err := b.Delete(ctx, name); err != nil {
			t.Errorf("delete orphan %q: %v", name, err)
		}
	}

	if names := orphans(t, b); names != nil {
		t.Errorf("orphans %q after their deletion, want none", names)
	}
	for _, name := range []string{"packs/0/whole", "packs/a", "packs/z"} {
		wantGet(t, b, name, 0, 3001, sample(3000))
	}
}

// An upload that ends while orphans are listed is not listed.
func TestOrphanIsStored(t *testing.T) {
	ctx := context.Background()
	url := testURL(t, "")
	other := openTest(t, url, nil)
	mustPut(t, other, "packs/z", []byte("x"))
	c := other.opened.Load()
	for _, name := range []string{"a", "b"} {
		if _, err := c.chunks.InsertOne(ctx, append(chunksOf(name), bson.E{Key: "n", Value: 0})); err != nil {
			t.Fatal(err)
		}
	}
	stored := false
	b, err := open(ctx, url, testEnv(), &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if ns, _ := e.Reply.Lookup("cursor", "ns").StringValueOK(); strings.HasSuffix(ns, ".files") && !stored {
			stored = true
			if _, err := c.files.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "length", Value: 0}}); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if names := orphans(t, b); !stored || !slices.Equal(names, []string{"b"}) {
		t.Errorf("orphans %q, want b; upload ended %t", names, stored)
	}
}

func TestIndexes(t *testing.T) {
	ctx := context.Background()
	b := openTest(t, testURL(t, ""), nil)
	mustPut(t, b, "packs/a", []byte("x"))
	c := b.opened.Load()
	for in, want := range map[*mongo.Collection]string{c.files: "filename uploadDate false", c.chunks: "files_id n true"} {
		specs, err := in.Indexes().ListSpecifications(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, spec := range specs {
			keys, err := spec.KeysDocument.Elements()
			if err != nil || len(keys) != 2 {
				continue
			}
			found = append(found, fmt.Sprint(keys[0].Key(), " ", keys[1].Key(), " ", spec.Unique != nil && *spec.Unique))
		}
		if !slices.Equal(found, []string{want}) {
			t.Errorf("indexes of %s: %q, want %q", in.Name(), found, want)
		}
	}
	mustPut(t, reopen(t, b), "packs/b", []byte("x")) // finds the indexes

	// A bucket with files but without a unique index of its chunks is refused.
	if err := c.chunks.Indexes().DropAll(ctx); err != nil {
		t.Fatal(err)
	}
	other := mongo.IndexModel{
		Keys: bson.D{{Key: "files_id", Value: 1}, {Key: "n", Value: 1}},
		// FerretDB may list an index for a moment after its drop, so use another name.
		Options: options.Index().SetName("other"),
	}
	if _, err := c.chunks.Indexes().CreateOne(ctx, other); err != nil {
		t.Fatal(err)
	}
	err := reopen(t, b).Put(ctx, "packs/c", strings.NewReader("x"), 1)
	if !errors.Is(err, remote.ErrUnsupported) || !strings.Contains(err.Error(), "not unique") || !strings.Contains(err.Error(), ".chunks") {
		t.Errorf("put without a unique index: error %v, want ErrUnsupported", err)
	}
	if n := count(t, c.chunks, chunksOf("packs/c")); n != 0 {
		t.Errorf("%d chunks were stored, want none", n)
	}
}

// reopen returns a second backend for the same bucket.
func reopen(t *testing.T, b *Backend) *Backend {
	t.Helper()
	again, err := open(context.Background(), fmt.Sprintf("%s%sbucket=%s", b.uri, map[bool]string{false: "?", true: "&"}[strings.Contains(b.uri, "?")], b.bucket), testEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// TestRecords checks the documents of records and the order of their list.
func TestRecords(t *testing.T) {
	ctx := context.Background()
	b := openTest(t, testURL(t, ""), nil)
	for name, id := range map[string]any{
		"root/00000000000000000000":         int64(0),
		"root/00000000000000000042":         int64(42),
		"root/09223372036854775807":         int64(9223372036854775807),
		"root/09223372036854775808":         "root/09223372036854775808",
		"root/99999999999999999999":         "root/99999999999999999999",
		"root/42":                           "root/42",
		"root/0000000000000000004a":         "root/0000000000000000004a",
		"root/-0000000000000000042":         "root/-0000000000000000042",
		"kist.json":                         "kist.json",
		"probe/n/root/00000000000000000042": "probe/n/root/00000000000000000042",
	} {
		if err := b.Create(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		if got := recordID(name); got != id {
			t.Errorf("%s: _id %v, want %v", name, got, id)
		}

		doc, err := b.opened.Load().roots.FindOne(ctx, byID(id)).Raw()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, data, _ := doc.Lookup("data").BinaryOK(); string(data) != name {
			t.Errorf("%s: data %q, want the name", name, data)
		}
		if typ := doc.Lookup("_id").Type; (typ == bson.TypeInt64) != (fmt.Sprintf("%T", id) == "int64") {
			t.Errorf("%s: _id is of type %v", name, typ)
		}
	}

	if _, err := b.opened.Load().roots.InsertOne(ctx, bson.D{{Key: "_id", Value: "something else"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"kist.json", "probe/n/root/00000000000000000042", "root/-0000000000000000042", "root/00000000000000000000", "root/00000000000000000042",
		"root/0000000000000000004a", "root/09223372036854775807", "root/09223372036854775808", "root/42", "root/99999999999999999999",
	}
	if names := listNames(t, b, "", ""); !slices.Equal(names, want) {
		t.Errorf("list %q, want %q", names, want)
	}

	mustPut(t, b, "packs/a", nil)
	want = slices.Insert(want, 1, "packs/a")
	for i := range want {
		if names := listNames(t, b, "", want[i]); !slices.Equal(names, want[i+1:]) {
			t.Errorf("list after %s: %q, want %q", want[i], names, want[i+1:])
		}
	}

	if names := listNames(t, b, "root/", "root/00000000000000000042"); !slices.Equal(names, want[6:]) {
		t.Errorf("list of roots: %q, want %q", names, want[6:])
	}
}
