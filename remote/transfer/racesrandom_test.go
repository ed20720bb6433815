package transfer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// TestRandomRaces has other processes append roots before a push appends its own: pushes,
// deletions of branches, and collections. Some pushes are stopped and resumed. All that refs
// reach stays intact.
func TestRandomRaces(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &randomRaces{t: t, rng: rand.New(rand.NewPCG(seed, 3)), b: newRemote(t), refs: map[string]object.ID{}}
			r.first, r.other, r.gc = newPusher(t, r.b), newPusher(t, r.b), newCollector(t, r.b)
			for range 15 {
				r.step()
			}
			wantIntact(t, r.b, r.refs)
		})
	}
}

type randomRaces struct {
	t            *testing.T
	rng          *rand.Rand
	b            *remotetest.Memory
	first, other *pusher
	gc           *collector
	n            int
	refs         map[string]object.ID
}

// step pushes a branch. Meanwhile other processes may append roots.
func (r *randomRaces) step() {
	faulty := remotetest.NewFaulty(r.b)
	r.first.reopen(faulty)
	for i := range r.rng.IntN(4) {
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: i + 1, Do: r.beside})
	}
	name, id := r.make(r.first)
	if r.rng.IntN(3) == 0 {
		faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: 1 + r.rng.IntN(12), How: remotetest.How(r.rng.IntN(2)), Stays: true, Err: down})
		r.first.push(name, id)
		for range r.rng.IntN(3) {
			r.beside()
		}
		r.first.reopen(r.b)
	}
	r.first.mustPush(name, id)
	r.refs[name] = id
}

// make makes a commit for a new branch.
func (r *randomRaces) make(p *pusher) (name string, id object.ID) {
	r.n++
	files := map[string]string{}
	for range 1 + r.rng.IntN([]int{2, 60, 300, 500}[r.rng.IntN(4)]) {
		i := r.rng.IntN(3000)
		files[fmt.Sprint("f", i)] = noise(i, 50)
	}
	return fmt.Sprint("b", r.n), p.commit(p.tree(files, nil))
}

// beside does a random step of another process.
func (r *randomRaces) beside() {
	switch r.rng.IntN(6) {
	case 0:
		if names := sortedKeys(r.refs); len(names) > 0 {
			name := names[r.rng.IntN(len(names))]
			r.gc.delete(name)
			delete(r.refs, name)
		}
	case 1:
		r.gc.collect()
	case 2:
		r.gc.delist()
	default:
		name, id := r.make(r.other)
		r.other.mustPush(name, id)
		r.refs[name] = id
	}
}
