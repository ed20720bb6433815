package transfer

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
)

// TestRandomRecords has repositories do what they can with records, while they
// push and fetch and garbage is collected everywhere. After every step all is
// everywhere that records there say is needed.
func TestRandomRecords(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newRemoteIn(t)
			faulty := []*remotetest.Faulty{remotetest.NewFaulty(b), remotetest.NewFaulty(b)}
			r := &randomRecords{t: t, b: b, rng: rand.New(rand.NewPCG(seed, 1)), faulty: faulty}
			r.sides = []*side{newSide(t, faulty[0]), newSide(t, faulty[1])}
			r.sides[1].maker.date = 1_000_000
			for range 60 {
				r.step()
				for _, s := range r.sides {
					s.needed()
				}
				wantWhole(t, b, nil)
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
	sides  []*side
	done   []string
}

// did notes a step.
func (r *randomRecords) did(format string, args ...any) {
	r.done = append(r.done, fmt.Sprintf(format, args...))
	r.t.Logf("%d: %s", len(r.done), r.done[len(r.done)-1])
}

// step does something to one of the sides, or to the remote.
func (r *randomRecords) step() {
	n := r.rng.IntN(len(r.sides))
	s := r.sides[n]
	branch := []string{"main", fmt.Sprint("b", n)}[r.rng.IntN(2)]
	name := "refs/heads/" + branch
	switch what := r.rng.IntN(24); {
	case what < 5:
		var parents []object.ID
		for _, from := range []string{name, "refs/remotes/" + branch} {
			if id, ok := s.refs[from]; ok && !slices.Contains(parents, id) && r.rng.IntN(8) > 0 {
				parents = append(parents, id)
			}
		}
		if r.rng.IntN(3) == 0 { // on top of something old, which may have expired
			if key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindCommit }); ok && !slices.Contains(parents, key.ID) {
				parents = append(parents, key.ID)
			}
		}
		s.make(branch, func(m *maker) object.ID { return m.commit(r.tree(m, 0), parents...) })
		r.did("%d commits %s on %s", n, s.refs[name].Short(), branch)
	case what < 9:
		if _, ok := s.refs[name]; !ok && r.rng.IntN(3) > 0 {
			return
		}
		if r.rng.IntN(3) == 0 { // somebody is quicker
			r.faulty[n].Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() { r.meanwhile(1 - n) }})
			defer r.faulty[n].Heal()
		}
		force := r.rng.IntN(2) == 0
		result, err := s.push(force, branch)
		if errors.Is(err, ErrNotFastForward) {
			r.did("%d cannot push %s", n, branch)
			return
		}
		if errors.Is(err, ErrNeededAgain) {
			r.did("%d lacks what it would have to push to %s", n, branch)
			return
		}
		r.must(err, "%d pushes %s, %v", n, branch, force)
		r.did("%d has pushed %s, told %d", n, branch, result.Records)
	case what < 12:
		_, err := s.fetch()
		r.must(err, "%d fetches", n)
	case what < 14:
		s.gc()
		r.did("%d collects garbage", n)
	case what < 16:
		_, err := collectIn(r.t, r.b, nil, atOnce)
		r.must(err, "the remote collects garbage")
	case what == 16:
		delete(s.refs, name)
		r.did("%d deletes %s", n, branch)
	case what < 21:
		r.note(n, s)
	default:
		r.purge(n, s)
	}
}

// meanwhile is what somebody does while another one is pushing.
func (r *randomRecords) meanwhile(n int) {
	if r.rng.IntN(2) == 0 {
		_, err := collectIn(r.t, r.b, nil, atOnce)
		r.must(err, "the remote collects garbage meanwhile")
		return
	}
	s := r.sides[n]
	r.note(n, s)
	r.purge(n, s)
	_, err := s.push(true, fmt.Sprint("b", n))
	if errors.Is(err, ErrNeededAgain) {
		err = nil
	}
	r.must(err, "%d pushes meanwhile", n)
}

// must ends the test if there is an error.
func (r *randomRecords) must(err error, format string, args ...any) {
	r.t.Helper()
	r.did(format, args...)
	if err != nil {
		r.t.Fatalf("after %d steps: %v", len(r.done), err)
	}
}

// tree makes a folder of files of which there are few, so that many commits
// have them.
func (r *randomRecords) tree(m *maker, depth int) object.ID {
	ctx := context.Background()
	w := object.NewTreeWriter(m)
	for i := range 3 {
		e := object.Entry{Name: fmt.Sprint("e", i), Type: object.TypeFile, Mode: 0o644, MTime: object.Time{Sec: 1}}
		var err error
		switch r.rng.IntN(4 - depth) {
		case 0:
			text := noise(r.rng.IntN(12), 60)
			e.Size = uint64(len(text))
			e.Content = object.Key{Kind: object.KindChunk, ID: m.putData(object.KindChunk, []byte(text))}
		case 1:
			list := object.NewManifestWriter(m)
			for range 2 + r.rng.IntN(3) {
				text := noise(r.rng.IntN(12), 60)
				if err := list.Add(ctx, object.ChunkRef{ID: m.putData(object.KindChunk, []byte(text)), Size: uint32(len(text))}); err != nil {
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

// one returns some object of a kind that a side needs; ok is false if it needs
// none.
func (r *randomRecords) one(s *side, is func(object.Kind) bool) (key object.Key, ok bool) {
	keys := slices.DeleteFunc(slices.SortedFunc(maps.Keys(s.needed()), object.Key.Compare), func(key object.Key) bool { return !is(key.Kind) })
	if len(keys) == 0 {
		return key, false
	}
	return keys[r.rng.IntN(len(keys))], true
}

// note has a commit expire, or be held, or takes that back, as the root package
// allows it.
func (r *randomRecords) note(n int, s *side) {
	key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindCommit })
	if !ok {
		return
	}
	_, expired := s.said.View().Expired(key.ID)
	_, held := s.said.View().Held(key.ID)
	named := slices.Contains(slices.Collect(maps.Values(s.refs)), key.ID)
	switch {
	case held && r.rng.IntN(2) == 0:
		s.release(key.ID)
		r.did("%d releases %s", n, key.ID.Short())
	case !held && r.rng.IntN(2) == 0:
		if s.whole(key.ID) {
			hold := record.Record{Kind: record.Hold, Key: key, On: true, Time: time.Unix(1, 0).UTC()}
			if r.rng.IntN(3) == 0 {
				hold.Until = time.Unix(2, 0).UTC() // over as soon as garbage is collected
			}
			s.said.Switch(hold)
			r.did("%d holds %s", n, key.ID.Short())
		}
	case expired:
		if s.whole(key.ID) {
			s.unexpire(key.ID)
			r.did("%d has %s expire no more", n, key.ID.Short())
		}
	case !named && !held:
		s.expire(key.ID)
		r.did("%d has %s expire", n, key.ID.Short())
	}
}

// purge purges something, or takes that back.
func (r *randomRecords) purge(n int, s *side) {
	if r.rng.IntN(2) == 0 {
		var purged []record.Record
		for rec := range s.said.All() {
			if rec.Kind == record.Purge && rec.On {
				purged = append(purged, rec)
			}
		}
		if len(purged) == 0 {
			return
		}
		key := purged[r.rng.IntN(len(purged))].Key
		whole, err := hasAll(context.Background(), s.store, key)
		r.must(err, "%d looks for %s", n, key)
		if whole {
			s.note(record.Purge, key, false)
			r.did("%d takes back the purge of %s", n, key)
		}
		return
	}
	key, ok := r.one(s, func(k object.Kind) bool { return k == object.KindChunk || k == object.KindManifest })
	if ok {
		s.note(record.Purge, key, true)
		r.did("%d purges %s", n, key)
	}
}
