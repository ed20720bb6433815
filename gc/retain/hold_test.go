package retain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// A hold that is set between plan and Apply keeps its commit. After Apply removed
// the commit, the hold fails.
func TestHoldWhileCollecting(t *testing.T) {
	for _, before := range []bool{true, false} {
		ctx := t.Context()
		s := kisttest.New(t)
		id := s.Away()
		_, err := commits.DeleteTag(ctx, s.Repo, "away")
		s.Check(err)
		plan, err := gc.PlanFor(ctx, s.Repo, gc.PlanOptions{})
		s.Check(err)
		if plan.Stats().Removed == 0 {
			t.Fatalf("plan %+v, want garbage", plan.Stats())
		}

		if before {
			_, err = retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: id.String()})
			s.Check(err)
		}
		s.Check(plan.Apply(ctx))
		plan.Close()
		if !before {
			if _, err = retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: id.String()}); err == nil {
				t.Error("hold of a removed commit: no error")
			}
		}

		_, held, err := held(s.Repo, id)
		s.Check(err)
		_, err = kisttest.ReadFiles(ctx, s.Repo, id)
		if held != before || (err == nil) != before {
			t.Errorf("held %t, read error %v; want held %t", held, err, before)
		}
	}
}

// A collection ends a hold by its own clock, and records the end. A dry run does
// not.
func TestHoldEnds(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	id := s.Away()
	_, err := retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: "away", Until: time.Now().AddDate(3, 0, 0), Reason: "evidence"})
	s.Check(err)
	_, err = commits.DeleteTag(ctx, s.Repo, "away")
	s.Check(err)
	s.Collect(s.Repo, gc.PlanOptions{})
	later := s.Clocked(4 * 365 * 24 * time.Hour)
	plan, err := gc.PlanFor(ctx, later, gc.PlanOptions{DryRun: true})
	s.Check(err)
	plan.Close()

	if hold, held, err := held(later, id); !held || err != nil || hold.Reason != "evidence" {
		t.Errorf("after a dry run: hold %+v, held %t, error %v", hold, held, err)
	}
	s.Collect(later, gc.PlanOptions{})
	if _, held, err := held(s.Repo, id); held || err != nil {
		t.Errorf("after gc: held %t, error %v; want false", held, err)
	}

	set, err := s.Repo.Records().Load()
	s.Check(err)
	r, _ := set.Get(record.Hold, object.Key{Kind: object.KindCommit, ID: id})
	if r.On || r.Generation != 2 || r.Time.Before(r.Until) || r.Reason != "evidence" {
		t.Errorf("record %+v, want the end of the hold", r)
	}
	if _, err := retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: id.String()}); err == nil {
		t.Error("hold of a removed commit: no error")
	}
}

// TestRelease checks which names of a commit release its hold.
func TestRelease(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	s.Away()
	if _, _, err := retain.Release(ctx, s.Repo, "away", ""); !errors.Is(err, retain.ErrNotHeld) {
		t.Errorf("release without a hold: error %v, want ErrNotHeld", err)
	}

	hold, err := retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: "away"})
	s.Check(err)
	id := hold.Key.ID.String()
	for _, name := range []string{"nothing", "HEAD", id[:3], strings.Repeat("0", 8)} {
		if _, r, err := retain.Release(ctx, s.Repo, name, ""); err == nil {
			t.Errorf("release of %q: %+v, want an error", name, r)
		}
	}

	for _, name := range []string{"away", id[:8], strings.ToUpper(id[:8]), id} {
		_, r, err := retain.Release(ctx, s.Repo, name, "enough")
		if err != nil || r.On || r.Key != hold.Key || r.Reason != "enough" || r.Generation != hold.Generation+1 {
			t.Errorf("release of %q: %+v, error %v", name, r, err)
		}
		if hold, err = retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: "away"}); err != nil {
			t.Fatal(err)
		}
	}

	// Hold records nothing if the reason is invalid.
	if _, err := retain.Hold(ctx, s.Repo, retain.HoldOptions{Rev: "HEAD", Reason: "\x1b"}); err == nil {
		t.Error("a reason with an escape character: no error")
	}
	if _, held, err := held(s.Repo, s.Head()); held || err != nil {
		t.Errorf("after the error: held %t, error %v; want false", held, err)
	}
}

// held returns the hold of a commit, and whether there is one.
func held(r *kist.Repository, commit object.ID) (record.Record, bool, error) {
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return record.Record{}, false, err
	}
	hold, ok := records.Held(commit)
	return hold, ok, nil
}
