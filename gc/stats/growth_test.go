package stats_test

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// The last step equals the totals. A commit with old content adds almost nothing.
func TestGrowth(t *testing.T) {
	s := kisttest.New(t)
	ctx := s.Context()
	var commits []string
	for i, content := range []string{"a", "b", "a"} { // the third commit has the content of the first
		s.Write("large", string(kisttest.Noise(content[0], 100_000)))
		s.Write("small", content)
		s.Add(stage.AddOptions{})
		commits = append(commits, s.Commit(content).ID.String())
		if steps, err := stats.Growth(ctx, s.Repo, 1000); err != nil || len(steps) != i+1 {
			t.Fatalf("after %d commits: %d steps, %v", i+1, len(steps), err)
		}
	}

	steps, err := stats.Growth(ctx, s.Repo, 1000)
	s.Check(err)
	for i, step := range steps {
		if step.Commit.String() != commits[i] || step.Bytes != 100_001 || step.History != uint64(100_001*(i+1)) {
			t.Errorf("step %d: %+v", i, step)
		}
	}
	if first, second, third := steps[0].Raw, steps[1].Raw-steps[0].Raw, steps[2].Raw-steps[1].Raw; first < 100_000 || second < 100_000 || third > 1000 {
		t.Errorf("the commits added %d, %d and %d bytes, want little by the third", first, second, third)
	}
	totals, err := stats.Totals(ctx, s.Repo, stats.Options{})
	s.Check(err)
	if last := steps[2]; last.Raw != totals.Named.Raw || last.Stored != totals.Named.Stored || last.History != totals.History {
		t.Errorf("last step %+v, totals %+v", last, totals.Named)
	}

	if _, err := stats.Growth(ctx, s.Repo, 2); !errors.Is(err, stats.ErrTooLarge) {
		t.Errorf("with too many objects: error %v, want ErrTooLarge", err)
	}
}
