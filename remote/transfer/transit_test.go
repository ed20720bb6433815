package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// transitRemotes returns remotes with everything that can be read: roots, inline packs, index
// files and, in one of them, patches.
func transitRemotes(t *testing.T) map[string]*remotetest.Memory {
	t.Helper()
	plain := newRemote(t)
	p := newPusher(t, plain)
	at := p.grow(1)
	p.mustPush("main", at)
	p.mustPush("many", p.many(3, 500))
	p.mustPush("half", p.many(3, 20))
	for i := range 3 {
		at = p.grow(i+2, at)
		p.mustPush("main", at)
	}

	optimised := remotetest.NewMemory()
	optimised.Restore(plain.Snapshot())
	mustCollect(t, optimised, CollectOptions{Repack: true})
	at = p.grow(7, at)
	q := newPusher(t, optimised)
	q.local, q.ReadWriter = p.local, p.local
	q.mustPush("main", at)
	newCollector(t, optimised).delete("many")
	return map[string]*remotetest.Memory{"plain": plain, "optimised": optimised}
}

// TestWrongByteInTransit changes one byte of one reply, for each reply in turn. No operation
// reports damage because of it, or stores the wrong byte.
func TestWrongByteInTransit(t *testing.T) {
	t.Parallel()
	acts := map[string]func(t *testing.T, b remote.Backend) error{
		"clone": func(t *testing.T, b remote.Backend) error { return fetchAll(t, b) },
		"verify": func(t *testing.T, b remote.Backend) error {
			r, err := openTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.indexes.close(nil)
			var found []error
			_, err = r.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) { found = append(found, p) })
			return errors.Join(append(found, err)...)
		},
		"repair": func(t *testing.T, b remote.Backend) error {
			r, err := openTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.indexes.close(nil)
			result, err := r.Repair(t.Context(), newMemoryLocal(), RepairOptions{})
			if err == nil && len(result.Found) > 0 {
				err = result.Found[0]
			}
			return err
		},
		"collect": func(t *testing.T, b remote.Backend) error { _, err := collectIn(t, b, nil, atOnce); return err },
		"optimise": func(t *testing.T, b remote.Backend) error {
			_, err := collectIn(t, b, nil, CollectOptions{Repack: true})
			return err
		},
		"push": func(t *testing.T, b remote.Backend) error {
			p := newPusher(t, newRemote(t))
			p.dir = t.TempDir()
			var err error
			if p.remote, err = openTest(t, b, p.dir); err != nil {
				return err
			}
			_, err = p.push("new", p.grow(9))
			return err
		},
		"rescue": func(t *testing.T, b remote.Backend) error {
			r, err := openTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.indexes.close(nil)
			head, err := r.Head(t.Context())
			if err != nil {
				return err
			}
			wanted, taken := slices.Collect(maps.Values(head.Refs)), 0
			err = r.Rescue(t.Context(), wanted, func(object.Key, []byte, int) error { taken++; return nil })
			if err == nil && taken < len(wanted) {
				err = errors.New("Rescue did not return all objects")
			}
			return err
		},
	}

	for remoteName, start := range transitRemotes(t) {
		before := start.Snapshot()
		for name, act := range acts {
			t.Run(remoteName+"/"+name, func(t *testing.T) {
				t.Parallel()

				run := func(fault *remotetest.Fault) (gets int) {
					b := remotetest.NewMemory()
					b.Restore(before)
					f := remotetest.NewFaulty(b)
					if fault != nil {
						f.Fail(*fault)
					}

					if err := act(t, f); err != nil {
						t.Fatalf("%+v: %v", fault, err)
					}
					f.Heal()
					gets = f.Calls(remotetest.Get)
					if name != "clone" && name != "verify" {
						wantIntact(t, b, nil)
					}
					return gets
				}

				for n := range run(nil) {
					for _, at := range []int{9, 1<<20 - 77} {
						run(&remotetest.Fault{Op: remotetest.Get, N: n + 1, How: remotetest.Wrong, Byte: at})
					}
				}
			})
		}
	}
}

// fetchAll fetches all refs of a remote into a new repository.
func fetchAll(t *testing.T, b remote.Backend) error {
	t.Helper()
	store, err := volume.Open(t.TempDir(), volume.Options{Now: noWait.Now})
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		return err
	}
	defer r.indexes.close(nil)
	head, err := r.Head(t.Context())
	if err != nil {
		return err
	}

	session := store.Begin(volume.SessionOptions{})
	defer session.Close()
	want := slices.Collect(maps.Values(head.Refs))
	if _, err := r.Fetch(t.Context(), session, head, FetchOptions{Want: want}); err != nil {
		return err
	}
	if err := session.Publish(t.Context(), func(context.Context) error { return nil }); err != nil {
		return err
	}
	for key := range closure(t, store, want...) {
		if _, err := store.Get(t.Context(), key); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(key.String()), err)
		}
	}
	return nil
}
