package transfertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Side is a repository with refs and records that pushes and fetches. It has every object
// that its refs and holds reach. Links that records switch off do not count.
type Side struct {
	*Clone
	Maker   *objecttest.Maker
	Refs    map[string]object.ID // by full name; remote-tracking branches are "refs/remotes/…"
	Records *record.Set
}

func NewSide(t testing.TB, b remote.Backend) *Side {
	t.Helper()
	s := &Side{Clone: NewClone(t, b), Refs: map[string]object.ID{}, Records: &record.Set{}}
	s.Maker = &objecttest.Maker{T: t}
	return s
}

// MakeCommitOn stores the objects that f makes, and sets a branch to the commit that f returns.
func (s *Side) MakeCommitOn(branch string, f func(*objecttest.Maker) object.ID) object.ID {
	s.T.Helper()
	ctx := context.Background()
	session := s.Store.Begin(volume.SessionOptions{})
	s.Maker.ReadWriter = session
	id := f(s.Maker)
	err := session.Publish(ctx, func(context.Context) error { s.Refs["refs/heads/"+branch] = id; return nil })
	if err := errors.Join(err, session.Close()); err != nil {
		s.T.Fatal(err)
	}
	return id
}

// CommitFile makes a commit with one unique file, selected by n, and two files that all commits
// share.
func (s *Side) CommitFile(branch string, n int, parents ...object.ID) object.ID {
	s.T.Helper()
	return s.MakeCommitOn(branch, func(m *objecttest.Maker) object.ID {
		common := m.MakeTree(map[string]string{"a": objecttest.Noise(1, 200), "b": objecttest.Noise(2, 200)}, nil)
		return m.MakeCommit(m.MakeTree(map[string]string{"own": objecttest.Noise(100+n, 300)}, map[string]object.ID{"common": common}), parents...)
	})
}

// SwitchRecord switches a record on or off.
func (s *Side) SwitchRecord(kind record.Kind, key object.Key, on bool) {
	r := record.Record{Kind: kind, Key: key, On: on, Time: time.Unix(1_700_000_000, 0).UTC(), Who: "A"}
	s.Records.Switch(r)
}

func (s *Side) Expire(id object.ID) {
	s.SwitchRecord(record.Expire, objecttest.CommitKeys(id)[0], true)
}
func (s *Side) Unexpire(id object.ID) {
	s.SwitchRecord(record.Expire, objecttest.CommitKeys(id)[0], false)
}
func (s *Side) Hold(id object.ID) { s.SwitchRecord(record.Hold, objecttest.CommitKeys(id)[0], true) }
func (s *Side) Release(id object.ID) {
	s.SwitchRecord(record.Hold, objecttest.CommitKeys(id)[0], false)
}

// PushBranches pushes branches. It deletes a branch on the remote that does not exist here.
func (s *Side) PushBranches(force bool, branches ...string) (*transfer.PushResult, error) {
	o := transfer.PushOptions{Records: s.Records, Head: MainRef}
	for _, branch := range branches {
		u := transfer.RefUpdate{Name: "refs/heads/" + branch, Force: force}
		if id, ok := s.Refs[u.Name]; ok {
			u.New = objecttest.CommitKeys(id)[0]
		}
		o.Updates = append(o.Updates, u)
	}
	result, err := s.Remote.Push(context.Background(), s.Store, o)
	if err == nil {
		mergeAfter(s.Remote, result)
		for _, r := range result.Refs {
			s.track(r.Name, r.New)
		}
	}
	return result, err
}

func (s *Side) MustPush(branches ...string) *transfer.PushResult {
	s.T.Helper()
	result, err := s.PushBranches(true, branches...)
	if err != nil {
		s.T.Fatal(err)
	}
	return result
}

func (s *Side) track(name string, id object.ID) {
	name = strings.Replace(name, "refs/heads/", "refs/remotes/", 1)
	if id.IsZero() {
		delete(s.Refs, name)
	} else {
		s.Refs[name] = id
	}
}

// FetchAll fetches all branches and merges records, like package tracking.
func (s *Side) FetchAll() (*transfer.FetchResult, error) {
	ctx := context.Background()
	head, err := s.Remote.Head(ctx)
	if err != nil {
		return nil, err
	}
	session := s.Store.Begin(volume.SessionOptions{})
	o := transfer.FetchOptions{Have: slices.Collect(maps.Values(s.Refs)), Records: s.Records}
	for _, key := range head.Refs {
		o.Want = append(o.Want, key)
	}
	result, err := s.Remote.Fetch(ctx, session, head, o)
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error {
			for _, r := range result.Forget {
				s.Records.Forget(r)
			}
			for r := range result.Records.All() {
				s.Records.Merge(r)
			}
			maps.DeleteFunc(s.Refs, func(name string, _ object.ID) bool { return strings.HasPrefix(name, "refs/remotes/") })
			for name, key := range head.Refs {
				s.track(name, key.ID)
			}
			return nil
		})
	}
	return result, errors.Join(err, session.Close())
}

func (s *Side) MustFetchAll() *transfer.FetchResult {
	s.T.Helper()
	result, err := s.FetchAll()
	if err != nil {
		s.T.Fatal(err)
	}
	return result
}

// MustReach returns the objects that refs and holds reach. It fails the test if one is missing.
func (s *Side) MustReach() map[object.Key]bool {
	s.T.Helper()
	view := s.Records.View()
	stack := objecttest.CommitKeys(slices.Concat(slices.Collect(maps.Values(s.Refs)), view.Holds())...)
	seen := map[object.Key]bool{}
	for len(stack) > 0 {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		stack = append(stack, s.LinksOf(view, key)...)
	}
	return seen
}

// LinksOf returns the links of an object that count. It fails the test if the object is
// missing.
func (s *Side) LinksOf(view *record.Effects, key object.Key) []object.Key {
	s.T.Helper()
	data, err := s.Store.Get(context.Background(), key)
	if err != nil {
		s.T.Fatalf("get a reachable object: %v", err)
	}
	links, err := object.Links(key.Kind, data)
	if err != nil {
		s.T.Fatal(err)
	}
	return slices.DeleteFunc(links, func(link object.Key) bool { return view.Skips(key, link) })
}

// HasContent reports whether the content of a commit is here, expired or not. Purged objects
// may be missing.
func (s *Side) HasContent(id object.ID) bool {
	s.T.Helper()
	ctx := context.Background()
	data, err := s.Store.Get(ctx, objecttest.CommitKeys(id)[0])
	if errors.Is(err, object.ErrNotFound) {
		return false
	}
	if err != nil {
		s.T.Fatal(err)
	}
	content, err := object.Links(object.KindCommit, data)
	if err != nil {
		s.T.Fatal(err)
	}
	content = slices.DeleteFunc(content, func(key object.Key) bool { return key.Kind == object.KindCommit })
	view := s.Records.View()
	for len(content) > 0 {
		key := content[len(content)-1]
		content = content[:len(content)-1]
		if missing, err := s.Store.Missing(ctx, []object.Key{key}); err != nil || len(missing) > 0 {
			return false
		}
		content = append(content, s.LinksOf(view, key)...)
	}
	return true
}

// CollectLocal ends the holds that are over, and removes unreachable objects.
func (s *Side) CollectLocal() {
	s.T.Helper()
	s.Records.EndHolds(time.Now(), "A", "host")
	s.keepOnly(s.MustReach())
}

// keepOnly replaces the store by one that has only these objects.
func (s *Side) keepOnly(keys map[object.Key]bool) {
	s.T.Helper()
	ctx, old := context.Background(), s.Store
	var err error
	if s.Store, err = volume.Open(s.T.TempDir(), volume.Options{Now: time.Now}); err != nil {
		s.T.Fatal(err)
	}
	session := s.Store.Begin(volume.SessionOptions{})
	for key := range keys {
		data, err := old.Get(ctx, key)
		if err == nil {
			_, err = session.Put(ctx, key.Kind, data)
		}
		if err != nil {
			s.T.Fatal(err)
		}
	}
	err = session.Publish(ctx, func(context.Context) error { return nil })
	if err := errors.Join(err, session.Close(), old.Close()); err != nil {
		s.T.Fatal(err)
	}
}

// Has reports whether the repository has an object.
func (s *Side) Has(key object.Key) bool {
	s.T.Helper()
	missing, err := s.Store.Missing(context.Background(), []object.Key{key})
	if err != nil {
		s.T.Fatal(err)
	}
	return len(missing) == 0
}

// TreeOf returns the tree of a commit.
func (s *Side) TreeOf(id object.ID) object.Key {
	s.T.Helper()
	c, err := object.ReadCommit(context.Background(), s.Store, id)
	if err != nil {
		s.T.Fatal(err)
	}
	return object.Key{Kind: object.KindTree, ID: c.Tree}
}

// Lose removes objects from a side that is intact. Their loss is not accepted yet.
func (s *Side) Lose(keys ...object.Key) {
	s.T.Helper()
	kept := s.MustReach()
	for _, key := range keys {
		delete(kept, key)
	}
	s.keepOnly(kept)
}

// ChunkOf returns a chunk that the tree of a commit links to.
func (s *Side) ChunkOf(id object.ID) object.Key {
	s.T.Helper()
	links := s.LinksOf(nil, s.TreeOf(id))
	return links[slices.IndexFunc(links, func(key object.Key) bool { return key.Kind == object.KindChunk })]
}

// FetchLost fetches all branches, and accepts the loss of the objects that the remote lists.
func (s *Side) FetchLost(o transfer.FetchOptions) (*transfer.FetchResult, error) {
	s.T.Helper()
	ctx := context.Background()
	head := s.Head()
	o.Want, o.Have, o.Records = slices.Collect(maps.Values(head.Refs)), slices.Collect(maps.Values(s.Refs)), s.Records
	var err error
	if o.Lost, err = s.Store.Lost(ctx); err != nil {
		s.T.Fatal(err)
	}
	session := s.Store.Begin(volume.SessionOptions{})
	result, err := s.Remote.Fetch(ctx, session, head, o)
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error {
			s.Store.SetLost(slices.AppendSeq(o.Lost, maps.Keys(result.Lost)))
			for name, key := range head.Refs {
				s.track(name, key.ID)
			}
			return nil
		})
	}
	return result, errors.Join(err, session.Close())
}

// MakeChain has a side make and push n commits on main.
func (s *Side) MakeChain(n int) []object.ID {
	s.T.Helper()
	var ids []object.ID
	for i := range n {
		ids = append(ids, s.CommitFile("main", i, ids[max(0, i-1):]...))
	}
	s.MustPush("main")
	return ids
}

// ReopenAt switches a side to another remote.
func (s *Side) ReopenAt(b remote.Backend) {
	s.T.Helper()
	r, err := OpenTest(s.T, b, s.T.TempDir())
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { r.Close() })
	s.Remote = r
}
