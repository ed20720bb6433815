package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestRandomRecords has two repositories change records, push, fetch and collect garbage at
// random. After every step, each repository and the remote have all objects that their refs
// and records require.
func TestRandomRecords(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := transfertest.NewRemote(t)
			faulty := []*remotetest.Faulty{remotetest.NewFaulty(b), remotetest.NewFaulty(b)}
			r := &randomRecords{t: t, b: b, rng: rand.New(rand.NewPCG(seed, 1)), faulty: faulty}
			r.sides = []*transfertest.Side{transfertest.NewSide(t, faulty[0]), transfertest.NewSide(t, faulty[1])}
			r.sides[1].Maker.Date = 1_000_000
			for range 60 {
				r.step()
				for _, s := range r.sides {
					s.MustReach()
				}
				transfertest.WantIntact(t, b, nil)
				if t.Failed() {
					t.Fatalf("after: %s", strings.Join(r.done, "; "))
				}
			}
		})
	}
}

type randomRecords struct {
	t      *testing.T
	b      *remotetest.Memory
	faulty []*remotetest.Faulty
	rng    *rand.Rand
	sides  []*transfertest.Side
	done   []string
}

// did notes and logs a step.
func (r *randomRecords) did(format string, args ...any) {
	r.done = append(r.done, fmt.Sprintf(format, args...))
	r.t.Logf("%d: %s", len(r.done), r.done[len(r.done)-1])
}

// step does one random operation on a side or on the remote.
func (r *randomRecords) step() {
	n := r.rng.IntN(len(r.sides))
	s := r.sides[n]
	branch := []string{"main", fmt.Sprint("b", n)}[r.rng.IntN(2)]
	name := "refs/heads/" + branch
	switch what := r.rng.IntN(24); {
	case what < 5:
		var parents []object.ID
		for _, from := range []string{name, "refs/remotes/" + branch} {
			if id, ok := s.Refs[from]; ok && !slices.Contains(parents, id) && r.rng.IntN(8) > 0 {
				parents = append(parents, id)
			}
		}
		if r.rng.IntN(3) == 0 { // on an old commit, which may have expired
			if key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindCommit }); ok && !slices.Contains(parents, key.ID) {
				parents = append(parents, key.ID)
			}
		}
		s.MakeCommitOn(branch, func(m *objecttest.Maker) object.ID { return m.MakeCommit(r.tree(m, 0), parents...) })
		r.did("%d commits %s on %s", n, s.Refs[name].Short(), branch)

	case what < 9:
		if _, ok := s.Refs[name]; !ok && r.rng.IntN(3) > 0 {
			return
		}
		if r.rng.IntN(3) == 0 { // another process is first
			r.faulty[n].Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() { r.meanwhile(1 - n) }})
			defer r.faulty[n].Heal()
		}
		force := r.rng.IntN(2) == 0
		result, err := s.PushBranches(force, branch)
		if errors.Is(err, transfer.ErrNotFastForward) {
			r.did("%d cannot push %s", n, branch)
			return
		}
		if errors.Is(err, transfer.ErrNeededAgain) {
			r.did("%d cannot push %s: objects are missing", n, branch)
			return
		}
		r.must(err, "%d pushes %s, %v", n, branch, force)
		r.did("%d has pushed %s with %d records", n, branch, result.Records)

	case what < 12:
		_, err := s.FetchAll()
		r.must(err, "%d fetches", n)
	case what < 14:
		s.CollectLocal()
		r.did("%d collects garbage", n)
	case what < 16:
		_, err := transfertest.CollectIn(r.t, r.b, nil, transfertest.AtOnce)
		r.must(err, "the remote collects garbage")
	case what == 16:
		delete(s.Refs, name)
		r.did("%d deletes %s", n, branch)
	case what < 21:
		r.note(n, s)
	default:
		r.purge(n, s)
	}
}

// meanwhile does a random operation of another process during a push.
func (r *randomRecords) meanwhile(n int) {
	if r.rng.IntN(2) == 0 {
		_, err := transfertest.CollectIn(r.t, r.b, nil, transfertest.AtOnce)
		r.must(err, "the remote collects garbage meanwhile")
		return
	}
	s := r.sides[n]
	r.note(n, s)
	r.purge(n, s)
	_, err := s.PushBranches(true, fmt.Sprint("b", n))
	if errors.Is(err, transfer.ErrNeededAgain) {
		err = nil
	}
	r.must(err, "%d pushes meanwhile", n)
}

// must notes a step, and ends the test if the step failed.
func (r *randomRecords) must(err error, format string, args ...any) {
	r.t.Helper()
	r.did(format, args...)
	if err != nil {
		r.t.Fatalf("after %d steps: %v", len(r.done), err)
	}
}

// tree makes a folder of few different files, so that many commits share them.
func (r *randomRecords) tree(m *objecttest.Maker, depth int) object.ID {
	ctx := context.Background()
	w := object.NewTreeWriter(m)
	for i := range 3 {
		e := object.Entry{Name: fmt.Sprint("e", i), Type: object.TypeFile, Mode: 0o644, MTime: object.Time{Sec: 1}}
		var err error
		switch r.rng.IntN(4 - depth) {
		case 0:
			text := objecttest.Noise(r.rng.IntN(12), 60)
			e.Size = uint64(len(text))
			e.Content = object.Key{Kind: object.KindChunk, ID: m.PutData(object.KindChunk, []byte(text))}
		case 1:
			list := object.NewManifestWriter(m)
			for range 2 + r.rng.IntN(3) {
				text := objecttest.Noise(r.rng.IntN(12), 60)
				if err := list.Add(ctx, object.ChunkRef{ID: m.PutData(object.KindChunk, []byte(text)), Size: uint32(len(text))}); err != nil {
					r.t.Fatal(err)
				}
			}
			e.Content, e.Size, err = list.Finish(ctx)
		default:
			e = object.Entry{Name: e.Name, Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: r.tree(m, depth+1)}}
		}

		if err == nil {
			err = w.Add(ctx, e)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}

	id, err := w.Finish(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// one returns a random reachable object of a side with a matching kind. Ok is false if there
// is none.
func (r *randomRecords) one(s *transfertest.Side, is func(object.Kind) bool) (key object.Key, ok bool) {
	keys := slices.DeleteFunc(slices.SortedFunc(maps.Keys(s.MustReach()), object.Key.Compare), func(key object.Key) bool { return !is(key.Kind) })
	if len(keys) == 0 {
		return key, false
	}
	return keys[r.rng.IntN(len(keys))], true
}

// note changes an expiration or a hold, if a command would permit the change.
func (r *randomRecords) note(n int, s *transfertest.Side) {
	key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindCommit })
	if !ok {
		return
	}
	_, expired := s.Records.View().Expired(key.ID)
	_, held := s.Records.View().Held(key.ID)
	named := slices.Contains(slices.Collect(maps.Values(s.Refs)), key.ID)
	switch {
	case held && r.rng.IntN(2) == 0:
		s.Release(key.ID)
		r.did("%d releases %s", n, key.ID.Short())

	case !held && r.rng.IntN(2) == 0:
		if s.HasContent(key.ID) {
			hold := record.Record{Kind: record.Hold, Key: key, On: true, Time: time.Unix(1, 0).UTC()}
			if r.rng.IntN(3) == 0 {
				hold.Until = time.Unix(2, 0).UTC() // ends with the next collection
			}
			s.Records.Switch(hold)
			r.did("%d holds %s", n, key.ID.Short())
		}

	case expired:
		if s.HasContent(key.ID) {
			s.Unexpire(key.ID)
			r.did("%d undoes the expiration of %s", n, key.ID.Short())
		}

	case !named && !held:
		s.Expire(key.ID)
		r.did("%d expires %s", n, key.ID.Short())
	}
}

// purge purges an object, or undoes a purge.
func (r *randomRecords) purge(n int, s *transfertest.Side) {
	if r.rng.IntN(2) == 0 {
		var purged []record.Record
		for rec := range s.Records.All() {
			if rec.Kind == record.Purge && rec.On {
				purged = append(purged, rec)
			}
		}
		if len(purged) == 0 {
			return
		}
		key := purged[r.rng.IntN(len(purged))].Key
		whole, err := transfer.HasAll(context.Background(), s.Store, key)
		r.must(err, "%d looks for %s", n, key)
		if whole {
			s.SwitchRecord(record.Purge, key, false)
			r.did("%d undoes the purge of %s", n, key)
		}
		return
	}
	key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindChunk || k == object.KindManifest })
	if ok {
		s.SwitchRecord(record.Purge, key, true)
		r.did("%d purges %s", n, key)
	}
}
