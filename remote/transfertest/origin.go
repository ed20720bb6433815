package transfertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Origin is a remote that a test fills itself, with all objects that were ever made for it.
type Origin struct {
	*objecttest.Maker
	All  *objecttest.Memory
	Blob *remotetest.Memory
	Head *rootlog.State

	remote *transfer.Remote

	Sent     map[object.Key]pack.Entry
	PackSize int  // bytes at which a pack of chunks ends
	Inline   bool // entries go into roots, not into index files
	Repacked bool // packs have patches
}

const MainRef = "refs/heads/main"

func NewOrigin(t testing.TB) *Origin {
	t.Helper()
	o := &Origin{All: objecttest.NewMemory(), Blob: remotetest.NewMemory(), Sent: map[object.Key]pack.Entry{}, PackSize: pack.TargetSize}
	o.Maker = &objecttest.Maker{T: t, ReadWriter: o.All}
	Init(t, o.Blob)
	var err error
	if o.remote, err = OpenTest(t, o.Blob, ""); err != nil {
		t.Fatal(err)
	}
	if o.Head, err = o.remote.Log().Head(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return o
}

// AppendRoot appends a root.
func (o *Origin) AppendRoot(c rootlog.Change) {
	o.T.Helper()
	c.Time = time.Unix(1_700_000_000, 0)
	var err error
	if o.Head, err = o.remote.Log().Append(context.Background(), o.Head, c); err != nil {
		o.T.Fatal(err)
	}
}

// PushMain sends all new objects and moves the main branch.
func (o *Origin) PushMain(id object.ID) {
	o.T.Helper()
	keys := slices.DeleteFunc(o.All.Keys(), func(key object.Key) bool { _, ok := o.Sent[key]; return ok })
	c := o.PackObjects(keys)
	c.Refs = []rootlog.RefChange{{Name: MainRef, Old: o.Head.Refs[MainRef], New: object.Key{Kind: object.KindCommit, ID: id}}}
	o.AppendRoot(c)
}

// PackObjects puts objects into new packs, nodes apart from chunks.
func (o *Origin) PackObjects(keys []object.Key) (c rootlog.Change) {
	o.T.Helper()
	enc := frame.NewEncoder(frame.Fastest)
	var entries []pack.Entry
	for _, nodes := range []bool{false, true} {
		w := o.NewWriter()
		finish := func() {
			if w.Len() > 0 {
				in := o.PutPack(w)
				entries = append(entries, in.Entries...)
				c.AddPacks = append(c.AddPacks, in)
				w = o.NewWriter()
			}
		}

		for _, key := range keys {
			if key.Kind.IsNode() != nodes {
				continue
			}
			data, err := o.All.Get(context.Background(), key)
			if err != nil {
				o.T.Fatal(err)
			}
			value := w.value(enc, key, data)
			if w.Full(len(value)) || !nodes && w.Size() > o.PackSize {
				finish()
			}
			w.AddValue(o.T, key, value, data)
		}

		finish()
	}

	for _, e := range entries {
		o.Sent[e.Key] = e
	}
	if !o.Inline && len(entries) > 0 {
		c.AddPacks = nil
		c.AddIndexes = []rootlog.File{o.index(entries)}
	}
	return c
}

// packWriter writes a pack and keeps its objects as bases for patches.
type packWriter struct {
	*pack.Writer
	bases []Sample
	patch bool // packs may have patches
}

// Sample is an object with its bytes.
type Sample struct {
	Key  object.Key
	Data []byte
}

func (o *Origin) NewWriter() *packWriter {
	w := &packWriter{Writer: pack.NewWriter(nil), patch: o.Repacked}
	if o.Repacked {
		w.ResetForPatches()
	}
	return w
}

// value returns the shortest value of an object: complete, or a patch of an object in the
// pack.
func (w *packWriter) value(enc *frame.Encoder, key object.Key, data []byte) []byte {
	value := enc.Append(nil, data)
	for _, b := range w.bases {
		if b.Key.Kind != key.Kind || !w.TakesPatch(b.Key) {
			continue
		}
		if patch, ok := enc.AppendPatch(nil, data, b.Key.ID, b.Data); ok && len(patch) < len(value) {
			value = patch
		}
	}
	return value
}

func (w *packWriter) AddValue(t testing.TB, key object.Key, value, data []byte) {
	t.Helper()
	if err := w.Add(key, value, len(data)); err != nil {
		t.Fatal(err)
	}
	if w.patch {
		w.bases = append(w.bases, Sample{key, data})
	}
}

// PutPack stores a pack.
func (o *Origin) PutPack(w *packWriter) rootlog.Inline {
	o.T.Helper()
	name, err := pack.NewName(rand.Reader)
	if err != nil {
		o.T.Fatal(err)
	}
	body, entries, err := w.Finish(name)
	if err != nil {
		o.T.Fatal(err)
	}
	o.put(name.Path(), body)
	return rootlog.Inline{Info: entries[0].Pack, Entries: entries}
}

// put stores a file.
func (o *Origin) put(name string, data []byte) {
	o.T.Helper()
	if err := o.remote.Backend().Put(context.Background(), name, bytes.NewReader(data), int64(len(data))); err != nil {
		o.T.Fatal(err)
	}
}

// index stores an index file.
func (o *Origin) index(entries []pack.Entry) rootlog.File {
	o.T.Helper()
	slices.SortFunc(entries, func(a, b pack.Entry) int { return a.Key.Compare(b.Key) })
	var buf bytes.Buffer
	if err := pack.WriteIndex(&buf, entries); err != nil {
		o.T.Fatal(err)
	}
	name, err := pack.NewName(rand.Reader)
	if err != nil {
		o.T.Fatal(err)
	}
	o.put(name.IndexPath(), buf.Bytes())
	return rootlog.File{Name: name, Size: int64(buf.Len()), Sum: sha256.Sum256(buf.Bytes())}
}

// CollectUnreached moves the reachable objects to new packs. It condemns and deletes all old packs and
// index files, without a grace.
func (o *Origin) CollectUnreached() {
	o.T.Helper()
	var condemned []string
	for name := range o.PackNames() {
		condemned = append(condemned, name)
	}
	for _, f := range o.Head.Indexes {
		condemned = append(condemned, f.Name.IndexPath())
	}
	reachable := objecttest.Closure(o.T, o.All, slices.Collect(maps.Values(o.Head.Refs))...)
	o.Sent = map[object.Key]pack.Entry{}
	c := o.PackObjects(slices.SortedFunc(maps.Keys(reachable), object.Key.Compare))
	c.Condemn = condemned
	o.AppendRoot(c)
	for _, name := range condemned {
		o.Blob.Remove(name)
	}
}

// PackNames returns the names of the packs that were sent and are live.
func (o *Origin) PackNames() map[string]bool {
	names := map[string]bool{}
	for _, e := range o.Sent {
		names[e.Pack.Name.Path()] = true
	}
	return names
}

// Clone is a repository that a test fetches into.
type Clone struct {
	T         testing.TB
	Dir       string
	Store     *volume.Store
	Remote    *transfer.Remote
	SkipCheck bool // do not check the store at the end
}

func NewClone(t testing.TB, b remote.Backend) *Clone {
	t.Helper()
	dir := t.TempDir()
	c := &Clone{T: t, Dir: dir}
	c.Reopen()
	cache := filepath.Join(dir, "remotes", "origin")
	r, err := transfer.Open(t.Context(), guarded(t, b), transfer.Options{Dir: cache, URL: "memory:", Now: time.Now, Keys: Keys(t), Warn: func(s string) { t.Log("warning:", s) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Remote = r
	t.Cleanup(func() {
		if !c.SkipCheck {
			c.checkStore()
		}
		r.Close()
		c.Store.Close()
		if left, _ := filepath.Glob(filepath.Join(cache, "fetch-*")); len(left) > 0 {
			t.Errorf("files left: %q", left)
		}
	})
	return c
}

// Reopen closes and opens the store.
func (c *Clone) Reopen() {
	c.T.Helper()
	if c.Store != nil {
		c.Store.Close()
	}
	var err error
	c.Store, err = volume.Open(c.Dir, volume.Options{Now: time.Now, Warn: func(s string) { c.T.Log("warning:", s) }})
	if err != nil {
		c.T.Fatal(err)
	}
}

// checkStore checks that nothing in the store is damaged.
func (c *Clone) checkStore() {
	c.T.Helper()
	_, err := c.Store.Check(context.Background(), volume.CheckOptions{ReadData: true}, func(p volume.Problem) { c.T.Errorf("check: %v", p) })
	if err != nil {
		c.T.Errorf("check: %v", err)
	}
}

// FetchAt fetches the main branch at head, and publishes it.
func (c *Clone) FetchAt(head *rootlog.State, have ...object.ID) (*transfer.FetchResult, error) {
	ctx := context.Background()
	session := c.Store.Begin(volume.SessionOptions{})
	result, err := c.Remote.Fetch(ctx, session, head, transfer.FetchOptions{Want: []object.Key{head.Refs[MainRef]}, Have: have})
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error { return nil })
	}
	return result, errors.Join(err, session.Close())
}

// Head returns the remote's head.
func (c *Clone) Head() *rootlog.State {
	c.T.Helper()
	head, err := c.Remote.Head(context.Background())
	if err != nil {
		c.T.Fatal(err)
	}
	return head
}

// MustFetch fetches at the remote's head and checks that everything has arrived.
func (c *Clone) MustFetch(o *Origin, have ...object.ID) *transfer.FetchResult {
	c.T.Helper()
	head := c.Head()
	result, err := c.FetchAt(head, have...)
	if err != nil {
		c.T.Fatal(err)
	}
	c.WantAll(o, head.Refs[MainRef])
	return result
}

// WantAll checks that the store has everything that an object refers to, with the right
// bytes.
func (c *Clone) WantAll(o *Origin, key object.Key) {
	c.T.Helper()
	for key := range objecttest.Closure(c.T, o.All, key) {
		want, _ := o.All.Get(context.Background(), key)
		if got, err := c.Store.Get(context.Background(), key); err != nil || !bytes.Equal(got, want) {
			c.T.Fatalf("%s: %d bytes, want %d: %v", key, len(got), len(want), err)
		}
	}
}

// PushHistory pushes n commits and returns them. Each changes a file in one of four folders. One
// file has many chunks.
func (o *Origin) PushHistory(n int) (commits []object.ID) {
	o.T.Helper()
	ctx := context.Background()
	for i := range n {
		folders := map[string]object.ID{}
		for d := range 4 {
			files := map[string]string{}
			for f := range 3 {
				files[fmt.Sprint("f", f)] = objecttest.Noise(d*10+f, 2000)
			}
			if d == i%4 {
				files["changed"] = objecttest.Noise(100+i, 3000)
			}
			folders[fmt.Sprint("d", d)] = o.MakeTree(files, nil)
		}

		w := object.NewManifestWriter(o)
		for c := range 20 {
			data := objecttest.Noise(1000+c+i, 1500)
			ref := object.ChunkRef{ID: o.PutData(object.KindChunk, []byte(data)), Size: uint32(len(data))}
			if err := w.Add(ctx, ref); err != nil {
				o.T.Fatal(err)
			}
		}

		content, size, err := w.Finish(ctx)
		if err != nil {
			o.T.Fatal(err)
		}

		trees := object.NewTreeWriter(o)
		for _, name := range slices.Sorted(maps.Keys(folders)) {
			e := object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: folders[name]}}
			if err := trees.Add(ctx, e); err != nil {
				o.T.Fatal(err)
			}
		}

		big := object.Entry{Name: "large", Type: object.TypeFile, Mode: 0o644, Size: size, MTime: object.Time{Sec: 1}, Content: content}
		if err := trees.Add(ctx, big); err != nil {
			o.T.Fatal(err)
		}

		root, err := trees.Finish(ctx)
		if err != nil {
			o.T.Fatal(err)
		}
		var parents []object.ID
		if i > 0 {
			parents = commits[i-1:]
		}
		commits = append(commits, o.MakeCommit(root, parents...))
		o.PushMain(commits[i])
	}
	return commits
}

// PushDrafts pushes n commits and returns them. Each differs in a few bytes from the one before.
func (o *Origin) PushDrafts(n int) (commits []object.ID) {
	o.T.Helper()
	for i := range n {
		files := map[string]string{}
		for f := range 40 {
			files[fmt.Sprint("f", f)] = objecttest.Noise(f, 3000)
		}
		for f := range 3 {
			name := fmt.Sprint("f", (i+10*f)%40)
			files[name] = files[name][:1000+i] + fmt.Sprint("draft ", i) + files[name][1000:]
		}
		var parents []object.ID
		if i > 0 {
			parents = commits[i-1:]
		}
		commits = append(commits, o.MakeCommit(o.MakeTree(files, nil), parents...))
		o.PushMain(commits[i])
	}
	return commits
}

// value returns the stored value of an object.
func (o *Origin) value(e pack.Entry) []byte {
	return o.Blob.Data(e.Pack.Name.Path())[e.Offset:][:e.Stored]
}

// Patches returns the entries of patches, in stored order.
func (o *Origin) Patches() (list []pack.Entry) {
	for _, e := range o.Sent {
		if frame.IsNear(o.value(e)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, byPlace)
	return list
}

func byPlace(a, b pack.Entry) int {
	if c := a.Pack.Name.Compare(b.Pack.Name); c != 0 {
		return c
	}
	return int(a.Offset) - int(b.Offset)
}

// BasesOf returns the bases of a patch: its own base, the base of that, and so on.
func (o *Origin) BasesOf(patch pack.Entry) (list []pack.Entry) {
	o.T.Helper()
	for e := patch; frame.IsNear(o.value(e)); {
		n, err := frame.NearBase(o.value(e))
		if err != nil {
			o.T.Fatal(err)
		}
		at := e.Offset - uint32(n.Distance)
		found := false
		for _, other := range o.Sent {
			if other.Pack == e.Pack && other.Offset == at {
				e, found = other, true
				break
			}
		}
		if !found || e.Stored != uint32(n.Stored) || e.Raw != uint32(n.Raw) || e.Key.Kind != patch.Key.Kind {
			o.T.Fatalf("the base of %s is missing", patch.Key)
		}
		list = append(list, e)
	}
	return list
}
