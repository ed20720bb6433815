package work

import (
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func TestPromptLine(t *testing.T) {
	rebase := operation.State{Operation: operation.Rebasing, Branch: "refs/heads/topic"}
	for want, s := range map[string]stage.Status{
		"main ?":           {Head: refs.Head{Branch: "main", ID: object.ID{1}}},
		"topic ?|REBASE":   {Head: refs.Head{ID: object.ID{1}}, State: rebase},
		"(01000000...) ?":  {Head: refs.Head{ID: object.ID{1}}},
		"a␛[2Jb ?|MERGING": {Head: refs.Head{Branch: "a\x1b[2Jb", ID: object.ID{1}}, State: operation.State{Operation: operation.Merging}},
	} {
		if got := promptLine(&s, false, string(s.State.Operation)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
