package kisttest

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// Hold holds a commit for an hour, or lifts the hold if on is false.
func (s *Repository) Hold(id object.ID, on bool) {
	s.T.Helper()
	s.Check(s.Repo.Records().Update(s.T.Context(), func(set *record.Set) error {
		set.Switch(record.Record{
			Kind: record.Hold, Key: object.Key{Kind: object.KindCommit, ID: id}, On: on, Time: time.Now().UTC(), Until: time.Now().Add(time.Hour).UTC(),
		})
		return nil
	}))
}

// Away makes a commit that only a tag reaches, and returns it. Reflogs no longer protect it.
func (s *Repository) Away() object.ID {
	s.T.Helper()
	ctx := s.T.Context()
	s.Write("file", "the first text, which is too long to be kept inline")
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	s.Write("file", "the second text, which is too long to be kept inline")
	s.Add(stage.AddOptions{})
	id := s.Commit("second").ID
	_, _, err := commits.CreateTag(ctx, s.Repo, commits.TagOptions{Name: "away", Rev: "HEAD"})
	s.Check(err)
	_, err = checkout.Reset(ctx, s.Repo, first.String(), checkout.ResetHard, nil)
	s.Check(err)
	s.Check(s.Repo.SetConfig(ctx, "gc.reflog-expire-unreachable", "now"))
	s.Check(s.Repo.Refs().ClearSpecial(ctx, refs.OrigHead))
	return id
}
