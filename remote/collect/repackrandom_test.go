package collect_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestRandomRepacks pushes versions of branches, deletes branches, collects with and
// without repacking, and repairs damaged packs. Concurrent pushes make copies of objects. The
// remote is intact after every step.
func TestRandomRepacks(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := transfertest.NewRemote(t)
			faulty := remotetest.NewFaulty(b)
			r := &randomRepacks{
				writer: newWriter(t, faulty, seed), faulty: faulty, b: b, rng: rand.New(rand.NewPCG(seed, 3)),
				tips: map[string]object.ID{}, other: transfertest.NewPusher(t, b), reader: transfertest.NewSide(t, b),
			}
			r.other.Local = r.Local
			for range 40 {
				r.step()
				transfertest.WantIntact(t, b, r.tips)
				if t.Failed() {
					t.Fatalf("after: %s", strings.Join(r.done, "; "))
				}
			}
			transfertest.NewSide(t, b).MustFetchAll()
		})
	}
}

type randomRepacks struct {
	*writer
	faulty *remotetest.Faulty
	b      *remotetest.Memory
	rng    *rand.Rand
	tips   map[string]object.ID // by branch
	other  *transfertest.Pusher // has the objects of the writer
	reader *transfertest.Side
	done   []string
}

func (r *randomRepacks) step() {
	r.T.Helper()
	branch := fmt.Sprint("branch", r.rng.IntN(3))
	what := branch
	switch n := r.rng.IntN(12); {
	case n < 5 || r.tips[branch].IsZero():
		what = "version of " + what
		r.branch, r.writer.tip = branch, nil
		if id := r.tips[branch]; !id.IsZero() {
			r.writer.tip = []object.ID{id}
		}
		if r.rng.IntN(3) == 0 {
			what += ", and another one at once"
			r.faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: r.beside})
		}
		r.version()
		r.tips[branch] = r.writer.tip[0]

	case n == 5:
		if !r.tips["copy"].IsZero() && r.rng.IntN(2) == 0 {
			branch = "copy"
		}
		what = "delete " + branch
		transfertest.NewCollector(r.T, r.b).DeleteBranch(branch)
		delete(r.tips, branch)

	case n < 10:
		o := collect.Options{Repack: n < 8, MaxWaste: 0.3 * float64(r.rng.IntN(2))}
		what = fmt.Sprintf("collect %+v", o)
		transfertest.MustCollect(r.T, r.b, o)

	case n == 10:
		what = "repair"
		r.repair()
	default:
		what = "fetch"
		r.reader.MustFetchAll()
	}
	r.done = append(r.done, what)
}

// beside has another clone push the commit that the writer is pushing. A collection may
// follow.
func (r *randomRepacks) beside() {
	r.T.Helper()
	id := r.writer.tip[0]
	if _, err := r.other.Remote.Push(r.T.Context(), r.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: "refs/heads/copy", New: objecttest.CommitKeys(id)[0], Force: true}}}); err != nil {
		r.T.Fatal(err)
	}
	r.tips["copy"] = id
	if r.rng.IntN(2) == 0 {
		transfertest.MustCollect(r.T, r.b, collect.Options{Repack: r.rng.IntN(2) == 0, ForgetAfter: time.Hour, PruneAge: math.MaxInt64})
	}
}

// repair damages a pack in its first third, where most bases are, and repairs it from the
// local repository.
func (r *randomRepacks) repair() {
	r.T.Helper()
	names := r.b.Names("packs/")
	name := names[r.rng.IntN(len(names))]
	r.b.Damage(name, remote.HeaderSize+r.rng.IntN(len(r.b.Data(name))/3))
	opened, err := transfertest.OpenTest(r.T, r.b, r.T.TempDir())
	if err != nil {
		r.T.Fatal(err)
	}
	result, err := collect.Repair(r.T.Context(), opened, r.Local, collect.RepairOptions{})
	if err != nil || len(result.Lost) > 0 {
		r.T.Fatalf("repair: %+v, %v", result, err)
	}
}
