package transfertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
)

// AtOnce sets all ages to 0 and permits no waste.
var AtOnce = collect.Options{}

// CollectIn collects garbage on a remote, like a process without a cache.
func CollectIn(t testing.TB, b remote.Backend, local object.Reader, o collect.Options) (collect.Stats, error) {
	t.Helper()
	r, err := OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := collect.PlanGarbage(context.Background(), r, local, o)
	if err != nil {
		return collect.Stats{}, err
	}
	defer c.Close()
	if !o.DryRun {
		err = c.Apply(context.Background())
	}
	return c.Stats(), err
}

func MustCollect(t testing.TB, b remote.Backend, o collect.Options) collect.Stats {
	t.Helper()
	st, err := CollectIn(t, b, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Files returns the names of all packs, index files and state files.
func Files(b *remotetest.Memory) []string {
	return slices.Concat(b.Names("packs/"), b.Names("index/"), b.Names("state/"))
}

// WantNoGarbage checks that the head needs every file, and that none is condemned.
func WantNoGarbage(t testing.TB, b *remotetest.Memory) {
	t.Helper()
	head := NewCollector(t, b).Head()
	needed := NewCollector(t, b).ReachablePacks()
	for _, name := range head.NamedFiles() {
		needed[name] = true
	}
	if len(needed) > len(head.NamedFiles()) {
		for _, f := range head.Indexes {
			needed[f.Name.IndexPath()] = true
		}
	}
	for _, name := range slices.Concat(Files(b), b.Names("keys/")) {
		if !needed[name] {
			t.Errorf("%s is garbage", name)
		}
	}
	if len(head.Condemned) > 0 {
		t.Errorf("%d files are condemned, want none", len(head.Condemned))
	}
}

// CheckProblems returns the messages of the problems that a check of a remote finds.
func CheckProblems(t *testing.T, b *remotetest.Memory, readData bool) (found []string) {
	t.Helper()
	r, err := OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = collect.Check(context.Background(), r, collect.CheckOptions{ReadData: readData}, func(p collect.Problem) { found = append(found, p.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// WantIntact checks that a remote has no damage, and that no reachable object is missing.
// Unless refs is nil, it compares the refs, by name without refs/heads/.
func WantIntact(t testing.TB, b remote.Backend, refs map[string]object.ID) collect.Checked {
	t.Helper()
	r, err := OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checked, err := collect.Check(context.Background(), r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) { t.Errorf("check: %v", p) })
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

// FetchAll fetches all refs of a remote into a new repository.
func FetchAll(t *testing.T, b remote.Backend) error {
	t.Helper()
	store, err := volume.Open(t.TempDir(), volume.Options{Now: noWait.Now})
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := OpenTest(t, b, t.TempDir())
	if err != nil {
		return err
	}
	defer r.Close()
	head, err := r.Head(t.Context())
	if err != nil {
		return err
	}

	session := store.Begin(volume.SessionOptions{})
	defer session.Close()
	want := slices.Collect(maps.Values(head.Refs))
	if _, err := r.Fetch(t.Context(), session, head, transfer.FetchOptions{Want: want}); err != nil {
		return err
	}
	if err := session.Publish(t.Context(), func(context.Context) error { return nil }); err != nil {
		return err
	}
	for key := range objecttest.Closure(t, store, want...) {
		if _, err := store.Get(t.Context(), key); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(key.String()), err)
		}
	}
	return nil
}

// ErrDown is the error of a store after the simulated end of the process. It is not retried.
var ErrDown = &remote.Error{Kind: remote.ErrPermission, Err: errors.New("down")}
