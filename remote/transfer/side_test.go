package transfer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
)

// side is a repository with refs and records, which pushes and fetches. It is
// kept whole: all is here that refs and holds need, as far as records go.
type side struct {
	*clone
	maker *maker
	refs  map[string]object.ID // full names; those of the remote as "refs/remotes/…"
	said  *record.Set
}

func newSide(t testing.TB, b remote.Backend) *side {
	t.Helper()
	s := &side{clone: newClone(t, b), refs: map[string]object.ID{}, said: &record.Set{}}
	s.maker = &maker{t: t}
	return s
}

// make stores what f makes, and has a branch name it.
func (s *side) make(branch string, f func(*maker) object.ID) object.ID {
	s.t.Helper()
	ctx := context.Background()
	session := s.store.Begin(volume.SessionOptions{})
	s.maker.ReadWriter = session
	id := f(s.maker)
	err := session.Publish(ctx, func(context.Context) error { s.refs["refs/heads/"+branch] = id; return nil })
	if err := errors.Join(err, session.Close()); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// commit makes a commit with a file of its own, and some that all have.
func (s *side) commit(branch string, n int, parents ...object.ID) object.ID {
	s.t.Helper()
	return s.make(branch, func(m *maker) object.ID {
		common := m.tree(map[string]string{"a": noise(1, 200), "b": noise(2, 200)}, nil)
		return m.commit(m.tree(map[string]string{"own": noise(100+n, 300)}, map[string]object.ID{"common": common}), parents...)
	})
}

// note switches a record.
func (s *side) note(kind record.Kind, key object.Key, on bool) {
	r := record.Record{Kind: kind, Key: key, On: on, Time: time.Unix(1_700_000_000, 0).UTC(), Who: "A"}
	s.said.Switch(r)
}

func (s *side) expire(id object.ID)   { s.note(record.Expire, commitKeys(id)[0], true) }
func (s *side) unexpire(id object.ID) { s.note(record.Expire, commitKeys(id)[0], false) }
func (s *side) hold(id object.ID)     { s.note(record.Hold, commitKeys(id)[0], true) }
func (s *side) release(id object.ID)  { s.note(record.Hold, commitKeys(id)[0], false) }

// push pushes branches as they are here; one that is not here is deleted.
func (s *side) push(force bool, branches ...string) (*PushResult, error) {
	o := PushOptions{Records: s.said, Head: mainRef}
	for _, branch := range branches {
		u := RefUpdate{Name: "refs/heads/" + branch, Force: force}
		if id, ok := s.refs[u.Name]; ok {
			u.New = commitKeys(id)[0]
		}
		o.Updates = append(o.Updates, u)
	}
	result, err := s.remote.Push(context.Background(), s.store, o)
	if err == nil {
		for _, r := range result.Refs {
			s.track(r.Name, r.New)
		}
	}
	return result, err
}

func (s *side) mustPush(branches ...string) *PushResult {
	s.t.Helper()
	result, err := s.push(true, branches...)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *side) track(name string, id object.ID) {
	name = strings.Replace(name, "refs/heads/", "refs/remotes/", 1)
	if id.IsZero() {
		delete(s.refs, name)
	} else {
		s.refs[name] = id
	}
}

// fetch fetches all branches, as the root package does.
func (s *side) fetch() (*FetchResult, error) {
	ctx := context.Background()
	head, err := s.remote.Head(ctx)
	if err != nil {
		return nil, err
	}
	session := s.store.Begin(volume.SessionOptions{})
	o := FetchOptions{Have: slices.Collect(maps.Values(s.refs)), Records: s.said}
	for _, key := range head.Refs {
		o.Want = append(o.Want, key)
	}
	result, err := s.remote.Fetch(ctx, session, head, o)
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error {
			for _, r := range result.Forget {
				s.said.Forget(r)
			}
			for r := range result.Records.All() {
				s.said.Merge(r)
			}
			maps.DeleteFunc(s.refs, func(name string, _ object.ID) bool { return strings.HasPrefix(name, "refs/remotes/") })
			for name, key := range head.Refs {
				s.track(name, key.ID)
			}
			return nil
		})
	}
	return result, errors.Join(err, session.Close())
}

func (s *side) mustFetch() *FetchResult {
	s.t.Helper()
	result, err := s.fetch()
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// needed returns what refs and holds need.
func (s *side) needed() map[object.Key]bool {
	s.t.Helper()
	said := s.said.View()
	stack := commitKeys(slices.Concat(slices.Collect(maps.Values(s.refs)), said.Holds())...)
	seen := map[object.Key]bool{}
	for len(stack) > 0 {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		stack = append(stack, s.links(said, key)...)
	}
	return seen
}

// links returns the links of an object that count. It has to be here.
func (s *side) links(said *record.View, key object.Key) []object.Key {
	s.t.Helper()
	data, err := s.store.Get(context.Background(), key)
	if err != nil {
		s.t.Fatalf("needed, and not here: %v", err)
	}
	links, err := object.Links(key.Kind, data)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(links, func(link object.Key) bool { return said.Skips(key, link) })
}

// whole reports whether the content of a commit is here, but for what was
// purged, whether it has expired or not.
func (s *side) whole(id object.ID) bool {
	s.t.Helper()
	ctx := context.Background()
	content, err := contentOf(ctx, s.store, commitKeys(id)[0])
	if errors.Is(err, object.ErrNotFound) {
		return false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	said := s.said.View()
	for len(content) > 0 {
		key := content[len(content)-1]
		content = content[:len(content)-1]
		if missing, err := s.store.Missing(ctx, []object.Key{key}); err != nil || len(missing) > 0 {
			return false
		}
		content = append(content, s.links(said, key)...)
	}
	return true
}

// gc removes all that is not needed.
func (s *side) gc() {
	s.t.Helper()
	ctx := context.Background()
	s.said.EndHolds(time.Now(), "A", "host")
	needed := s.needed()
	old := s.store
	var err error
	if s.store, err = volume.Open(s.t.TempDir(), volume.Options{Now: time.Now}); err != nil {
		s.t.Fatal(err)
	}
	session := s.store.Begin(volume.SessionOptions{})
	for key := range needed {
		data, err := old.Get(ctx, key)
		if err == nil {
			_, err = session.Put(ctx, key.Kind, data)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	err = session.Publish(ctx, func(context.Context) error { return nil })
	if err := errors.Join(err, session.Close(), old.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// has reports whether an object is here.
func (s *side) has(key object.Key) bool {
	s.t.Helper()
	missing, err := s.store.Missing(context.Background(), []object.Key{key})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(missing) == 0
}

// treeOf returns the tree of a commit that is here.
func (s *side) treeOf(id object.ID) object.Key {
	s.t.Helper()
	c, err := object.ReadCommit(context.Background(), s.store, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return object.Key{Kind: object.KindTree, ID: c.Tree}
}
