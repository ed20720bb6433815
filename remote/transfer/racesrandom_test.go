package transfer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestRandomRaces has other processes append roots before a push appends its own: pushes,
// deletions of branches, and collections. Some pushes are stopped and resumed. All that refs
// reach stays intact.
func TestRandomRaces(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &randomRaces{t: t, rng: rand.New(rand.NewPCG(seed, 3)), b: transfertest.NewRemote(t), refs: map[string]object.ID{}}
			r.first, r.other, r.gc = transfertest.NewPusher(t, r.b), transfertest.NewPusher(t, r.b), transfertest.NewCollector(t, r.b)
			for range 15 {
				r.step()
			}
			transfertest.WantIntact(t, r.b, r.refs)
		})
	}
}

type randomRaces struct {
	t            *testing.T
	rng          *rand.Rand
	b            *remotetest.Memory
	first, other *transfertest.Pusher
	gc           *transfertest.Collector
	n            int
	refs         map[string]object.ID
}

// step pushes a branch. Meanwhile other processes may append roots.
func (r *randomRaces) step() {
	faulty := remotetest.NewFaulty(r.b)
	r.first.Reopen(faulty)
	for i := range r.rng.IntN(4) {
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: i + 1, Do: r.beside})
	}
	name, id := r.make(r.first)
	if r.rng.IntN(3) == 0 {
		faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: 1 + r.rng.IntN(12), How: remotetest.How(r.rng.IntN(2)), Stays: true, Err: transfertest.ErrDown})
		r.first.PushBranch(name, id)
		for range r.rng.IntN(3) {
			r.beside()
		}
		r.first.Reopen(r.b)
	}
	r.first.MustPush(name, id)
	r.refs[name] = id
}

// make makes a commit for a new branch.
func (r *randomRaces) make(p *transfertest.Pusher) (name string, id object.ID) {
	r.n++
	files := map[string]string{}
	for range 1 + r.rng.IntN([]int{2, 60, 300, 500}[r.rng.IntN(4)]) {
		i := r.rng.IntN(3000)
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, 50)
	}
	return fmt.Sprint("b", r.n), p.MakeCommit(p.MakeTree(files, nil))
}

// beside does a random step of another process.
func (r *randomRaces) beside() {
	switch r.rng.IntN(6) {
	case 0:
		if names := objecttest.SortedKeys(r.refs); len(names) > 0 {
			name := names[r.rng.IntN(len(names))]
			r.gc.DeleteBranch(name)
			delete(r.refs, name)
		}
	case 1:
		r.gc.MarkUnreached()
	case 2:
		r.gc.ForgetMarked()
	default:
		name, id := r.make(r.other)
		r.other.MustPush(name, id)
		r.refs[name] = id
	}
}
