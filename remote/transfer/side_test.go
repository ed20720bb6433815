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

// side is a repository with refs and records that pushes and fetches. It has every object
// that its refs and holds reach. Links that records switch off do not count.
type side struct {
	*clone
	maker   *maker
	refs    map[string]object.ID // by full name; remote-tracking branches are "refs/remotes/…"
	records *record.Set
}

func newSide(t testing.TB, b remote.Backend) *side {
	t.Helper()
	s := &side{clone: newClone(t, b), refs: map[string]object.ID{}, records: &record.Set{}}
	s.maker = &maker{t: t}
	return s
}

// make stores the objects that f makes, and sets a branch to the commit that f returns.
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

// commit makes a commit with one unique file, selected by n, and two files that all commits
// share.
func (s *side) commit(branch string, n int, parents ...object.ID) object.ID {
	s.t.Helper()
	return s.make(branch, func(m *maker) object.ID {
		common := m.tree(map[string]string{"a": noise(1, 200), "b": noise(2, 200)}, nil)
		return m.commit(m.tree(map[string]string{"own": noise(100+n, 300)}, map[string]object.ID{"common": common}), parents...)
	})
}

// note switches a record on or off.
func (s *side) note(kind record.Kind, key object.Key, on bool) {
	r := record.Record{Kind: kind, Key: key, On: on, Time: time.Unix(1_700_000_000, 0).UTC(), Who: "A"}
	s.records.Switch(r)
}

func (s *side) expire(id object.ID)   { s.note(record.Expire, commitKeys(id)[0], true) }
func (s *side) unexpire(id object.ID) { s.note(record.Expire, commitKeys(id)[0], false) }
func (s *side) hold(id object.ID)     { s.note(record.Hold, commitKeys(id)[0], true) }
func (s *side) release(id object.ID)  { s.note(record.Hold, commitKeys(id)[0], false) }

// push pushes branches. It deletes a branch on the remote that does not exist here.
func (s *side) push(force bool, branches ...string) (*PushResult, error) {
	o := PushOptions{Records: s.records, Head: mainRef}
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

// fetch fetches all branches and merges records, like package tracking.
func (s *side) fetch() (*FetchResult, error) {
	ctx := context.Background()
	head, err := s.remote.Head(ctx)
	if err != nil {
		return nil, err
	}
	session := s.store.Begin(volume.SessionOptions{})
	o := FetchOptions{Have: slices.Collect(maps.Values(s.refs)), Records: s.records}
	for _, key := range head.Refs {
		o.Want = append(o.Want, key)
	}
	result, err := s.remote.Fetch(ctx, session, head, o)
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error {
			for _, r := range result.Forget {
				s.records.Forget(r)
			}
			for r := range result.Records.All() {
				s.records.Merge(r)
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

// mustReach returns the objects that refs and holds reach. It fails the test if one is missing.
func (s *side) mustReach() map[object.Key]bool {
	s.t.Helper()
	view := s.records.View()
	stack := commitKeys(slices.Concat(slices.Collect(maps.Values(s.refs)), view.Holds())...)
	seen := map[object.Key]bool{}
	for len(stack) > 0 {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		stack = append(stack, s.links(view, key)...)
	}
	return seen
}

// links returns the links of an object that count. It fails the test if the object is
// missing.
func (s *side) links(view *record.View, key object.Key) []object.Key {
	s.t.Helper()
	data, err := s.store.Get(context.Background(), key)
	if err != nil {
		s.t.Fatalf("get a reachable object: %v", err)
	}
	links, err := object.Links(key.Kind, data)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(links, func(link object.Key) bool { return view.Skips(key, link) })
}

// hasContent reports whether the content of a commit is here, expired or not. Purged objects
// may be missing.
func (s *side) hasContent(id object.ID) bool {
	s.t.Helper()
	ctx := context.Background()
	content, err := contentOf(ctx, s.store, commitKeys(id)[0])
	if errors.Is(err, object.ErrNotFound) {
		return false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	view := s.records.View()
	for len(content) > 0 {
		key := content[len(content)-1]
		content = content[:len(content)-1]
		if missing, err := s.store.Missing(ctx, []object.Key{key}); err != nil || len(missing) > 0 {
			return false
		}
		content = append(content, s.links(view, key)...)
	}
	return true
}

// gc ends the holds that are over, and removes unreachable objects.
func (s *side) gc() {
	s.t.Helper()
	s.records.EndHolds(time.Now(), "A", "host")
	s.keepOnly(s.mustReach())
}

// keepOnly replaces the store by one that has only these objects.
func (s *side) keepOnly(keys map[object.Key]bool) {
	s.t.Helper()
	ctx, old := context.Background(), s.store
	var err error
	if s.store, err = volume.Open(s.t.TempDir(), volume.Options{Now: time.Now}); err != nil {
		s.t.Fatal(err)
	}
	session := s.store.Begin(volume.SessionOptions{})
	for key := range keys {
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

// has reports whether the repository has an object.
func (s *side) has(key object.Key) bool {
	s.t.Helper()
	missing, err := s.store.Missing(context.Background(), []object.Key{key})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(missing) == 0
}

// treeOf returns the tree of a commit.
func (s *side) treeOf(id object.ID) object.Key {
	s.t.Helper()
	c, err := object.ReadCommit(context.Background(), s.store, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return object.Key{Kind: object.KindTree, ID: c.Tree}
}
