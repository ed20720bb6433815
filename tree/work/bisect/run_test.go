package bisect_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// bisecting returns a repository with eight commits. The sixth is the first bad one.
func bisecting(t *testing.T) (*kisttest.Repository, []object.ID) {
	s := kisttest.New(t)
	var ids []object.ID
	for i, text := range strings.Split("good good good good good bad bad bad", " ") {
		s.Write("file", text+strings.Repeat("\n", i))
		s.Add(stage.AddOptions{})
		ids = append(ids, s.Commit("commit").ID)
	}
	return s, ids
}

func TestRun(t *testing.T) {
	s, ids := bisecting(t)
	if _, err := bisect.Run(s.Context(), s.Repo, bisect.RunOptions{}); !errors.Is(err, bisect.ErrNone) {
		t.Errorf("without a bisect: error %v, want ErrNone", err)
	}
	_, err := bisect.Start(s.Context(), s.Repo, bisect.StartOptions{Bad: ids[7].String()})
	s.Check(err)
	if _, err := bisect.Run(s.Context(), s.Repo, bisect.RunOptions{}); !errors.Is(err, bisect.ErrNoMarks) {
		t.Errorf("without a good commit: error %v, want ErrNoMarks", err)
	}
	_, err = bisect.Mark(s.Context(), s.Repo, "good", []string{ids[0].String()}, nil)
	s.Check(err)

	status := func(good, bad int) bisect.RunOptions {
		return bisect.RunOptions{Test: func(context.Context) (int, error) {
			data, err := os.ReadFile(filepath.Join(s.Dir, "file"))
			if strings.HasPrefix(string(data), "good") {
				return good, err
			}
			return bad, err
		}}
	}
	for want, o := range map[bisect.TestError]bisect.RunOptions{
		{Status: 130}:               status(130, 130),
		{Status: 127, AtGood: true}: status(127, 127),
	} {
		before := s.Head()
		var failed *bisect.TestError
		if _, err := bisect.Run(s.Context(), s.Repo, o); !errors.As(err, &failed) || *failed != want || s.Head() != before {
			t.Errorf("error %v at %s, want %+v at %s", err, s.Head(), want, before)
		}
	}

	out, err := bisect.Run(s.Context(), s.Repo, status(0, 126)) // the first test is of a good commit
	s.Check(err)
	if out.Found != ids[5] {
		t.Errorf("found %+v, want %s", out, ids[5])
	}
}
