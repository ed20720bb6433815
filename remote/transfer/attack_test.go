package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// attacked is a small encrypted remote whose store is malicious, and what its clients know.
type attacked struct {
	*testing.T
	b        *remotetest.Memory
	good     remotetest.Snapshot
	pusher   *transfertest.Pusher
	dir      string // of a client that has seen the last root
	branches map[string]object.ID
	pin      *crypt.Pin
}

func newAttacked(t *testing.T) *attacked {
	a := &attacked{T: t, b: transfertest.NewEncrypted(t), branches: map[string]object.ID{}}
	a.pusher = transfertest.NewPusher(t, remotetest.NewGuard(t, a.b))
	a.pusher.KeepSmall = true
	for i := range 3 {
		a.push("main", i)
	}
	a.push("large", 7)
	a.remember()
	pin, err := a.pusher.Remote.PinOf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.pin = &pin
	return a
}

// push pushes a commit with a file of several segments.
func (a *attacked) push(branch string, n int) {
	a.Helper()
	files := map[string]string{"f": objecttest.Noise(n, 200)}
	if branch == "large" {
		files["g"] = objecttest.Noise(n+1, 40_000)
	}
	id := a.pusher.MakeCommit(a.pusher.MakeTree(files, nil), parentsOf(a.branches[branch])...)
	a.pusher.MustPush(branch, id)
	a.branches[branch] = id
}

// parentsOf returns the parents of a commit after id.
func parentsOf(id object.ID) []object.ID {
	if id.IsZero() {
		return nil
	}
	return []object.ID{id}
}

// remember makes the state of the pusher that of the client, and that of the store the good one.
func (a *attacked) remember() {
	a.Helper()
	a.dir = a.copyOf(a.pusher.Dir)
	a.good = a.b.Snapshot()
}

func (a *attacked) copyOf(dir string) string {
	a.Helper()
	to := a.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		a.Fatal(err)
	}
	return to
}

// look reads the whole remote, as a client with a folder, and returns the damage. All that comes without an error
// must be right. A client without a folder reads what the refs need; another one checks the other files, too.
func (a *attacked) look(dir string) error {
	a.Helper()
	ctx := context.Background()
	r, err := transfertest.OpenTest(a, remotetest.NewGuard(a, a.b), dir)
	if err != nil {
		return err
	}
	defer r.Close()
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	want := map[string]object.ID{}
	got := map[string]object.ID{}
	for name, id := range a.branches {
		want["refs/heads/"+name] = id
	}
	for name, key := range snap.State.Refs {
		got[name] = key.ID
	}

	if !maps.Equal(got, want) {
		if dir == "" {
			return nil // a first contact may see an older state
		}
		a.Errorf("the refs are %v, want %v", got, want)
	}
	err = a.readAll(ctx, snap)
	if err != nil || dir == "" {
		return err
	}
	_, failed := collect.Check(ctx, r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) { err = errors.Join(err, p) })
	return errors.Join(err, failed)
}

// readAll compares each object that it can read.
func (a *attacked) readAll(ctx context.Context, from object.Reader) (failed error) {
	a.Helper()
	for key := range objecttest.Closure(a, a.pusher.Local, objecttest.CommitKeys(slices.Collect(maps.Values(a.branches))...)...) {
		want, err := a.pusher.Local.Get(ctx, key)
		if err != nil {
			a.Fatal(err)
		}
		got, err := from.Get(ctx, key)
		if err == nil && !bytes.Equal(got, want) {
			a.Errorf("%s has other bytes", key)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// wantDetected checks that a returning client or a new one that checks the remote finds an attack, and that a new
// one reads no wrong byte.
func (a *attacked) wantDetected(what string) {
	a.Helper()
	if a.look("") == nil && a.look(a.copyOf(a.dir)) == nil && a.look(a.TempDir()) == nil {
		a.Errorf("%s: nobody finds it", what)
	}
	a.b.Restore(a.good)
}

// names returns the names of all blobs.
func (a *attacked) names() []string { return a.b.Names("") }

// folder returns the part of a name that says its type.
func folder(name string) string { before, _, _ := strings.Cut(name, "/"); return before }

// segmentBorders returns the places in a blob at which its parts end.
func segmentBorders(size int) (borders []int) {
	borders = []int{0, 16, 32, 64, 88, 120}
	for _, header := range []int{88, 120} {
		for at := header + 16_400; at < size; at += 16_400 {
			borders = append(borders, at-16, at)
		}
	}
	return append(borders, size)
}

func TestStoreFlips(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	for _, name := range a.names() {
		if folder(name) == "keys" {
			continue // TestStoreDamagesKeysets
		}
		size := len(a.b.Data(name))
		var places []int
		for _, border := range segmentBorders(size) {
			places = append(places, border-1, border, border+1)
		}
		for at := 5; at < size; at += 1 + size/4 {
			places = append(places, at)
		}
		for _, at := range places {
			if at >= 0 && at < size {
				a.b.Damage(name, at)
				a.wantDetected(fmt.Sprintf("%s: byte %d flipped", name, at))
			}
		}
	}
}

func TestStoreCuts(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	for _, name := range a.names() {
		if folder(name) == "keys" {
			continue // TestStoreDamagesKeysets
		}
		data := a.b.Data(name)
		for _, border := range segmentBorders(len(data)) {
			for at := max(border-1, 0); at <= border+1; at++ {
				if at != len(data) && at <= len(data)+1 {
					a.b.Set(name, append(bytes.Clone(data), 0)[:at])
					a.wantDetected(fmt.Sprintf("%s: %d of %d bytes", name, at, len(data)))
				}
			}
		}
	}
}

func TestStoreSwaps(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	names := a.names()
	for i, one := range names {
		for _, two := range names[:i] {
			if folder(one) == folder(two) && folder(one) != "keys" { // both copies of the keyset are equal
				a.b.Swap(one, two)
				a.wantDetected(fmt.Sprintf("%s and %s swapped", one, two))
			}
		}
		if folder(one) != "keys" {
			a.b.Remove(one)
			a.wantDetected(one + " removed")
		}
	}
}

// A client that has never seen the keyset reads it from the store, where both copies may be damaged.
func TestStoreDamagesKeysets(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	copies := a.b.Names("keys/")
	data := a.b.Data(copies[0])
	for at := 0; at < len(data); at += 1 + len(data)/20 {
		for _, change := range []func(string){
			func(name string) { a.b.Damage(name, at) },
			func(name string) { a.b.Truncate(name, at) },
		} {
			change(copies[0])
			if err := a.look(a.copyOf(a.dir)); errors.Is(err, remote.ErrNoKey) {
				t.Errorf("byte %d of one copy: %v", at, err)
			}
			change(copies[1])
			if err := a.look(t.TempDir()); err == nil {
				t.Errorf("byte %d of both copies: nobody finds it", at)
			}
			a.b.Restore(a.good)
		}
	}
}

// A store returns to an earlier state, or shows another history than before.
func TestStoreForks(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	before := a.good
	atFork, branches := a.copyOf(a.pusher.Dir), maps.Clone(a.branches)
	for i := range 4 {
		a.push("main", 10+i)
	}
	one, oneSeen := a.b.Snapshot(), a.copyOf(a.pusher.Dir)

	// A client that was shown the state before makes the other history.
	a.b.Restore(before)
	other := &attacked{T: t, b: a.b, pusher: a.pusher, branches: branches}
	other.pusher.Dir = atFork
	other.pusher.Reopen(remotetest.NewGuard(t, a.b))
	for i := range 6 {
		other.push("main", 50+i)
	}
	two := a.b.Snapshot()

	wantRollback := func(what string) {
		t.Helper()
		r, err := transfertest.OpenTest(t, remotetest.NewGuard(t, a.b), a.copyOf(oneSeen))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Head(t.Context()); !errors.Is(err, rootlog.ErrRollback) && !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: the client that was at the first fork has %v, want ErrRollback", what, err)
		}
	}
	a.b.Restore(before)
	wantRollback("rolled back")
	a.b.Restore(two)
	wantRollback("the other fork")

	// All files of both forks are there, and the first roots come from the first.
	a.b.Restore(one)
	first := map[string][]byte{}
	for _, name := range a.b.Names("root/") {
		first[name] = a.b.Data(name)
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		a.b.Restore(two)
		for from, data := range first {
			if from <= name {
				a.b.Set(from, data)
			}
		}
		wantRollback("spliced after " + name)
	}
	a.b.Restore(two)
	for name, data := range first {
		a.b.Set(name, data)
		wantRollback(name + " is of the first fork")
		a.b.Restore(two)
	}
}

// A store puts another kist.json in the place of that of an encrypted remote, or another remote.
func TestStoreSubstitutes(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	clear, other := transfertest.NewRemote(t), transfertest.NewEncrypted(t)
	q := transfertest.NewPusher(t, clear)
	q.MustPush("main", q.MakeGrown(1))

	for what, from := range map[string]*remotetest.Memory{"clear": clear, "other": other} {
		for _, whole := range []bool{false, true} {
			a.b.Set("kist.json", from.Data("kist.json"))
			if whole {
				a.b.Restore(from.Snapshot())
			}
			a.substituted(what, whole)
			a.b.Restore(a.good)
		}
	}
}

// substituted checks what clients do whose store has another kist.json.
func (a *attacked) substituted(what string, whole bool) {
	a.Helper()
	want := map[string]error{"clear": rootlog.ErrNotEncrypted, "other": transfer.ErrOtherRemote}[what]

	keys := transfertest.Keys(a)
	keys.Pin = a.pin
	before := a.b.Names("")
	open := func(dir, url string) (*transfer.Remote, error) {
		return transfer.Open(a.Context(), remotetest.NewGuard(a, a.b), transfer.Options{Dir: dir, URL: url, Now: time.Now, Keys: keys})
	}
	for _, dir := range []string{"", a.TempDir()} {
		if _, err := open(dir, "memory:"); !errors.Is(err, want) {
			a.Errorf("%s kist.json, a client with a pin: %v, want %v", what, err, want)
		}
	}
	if _, err := open(a.copyOf(a.dir), "elsewhere:"); !errors.Is(err, want) {
		a.Errorf("%s kist.json at another URL: %v, want %v", what, err, want)
	}
	if whole {
		if err := a.look(a.copyOf(a.dir)); err == nil {
			a.Errorf("the whole remote is %s: a returning client does not find it", what)
		}
		p := *a.pusher
		p.Dir = a.copyOf(a.dir)
		p.Reopen(remotetest.NewGuard(a, a.b))
		if _, err := p.PushBranch("main", p.MakeGrown(9)); err == nil {
			a.Errorf("the whole remote is %s: a push succeeds", what)
		}
	}
	if now := a.b.Names(""); !slices.Equal(now, before) {
		a.Errorf("%s: the clients wrote %v", what, now)
	}
}
