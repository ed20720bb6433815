package transfertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// memoryLocal is a Local in memory that counts reads.
type memoryLocal struct {
	*objecttest.Memory
	enc  *frame.Encoder
	Gets atomic.Int64
}

func NewMemoryLocal() *memoryLocal {
	return &memoryLocal{Memory: objecttest.NewMemory(), enc: frame.NewEncoder(frame.Fastest)}
}

func (m *memoryLocal) Get(ctx context.Context, key object.Key) ([]byte, error) {
	m.Gets.Add(1)
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

// Pusher is a repository that a test pushes from.
type Pusher struct {
	*objecttest.Maker
	Local  *memoryLocal
	Dir    string
	Remote *transfer.Remote

	KeepSmall bool // pushes do not merge packs
}

// NewRemote returns a store in memory with an empty remote.
func NewRemote(t testing.TB) *remotetest.Memory {
	t.Helper()
	b := remotetest.NewMemory()
	Init(t, b)
	return b
}

func NewPusher(t testing.TB, b remote.Backend) *Pusher {
	t.Helper()
	local := NewMemoryLocal()
	p := &Pusher{Maker: &objecttest.Maker{T: t, ReadWriter: local}, Local: local, Dir: t.TempDir()}
	p.Reopen(b)
	return p
}

// Reopen opens the remote like a new process.
func (p *Pusher) Reopen(b remote.Backend) {
	p.T.Helper()
	r, err := OpenTest(p.T, b, p.Dir)
	if err != nil {
		p.T.Fatal(err)
	}
	p.Remote = r
}

// OpenTest opens a remote like a process, with options that change changes.
func OpenTest(t testing.TB, b remote.Backend, dir string, change ...func(*transfer.Options)) (*transfer.Remote, error) {
	o := transfer.Options{
		Dir: dir, URL: "memory:", Now: time.Now, Retry: noWait, Who: "A <a@example.org>", Host: "host", Keys: Keys(t),
		Warn: func(s string) { t.Log("warning:", s) },
	}
	for _, f := range change {
		f(&o)
	}
	return transfer.Open(context.Background(), retry.New(guarded(t, b), noWait), o)
}

// PushBranch pushes a commit to a branch.
func (p *Pusher) PushBranch(branch string, id object.ID) (*transfer.PushResult, error) {
	result, err := p.Remote.Push(context.Background(), p.Local, transfer.PushOptions{
		Updates: []transfer.RefUpdate{{Name: "refs/heads/" + branch, New: object.Key{Kind: object.KindCommit, ID: id}}}, Head: MainRef,
	})
	if err == nil && !p.KeepSmall {
		mergeAfter(p.Remote, result)
	}
	return result, err
}

// mergeAfter merges small packs after a push, which succeeds even if the merge fails.
func mergeAfter(r *transfer.Remote, result *transfer.PushResult) {
	if result.Appended != nil {
		_ = collect.MergeSmall(context.Background(), r, result.Appended)
	}
}

func (p *Pusher) MustPush(branch string, id object.ID) *transfer.PushResult {
	p.T.Helper()
	result, err := p.PushBranch(branch, id)
	if err != nil {
		p.T.Fatal(err)
	}
	return result
}

// MakeGrown makes a commit of three folders. Each value of change gives one folder a file of its
// own, and the root another one.
func (p *Pusher) MakeGrown(change int, parents ...object.ID) object.ID {
	p.T.Helper()
	folders := map[string]object.ID{}
	for d := range 3 {
		files := map[string]string{}
		for f := range 4 {
			files[fmt.Sprint("f", f)] = objecttest.Noise(d*10+f, 300)
		}
		if d == change%3 {
			files["changed"] = objecttest.Noise(5000+change, 500)
		}
		folders[fmt.Sprint("d", d)] = p.MakeTree(files, nil)
	}
	return p.MakeCommit(p.MakeTree(map[string]string{"top": objecttest.Noise(7000+change, 400)}, folders), parents...)
}

// Collector appends roots that garbage collections append, step by step.
type Collector struct {
	t      testing.TB
	b      *remotetest.Memory
	remote *transfer.Remote
}

func NewCollector(t testing.TB, b *remotetest.Memory) *Collector {
	t.Helper()
	r, err := OpenTest(t, b, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Collector{t, b, r}
}

func (c *Collector) Head() *rootlog.State {
	c.t.Helper()
	head, err := c.remote.Log().Head(context.Background(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return head
}

// AppendRoot appends a root. It retries if another root was first.
func (c *Collector) AppendRoot(change func(*rootlog.State) rootlog.Change) {
	c.t.Helper()
	for head := c.Head(); ; {
		next := change(head)
		next.Time = time.Unix(1_700_000_000, 0)
		_, err := c.remote.Log().Append(context.Background(), head, next)
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

// DeleteBranch deletes a branch.
func (c *Collector) DeleteBranch(branch string) {
	c.t.Helper()
	c.AppendRoot(func(head *rootlog.State) rootlog.Change {
		name := "refs/heads/" + branch
		return rootlog.Change{Refs: []rootlog.RefChange{{Name: name, Old: head.Refs[name]}}}
	})
}

// MarkFiles condemns blobs.
func (c *Collector) MarkFiles(names ...string) {
	c.t.Helper()
	c.AppendRoot(func(head *rootlog.State) rootlog.Change {
		fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := head.Condemned[name]; return ok })
		return rootlog.Change{Condemn: fresh}
	})
}

// ForgetMarked deletes all condemned files, and has the log forget them. It replaces index files
// that name condemned packs (IDX_WITHOUT_DELISTED).
func (c *Collector) ForgetMarked() {
	c.t.Helper()
	for name := range c.Head().Condemned {
		c.b.Remove(name)
	}
	c.AppendRoot(func(head *rootlog.State) rootlog.Change {
		change := rootlog.Change{Delist: slices.Sorted(maps.Keys(head.Condemned))}
		var entries []pack.Entry
		stale := false
		for _, f := range head.Indexes {
			for _, e := range c.EntriesOf(f) {
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
		change.AddIndexes = []rootlog.File{c.PutIndex(entries)}
		return change
	})
}

// EntriesOf returns the entries of an index file.
func (c *Collector) EntriesOf(f rootlog.File) (entries []pack.Entry) {
	c.t.Helper()
	data := make([]byte, f.Size)
	if n, err := c.remote.Backend().Get(context.Background(), f.Name.IndexPath(), data, 0); err != nil || n < len(data) {
		c.t.Fatalf("read an index file: %d of %d bytes; %v", n, len(data), err)
	}
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

// PutIndex stores an index file that no root names yet.
func (c *Collector) PutIndex(entries []pack.Entry) rootlog.File {
	c.t.Helper()
	var buf bytes.Buffer
	name, err := pack.NewName(testRand())
	if err == nil {
		err = pack.WriteIndex(&buf, entries)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.remote.Backend().Put(context.Background(), name.IndexPath(), bytes.NewReader(buf.Bytes()), int64(buf.Len())); err != nil {
		c.t.Fatal(err)
	}
	return rootlog.File{Name: name, Size: int64(buf.Len()), Sum: sha256.Sum256(buf.Bytes())}
}

// LivePacks returns the names of the live packs whose entries are inline.
func (c *Collector) LivePacks() (names []string) {
	c.t.Helper()
	for _, p := range c.Head().Packs {
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

// MarkUnreached condemns the packs without reachable objects, live or not.
func (c *Collector) MarkUnreached() {
	c.t.Helper()
	reachable := c.ReachablePacks()
	c.MarkFiles(slices.DeleteFunc(c.b.Names("packs/"), func(name string) bool { return reachable[name] })...)
}

// ReachablePacks returns the packs with reachable objects.
func (c *Collector) ReachablePacks() map[string]bool {
	c.t.Helper()
	r, err := OpenTest(c.t, c.b, c.t.TempDir())
	if err != nil {
		c.t.Fatal(err)
	}
	head, err := transfer.HeadToWrite(context.Background(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	snap, err := r.SnapshotAt(context.Background(), head)
	if err != nil {
		c.t.Fatal(err)
	}
	reachable := map[string]bool{}
	stack := append(slices.Collect(maps.Values(head.Refs)), objecttest.CommitKeys(snap.Records.Holds()...)...)
	for seen := map[object.Key]bool{}; len(stack) > 0; {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true

		e, ok, err := snap.Find(key)
		if err != nil || !ok {
			c.t.Fatalf("find %s: %v, %v", key, ok, err)
		}
		reachable[e.Pack.Name.Path()] = true
		if !key.Kind.IsNode() {
			continue
		}
		data, err := snap.Get(context.Background(), key)
		if err != nil {
			c.t.Fatal(err)
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			c.t.Fatal(err)
		}
		stack = append(stack, slices.DeleteFunc(links, func(link object.Key) bool { return snap.Records.Skips(key, link) })...)
	}
	return reachable
}

// MakeMany makes a commit of n small files.
func (p *Pusher) MakeMany(seed, n int, parents ...object.ID) object.ID {
	p.T.Helper()
	content := map[string]string{}
	for i := range n {
		content[fmt.Sprint("f", i)] = objecttest.Noise(seed*100_000+i, 60)
	}
	return p.MakeCommit(p.MakeTree(content, nil), parents...)
}

// MakeLarge makes a commit of files with 45 MiB that do not compress.
func (p *Pusher) MakeLarge() object.ID {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprint("large", i)] = objecttest.Noise(i, 3<<19)
	}
	return p.MakeCommit(p.MakeTree(files, nil))
}

// SendAhead sends the chunks of a commit as a session does, two at a time.
func (p *Pusher) SendAhead(id object.ID) *transfer.EarlyPacks {
	p.T.Helper()
	ahead, err := transfer.SendAhead(p.T.Context(), p.Remote, 2)
	if err != nil {
		p.T.Fatal(err)
	}

	keys := make(chan object.Key)
	var adding sync.WaitGroup
	for range 2 {
		adding.Go(func() {
			for key := range keys {
				value, raw, err := p.Local.GetStored(context.Background(), key, nil)
				if err != nil {
					p.T.Error(err)
				}
				ahead.Add(context.Background(), key, value, raw)
				clear(value) // Add has copied it
			}
		})
	}

	for key := range objecttest.Closure(p.T, p.Local, objecttest.CommitKeys(id)...) {
		if key.Kind == object.KindChunk {
			keys <- key
		}
	}

	close(keys)
	adding.Wait()
	ahead.End(context.Background())
	return ahead
}
