package transfer_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// transitRemotes returns remotes with everything that can be read: roots, inline packs, index
// files and, in one of them, patches.
func transitRemotes(t *testing.T) map[string]*remotetest.Memory {
	t.Helper()
	plain := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, plain)
	at := p.MakeGrown(1)
	p.MustPush("main", at)
	p.MustPush("many", p.MakeMany(3, 500))
	p.MustPush("half", p.MakeMany(3, 20))
	for i := range 3 {
		at = p.MakeGrown(i+2, at)
		p.MustPush("main", at)
	}

	repacked := remotetest.NewMemory()
	repacked.Restore(plain.Snapshot())
	transfertest.MustCollect(t, repacked, collect.Options{Repack: true})
	at = p.MakeGrown(7, at)
	q := transfertest.NewPusher(t, repacked)
	q.Local, q.ReadWriter = p.Local, p.Local
	q.MustPush("main", at)
	transfertest.NewCollector(t, repacked).DeleteBranch("many")
	return map[string]*remotetest.Memory{"plain": plain, "repacked": repacked}
}

// TestWrongByteInTransit changes one byte of one reply, for each reply in turn. No operation
// reports damage because of it, or stores the wrong byte.
func TestWrongByteInTransit(t *testing.T) {
	t.Parallel()
	acts := map[string]func(t *testing.T, b remote.Backend) error{
		"clone": func(t *testing.T, b remote.Backend) error { return transfertest.FetchAll(t, b) },
		"verify": func(t *testing.T, b remote.Backend) error {
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.Close()
			var found []error
			_, err = collect.Check(t.Context(), r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) { found = append(found, p) })
			return errors.Join(append(found, err)...)
		},
		"repair": func(t *testing.T, b remote.Backend) error {
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.Close()
			result, err := collect.Repair(t.Context(), r, transfertest.NewMemoryLocal(), collect.RepairOptions{})
			if err == nil && len(result.Found) > 0 {
				err = result.Found[0]
			}
			return err
		},
		"collect": func(t *testing.T, b remote.Backend) error {
			_, err := transfertest.CollectIn(t, b, nil, transfertest.AtOnce)
			return err
		},
		"repack": func(t *testing.T, b remote.Backend) error {
			_, err := transfertest.CollectIn(t, b, nil, collect.Options{Repack: true})
			return err
		},
		"push": func(t *testing.T, b remote.Backend) error {
			p := transfertest.NewPusher(t, transfertest.NewRemote(t))
			p.Dir = t.TempDir()
			var err error
			if p.Remote, err = transfertest.OpenTest(t, b, p.Dir); err != nil {
				return err
			}
			_, err = p.PushBranch("new", p.MakeGrown(9))
			return err
		},
		"rescue": func(t *testing.T, b remote.Backend) error {
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				return err
			}
			defer r.Close()
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
						transfertest.WantIntact(t, b, nil)
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
