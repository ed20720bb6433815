// Package kisttest has the repository that tests of several packages share. The
// repository is verified when its test ends.
package kisttest

import (
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
)

// Clocked opens the repository once more, with a clock that is ahead by the given time.
func (s *Repository) Clocked(ahead time.Duration) *kist.Repository {
	s.T.Helper()
	r, err := kist.Open(s.Dir, kist.Options{Now: func() time.Time { return time.Now().Add(ahead) }})
	s.Check(err)
	s.T.Cleanup(func() { r.Close() })
	return r
}

func (s *Repository) Collect(r *kist.Repository, o gc.PlanOptions) gc.Stats {
	s.T.Helper()
	p, err := gc.PlanFor(s.T.Context(), r, o)
	s.Check(err)
	defer p.Close()
	s.Check(p.Apply(s.T.Context()))
	report, err := gc.VerifyRepository(s.T.Context(), r, gc.VerifyOptions{})
	s.Check(err)
	for _, p := range report.Problems {
		s.T.Errorf("after gc: %v", p)
	}
	return p.Stats()
}
