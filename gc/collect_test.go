package gc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A commit that only logs reach is kept until its log entries expire.
func TestLogsExpire(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		days    int
		config  map[string]any
		kept    bool // the commit
		entries int  // in the log of HEAD
	}{
		{days: 0, kept: true, entries: 4},
		{days: 29, kept: true, entries: 4},
		{days: 31, kept: false, entries: 2}, // entries of commits that the branch reaches
		{days: 91, kept: false, entries: 1}, // the newest stays
		{days: 4000, config: map[string]any{"gc.reflog-expire": "never", "gc.reflog-expire-unreachable": "never"}, kept: true, entries: 4},
		{days: 91, config: map[string]any{"gc.reflog-expire": "never"}, kept: false, entries: 2},
		{days: 2, config: map[string]any{"gc.reflog-expire": int64(1)}, kept: false, entries: 1},
		{days: -4000, kept: true, entries: 4}, // the clock was set back
	} {
		s := kisttest.New(t)
		s.Write("file", "the first text, too long to be kept inline")
		s.Add(stage.AddOptions{})
		first := s.Commit("first")
		s.Write("file", "the second text, too long to be kept inline")
		s.Add(stage.AddOptions{})
		given := s.Commit("given up")
		_, err := checkout.Reset(t.Context(), s.Repo, "HEAD~1", checkout.ResetHard, nil)
		s.Check(err)
		s.Check(s.Repo.Refs().ClearSpecial(t.Context(), refs.OrigHead))
		s.Write("file", "the third text, too long to be kept inline")
		s.Add(stage.AddOptions{})
		s.Commit("third")

		r := s.Clocked(time.Duration(c.days) * day)
		for key, value := range c.config {
			s.Check(r.SetConfig(t.Context(), key, value))
		}
		st := s.Collect(r, gc.PlanOptions{})
		kept, err := r.Objects().Has(t.Context(), object.Key{Kind: object.KindCommit, ID: given.ID})
		log, lerr := r.Refs().Log("HEAD")
		if err != nil || lerr != nil || kept != c.kept || len(log) != c.entries {
			t.Errorf("%+v: kept %t, %d entries, errors %v and %v; %+v", c, kept, len(log), err, lerr, st)
		}
		if _, err := r.Resolve(t.Context(), first.ID.String()); err != nil {
			t.Errorf("%+v: the first commit: %v", c, err)
		}
	}
}

// gc keeps staged content, both sides of a conflict, and the commit of a merge
// in progress.
func TestGCRoots(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "the first text, too long to be kept inline")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	s.Check(s.Repo.SetConfig(t.Context(), "gc.reflog-expire", "now"))
	s.Conflict()
	s.Write("staged", "a text that is staged and nowhere else, too long to be kept inline")
	s.Add(stage.AddOptions{Paths: []string{"staged"}})
	s.Collect(s.Repo, gc.PlanOptions{})
	if len(s.Conflicts()) == 0 {
		t.Fatal("there is no conflict")
	}
	idx, err := s.Repo.Index()
	s.Check(err)
	for key := range idx.Roots() {
		if has, err := s.Repo.Objects().Has(t.Context(), key); err != nil || !has {
			t.Errorf("%s is not kept: %v", key, err)
		}
	}
	state, err := operation.Current(s.Repo)
	s.Check(err)
	if _, err := object.ReadCommit(t.Context(), s.Repo.Objects(), state.Other); err != nil {
		t.Error(err)
	}
}

// A collection is due two weeks after the first object or the last collection.
func TestNeedsGC(t *testing.T) {
	s := kisttest.New(t)
	const day = 24 * time.Hour
	due := func() (days []int) {
		for _, n := range []int{-100, 0, 13, 15, 28, 31, 400} {
			if gc.IsDue(s.Clocked(time.Duration(n) * day)) {
				days = append(days, n)
			}
		}
		return days
	}
	if got := due(); len(got) > 0 {
		t.Errorf("with an empty store: due after %d days, want never", got)
	}
	s.Write("file", strings.Repeat("text", 20))
	s.Add(stage.AddOptions{})
	if got := due(); !slices.Equal(got, []int{-100, 15, 28, 31, 400}) {
		t.Errorf("without a collection: due after %d days", got)
	}
	s.Collect(s.Clocked(15*day), gc.PlanOptions{PruneOlder: gc.DefaultPruneOlder})
	if got := due(); !slices.Equal(got, []int{-100, 0, 31, 400}) {
		t.Errorf("with a collection on day 15: due after %d days", got)
	}
}
