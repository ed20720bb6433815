package kist_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// hold holds a commit for an hour, or lifts that.
func (s *stager) hold(id object.ID, on bool) {
	s.T.Helper()
	s.check(s.repo.Records().Update(s.T.Context(), func(set *record.Set) error {
		set.Switch(record.Record{
			Kind: record.Hold, Key: object.Key{Kind: object.KindCommit, ID: id}, On: on, Time: time.Now().UTC(), Until: time.Now().Add(time.Hour).UTC(),
		})
		return nil
	}))
}

// TestExpireHeld checks that what is held does not expire, keeps its content
// though it had expired before, and no longer than it is held.
func TestExpireHeld(t *testing.T) {
	ctx := t.Context()
	s := newStager(t)
	var ids []object.ID
	for _, text := range []string{"first", "second", "third", "fourth"} {
		s.write("file", text+", with a text that is too long to be kept inline")
		s.add(stage.AddOptions{})
		ids = append(ids, s.commit(text).ID)
	}
	s.hold(ids[0], true)
	var protected *retain.ProtectedError
	if _, err := retain.Expire(ctx, s.repo, retain.ExpireOptions{Revs: []string{ids[1].String(), ids[0].String()}}); !errors.As(err, &protected) || protected.Commit != ids[0] || !slices.Equal(protected.Why, []string{"held"}) {
		t.Errorf("a commit that is held: %v", err)
	}
	if list, err := retain.Expirations(s.repo); len(list) > 0 || err != nil {
		t.Errorf("after an error: %v, %v", list, err)
	}
	result, err := retain.Expire(ctx, s.repo, retain.ExpireOptions{Policy: retain.Policy{Last: 1}})
	s.check(err)
	if len(result.Expired) != 2 || result.Expired[0].ID != ids[2] || result.Expired[1].ID != ids[1] {
		t.Errorf("expired: %+v", result.Expired)
	}
	s.hold(ids[1], true)
	s.collect(s.repo, gc.PlanOptions{})
	for i, want := range []error{nil, nil, intact.ErrExpired, nil} {
		if _, err := view.FS(ctx, s.repo, ids[i]); !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	later := s.clocked(2 * time.Hour)
	s.collect(later, gc.PlanOptions{})
	for i, want := range []error{nil, intact.ErrExpired, intact.ErrExpired, nil} {
		if _, err := view.FS(ctx, later, ids[i]); !errors.Is(err, want) {
			t.Errorf("commit %d after the hold: %v, want %v", i, err, want)
		}
	}
	s.hold(ids[0], false) // for whom the clock was not put forward
	s.hold(ids[1], false)
	var gone *intact.GoneError
	if done, err := retain.UnexpireAll(ctx, later); len(done) > 0 || !errors.As(err, &gone) || len(gone.Commits) != 2 || gone.Commits[0].Objects == 0 {
		t.Errorf("undo of what is gone: %v, %v", done, err)
	}
}

// TestExpireNeeds checks that Expire wants to be told what.
func TestExpireNeeds(t *testing.T) {
	s := newStager(t)
	for _, o := range []retain.ExpireOptions{
		{}, {Policy: retain.Policy{Last: 1}, Revs: []string{"HEAD"}}, {Policy: retain.Policy{Daily: -2}}, {Branches: []string{"main"}},
	} {
		if _, err := retain.Expire(t.Context(), s.repo, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
