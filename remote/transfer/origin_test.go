package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
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
)

// origin is a remote that a test fills itself, with all objects that were ever made for it.
type origin struct {
	*maker
	all  *objecttest.Memory
	blob *remotetest.Memory
	id   *rootlog.Identity
	log  *rootlog.Log
	at   *rootlog.State

	sent      map[object.Key]pack.Entry
	packSize  int  // bytes at which a pack of chunks ends
	inline    bool // entries go into roots, not into index files
	optimised bool // packs have patches
}

const mainRef = "refs/heads/main"

func newOrigin(t testing.TB) *origin {
	t.Helper()
	o := &origin{all: objecttest.NewMemory(), blob: remotetest.NewMemory(), sent: map[object.Key]pack.Entry{}, packSize: pack.TargetSize}
	o.maker = &maker{t: t, ReadWriter: o.all}
	var err error
	o.id, err = rootlog.Init(t.Context(), o.blob, "00112233445566778899aabbccddeeff", rootlog.Chunker{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o.log = rootlog.Open(o.blob, o.id, rootlog.Options{Rand: rand.Reader})
	if o.at, err = o.log.Head(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return o
}

// change appends a root.
func (o *origin) change(c rootlog.Change) {
	o.t.Helper()
	c.Time = time.Unix(1_700_000_000, 0)
	var err error
	if o.at, err = o.log.Append(context.Background(), o.at, c); err != nil {
		o.t.Fatal(err)
	}
}

// push sends all new objects and moves the main branch.
func (o *origin) push(id object.ID) {
	o.t.Helper()
	keys := slices.DeleteFunc(o.all.Keys(), func(key object.Key) bool { _, ok := o.sent[key]; return ok })
	c := o.pack(keys)
	c.Refs = []rootlog.RefChange{{Name: mainRef, Old: o.at.Refs[mainRef], New: object.Key{Kind: object.KindCommit, ID: id}}}
	o.change(c)
}

// pack puts objects into new packs, nodes apart from chunks.
func (o *origin) pack(keys []object.Key) (c rootlog.Change) {
	o.t.Helper()
	enc := frame.NewEncoder(frame.Fastest)
	var entries []pack.Entry
	for _, nodes := range []bool{false, true} {
		w := o.writer()
		finish := func() {
			if w.Len() > 0 {
				in := o.put(w)
				entries = append(entries, in.Entries...)
				c.AddPacks = append(c.AddPacks, in)
				w = o.writer()
			}
		}

		for _, key := range keys {
			if key.Kind.IsNode() != nodes {
				continue
			}
			data, err := o.all.Get(context.Background(), key)
			if err != nil {
				o.t.Fatal(err)
			}
			value := w.value(enc, key, data)
			if w.Full(len(value)) || !nodes && w.Size() > o.packSize {
				finish()
			}
			w.add(o.t, key, value, data)
		}

		finish()
	}

	for _, e := range entries {
		o.sent[e.Key] = e
	}
	if !o.inline && len(entries) > 0 {
		c.AddPacks = nil
		c.AddIndexes = []rootlog.File{o.index(entries)}
	}
	return c
}

// packWriter writes a pack and keeps its objects as bases for patches.
type packWriter struct {
	*pack.Writer
	bases []sample
	patch bool // packs may have patches
}

// sample is an object with its bytes.
type sample struct {
	key  object.Key
	data []byte
}

func (o *origin) writer() *packWriter {
	w := &packWriter{Writer: pack.NewWriter(nil), patch: o.optimised}
	if o.optimised {
		w.ResetOptimised()
	}
	return w
}

// value returns the shortest value of an object: complete, or a patch of an object in the
// pack.
func (w *packWriter) value(enc *frame.Encoder, key object.Key, data []byte) []byte {
	value := enc.Append(nil, data)
	for _, b := range w.bases {
		if b.key.Kind != key.Kind || !w.TakesPatch(b.key) {
			continue
		}
		if patch, ok := enc.AppendPatch(nil, data, b.key.ID, b.data); ok && len(patch) < len(value) {
			value = patch
		}
	}
	return value
}

func (w *packWriter) add(t testing.TB, key object.Key, value, data []byte) {
	t.Helper()
	if err := w.Add(key, value, len(data)); err != nil {
		t.Fatal(err)
	}
	if w.patch {
		w.bases = append(w.bases, sample{key, data})
	}
}

// put stores a pack.
func (o *origin) put(w *packWriter) rootlog.Inline {
	o.t.Helper()
	name, err := pack.NewName(rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}
	body, entries, err := w.Finish(name)
	if err != nil {
		o.t.Fatal(err)
	}
	o.blob.Set(name.Path(), body)
	return rootlog.Inline{Info: entries[0].Pack, Entries: entries}
}

// index stores an index file.
func (o *origin) index(entries []pack.Entry) rootlog.File {
	o.t.Helper()
	slices.SortFunc(entries, func(a, b pack.Entry) int { return a.Key.Compare(b.Key) })
	var buf bytes.Buffer
	if err := pack.WriteIndex(&buf, entries); err != nil {
		o.t.Fatal(err)
	}
	name, err := pack.NewName(rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}
	o.blob.Set(name.IndexPath(), buf.Bytes())
	return rootlog.File{Name: name, Size: int64(buf.Len()), Sum: sha256.Sum256(buf.Bytes())}
}

// collect moves the reachable objects to new packs. It condemns and deletes all old packs and
// index files, without a grace.
func (o *origin) collect() {
	o.t.Helper()
	var condemned []string
	for name := range o.packs() {
		condemned = append(condemned, name)
	}
	for _, f := range o.at.Indexes {
		condemned = append(condemned, f.Name.IndexPath())
	}
	reachable := closure(o.t, o.all, slices.Collect(maps.Values(o.at.Refs))...)
	o.sent = map[object.Key]pack.Entry{}
	c := o.pack(slices.SortedFunc(maps.Keys(reachable), object.Key.Compare))
	c.Condemn = condemned
	o.change(c)
	for _, name := range condemned {
		o.blob.Remove(name)
	}
}

// packs returns the names of the packs that were sent and are live.
func (o *origin) packs() map[string]bool {
	names := map[string]bool{}
	for _, e := range o.sent {
		names[e.Pack.Name.Path()] = true
	}
	return names
}

// clone is a repository that a test fetches into.
type clone struct {
	t         testing.TB
	dir       string
	store     *volume.Store
	remote    *Remote
	skipCheck bool // do not check the store at the end
}

func newClone(t testing.TB, b remote.Backend) *clone {
	t.Helper()
	dir := t.TempDir()
	c := &clone{t: t, dir: dir}
	c.reopen()
	cache := filepath.Join(dir, "remotes", "origin")
	r, err := Open(t.Context(), b, Options{Dir: cache, URL: "memory:", Now: time.Now, Warn: func(s string) { t.Log("warning:", s) }})
	if err != nil {
		t.Fatal(err)
	}
	c.remote = r
	t.Cleanup(func() {
		if !c.skipCheck {
			c.checkStore()
		}
		r.Close()
		c.store.Close()
		if left, _ := filepath.Glob(filepath.Join(cache, "fetch-*")); len(left) > 0 {
			t.Errorf("files left: %q", left)
		}
	})
	return c
}

// reopen closes and opens the store.
func (c *clone) reopen() {
	c.t.Helper()
	if c.store != nil {
		c.store.Close()
	}
	var err error
	c.store, err = volume.Open(c.dir, volume.Options{Now: time.Now, Warn: func(s string) { c.t.Log("warning:", s) }})
	if err != nil {
		c.t.Fatal(err)
	}
}

// checkStore checks that nothing in the store is damaged.
func (c *clone) checkStore() {
	c.t.Helper()
	_, err := c.store.Check(context.Background(), volume.CheckOptions{ReadData: true}, func(p volume.Problem) { c.t.Errorf("check: %v", p) })
	if err != nil {
		c.t.Errorf("check: %v", err)
	}
}

// fetch fetches the main branch at head, and publishes it.
func (c *clone) fetch(head *rootlog.State, have ...object.ID) (*FetchResult, error) {
	ctx := context.Background()
	session := c.store.Begin(volume.SessionOptions{})
	result, err := c.remote.Fetch(ctx, session, head, FetchOptions{Want: []object.Key{head.Refs[mainRef]}, Have: have})
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error { return nil })
	}
	return result, errors.Join(err, session.Close())
}

// head returns the remote's head.
func (c *clone) head() *rootlog.State {
	c.t.Helper()
	head, err := c.remote.Head(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return head
}

// mustFetch fetches at the remote's head and checks that everything has arrived.
func (c *clone) mustFetch(o *origin, have ...object.ID) *FetchResult {
	c.t.Helper()
	head := c.head()
	result, err := c.fetch(head, have...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.wantAll(o, head.Refs[mainRef])
	return result
}

// wantAll checks that the store has everything that an object refers to, with the right
// bytes.
func (c *clone) wantAll(o *origin, key object.Key) {
	c.t.Helper()
	for key := range closure(c.t, o.all, key) {
		want, _ := o.all.Get(context.Background(), key)
		if got, err := c.store.Get(context.Background(), key); err != nil || !bytes.Equal(got, want) {
			c.t.Fatalf("%s: %d bytes, want %d: %v", key, len(got), len(want), err)
		}
	}
}
