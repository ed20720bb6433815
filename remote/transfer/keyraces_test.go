package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestKeyRaces lets two pushers, a collector, and a user who changes keys race over an encrypted remote. Processes are
// killed at random requests and start again. No acknowledged push is lost, and the remote is intact. A recipient that is
// removed meanwhile opens no later root, and no file that such a root is the first to name.
func TestKeyRaces(t *testing.T) {
	t.Parallel()
	for i := range objecttest.Rounds(t, 4) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newKeyRace(t, seed).run() })
	}
}

// keyRace is an encrypted remote that several processes change at once.
type keyRace struct {
	*testing.T
	seed    uint64
	b       *remotetest.Memory
	watch   *rootWatch
	pushers [2]*transfertest.Pusher

	removed transfer.Keys // of a recipient that is removed
	clone   string        // its folder with the state of the remote

	mu   sync.Mutex
	refs map[string]object.ID // by branch, as acknowledged
}

// removedName is the name of a recipient that a race removes.
const removedName = "old laptop"

// rootWatch is a store that keeps its state before each root, and has goroutines take turns.
type rootWatch struct {
	*remotetest.Guard
	b *remotetest.Memory

	mu     sync.Mutex
	before map[string]remotetest.Snapshot // by name of the root
}

func (w *rootWatch) Unwrap() remote.Backend { return w.Guard }

func takeTurns() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}

func (w *rootWatch) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	takeTurns()
	return w.Guard.Get(ctx, name, p, off)
}

func (w *rootWatch) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	takeTurns()
	return w.Guard.Put(ctx, name, body, size)
}

func (w *rootWatch) Create(ctx context.Context, name string, data []byte) error {
	takeTurns()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.b.Snapshot()
	err := w.Guard.Create(ctx, name, data)
	if err == nil {
		w.before[name] = before
	}
	return err
}

func newKeyRace(t *testing.T, seed uint64) *keyRace {
	b := transfertest.NewEncrypted(t)
	r := &keyRace{T: t, seed: seed, b: b, refs: map[string]object.ID{}, clone: t.TempDir()}
	r.watch = &rootWatch{Guard: remotetest.NewGuard(t, b), b: b, before: map[string]remotetest.Snapshot{}}
	for i := range r.pushers {
		r.pushers[i] = transfertest.NewPusher(t, r.watch)
	}

	identity, err := keyset.NewIdentity()
	path := filepath.Join(t.TempDir(), "identities")
	if err == nil {
		err = os.WriteFile(path, identity.File(time.Unix(1_700_000_000, 0)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.removed = transfer.Keys{Identities: keyset.NewIdentities(keyset.Places{Own: path})}
	r.change("add", func(k *keyset.Keyset, _ uint64) (*keyset.Keyset, error) {
		return k.Add(keyset.Recipient{Name: removedName, Key: identity.Recipient(), Added: time.Unix(1_700_000_000, 0).UTC()})
	}, rand.New(rand.NewPCG(seed, 9)))
	r.push(0, "start", r.pushers[0].MakeMany(1, 200), rand.New(rand.NewPCG(seed, 8)))
	if err := r.readRemoved(); err != nil {
		t.Fatalf("the recipient cannot read the remote before its removal: %v", err)
	}
	return r
}

// persist runs a process until it succeeds. Some of its runs are killed.
func (r *keyRace) persist(what string, rng *rand.Rand, process func(b remote.Backend) error) {
	r.Helper()
	for try := range 6 {
		faulty := remotetest.NewFaulty(r.watch)
		at := 0
		if try < 4 && rng.IntN(2) == 0 {
			at = 1 + rng.IntN(40)
			faulty.Fail(remotetest.Fault{N: at, How: remotetest.How(rng.IntN(2)), Err: transfertest.ErrDown})
			faulty.Fail(remotetest.Fault{N: at + 1, Stays: true, Err: transfertest.ErrDown})
		}
		err := process(faulty)
		killed := at > 0 && faulty.Calls(remotetest.Any) >= at
		switch {
		case err == nil:
			return
		case !killed:
			r.Errorf("%s: %v", what, err)
			return
		}
	}
	r.Errorf("%s was killed each time", what)
}

// push pushes a commit, until the push is acknowledged.
func (r *keyRace) push(pusher int, branch string, id object.ID, rng *rand.Rand) {
	r.Helper()
	p := r.pushers[pusher]
	r.persist("push of "+branch, rng, func(b remote.Backend) (err error) {
		if p.Remote, err = transfertest.OpenTest(r, b, p.Dir); err != nil {
			return err
		}
		defer p.Remote.Close()
		_, err = p.PushBranch(branch, id)
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs[branch] = id
}

// errDone means that an earlier run has made a change of keys, and was killed then.
var errDone = errors.New("done already")

// change changes the keys.
func (r *keyRace) change(what string, change func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error), rng *rand.Rand) {
	r.Helper()
	dir := r.TempDir()
	r.persist(what, rng, func(b remote.Backend) error {
		opened, err := transfertest.OpenTest(r, b, dir)
		if err != nil {
			return err
		}
		defer opened.Close()
		_, err = transfer.ChangeKeyset(context.Background(), opened, keyset.Plugins{}, func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error) {
			has := slices.ContainsFunc(k.Recipients, func(r keyset.Recipient) bool { return r.Name == removedName })
			if what == "add" && has || what == "remove" && !has {
				return nil, errDone
			}
			return change(k, root)
		})
		if errors.Is(err, errDone) {
			return nil
		}
		return err
	})
}

// collect collects garbage.
func (r *keyRace) collect(o collect.Options, rng *rand.Rand) {
	r.Helper()
	dir := r.TempDir()
	r.persist(fmt.Sprintf("collection %+v", o), rng, func(b remote.Backend) error {
		opened, err := transfertest.OpenTest(r, b, dir)
		if err != nil {
			return err
		}
		defer opened.Close()
		c, err := collect.PlanGarbage(context.Background(), opened, nil, o)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Apply(context.Background())
	})
}

// run races, and checks the result.
func (r *keyRace) run() {
	var running sync.WaitGroup
	for i := range r.pushers {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
		running.Go(func() { r.pushAll(i, rng) })
	}
	running.Go(func() {
		rng := rand.New(rand.NewPCG(r.seed, 3))
		for range 4 {
			r.collect([]collect.Options{{}, {Rekey: true, MaxWaste: 1}, {Grace: time.Hour}, {ForgetAfter: time.Hour}}[rng.IntN(4)], rng)
		}
	})
	running.Go(func() {
		rng := rand.New(rand.NewPCG(r.seed, 4))
		steps := []string{"rotate", "remove", "rotate"}[rng.IntN(2):]
		for _, what := range steps {
			takeTurns()
			r.change(what, func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error) {
				if what == "remove" {
					return k.Remove(removedName, root, time.Unix(1_700_000_000, 0).UTC())
				}
				return k.Rotate(root)
			}, rng)
		}
	})
	running.Wait()
	if r.Failed() {
		return
	}

	transfertest.WantIntact(r, r.b, r.refs)
	r.wantUnreadable()
	for range 3 {
		transfertest.MustCollect(r, r.b, collect.Options{Rekey: true})
	}
	transfertest.WantNoGarbage(r, r.b)
	transfertest.WantIntact(r, r.b, r.refs)
	r.wantUnreadable()
}

// pushAll pushes commits to two branches, and some with enough objects for index files.
func (r *keyRace) pushAll(pusher int, rng *rand.Rand) {
	p := r.pushers[pusher]
	tips := map[string]object.ID{}
	for n := range 5 {
		branch := fmt.Sprintf("p%d-%d", pusher, rng.IntN(2))
		var parents []object.ID
		if id, ok := tips[branch]; ok {
			parents = append(parents, id)
		}
		if rng.IntN(4) == 0 {
			tips[branch] = p.MakeMany(100*pusher+n+10, 300, parents...)
		} else {
			tips[branch] = p.MakeGrown(100*pusher+n, parents...)
		}
		r.push(pusher, branch, tips[branch], rng)
	}
}

// readRemoved reads the remote as the old clone of the removed recipient does.
func (r *keyRace) readRemoved() error {
	ctx := context.Background()
	opened, err := transfer.Open(ctx, r.b, transfer.Options{Dir: r.clone, URL: "memory:", Now: time.Now, Keys: r.removed})
	if err != nil {
		return err
	}
	defer opened.Close()
	_, err = opened.Snapshot(ctx)
	return err
}

// keysOfRemoved returns all keys that the removed recipient ever had, and the number of the head.
func (r *keyRace) keysOfRemoved() (*crypt.Keys, uint64) {
	r.Helper()
	owner, err := transfertest.OpenTest(r, r.b, r.TempDir())
	if err != nil {
		r.Fatal(err)
	}
	defer owner.Close()
	opened, head, err := owner.Keyset(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	at := slices.IndexFunc(opened.Removed, func(removed keyset.Removed) bool { return removed.Name == removedName })
	if at < 0 {
		r.Fatalf("the keyset does not say who was removed: %+v", opened.Removed)
	}
	keys := opened.Keys()
	keys.Epochs = keys.Epochs[:opened.Removed[at].Epoch]
	return keys, head.Seq
}

// readWith reads a byte of a file with some keys.
func readWith(keys *crypt.Keys, b remote.Backend, name string) error {
	_, err := crypt.New(b, crypt.Options{Keys: keys}).Get(context.Background(), name, make([]byte, 1), 0)
	return err
}

// wantUnreadable checks what the removed recipient can read: with its clone, and with all keys that it ever had.
func (r *keyRace) wantUnreadable() {
	r.Helper()
	if err := r.readRemoved(); !errors.Is(err, remote.ErrNoKey) && !isNoIdentity(err) {
		r.Errorf("the old clone of the removed recipient reads the remote: %v", err)
	}
	keys, head := r.keysOfRemoved()
	read := func(b remote.Backend, name string) error { return readWith(keys, b, name) }
	known := map[string]bool{} // files that a root before the removal names
	later := 0
	for n := uint64(1); n <= head; n++ {
		err := read(r.b, rootlog.RootName(n))
		switch {
		case err == nil && later > 0:
			r.Errorf("the removed recipient reads root %d, after the removal", n)
		case err != nil && !errors.Is(err, remote.ErrNoKey):
			r.Errorf("root %d: %v", n, err)
		case err != nil:
			later++
		}

		b := remotetest.NewMemory()
		b.Restore(r.b.Snapshot())
		if after, ok := r.watch.before[rootlog.RootName(n+1)]; ok {
			b.Restore(after)
		} else if n < head {
			continue // a test helper has appended the next root
		}
		for _, name := range namedFiles(r.T, b) {
			if known[name] {
				continue
			}
			known[name] = true
			if err := read(b, name); later > 0 && !errors.Is(err, remote.ErrNoKey) {
				r.Errorf("the removed recipient reads %s, which root %d is the first to name: %v", name, n, err)
			}
		}
	}

	if later == 0 {
		r.Error("no root is later than the removal")
	}
}

// TestRemovedBesidePush removes a recipient while a push sends its two packs, one after the other. The recipient can read no file
// that the push names. It can read the packs that the push sent before it noticed: if time passes between packs, only the one on
// its way. A collection deletes them.
func TestRemovedBesidePush(t *testing.T) {
	for _, test := range []struct {
		name     string
		pause    time.Duration // between two looks at the clock
		readable int
	}{{"at once", 0, 2}, {"slowly", time.Minute, 1}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			removeBesidePush(t, test.pause, test.readable)
		})
	}
}

func removeBesidePush(t *testing.T, pause time.Duration, want int) {
	r := newKeyRace(t, 1)
	before := r.b.Names("packs/")
	faulty := remotetest.NewFaulty(r.watch)
	meanwhile(faulty, func() {
		r.change("remove", func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error) {
			return k.Remove(removedName, root, time.Unix(1_700_000_000, 0).UTC())
		}, rand.New(rand.NewPCG(1, 5)))
	})
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(pause)
		return now
	}
	pusher, err := transfer.Open(t.Context(), faulty, transfer.Options{Dir: t.TempDir(), URL: "memory:", Now: clock, Keys: transfertest.Keys(t), Who: "A", Host: "host"})
	if err != nil {
		t.Fatal(err)
	}
	defer pusher.Close()
	p := r.pushers[1]
	r.refs["beside"] = p.MakeMany(5, 300)
	update := transfer.RefUpdate{Name: "refs/heads/beside", New: object.Key{Kind: object.KindCommit, ID: r.refs["beside"]}}
	result, err := pusher.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{update}, Jobs: 1})
	if err != nil || result.Packs != want+2 {
		t.Fatalf("%d packs were sent, want %d: %v", result.Packs, want+2, err)
	}
	r.wantUnreadable()

	keys, _ := r.keysOfRemoved()
	readable := func() (names []string) {
		for _, name := range r.b.Names("packs/") {
			if !slices.Contains(before, name) && readWith(keys, r.b, name) == nil {
				names = append(names, name)
			}
		}
		return names
	}
	if names := readable(); len(names) != want {
		t.Errorf("the removed recipient can read %q, want %d packs", names, want)
	}
	transfertest.MustCollect(t, r.b, transfertest.AtOnce)
	if left := readable(); len(left) > 0 {
		t.Errorf("a collection leaves packs that the removed recipient can read: %q", left)
	}
	transfertest.WantNoGarbage(t, r.b)
	transfertest.WantIntact(t, r.b, r.refs)
}

// TestKeysetsCollectedBesidePush changes the keys twice while a push appends its root, and collects the keyset between. The root
// that was first names a keyset that is gone: the push reads it with the keyset of the head.
func TestKeysetsCollectedBesidePush(t *testing.T) {
	t.Parallel()
	b := transfertest.NewEncrypted(t)
	faulty := remotetest.NewFaulty(remotetest.NewGuard(t, b))
	p := transfertest.NewPusher(t, faulty)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		for range 2 {
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err == nil {
				_, err = transfer.ChangeKeyset(t.Context(), r, keyset.Plugins{}, (*keyset.Keyset).Rotate)
				r.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		if n := len(b.Names("keys/")); n != 2 {
			t.Errorf("%d copies of keysets are left, want 2", n)
		}
	}})
	two := p.MakeGrown(2, one)
	p.MustPush("main", two)
	transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
}

// isNoIdentity reports whether no identity opens the keyset.
func isNoIdentity(err error) bool {
	var none *keyset.NoIdentityError
	return errors.As(err, &none)
}

// namedFiles returns the packs, index files and state files that the head of a remote names.
func namedFiles(t *testing.T, b *remotetest.Memory) (names []string) {
	t.Helper()
	c := transfertest.NewCollector(t, b)
	head := c.Head()
	for _, p := range head.Packs {
		names = append(names, p.Name.Path())
	}
	for _, f := range head.Indexes {
		names = append(names, f.Name.IndexPath())
		for _, e := range c.EntriesOf(f) {
			names = append(names, e.Pack.Name.Path())
		}
	}
	for _, name := range head.NamedFiles() {
		if !strings.HasPrefix(name, "keys/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		_, condemned := head.Condemned[name]
		return condemned
	})
}
