package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

func TestPush(t *testing.T) {
	b := transfertest.NewRemote(t)
	b.ResetCounts()
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	result := p.MustPush("main", one)
	want := objecttest.Closure(t, p.Local, objecttest.CommitKeys(one)...)
	if result.Objects != int64(len(want)) || result.Packs != 2 || result.Seq != 1 || result.Bytes != b.Bytes(remotetest.Put) {
		t.Errorf("push: %+v; want %d objects, %d bytes", result, len(want), b.Bytes(remotetest.Put))
	}
	if got := result.Refs[0]; got.Status != transfer.StatusNew || got.New != one || !got.Old.IsZero() {
		t.Errorf("ref: %+v, want a new one", got)
	}
	if checked := transfertest.WantIntact(t, b, map[string]object.ID{"main": one}); checked.Objects != int64(len(want)) || checked.Packs != 2 || checked.Roots != 1 {
		t.Errorf("check: %+v, want %d objects in 2 packs, 1 root", checked, len(want))
	}
	if head, err := p.Remote.Head(t.Context()); err != nil || head.DefaultBranch != transfertest.MainRef || head.Who != "A <a@example.org>" || head.Host != "host" {
		t.Errorf("head: %+v, %v", head, err)
	}

	b.ResetCounts()
	p.Reopen(b)
	result = p.MustPush("main", one)
	if b.Calls(remotetest.Any) != 2 || b.Calls(remotetest.Get) != 2 || result.Refs[0].Status != transfer.StatusUpToDate || result.Objects != 0 {
		t.Errorf("push without changes: %d calls, %+v", b.Calls(remotetest.Any), result)
	}

	two := p.MakeGrown(4, one) // changes one file in a folder, and one beside it
	b.ResetCounts()
	p.Reopen(b)
	result = p.MustPush("main", two)
	more := objecttest.Closure(t, p.Local, objecttest.CommitKeys(two)...)
	for key := range want {
		delete(more, key)
	}
	if result.Objects != int64(len(more)) || result.Refs[0].Status != transfer.StatusFastForward {
		t.Errorf("push of a change: %+v, want %d objects", result, len(more))
	}
	if n := b.Calls(remotetest.Any); n != 5 {
		t.Errorf("a small push made %d calls, want 5", n)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Dir, transfer.PushFolder, "*")); len(left) > 0 {
		t.Errorf("left in the journal: %q", left)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
}

// An interrupted fetch may leave a commit of the remote here without its parents. Such a
// commit does not count as fetched.
func TestPushAfterInterruptedFetch(t *testing.T) {
	b := transfertest.NewRemote(t)
	p, other := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	first, err := p.Local.Get(t.Context(), objecttest.CommitKeys(one)[0])
	if err != nil {
		t.Fatal(err)
	}

	tip := other.MakeGrown(1)
	for i := range 3 {
		tip = other.MakeGrown(2+i, tip)
	}
	other.MustPush("main", tip)
	data, err := other.Local.Get(t.Context(), objecttest.CommitKeys(tip)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Local.Put(t.Context(), object.KindCommit, data); err != nil {
		t.Fatal(err)
	}

	mine := p.MakeGrown(9, one)
	p.Reopen(b)
	if _, err := p.PushBranch("main", mine); !errors.Is(err, transfer.ErrNotFastForward) || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("push: %v, want ErrNotFastForward", err)
	}

	// A missing commit among the pushed ones is damage.
	p.Local.Delete(objecttest.CommitKeys(one)[0])
	if _, err := p.PushBranch("main", mine); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("push without a commit: %v, want ErrNotFound", err)
	}
	if _, err := p.Local.Put(t.Context(), object.KindCommit, first); err != nil {
		t.Fatal(err)
	}

	forced := transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: objecttest.CommitKeys(mine)[0], Force: true}}}
	if _, err := p.Remote.Push(t.Context(), p.Local, forced); err != nil {
		t.Errorf("forced push: %v", err)
	}
}

// TestPushFromVolumes pushes more than one pack from volumes: an annotated tag, large files
// and a long list of skipped files.
func TestPushFromVolumes(t *testing.T) {
	b := transfertest.NewRemote(t)
	store, err := volume.Open(t.TempDir(), volume.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session := store.Begin(volume.SessionOptions{})
	m := &objecttest.Maker{T: t, ReadWriter: session}

	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprint("large", i)] = objecttest.Noise(i, 9<<20)
	}
	c := &object.Commit{Tree: m.MakeTree(files, nil), Message: "m"}
	c.Author = object.Stamp{Name: "A", Email: "a@example.org", Time: object.Time{Sec: 1}}
	c.Committer = c.Author

	var skipped []object.Skipped
	for i := range 2000 {
		skipped = append(skipped, object.Skipped{Path: fmt.Sprint(i), Reason: "r"})
	}
	if err := c.SetSkipped(t.Context(), session, skipped); err != nil {
		t.Fatal(err)
	}

	id := m.PutNode(object.KindCommit, c)
	tag := object.Key{Kind: object.KindTag, ID: m.PutNode(object.KindTag, &object.Tag{Target: id, Name: "v1", Tagger: c.Author, Message: "m"})}
	if err := session.Publish(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var seen []transfer.Progress
	result, err := r.Push(t.Context(), store, transfer.PushOptions{
		Updates:  []transfer.RefUpdate{{Name: "refs/tags/v1", New: tag}, {Name: transfertest.MainRef, New: object.Key{Kind: object.KindCommit, ID: id}}},
		Progress: func(at transfer.Progress) { seen = append(seen, at) },
	})
	if err != nil {
		t.Fatal(err)
	}

	want := objecttest.Closure(t, store, tag)
	if result.Objects != int64(len(want)) || result.Packs != 4 || c.SkippedRest.IsZero() || !want[object.Key{Kind: object.KindChunk, ID: c.SkippedRest}] {
		t.Errorf("push: %+v, want %d objects in 4 packs", result, len(want))
	}
	if last := seen[len(seen)-1]; last.Phase != transfer.PhaseCopy || last.Objects != result.Objects || last.TotalObjects != last.Objects || last.Bytes != last.TotalBytes || last.Bytes < 45<<20 {
		t.Errorf("progress ends with %+v", last)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": id, "refs/tags/v1": tag.ID})
}

// TestSmallChange checks that the push of one changed file among many reads and sends few
// objects.
func TestSmallChange(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	folders := map[string]object.ID{}
	for d := range 20 {
		files := map[string]string{}
		for f := range 400 {
			files[fmt.Sprint("file ", f)] = fmt.Sprint(strings.Repeat("x", 40), d, f)
		}
		folders[fmt.Sprint("d", d)] = p.MakeTree(files, nil)
	}

	one := p.MakeCommit(p.MakeTree(nil, folders))
	p.MustPush("main", one)
	files := map[string]string{}
	for f := range 400 {
		files[fmt.Sprint("file ", f)] = fmt.Sprint(strings.Repeat("x", 40), 7, f)
	}
	files["file 200"] = objecttest.Noise(1, 1000)
	folders["d7"] = p.MakeTree(files, nil)
	two := p.MakeCommit(p.MakeTree(nil, folders), one)
	p.Local.Gets.Store(0)

	result := p.MustPush("main", two)
	if result.Objects > 8 || result.Bytes > 60<<10 {
		t.Errorf("push: %+v, want at most 8 objects", result)
	}
	if n := p.Local.Gets.Load(); n > 40 {
		t.Errorf("%d objects were read, want at most 40", n)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
}

func TestRejected(t *testing.T) {
	b := transfertest.NewRemote(t)
	p, other := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	two, fork := p.MakeGrown(2, one), p.MakeGrown(3, one)
	p.MustPush("main", two)
	other.MustPush("theirs", other.MakeGrown(50))
	key := func(id object.ID) object.Key { return object.Key{Kind: object.KindCommit, ID: id} }
	who := object.Stamp{Name: "A", Email: "a@example.org"}
	tag := object.Key{Kind: object.KindTag, ID: p.PutNode(object.KindTag, &object.Tag{Target: one, Name: "v", Tagger: who})}
	if _, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: "refs/tags/v", New: tag}}}); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		update transfer.RefUpdate
		ok     bool
	}{
		"fork":                     {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork)}, false},
		"older":                    {transfer.RefUpdate{Name: transfertest.MainRef, New: key(one)}, false},
		"unknown":                  {transfer.RefUpdate{Name: "refs/heads/theirs", New: key(two)}, false},
		"tag moves":                {transfer.RefUpdate{Name: "refs/tags/v", New: key(two)}, false},
		"lease, elsewhere":         {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork), Expect: &one}, false},
		"lease, absent":            {transfer.RefUpdate{Name: "refs/heads/none", New: key(fork), Expect: &one}, false},
		"lease, forced, elsewhere": {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork), Force: true, Expect: &one}, false},
		"lease, not new":           {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork), Expect: &object.ID{}}, false},
		"delete, lease":            {transfer.RefUpdate{Name: transfertest.MainRef, Expect: &one}, false},
		"forced":                   {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork), Force: true}, true},
		"lease":                    {transfer.RefUpdate{Name: transfertest.MainRef, New: key(fork), Expect: &two}, true},
		"lease, new":               {transfer.RefUpdate{Name: "refs/heads/new", New: key(fork), Expect: &object.ID{}}, true},
		"tag forced":               {transfer.RefUpdate{Name: "refs/tags/v", New: key(two), Force: true}, true},
		"delete":                   {transfer.RefUpdate{Name: transfertest.MainRef}, true},
		"delete, absent":           {transfer.RefUpdate{Name: "refs/heads/none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.Snapshot()
			defer b.Restore(before)
			q := &transfertest.Pusher{Maker: p.Maker, Local: p.Local, Dir: t.TempDir()}
			q.Reopen(b)
			b.ResetCounts()

			result, err := q.Remote.Push(t.Context(), q.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{
				test.update, {Name: "refs/heads/beside", New: key(fork)},
			}})
			if test.ok {
				if err != nil || result.Refs[0].Err != nil {
					t.Fatalf("push: %+v, %v", result, err)
				}
				transfertest.WantIntact(t, b, nil)
				return
			}
			if !errors.Is(err, transfer.ErrNotFastForward) || !strings.HasPrefix(err.Error(), test.update.Name+": ") {
				t.Fatalf("push: %+v, %v, want ErrNotFastForward", result, err)
			}
			if b.Calls(remotetest.Put)+b.Calls(remotetest.Create) > 0 {
				t.Error("a rejected push wrote to the remote")
			}
			if result.Refs[0].Err != err || !strings.HasPrefix(result.Refs[0].Status, transfer.StatusRejected) || result.Refs[1].Status != transfer.StatusNotPushed {
				t.Errorf("refs: %+v", result.Refs)
			}
		})
	}

	for name, update := range map[string]transfer.RefUpdate{
		"name":          {Name: "refs/heads/a..b", New: key(one)},
		"not a ref":     {Name: "main", New: key(one)},
		"tag as branch": {Name: transfertest.MainRef, New: tag},
		"tree":          {Name: "refs/tags/t", New: object.Key{Kind: object.KindTree, ID: object.Sum([]byte("t"))}},
	} {
		if _, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{update}}); err == nil {
			t.Errorf("push with a bad update (%s) succeeded", name)
		}
	}
}

// TestTagTwice checks that a tag object with two refs is sent once.
func TestTagTwice(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	tag := object.Key{Kind: object.KindTag, ID: p.PutNode(object.KindTag, &object.Tag{Target: p.MakeGrown(1), Name: "v1", Tagger: object.Stamp{Name: "A"}})}
	result, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: "refs/tags/v1", New: tag}, {Name: "refs/tags/stable", New: tag}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(objecttest.Closure(t, p.Local, tag)); result.Objects != int64(want) {
		t.Errorf("%d objects were sent, want %d", result.Objects, want)
	}
	transfertest.WantIntact(t, b, nil)
}

func TestDryRun(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	b.ResetCounts()
	result, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: objecttest.CommitKeys(one)[0]}}, DryRun: true})
	if err != nil || result.Objects != int64(len(objecttest.Closure(t, p.Local, objecttest.CommitKeys(one)...))) || result.Packs != 2 || result.Bytes < 5000 || result.Refs[0].Status != transfer.StatusNew {
		t.Errorf("dry run: %+v, %v", result, err)
	}
	if b.Calls(remotetest.Put)+b.Calls(remotetest.Create) > 0 {
		t.Error("the dry run wrote to the remote")
	}
}

func TestPushMissing(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	two := p.MakeGrown(2, one)
	lost := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(objecttest.Noise(5002, 500)))}
	p.Local.Delete(lost)
	_, err := p.PushBranch("main", two)
	var missing *object.AbsentError
	if !errors.As(err, &missing) || missing.Key != lost {
		t.Errorf("push: %v, want that %s is missing", err, lost)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})

	// Objects on the remote may be missing here, even nodes.
	tree := object.Key{Kind: object.KindTree, ID: p.MakeTree(map[string]string{"f0": objecttest.Noise(0, 300), "f1": objecttest.Noise(1, 300), "f2": objecttest.Noise(2, 300), "f3": objecttest.Noise(3, 300)}, nil)}
	other := p.MakeCommit(p.MakeTree(map[string]string{"new": objecttest.Noise(9000, 100)}, map[string]object.ID{"d": tree.ID}))
	p.Local.Delete(tree)
	p.MustPush("other", other)
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one, "other": other})
}

// TestIndexFiles checks the index files after many small pushes and a large one.
func TestIndexFiles(t *testing.T) {
	b := transfertest.NewRemote(t)
	p, q := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	var id object.ID
	for i := range 120 {
		if i == 0 {
			id = p.MakeGrown(i)
		} else {
			id = p.MakeGrown(i, id)
		}
		p.MustPush("main", id)
	}

	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(20000+i, 100)
	}
	large := q.MakeCommit(q.MakeTree(files, nil))
	q.MustPush("large", large)
	head, err := p.Remote.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(head.Indexes); n < 2 || n > 10 || len(head.Packs) == 0 || rootlog.InlineSize(head.Packs) > rootlog.MaxInline {
		t.Errorf("%d index files, %d packs inline in %d bytes", n, len(head.Packs), rootlog.InlineSize(head.Packs))
	}

	// The pusher has kept its own index file.
	b.ResetCounts()
	snap, err := q.Remote.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for key := range objecttest.Closure(t, q.Local, objecttest.CommitKeys(large)...) {
		if _, ok, err := snap.Find(key); !ok || err != nil {
			t.Fatalf("%s is not found, %v", key, err)
		}
	}

	if n := b.Calls(remotetest.Any); n > 2+len(head.Indexes)-1 {
		t.Errorf("opening the indexes took %d calls, want at most %d", n, 2+len(head.Indexes)-1)
	}
	copies, _ := filepath.Glob(filepath.Join(q.Dir, transfer.IndexFolder, "*"))
	if len(copies) != len(head.Indexes) {
		t.Errorf("%d copies of %d index files", len(copies), len(head.Indexes))
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": id, "large": large})
}

func TestConcurrentBranches(t *testing.T) {
	b := transfertest.NewRemote(t)
	want := map[string]object.ID{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for n := range 8 {
		p := transfertest.NewPusher(t, b)
		group.Go(func() {
			var id object.ID
			for i := range 10 {
				if i == 0 {
					id = p.MakeGrown(100 * n)
				} else {
					id = p.MakeGrown(100*n+i, id)
				}
				if _, err := p.PushBranch(fmt.Sprint("b", n), id); err != nil {
					t.Errorf("pusher %d: %v", n, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			want[fmt.Sprint("b", n)] = id
		})
	}
	group.Wait()
	if checked := transfertest.WantIntact(t, b, want); checked.Roots < 80 {
		t.Errorf("%d roots, want at least 80", checked.Roots)
	}
}

func TestConcurrentSameBranch(t *testing.T) {
	b := transfertest.NewRemote(t)
	first := transfertest.NewPusher(t, b)
	base := first.MakeGrown(0)
	first.MustPush("main", base)

	results := make([]error, 8)
	ids := make([]object.ID, 8)
	var group sync.WaitGroup
	for n := range results {
		p := transfertest.NewPusher(t, b)
		if p.MakeGrown(0) != base {
			t.Fatal("the pushers have different first commits")
		}
		ids[n] = p.MakeGrown(n+1, base)
		group.Go(func() { _, results[n] = p.PushBranch("main", ids[n]) })
	}

	group.Wait()
	won := -1
	for n, err := range results {
		switch {
		case err == nil && won < 0:
			won = n
		case err == nil:
			t.Error("two pushes succeeded")
		case !errors.Is(err, transfer.ErrNotFastForward):
			t.Errorf("pusher %d: %v, want ErrNotFastForward", n, err)
		}
	}
	if won < 0 {
		t.Fatal("no push succeeded")
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": ids[won]})
}

// TestSharedFolder runs several pushes of one repository, with one folder, at once. None
// takes over packs that another one is sending.
func TestSharedFolder(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	want := map[string]object.ID{}
	var group sync.WaitGroup
	for n := range 6 {
		id := p.MakeGrown(n)
		want[fmt.Sprint("b", n)] = id
		q := &transfertest.Pusher{Maker: p.Maker, Local: p.Local, Dir: p.Dir}
		q.Reopen(b)
		group.Go(func() {
			if _, err := q.PushBranch(fmt.Sprint("b", n), id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	transfertest.WantIntact(t, b, want)
	if left, _ := filepath.Glob(filepath.Join(p.Dir, transfer.PushFolder, "*")); len(left) > 0 {
		t.Errorf("left in the journal: %q", left)
	}
}
