package kist_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// away has a commit that only a tag reaches, whose log entries do not count.
func (s *stager) away() object.ID {
	s.T.Helper()
	ctx := s.T.Context()
	s.write("file", "the first text, which is too long to be kept inline")
	s.add(stage.AddOptions{})
	first := s.commit("first").ID
	s.write("file", "the second text, which is too long to be kept inline")
	s.add(stage.AddOptions{})
	id := s.commit("second").ID
	_, _, err := commits.CreateTag(ctx, s.repo, commits.TagOptions{Name: "away", Rev: "HEAD"})
	s.check(err)
	_, err = checkout.Reset(ctx, s.repo, first.String(), checkout.ResetHard, nil)
	s.check(err)
	s.check(s.repo.SetConfig(ctx, "gc.reflogExpireUnreachable", "now"))
	s.check(s.repo.Refs().ClearSpecial(ctx, refs.OrigHead))
	return id
}

// TestHoldWhileCollecting checks that what is held while garbage is collected
// stays, and that nothing is held that was collected.
func TestHoldWhileCollecting(t *testing.T) {
	for _, before := range []bool{true, false} {
		ctx := t.Context()
		s := newStager(t)
		id := s.away()
		_, err := commits.DeleteTag(ctx, s.repo, "away")
		s.check(err)
		plan, err := gc.PlanFor(ctx, s.repo, gc.PlanOptions{})
		s.check(err)
		if plan.Stats().Removed == 0 {
			t.Fatalf("%+v", plan.Stats())
		}
		if before {
			_, err = retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: id.String()})
			s.check(err)
		}
		s.check(plan.Apply(ctx))
		plan.Close()
		if !before {
			if _, err = retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: id.String()}); err == nil {
				t.Error("what is gone was held")
			}
		}
		_, held, err := retain.Held(s.repo, id)
		s.check(err)
		_, err = view.FS(ctx, s.repo, id)
		if held != before || (err == nil) != before {
			t.Errorf("held: %v, %v; want %v", held, err, before)
		}
	}
}

// TestHoldEnds checks that a hold ends when garbage is collected, by the clock
// of who does it, and is on record then.
func TestHoldEnds(t *testing.T) {
	ctx := t.Context()
	s := newStager(t)
	id := s.away()
	_, err := retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: "away", Until: time.Now().AddDate(3, 0, 0), Reason: "evidence"})
	s.check(err)
	_, err = commits.DeleteTag(ctx, s.repo, "away")
	s.check(err)
	s.collect(s.repo, gc.PlanOptions{})
	later := s.clocked(4 * 365 * 24 * time.Hour) // a clock that has jumped
	plan, err := gc.PlanFor(ctx, later, gc.PlanOptions{DryRun: true})
	s.check(err)
	plan.Close()
	if hold, held, err := retain.Held(later, id); !held || err != nil || hold.Reason != "evidence" {
		t.Errorf("%+v, %v, %v", hold, held, err)
	}
	s.collect(later, gc.PlanOptions{})
	if _, held, err := retain.Held(s.repo, id); held || err != nil {
		t.Errorf("%v, %v", held, err)
	}
	set, err := s.repo.Records().Load()
	s.check(err)
	r, _ := set.Get(record.Hold, object.Key{Kind: object.KindCommit, ID: id})
	if r.On || r.Generation != 2 || r.Time.Before(r.Until) || r.Reason != "evidence" {
		t.Errorf("%+v", r)
	}
	if _, err := retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: id.String()}); err == nil {
		t.Error("what is gone was held")
	}
}

// TestRelease checks by what names a hold can be lifted.
func TestRelease(t *testing.T) {
	ctx := t.Context()
	s := newStager(t)
	s.away()
	if _, _, err := retain.Release(ctx, s.repo, "away", ""); !errors.Is(err, retain.ErrNotHeld) {
		t.Errorf("%v", err)
	}
	hold, err := retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: "away"})
	s.check(err)
	id := hold.Key.ID.String()
	for _, name := range []string{"nothing", "HEAD", id[:3], strings.Repeat("0", 8)} {
		if _, r, err := retain.Release(ctx, s.repo, name, ""); err == nil {
			t.Errorf("%q lifts %+v", name, r)
		}
	}
	for _, name := range []string{"away", id[:8], strings.ToUpper(id[:8]), id} {
		_, r, err := retain.Release(ctx, s.repo, name, "enough")
		if err != nil || r.On || r.Key != hold.Key || r.Reason != "enough" || r.Generation != hold.Generation+1 {
			t.Errorf("%q: %+v, %v", name, r, err)
		}
		if hold, err = retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: "away"}); err != nil {
			t.Fatal(err)
		}
	}
	// Text that cannot be recorded is refused before anything is.
	if _, err := retain.Hold(ctx, s.repo, retain.HoldOptions{Rev: "HEAD", Reason: "\x1b"}); err == nil {
		t.Error("an escape was recorded")
	}
	if _, held, err := retain.Held(s.repo, s.head()); held || err != nil {
		t.Errorf("%v, %v", held, err)
	}
}
