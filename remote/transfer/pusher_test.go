package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// memoryLocal is a Local in memory that counts reads.
type memoryLocal struct {
	*objecttest.Memory
	enc  *frame.Encoder
	gets atomic.Int64
}

func newMemoryLocal() *memoryLocal {
	return &memoryLocal{Memory: objecttest.NewMemory(), enc: frame.NewEncoder(frame.Fastest)}
}

func (m *memoryLocal) Get(ctx context.Context, key object.Key) ([]byte, error) {
	m.gets.Add(1)
	return m.Memory.Get(ctx, key)
}

func (m *memoryLocal) GetStored(ctx context.Context, key object.Key, dst []byte) ([]byte, int, error) {
	data, err := m.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return m.enc.Append(dst[:0], data), len(data), nil
}

func (m *memoryLocal) StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error) {
	value, n, err := m.GetStored(ctx, key, nil)
	return int64(n), int64(len(value)), err
}

// noWait retries without waiting.
var noWait = retry.Options{Now: time.Now, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}

// pusher is a repository that a test pushes from.
type pusher struct {
	*maker
	local  *memoryLocal
	dir    string
	remote *Remote

	keepSmall bool // pushes do not merge packs
}

// newRemote returns a store in memory with an empty remote.
func newRemote(t testing.TB) *remotetest.Memory {
	t.Helper()
	b := remotetest.NewMemory()
	if _, err := rootlog.Init(t.Context(), b, "00112233445566778899aabbccddeeff", rootlog.Chunker{}, testRand()); err != nil {
		t.Fatal(err)
	}
	return b
}

func newPusher(t testing.TB, b remote.Backend) *pusher {
	t.Helper()
	local := newMemoryLocal()
	p := &pusher{maker: &maker{t: t, ReadWriter: local}, local: local, dir: t.TempDir()}
	p.reopen(b)
	return p
}

// reopen opens the remote like a new process.
func (p *pusher) reopen(b remote.Backend) {
	p.t.Helper()
	r, err := openTest(p.t, b, p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.remote = r
}

func openTest(t testing.TB, b remote.Backend, dir string) (*Remote, error) {
	return Open(context.Background(), retry.New(b, noWait), Options{
		Dir: dir, URL: "memory:", Now: time.Now, Retry: noWait, Who: "A <a@example.org>", Host: "host",
		Warn: func(s string) { t.Log("warning:", s) },
	})
}

// push pushes a commit to a branch.
func (p *pusher) push(branch string, id object.ID) (*PushResult, error) {
	return p.remote.Push(context.Background(), p.local, PushOptions{
		Updates: []RefUpdate{{Name: "refs/heads/" + branch, New: object.Key{Kind: object.KindCommit, ID: id}}}, Head: mainRef, KeepSmall: p.keepSmall,
	})
}

func (p *pusher) mustPush(branch string, id object.ID) *PushResult {
	p.t.Helper()
	result, err := p.push(branch, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// grow makes a commit of three folders. Each value of change gives one folder a file of its
// own, and the root another one.
func (p *pusher) grow(change int, parents ...object.ID) object.ID {
	p.t.Helper()
	folders := map[string]object.ID{}
	for d := range 3 {
		files := map[string]string{}
		for f := range 4 {
			files[fmt.Sprint("f", f)] = noise(d*10+f, 300)
		}
		if d == change%3 {
			files["changed"] = noise(5000+change, 500)
		}
		folders[fmt.Sprint("d", d)] = p.tree(files, nil)
	}
	return p.commit(p.tree(map[string]string{"top": noise(7000+change, 400)}, folders), parents...)
}

// wantIntact checks that a remote has no damage, and that no reachable object is missing.
// Unless refs is nil, it compares the refs, by name without refs/heads/.
func wantIntact(t testing.TB, b remote.Backend, refs map[string]object.ID) Checked {
	t.Helper()
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.indexes.close(nil)
	checked, err := r.Check(context.Background(), CheckOptions{ReadData: true}, func(p Problem) { t.Errorf("check: %v", p) })
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	if refs == nil {
		return checked
	}
	head, err := r.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]object.ID{}
	for name, key := range head.Refs {
		have[strings.TrimPrefix(name, "refs/heads/")] = key.ID
	}
	if !maps.Equal(have, refs) {
		t.Errorf("refs are %v, want %v", have, refs)
	}
	return checked
}

// collector appends roots that garbage collections append, step by step.
type collector struct {
	t   testing.TB
	b   *remotetest.Memory
	log *rootlog.Log
}

func newCollector(t testing.TB, b *remotetest.Memory) *collector {
	t.Helper()
	id, err := rootlog.ReadIdentity(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return &collector{t, b, rootlog.Open(b, id, rootlog.Options{Rand: testRand()})}
}

func (c *collector) head() *rootlog.State {
	c.t.Helper()
	head, err := c.log.Head(context.Background(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return head
}

// append appends a root. It retries if another root was first.
func (c *collector) append(change func(*rootlog.State) rootlog.Change) {
	c.t.Helper()
	for head := c.head(); ; {
		next := change(head)
		next.Time = time.Unix(1_700_000_000, 0)
		_, err := c.log.Append(context.Background(), head, next)
		var lost *rootlog.LostError
		switch {
		case err == nil:
			return
		case !errors.As(err, &lost):
			c.t.Error(err)
			return
		}
		head = lost.Head
	}
}

// delete deletes a branch.
func (c *collector) delete(branch string) {
	c.t.Helper()
	c.append(func(head *rootlog.State) rootlog.Change {
		name := "refs/heads/" + branch
		return rootlog.Change{Refs: []rootlog.RefChange{{Name: name, Old: head.Refs[name]}}}
	})
}

// condemn condemns blobs.
func (c *collector) condemn(names ...string) {
	c.t.Helper()
	c.append(func(head *rootlog.State) rootlog.Change {
		fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := head.Condemned[name]; return ok })
		return rootlog.Change{Condemn: fresh}
	})
}

// delist deletes all condemned files, and has the log forget them. It replaces index files
// that name condemned packs (IDX_WITHOUT_DELISTED).
func (c *collector) delist() {
	c.t.Helper()
	for name := range c.head().Condemned {
		c.b.Remove(name)
	}
	c.append(func(head *rootlog.State) rootlog.Change {
		change := rootlog.Change{Delist: slices.Sorted(maps.Keys(head.Condemned))}
		var entries []pack.Entry
		stale := false
		for _, f := range head.Indexes {
			for _, e := range c.entriesOf(f) {
				if _, condemned := head.Condemned[e.Pack.Name.Path()]; condemned {
					stale = true
				} else {
					entries = append(entries, e)
				}
			}
			change.Condemn = append(change.Condemn, f.Name.IndexPath())
		}
		if !stale {
			change.Condemn = nil
			return change
		}
		change.AddIndexes = []rootlog.File{c.putIndex(entries)}
		return change
	})
}

// entriesOf returns the entries of an index file.
func (c *collector) entriesOf(f rootlog.File) (entries []pack.Entry) {
	c.t.Helper()
	data := c.b.Data(f.Name.IndexPath())
	x, err := pack.OpenIndex(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		c.t.Fatal(err)
	}
	for e, err := range x.All() {
		if err != nil {
			c.t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// putIndex stores an index file that no root names yet.
func (c *collector) putIndex(entries []pack.Entry) rootlog.File {
	c.t.Helper()
	var buf bytes.Buffer
	name, err := pack.NewName(testRand())
	if err == nil {
		err = pack.WriteIndex(&buf, entries)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.b.Set(name.IndexPath(), buf.Bytes())
	return rootlog.File{Name: name, Size: int64(buf.Len()), Sum: sha256.Sum256(buf.Bytes())}
}

// live returns the names of the live packs whose entries are inline.
func (c *collector) live() (names []string) {
	c.t.Helper()
	for _, p := range c.head().Packs {
		names = append(names, p.Name.Path())
	}
	return names
}

// testRand returns a source of random names.
func testRand() *rand.ChaCha8 {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return rand.NewChaCha8(seed)
}

// collect condemns the packs without reachable objects, live or not.
func (c *collector) collect() {
	c.t.Helper()
	reachable := c.reachablePacks()
	c.condemn(slices.DeleteFunc(c.b.Names("packs/"), func(name string) bool { return reachable[name] })...)
}

// reachablePacks returns the packs with reachable objects.
func (c *collector) reachablePacks() map[string]bool {
	c.t.Helper()
	r, err := openTest(c.t, c.b, c.t.TempDir())
	if err != nil {
		c.t.Fatal(err)
	}
	head, err := HeadToWrite(context.Background(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	snap, err := r.snapshotAt(context.Background(), head)
	if err != nil {
		c.t.Fatal(err)
	}
	check := &checker{r: r, snap: snap, reached: map[object.Key]bool{}}
	if err := check.closure(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	reachable := map[string]bool{}
	for key := range check.reached {
		e, ok, err := snap.find(key)
		if err != nil || !ok {
			c.t.Fatalf("find %s: %v, %v", key, ok, err)
		}
		reachable[e.Pack.Name.Path()] = true
	}
	return reachable
}
