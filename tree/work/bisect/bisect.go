package bisect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
)

var (
	// ErrTerms is matched by the error for a mark with a word of the other terms.
	ErrTerms = errors.New("uses other words")

	// ErrContradiction is matched by the error for marks that cannot all be right.
	ErrContradiction = errors.New("the marks contradict each other")

	// ErrNothingToTest means that no commit between the marks changed the paths.
	ErrNothingToTest = errors.New("no commit between them changed the paths")
)

// Outcome is the result of a step.
type Outcome struct {
	Waiting string // the missing marks; empty if there are a bad commit and a good one

	Next        object.ID // the commit that was checked out, to be tested
	MergeBase   bool      // Next is a merge base, whose test shows whether the good commits count
	Left, Steps int       // commits that are left after the test, and further tests, roughly

	Found    object.ID   // the first bad commit
	Possible []object.ID // the commits that may be the first bad one, if all others cannot be tested
}

// StartOptions configure [Start].
type StartOptions struct {
	Bad      string   // a revision; empty: none yet
	Good     []string // revisions
	Paths    []string // see [State]
	Progress kist.Progress
}

// Start begins a bisection. It ends one that is under way, as [Reset] does.
func Start(ctx context.Context, r *kist.Repository, o StartOptions) (Outcome, error) {
	values := map[string]object.ID{}
	s := &State{Paths: o.Paths}
	args := ""
	mark := func(rev, term string) error {
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return err
		}
		s.Terms = BadGood
		values[refName(term, id)] = id
		s.logMark(ctx, r, term, id)
		args += " " + quote(rev)
		return nil
	}
	if o.Bad != "" {
		if err := mark(o.Bad, "bad"); err != nil {
			return Outcome{}, err
		}
	}
	for _, rev := range o.Good {
		if err := mark(rev, "good"); err != nil {
			return Outcome{}, err
		}
	}
	if len(o.Paths) > 0 {
		args += " '--'"
	}
	for _, path := range o.Paths {
		args += " " + quote(path)
	}
	s.logf("kist bisect start%s", args)

	if err := Reset(ctx, r, "", o.Progress); err != nil && !errors.Is(err, ErrNone) {
		return Outcome{}, err
	}
	if err := operation.NoOperation(r); err != nil {
		return Outcome{}, err
	}
	head, _, err := compare.HeadCommit(ctx, r)
	if err != nil {
		return Outcome{}, err
	}
	s.Start = head.String()
	if err := clear(ctx, r); err != nil { // of a killed reset
		return Outcome{}, err
	}
	if err := s.save(ctx, r); err != nil {
		return Outcome{}, err
	}
	if err := s.setMarks(ctx, r, values); err != nil {
		return Outcome{}, err
	}
	return next(ctx, r, o.Progress)
}

// quote quotes a word of a command for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// refName returns the name of a mark below refs/bisect/.
func refName(kind string, id object.ID) string {
	if kind == "bad" {
		return kind
	}
	return kind + "-" + id.String()
}

// Mark notes that the commits of revisions, by default HEAD, are bad, good, new or old. Then
// it checks out the next commit to test. Only one commit can be bad or new.
func Mark(ctx context.Context, r *kist.Repository, term string, revs []string, progress kist.Progress) (Outcome, error) {
	s, err := Current(r)
	if err != nil {
		return Outcome{}, err
	}
	terms, kind := BadGood, "good"
	if term == NewOld.Bad || term == NewOld.Good {
		terms = NewOld
	}
	if s.Terms == (Terms{}) {
		s.Terms = terms
	}
	if s.Terms != terms {
		return Outcome{}, fmt.Errorf("this bisect %w: %s and %s", ErrTerms, s.Terms.Bad, s.Terms.Good)
	}
	if term == terms.Bad {
		kind = "bad"
	}

	if len(revs) == 0 {
		revs = []string{"HEAD"}
	}
	values := map[string]object.ID{}
	for _, rev := range revs {
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return Outcome{}, err
		}
		values[refName(kind, id)] = id
		s.logMark(ctx, r, term, id)
		s.logf("kist bisect %s %s", term, id)
	}
	return s.stepOn(ctx, r, values, progress)
}

// Skip notes that commits, by default HEAD, cannot be tested. Ranges are possible. Then it
// checks out another one.
func Skip(ctx context.Context, r *kist.Repository, revs []string, progress kist.Progress) (Outcome, error) {
	s, err := Current(r)
	if err != nil {
		return Outcome{}, err
	}
	if len(revs) == 0 {
		revs = []string{"HEAD"}
	}
	values := map[string]object.ID{}
	for _, rev := range revs {
		if _, _, _, isRange := refs.SplitRange(rev); isRange {
			for c, err := range log.Commits(ctx, r, log.Options{Revs: []string{rev}}) {
				if err != nil {
					return Outcome{}, err
				}
				values[refName("skip", c.ID)] = c.ID
			}
			s.logf("kist bisect skip %s", quote(rev))
			continue
		}
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return Outcome{}, err
		}
		values[refName("skip", id)] = id
		s.logMark(ctx, r, "skip", id)
		s.logf("kist bisect skip %s", id)
	}
	return s.stepOn(ctx, r, values, progress)
}

// stepOn records marks and goes on.
func (s *State) stepOn(ctx context.Context, r *kist.Repository, values map[string]object.ID, progress kist.Progress) (Outcome, error) {
	if err := s.setMarks(ctx, r, values); err != nil {
		return Outcome{}, err
	}
	if err := s.save(ctx, r); err != nil {
		return Outcome{}, err
	}
	return next(ctx, r, progress)
}

// next chooses the next commit to test and checks it out.
func next(ctx context.Context, r *kist.Repository, progress kist.Progress) (Outcome, error) {
	s, err := Current(r)
	if err != nil {
		return Outcome{}, err
	}
	out, err := s.chooseNext(ctx, r)
	if err != nil {
		return out, err
	}
	if err := s.save(ctx, r); err != nil || out.Next.IsZero() {
		return out, err
	}
	_, err = checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: out.Next.String(), Detach: true, Progress: progress})
	return out, err
}

// chooseNext chooses the next commit to test, and notes in the log if there is none.
func (s *State) chooseNext(ctx context.Context, r *kist.Repository) (Outcome, error) {
	if s.Bad.IsZero() || len(s.Good) == 0 {
		return s.waitingOutcome(), nil
	}

	if !s.Checked {
		base, err := s.checkBases(ctx, r)
		if err != nil || !base.IsZero() {
			return Outcome{Next: base, MergeBase: true}, err
		}
		s.Checked = true
	}

	suspects, err := log.Suspects(ctx, r, s.Bad, s.Good, s.Paths)
	if err != nil {
		return Outcome{}, err
	}
	if len(suspects) == 0 {
		return Outcome{}, fmt.Errorf("%w: %s is both %s and %s", ErrContradiction, s.Bad.Short(), s.Terms.Bad, s.Terms.Good)
	}
	for i := range suspects {
		suspects[i].Skip = suspects[i].Skip || slices.Contains(s.Skip, suspects[i].ID)
	}

	h := history.Halve(suspects)
	switch {
	case h.Next.IsZero() && len(h.Skipped) == 0:
		return Outcome{}, ErrNothingToTest
	case (h.Next.IsZero() || h.Next == s.Bad) && len(h.Skipped) > 0:
		possible := h.Skipped
		if h.Next == s.Bad {
			possible = append(possible, s.Bad)
		}
		s.logf("# only skipped commits left to test")
		for _, id := range possible {
			s.logMark(ctx, r, "possible first "+s.Terms.Bad+" commit", id)
		}
		return Outcome{Possible: possible}, nil
	case h.Next == s.Bad:
		s.logMark(ctx, r, "first "+s.Terms.Bad+" commit", s.Bad)
		return Outcome{Found: s.Bad}, nil
	}
	return Outcome{Next: h.Next, Left: h.Left, Steps: h.Steps}, nil
}

// waitingOutcome returns the outcome for missing marks.
func (s *State) waitingOutcome() Outcome {
	out := Outcome{Waiting: "both good and bad commits"}
	switch {
	case !s.Bad.IsZero():
		out.Waiting = "good commit(s), bad commit known"
	case len(s.Good) == 1:
		out.Waiting = "bad commit, 1 good commit known"
	case len(s.Good) > 1:
		out.Waiting = fmt.Sprintf("bad commit, %d good commits known", len(s.Good))
	}
	s.logf("# status: waiting for %s", out.Waiting)
	return out
}

// checkBases returns a merge base of the bad and the good commits that has to be tested,
// zero if there is none. The change came after the merge bases only if they are good.
func (s *State) checkBases(ctx context.Context, r *kist.Repository) (object.ID, error) {
	ancestors := true
	for _, good := range s.Good {
		is, err := history.IsAncestor(ctx, r.Objects(), good, s.Bad)
		if err != nil {
			return object.ID{}, err
		}
		ancestors = ancestors && is
	}
	if ancestors {
		return object.ID{}, nil
	}

	bases, err := history.MergeBases(ctx, r.Objects(), s.Bad, s.Good...)
	if err != nil {
		return object.ID{}, err
	}
	for _, base := range bases {
		switch {
		case base == s.Bad:
			return object.ID{}, fmt.Errorf("%w: %s is %s, but a commit after it is %s", ErrContradiction, base.Short(), s.Terms.Bad, s.Terms.Good)
		case slices.Contains(s.Good, base), slices.Contains(s.Skip, base):
		default:
			return base, nil
		}
	}
	return object.ID{}, nil
}

// Reset ends the bisection and checks out a revision, by default the branch or commit from
// which it was started.
func Reset(ctx context.Context, r *kist.Repository, rev string, progress kist.Progress) error {
	s, err := Current(r)
	if err != nil {
		return err
	}
	if rev == "" {
		rev = s.Start
	}
	if _, err := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: rev, Progress: progress}); err != nil {
		return err
	}
	if err := clear(ctx, r); err != nil {
		return err
	}
	return r.Refs().ClearSpecial(ctx, refs.BisectMsg)
}
