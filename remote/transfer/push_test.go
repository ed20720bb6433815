package transfer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

func TestPush(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	result := p.mustPush("main", one)
	want := closure(t, p.local, commitKeys(one)...)
	if result.Objects != int64(len(want)) || result.Packs != 2 || result.Seq != 1 || result.Bytes != b.Bytes(remotetest.Put) {
		t.Errorf("push: %+v; want %d objects, %d bytes", result, len(want), b.Bytes(remotetest.Put))
	}
	if got := result.Refs[0]; got.Status != StatusNew || got.New != one || !got.Old.IsZero() {
		t.Errorf("ref: %+v, want a new one", got)
	}
	if checked := wantIntact(t, b, map[string]object.ID{"main": one}); checked.Objects != int64(len(want)) || checked.Packs != 2 || checked.Roots != 1 {
		t.Errorf("check: %+v, want %d objects in 2 packs, 1 root", checked, len(want))
	}
	if head, err := p.remote.Head(t.Context()); err != nil || head.Head != mainRef || head.Who != "A <a@example.org>" || head.Host != "host" {
		t.Errorf("head: %+v, %v", head, err)
	}

	b.ResetCounts()
	p.reopen(b)
	result = p.mustPush("main", one)
	if b.Calls(remotetest.Any) != 2 || b.Calls(remotetest.Get) != 2 || result.Refs[0].Status != StatusUpToDate || result.Objects != 0 {
		t.Errorf("push without changes: %d calls, %+v", b.Calls(remotetest.Any), result)
	}

	two := p.grow(4, one) // changes one file in a folder, and one beside it
	b.ResetCounts()
	p.reopen(b)
	result = p.mustPush("main", two)
	more := closure(t, p.local, commitKeys(two)...)
	for key := range want {
		delete(more, key)
	}
	if result.Objects != int64(len(more)) || result.Refs[0].Status != StatusFastForward {
		t.Errorf("push of a change: %+v, want %d objects", result, len(more))
	}
	if n := b.Calls(remotetest.Any); n != 5 {
		t.Errorf("a small push made %d calls, want 5", n)
	}
	if left, _ := filepath.Glob(filepath.Join(p.dir, pushFolder, "*")); len(left) > 0 {
		t.Errorf("left in the journal: %q", left)
	}
	wantIntact(t, b, map[string]object.ID{"main": two})
}

// An interrupted fetch may leave a commit of the remote here without its parents. Such a
// commit does not count as fetched.
func TestPushAfterInterruptedFetch(t *testing.T) {
	b := newRemote(t)
	p, other := newPusher(t, b), newPusher(t, b)
	one := p.grow(1)
	p.mustPush("main", one)
	first, err := p.local.Get(t.Context(), commitKeys(one)[0])
	if err != nil {
		t.Fatal(err)
	}

	tip := other.grow(1)
	for i := range 3 {
		tip = other.grow(2+i, tip)
	}
	other.mustPush("main", tip)
	data, err := other.local.Get(t.Context(), commitKeys(tip)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.local.Put(t.Context(), object.KindCommit, data); err != nil {
		t.Fatal(err)
	}

	mine := p.grow(9, one)
	p.reopen(b)
	if _, err := p.push("main", mine); !errors.Is(err, ErrNotFastForward) || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("push: %v, want ErrNotFastForward", err)
	}

	// A missing commit among the pushed ones is damage.
	p.local.Delete(commitKeys(one)[0])
	if _, err := p.push("main", mine); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("push without a commit: %v, want ErrNotFound", err)
	}
	if _, err := p.local.Put(t.Context(), object.KindCommit, first); err != nil {
		t.Fatal(err)
	}

	forced := PushOptions{Updates: []RefUpdate{{Name: mainRef, New: commitKeys(mine)[0], Force: true}}}
	if _, err := p.remote.Push(t.Context(), p.local, forced); err != nil {
		t.Errorf("forced push: %v", err)
	}
}

// TestPushFromVolumes pushes more than one pack from volumes: an annotated tag, large files
// and a long list of skipped files.
func TestPushFromVolumes(t *testing.T) {
	b := newRemote(t)
	store, err := volume.Open(t.TempDir(), volume.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session := store.Begin(volume.SessionOptions{})
	m := &maker{t: t, ReadWriter: session}

	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprint("large", i)] = noise(i, 9<<20)
	}
	c := &object.Commit{Tree: m.tree(files, nil), Message: "m"}
	c.Author = object.Signature{Name: "A", Email: "a@example.org", Time: object.Time{Sec: 1}}
	c.Committer = c.Author

	var skipped []object.Skipped
	for i := range 2000 {
		skipped = append(skipped, object.Skipped{Path: fmt.Sprint(i), Reason: "r"})
	}
	if err := c.SetSkipped(t.Context(), session, skipped); err != nil {
		t.Fatal(err)
	}

	id := m.put(object.KindCommit, c)
	tag := object.Key{Kind: object.KindTag, ID: m.put(object.KindTag, &object.Tag{Target: id, Name: "v1", Tagger: c.Author, Message: "m"})}
	if err := session.Publish(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var seen []Progress
	result, err := r.Push(t.Context(), store, PushOptions{
		Updates:  []RefUpdate{{Name: "refs/tags/v1", New: tag}, {Name: mainRef, New: object.Key{Kind: object.KindCommit, ID: id}}},
		Progress: func(at Progress) { seen = append(seen, at) },
	})
	if err != nil {
		t.Fatal(err)
	}

	want := closure(t, store, tag)
	if result.Objects != int64(len(want)) || result.Packs != 4 || c.SkippedRest.IsZero() || !want[object.Key{Kind: object.KindChunk, ID: c.SkippedRest}] {
		t.Errorf("push: %+v, want %d objects in 4 packs", result, len(want))
	}
	if last := seen[len(seen)-1]; last.Phase != PhaseCopy || last.Objects != result.Objects || last.TotalObjects != last.Objects || last.Bytes != last.TotalBytes || last.Bytes < 45<<20 {
		t.Errorf("progress ends with %+v", last)
	}
	wantIntact(t, b, map[string]object.ID{"main": id, "refs/tags/v1": tag.ID})
}

// TestSmallChange checks that the push of one changed file among many reads and sends few
// objects.
func TestSmallChange(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	folders := map[string]object.ID{}
	for d := range 20 {
		files := map[string]string{}
		for f := range 400 {
			files[fmt.Sprint("file ", f)] = fmt.Sprint(strings.Repeat("x", 40), d, f)
		}
		folders[fmt.Sprint("d", d)] = p.tree(files, nil)
	}

	one := p.commit(p.tree(nil, folders))
	p.mustPush("main", one)
	files := map[string]string{}
	for f := range 400 {
		files[fmt.Sprint("file ", f)] = fmt.Sprint(strings.Repeat("x", 40), 7, f)
	}
	files["file 200"] = noise(1, 1000)
	folders["d7"] = p.tree(files, nil)
	two := p.commit(p.tree(nil, folders), one)
	p.local.gets.Store(0)

	result := p.mustPush("main", two)
	if result.Objects > 8 || result.Bytes > 60<<10 {
		t.Errorf("push: %+v, want at most 8 objects", result)
	}
	if n := p.local.gets.Load(); n > 40 {
		t.Errorf("%d objects were read, want at most 40", n)
	}
	wantIntact(t, b, map[string]object.ID{"main": two})
}

func TestRejected(t *testing.T) {
	b := newRemote(t)
	p, other := newPusher(t, b), newPusher(t, b)
	one := p.grow(1)
	two, fork := p.grow(2, one), p.grow(3, one)
	p.mustPush("main", two)
	other.mustPush("theirs", other.grow(50))
	key := func(id object.ID) object.Key { return object.Key{Kind: object.KindCommit, ID: id} }
	who := object.Signature{Name: "A", Email: "a@example.org"}
	tag := object.Key{Kind: object.KindTag, ID: p.put(object.KindTag, &object.Tag{Target: one, Name: "v", Tagger: who})}
	if _, err := p.remote.Push(t.Context(), p.local, PushOptions{Updates: []RefUpdate{{Name: "refs/tags/v", New: tag}}}); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		update RefUpdate
		ok     bool
	}{
		"fork":                     {RefUpdate{Name: mainRef, New: key(fork)}, false},
		"older":                    {RefUpdate{Name: mainRef, New: key(one)}, false},
		"unknown":                  {RefUpdate{Name: "refs/heads/theirs", New: key(two)}, false},
		"tag moves":                {RefUpdate{Name: "refs/tags/v", New: key(two)}, false},
		"lease, elsewhere":         {RefUpdate{Name: mainRef, New: key(fork), Expect: &one}, false},
		"lease, absent":            {RefUpdate{Name: "refs/heads/none", New: key(fork), Expect: &one}, false},
		"lease, forced, elsewhere": {RefUpdate{Name: mainRef, New: key(fork), Force: true, Expect: &one}, false},
		"lease, not new":           {RefUpdate{Name: mainRef, New: key(fork), Expect: &object.ID{}}, false},
		"delete, lease":            {RefUpdate{Name: mainRef, Expect: &one}, false},
		"forced":                   {RefUpdate{Name: mainRef, New: key(fork), Force: true}, true},
		"lease":                    {RefUpdate{Name: mainRef, New: key(fork), Expect: &two}, true},
		"lease, new":               {RefUpdate{Name: "refs/heads/new", New: key(fork), Expect: &object.ID{}}, true},
		"tag forced":               {RefUpdate{Name: "refs/tags/v", New: key(two), Force: true}, true},
		"delete":                   {RefUpdate{Name: mainRef}, true},
		"delete, absent":           {RefUpdate{Name: "refs/heads/none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.Snapshot()
			defer b.Restore(before)
			q := &pusher{maker: p.maker, local: p.local, dir: t.TempDir()}
			q.reopen(b)
			b.ResetCounts()

			result, err := q.remote.Push(t.Context(), q.local, PushOptions{Updates: []RefUpdate{
				test.update, {Name: "refs/heads/beside", New: key(fork)},
			}})
			if test.ok {
				if err != nil || result.Refs[0].Err != nil {
					t.Fatalf("push: %+v, %v", result, err)
				}
				wantIntact(t, b, nil)
				return
			}
			if !errors.Is(err, ErrNotFastForward) || !strings.HasPrefix(err.Error(), test.update.Name+": ") {
				t.Fatalf("push: %+v, %v, want ErrNotFastForward", result, err)
			}
			if b.Calls(remotetest.Put)+b.Calls(remotetest.Create) > 0 {
				t.Error("a rejected push wrote to the remote")
			}
			if result.Refs[0].Err != err || !strings.HasPrefix(result.Refs[0].Status, StatusRejected) || result.Refs[1].Status != StatusNotPushed {
				t.Errorf("refs: %+v", result.Refs)
			}
		})
	}

	for name, update := range map[string]RefUpdate{
		"name":          {Name: "refs/heads/a..b", New: key(one)},
		"not a ref":     {Name: "main", New: key(one)},
		"tag as branch": {Name: mainRef, New: tag},
		"tree":          {Name: "refs/tags/t", New: object.Key{Kind: object.KindTree, ID: object.Sum([]byte("t"))}},
	} {
		if _, err := p.remote.Push(t.Context(), p.local, PushOptions{Updates: []RefUpdate{update}}); err == nil {
			t.Errorf("push with a bad update (%s) succeeded", name)
		}
	}
}

// TestTagTwice checks that a tag object with two refs is sent once.
func TestTagTwice(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	tag := object.Key{Kind: object.KindTag, ID: p.put(object.KindTag, &object.Tag{Target: p.grow(1), Name: "v1", Tagger: object.Signature{Name: "A"}})}
	result, err := p.remote.Push(t.Context(), p.local, PushOptions{Updates: []RefUpdate{{Name: "refs/tags/v1", New: tag}, {Name: "refs/tags/stable", New: tag}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(closure(t, p.local, tag)); result.Objects != int64(want) {
		t.Errorf("%d objects were sent, want %d", result.Objects, want)
	}
	wantIntact(t, b, nil)
}

func TestDryRun(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	b.ResetCounts()
	result, err := p.remote.Push(t.Context(), p.local, PushOptions{Updates: []RefUpdate{{Name: mainRef, New: commitKeys(one)[0]}}, DryRun: true})
	if err != nil || result.Objects != int64(len(closure(t, p.local, commitKeys(one)...))) || result.Packs != 2 || result.Bytes < 5000 || result.Refs[0].Status != StatusNew {
		t.Errorf("dry run: %+v, %v", result, err)
	}
	if b.Calls(remotetest.Put)+b.Calls(remotetest.Create) > 0 {
		t.Error("the dry run wrote to the remote")
	}
}

func TestPushMissing(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	p.mustPush("main", one)
	two := p.grow(2, one)
	lost := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(5002, 500)))}
	p.local.Delete(lost)
	_, err := p.push("main", two)
	var missing *object.NotFoundError
	if !errors.As(err, &missing) || missing.Key != lost {
		t.Errorf("push: %v, want that %s is missing", err, lost)
	}
	wantIntact(t, b, map[string]object.ID{"main": one})

	// Objects on the remote may be missing here, even nodes.
	tree := object.Key{Kind: object.KindTree, ID: p.tree(map[string]string{"f0": noise(0, 300), "f1": noise(1, 300), "f2": noise(2, 300), "f3": noise(3, 300)}, nil)}
	other := p.commit(p.tree(map[string]string{"new": noise(9000, 100)}, map[string]object.ID{"d": tree.ID}))
	p.local.Delete(tree)
	p.mustPush("other", other)
	wantIntact(t, b, map[string]object.ID{"main": one, "other": other})
}

// TestIndexFiles checks the index files after many small pushes and a large one.
func TestIndexFiles(t *testing.T) {
	b := newRemote(t)
	p, q := newPusher(t, b), newPusher(t, b)
	var id object.ID
	for i := range 120 {
		if i == 0 {
			id = p.grow(i)
		} else {
			id = p.grow(i, id)
		}
		p.mustPush("main", id)
	}

	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprint("f", i)] = noise(20000+i, 100)
	}
	large := q.commit(q.tree(files, nil))
	q.mustPush("large", large)
	head, err := p.remote.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(head.Indexes); n < 2 || n > 10 || len(head.Packs) == 0 || rootlog.InlineSize(head.Packs) > rootlog.MaxInline {
		t.Errorf("%d index files, %d packs inline in %d bytes", n, len(head.Packs), rootlog.InlineSize(head.Packs))
	}

	// The pusher has kept its own index file.
	b.ResetCounts()
	snap, err := q.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for key := range closure(t, q.local, commitKeys(large)...) {
		if _, ok, err := snap.find(key); !ok || err != nil {
			t.Fatalf("%s is not found, %v", key, err)
		}
	}

	if n := b.Calls(remotetest.Any); n > 2+len(head.Indexes)-1 {
		t.Errorf("opening the indexes took %d calls, want at most %d", n, 2+len(head.Indexes)-1)
	}
	copies, _ := filepath.Glob(filepath.Join(q.dir, indexFolder, "*"))
	if len(copies) != len(head.Indexes) {
		t.Errorf("%d copies of %d index files", len(copies), len(head.Indexes))
	}
	wantIntact(t, b, map[string]object.ID{"main": id, "large": large})
}

func TestConcurrentBranches(t *testing.T) {
	b := newRemote(t)
	want := map[string]object.ID{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for n := range 8 {
		p := newPusher(t, b)
		group.Go(func() {
			var id object.ID
			for i := range 10 {
				if i == 0 {
					id = p.grow(100 * n)
				} else {
					id = p.grow(100*n+i, id)
				}
				if _, err := p.push(fmt.Sprint("b", n), id); err != nil {
					t.Errorf("pusher %d: %v", n, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			want[fmt.Sprint("b", n)] = id
		})
	}
	group.Wait()
	if checked := wantIntact(t, b, want); checked.Roots < 80 {
		t.Errorf("%d roots, want at least 80", checked.Roots)
	}
}

func TestConcurrentSameBranch(t *testing.T) {
	b := newRemote(t)
	first := newPusher(t, b)
	base := first.grow(0)
	first.mustPush("main", base)

	results := make([]error, 8)
	ids := make([]object.ID, 8)
	var group sync.WaitGroup
	for n := range results {
		p := newPusher(t, b)
		if p.grow(0) != base {
			t.Fatal("the pushers have different first commits")
		}
		ids[n] = p.grow(n+1, base)
		group.Go(func() { _, results[n] = p.push("main", ids[n]) })
	}

	group.Wait()
	won := -1
	for n, err := range results {
		switch {
		case err == nil && won < 0:
			won = n
		case err == nil:
			t.Error("two pushes succeeded")
		case !errors.Is(err, ErrNotFastForward):
			t.Errorf("pusher %d: %v, want ErrNotFastForward", n, err)
		}
	}
	if won < 0 {
		t.Fatal("no push succeeded")
	}
	wantIntact(t, b, map[string]object.ID{"main": ids[won]})
}

// TestSharedFolder runs several pushes of one repository, with one folder, at once. None
// takes over packs that another one is sending.
func TestSharedFolder(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	want := map[string]object.ID{}
	var group sync.WaitGroup
	for n := range 6 {
		id := p.grow(n)
		want[fmt.Sprint("b", n)] = id
		q := &pusher{maker: p.maker, local: p.local, dir: p.dir}
		q.reopen(b)
		group.Go(func() {
			if _, err := q.push(fmt.Sprint("b", n), id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantIntact(t, b, want)
	if left, _ := filepath.Glob(filepath.Join(p.dir, pushFolder, "*")); len(left) > 0 {
		t.Errorf("left in the journal: %q", left)
	}
}

func TestBatches(t *testing.T) {
	p := &plan{}
	for i := range 100 {
		p.chunks = append(p.chunks, item{object.Key{Kind: object.KindChunk, ID: object.Sum([]byte{byte(i)})}, uint32(i%5) << 20})
	}
	p.nodes = []item{{object.Key{Kind: object.KindTree}, 100}}
	for _, c := range []struct{ jobs, size int }{{1, 200 << 20 / 7}, {3, 200 << 20 / 9}, {4, 25 << 20}, {100, smallPack}} {
		all := p.batches(c.jobs)
		if len(all[0]) != 1 {
			t.Fatalf("%d jobs: %d objects in the first batch", c.jobs, len(all[0]))
		}
		if got := slices.Concat(all[1:]...); !slices.Equal(got, p.chunks) {
			t.Errorf("%d jobs: chunks are missing, or not in order", c.jobs)
		}
		for _, batch := range all[1 : len(all)-1] {
			size := 0
			for _, it := range batch {
				size += it.room()
			}
			if size < c.size || size > c.size+5<<20 {
				t.Errorf("%d jobs: a batch of %d bytes", c.jobs, size)
			}
		}
	}
}
