package commits

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// pickOf returns the merge that repeats the changes of a commit over the commit at: a
// revert with base and theirs exchanged.
func pickOf(ctx context.Context, r *kist.Repository, step operation.Step, parent int, at *object.Commit) (*threeWay, error) {
	id := step.Commit
	c, before, err := compared(ctx, r, id, parent)
	if err == nil {
		err = kist.CheckUsable(ctx, r, id)
	}
	if err == nil {
		err = kist.CheckUsableBase(ctx, r, before)
	}
	if err != nil {
		return nil, err
	}
	base, err := r.RecordedTree(ctx, before)
	if err != nil {
		return nil, err
	}

	message := c.Message
	switch step.Do {
	case operation.PickFrom:
		message = withOrigin(message, id)
	case operation.Squash:
		message = at.Message + "\n\n" + c.Message
	case operation.Fixup:
		message = at.Message
	}
	return &threeWay{
		from:   c,
		empty:  c.Tree == base,
		theirs: c.Tree,
		base:   func(context.Context, object.ReadWriter) (object.ID, error) { return base, nil },
		labels: tree.Labels{Ours: "HEAD", Theirs: fmt.Sprintf("%s (%s)", id.Short(), c.Subject())},
		state:  operation.State{Message: message},
	}, nil
}

// trailer matches a line at the end of a message that is no prose.
var trailer = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z0-9-]+: |\(cherry picked from commit )`)
})

// withOrigin adds the line that names a picked commit to a message. As in git, it joins
// the lines such as "Signed-off-by: …" at the end.
func withOrigin(message string, id object.ID) string {
	message = strings.TrimRight(message, "\n")
	end := "\n\n"
	if i := strings.LastIndex(message, "\n\n"); i >= 0 {
		end = "\n"
		for line := range strings.SplitSeq(message[i+2:], "\n") {
			if !trailer().MatchString(line) {
				end = "\n\n"
			}
		}
	}
	return fmt.Sprintf("%s%s(cherry picked from commit %s)", message, end, id)
}
