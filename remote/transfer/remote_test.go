package transfer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

func TestOpen(t *testing.T) {
	empty := remotetest.NewMemory()
	if _, err := transfertest.OpenTest(t, empty, t.TempDir()); !errors.Is(err, rootlog.ErrEmpty) {
		t.Errorf("Open of an empty store: %v, want ErrEmpty", err)
	}
	if _, err := transfer.Open(t.Context(), empty, transfer.Options{}); err == nil {
		t.Error("Open without a clock succeeded")
	}
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	b.ResetCounts()
	p.Reopen(b)
	if n := b.Calls(remotetest.Any); n != 0 || p.Remote.Identity().Repository == "" {
		t.Errorf("Open of a known remote made %d calls, want 0", n)
	}
}

// The remembered head belongs to the ID of a remote, not to its URL. Nothing is remembered of
// another remote at a known URL.
func TestMovedRemote(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeGrown(1))

	open := func(b *remotetest.Memory, url string, want uint64) {
		t.Helper()
		r, err := transfer.Open(t.Context(), b, transfer.Options{Dir: p.Dir, URL: url, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		known, err := r.KnownHead()
		if err != nil || (known != nil) != (want > 0) || known != nil && known.Seq != want {
			t.Errorf("at %s: known head %v, want root %d; %v", url, known, want, err)
		}
	}

	open(b, "elsewhere:", 1)
	open(b, "memory:", 1)
	other := transfertest.NewRemote(t)
	open(other, "elsewhere:", 0)
	p.Reopen(b)

	if _, err := p.Remote.Head(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The head is remembered, even if the binding is damaged.
	for _, file := range []string{"", "{", `{"url":"elsewhere:","identity":""}`} {
		if err := os.WriteFile(filepath.Join(p.Dir, transfer.BindingFile), []byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := transfertest.OpenTest(t, other, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Head(t.Context()); !errors.Is(err, rootlog.ErrRollback) {
			t.Errorf("binding %q: Head of another remote: %v, want ErrRollback", file, err)
		}
	}
}

func TestRoots(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	var id object.ID
	for i := range 5 {
		id = p.MakeGrown(i)
		p.MustPush(fmt.Sprint("b", i), id)
	}
	for n, want := range map[int][]uint64{0: {5, 4, 3, 2, 1}, 2: {5, 4}, 9: {5, 4, 3, 2, 1}} {
		var got []uint64
		for root, err := range p.Remote.Roots(t.Context(), n) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, root.Seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Roots(%d) = %v, want %v", n, got, want)
		}
	}
}

func TestRollback(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	before := b.Snapshot()
	two := p.MakeGrown(2, one)
	p.MustPush("main", two)
	b.Restore(before)

	for range 2 {
		p.Reopen(b)
		b.ResetCounts()
		if _, err := p.PushBranch("main", p.MakeGrown(3, two)); !errors.Is(err, rootlog.ErrRollback) {
			t.Errorf("push after a rollback: %v, want ErrRollback", err)
		}
		if b.Calls(remotetest.Put)+b.Calls(remotetest.Create) > 0 {
			t.Error("the push wrote to the remote")
		}
	}

	// Another remote may take the place of one without roots.
	fresh := transfertest.NewRemote(t)
	q := transfertest.NewPusher(t, fresh)
	if _, err := q.Remote.Head(t.Context()); err != nil {
		t.Fatal(err)
	}

	other := transfertest.NewRemote(t)
	q.Reopen(other)
	q.MustPush("main", q.MakeGrown(1))
	transfertest.WantIntact(t, other, nil)
}

// withIndex returns a remote with one index file, its pusher, and the file.
func withIndex(t *testing.T) (*remotetest.Memory, *transfertest.Pusher, rootlog.File) {
	t.Helper()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, 50)
	}
	p.MustPush("main", p.MakeCommit(p.MakeTree(files, nil)))
	return b, p, transfertest.NewCollector(t, b).Head().Indexes[0]
}

func TestIndexCopies(t *testing.T) {
	b, p, f := withIndex(t)
	path := filepath.Join(p.Dir, transfer.IndexFolder, f.Name.String())

	key := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(objecttest.Noise(300, 50)))}
	want := func(calls int) {
		t.Helper()
		b.ResetCounts()
		p.Reopen(b)
		snap, err := p.Remote.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := snap.Find(key); !ok || err != nil {
			t.Errorf("find the chunk: %v, %v", ok, err)
		}
		if n := b.Calls(remotetest.Any); n != 2+calls {
			t.Errorf("%d calls, want %d", n, 2+calls)
		}
	}

	want(0)
	for name, damage := range map[string]func(data []byte) []byte{
		"cut":    func(data []byte) []byte { return data[:100] },
		"empty":  func([]byte) []byte { return nil },
		"header": func(data []byte) []byte { data[0] ^= 1; return data },
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(data), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		want(1)
		want(0)
	}

	// Only a lookup finds this damage.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for i := 200; i < len(data)*3/4; i += 100 {
		data[i] ^= 1
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}

	p.Reopen(b)
	snap, err := p.Remote.Snapshot(t.Context())
	if err == nil {
		if _, _, err = snap.Find(key); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("find in a damaged copy: %v, want ErrCorrupt", err)
		}
	}

	want(1)
	// Copies that no root names, and old temporary files, are removed.
	old := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"00112233445566778899aabbccddeeff", "x.tmp", "y.tmp"} {
		if err := os.WriteFile(filepath.Join(p.Dir, transfer.IndexFolder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Chtimes(filepath.Join(p.Dir, transfer.IndexFolder, "x.tmp"), old, old); err != nil {
		t.Fatal(err)
	}
	want(0)
	left, err := os.ReadDir(filepath.Join(p.Dir, transfer.IndexFolder))
	if err != nil || len(left) != 2 {
		t.Errorf("files left: %v, want 2; %v", left, err)
	}
}

func TestIndexOfRemoteDamaged(t *testing.T) {
	b, _, f := withIndex(t)
	for _, dir := range []string{"", t.TempDir()} {
		open := func() error {
			r, err := transfertest.OpenTest(t, b, dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Snapshot(t.Context())
			return err
		}
		before := b.Snapshot()
		b.Damage(f.Name.IndexPath(), 300)
		var e *remote.Error
		if err := open(); !errors.Is(err, remote.ErrDamaged) || !errors.As(err, &e) || e.Name != f.Name.IndexPath() {
			t.Errorf("flipped index file: %v, want ErrDamaged", err)
		}
		b.Remove(f.Name.IndexPath())
		if err := open(); !errors.Is(err, remote.ErrDamaged) || !errors.As(err, &e) || e.Name != f.Name.IndexPath() {
			t.Errorf("missing index file: %v, want ErrDamaged", err)
		}
		b.Restore(before)
		if err := open(); err != nil {
			t.Error(err)
		}
	}
}

// TestIndexGoneMeanwhile checks that a reader retries at the new head if a collector replaces
// the index file that it is about to read.
func TestIndexGoneMeanwhile(t *testing.T) {
	b, _, f := withIndex(t)
	faulty := remotetest.NewFaulty(b)
	gc := transfertest.NewCollector(t, b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "index/", Do: func() {
		name := pack.Name{1}
		b.Set(name.IndexPath(), b.Data(f.Name.IndexPath()))
		gc.AppendRoot(func(*rootlog.State) rootlog.Change {
			return rootlog.Change{AddIndexes: []rootlog.File{{Name: name, Size: f.Size, Sum: f.Sum}}, Condemn: []string{f.Name.IndexPath()}}
		})
		b.Remove(f.Name.IndexPath())
	}})
	r, err := transfertest.OpenTest(t, faulty, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := r.Snapshot(t.Context())
	if err != nil || snap.State.Seq != 2 {
		t.Errorf("snapshot: %+v, want root 2; %v", snap, err)
	}
}
