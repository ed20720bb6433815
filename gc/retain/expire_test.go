package retain_test

import (
	"errors"
	"github.com/kist-vcs/kist"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A held commit does not expire. A hold of an expired commit keeps its content,
// until the hold ends.
func TestExpireHeld(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	var ids []object.ID
	for _, text := range []string{"first", "second", "third", "fourth"} {
		s.Write("file", text+", with a text that is too long to be kept inline")
		s.Add(stage.AddOptions{})
		ids = append(ids, s.Commit(text).ID)
	}

	s.Hold(ids[0], true)
	var protected *retain.ProtectedError
	if _, err := retain.Expire(ctx, s.Repo, retain.ExpireOptions{Revs: []string{ids[1].String(), ids[0].String()}}); !errors.As(err, &protected) || protected.Commit != ids[0] || !slices.Equal(protected.Why, []string{"held"}) {
		t.Errorf("expire of a held commit: error %v, want ProtectedError", err)
	}
	if list, err := retain.Expirations(s.Repo); len(list) > 0 || err != nil {
		t.Errorf("after an error: expirations %v, error %v; want none", list, err)
	}

	result, err := retain.Expire(ctx, s.Repo, retain.ExpireOptions{Policy: retain.Policy{Last: 1}})
	s.Check(err)
	if len(result.Expired) != 2 || result.Expired[0].ID != ids[2] || result.Expired[1].ID != ids[1] {
		t.Errorf("expired: %+v, want the third and the second commit", result.Expired)
	}

	s.Hold(ids[1], true)
	s.Collect(s.Repo, gc.PlanOptions{})
	for i, want := range []error{nil, nil, object.ErrExpired, nil} {
		if _, err := kisttest.ReadFiles(ctx, s.Repo, ids[i]); !errors.Is(err, want) {
			t.Errorf("commit %d: error %v, want %v", i, err, want)
		}
	}

	later := s.Clocked(2 * time.Hour)
	s.Collect(later, gc.PlanOptions{})
	for i, want := range []error{nil, object.ErrExpired, object.ErrExpired, nil} {
		if _, err := kisttest.ReadFiles(ctx, later, ids[i]); !errors.Is(err, want) {
			t.Errorf("commit %d after the hold: error %v, want %v", i, err, want)
		}
	}

	s.Hold(ids[0], false) // by the real clock, the holds have not ended
	s.Hold(ids[1], false)
	var gone *kist.GoneError
	if done, err := retain.Unexpire(ctx, later, nil); len(done) > 0 || !errors.As(err, &gone) || len(gone.Commits) != 2 || gone.Commits[0].Objects == 0 {
		t.Errorf("unexpire of removed content: %v, error %v; want GoneError", done, err)
	}
}

// Expire needs either a valid policy or commits.
func TestExpireNeeds(t *testing.T) {
	s := kisttest.New(t)
	for _, o := range []retain.ExpireOptions{
		{}, {Policy: retain.Policy{Last: 1}, Revs: []string{"HEAD"}}, {Policy: retain.Policy{Daily: -2}}, {Branches: []string{"main"}},
	} {
		if _, err := retain.Expire(t.Context(), s.Repo, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
