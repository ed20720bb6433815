package commits

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
)

// maxSquashed is the size, in bytes, at which the message of squashed commits ends.
const maxSquashed = 100 << 10

// squashMessage returns the default message for the changes that other has and head
// lacks: it lists these commits, as git does.
func squashMessage(ctx context.Context, r *kist.Repository, head, other object.ID) (string, error) {
	var text strings.Builder
	text.WriteString("Squashed commit of the following:\n")
	for c, err := range history.Walk(ctx, r.Objects(), []object.ID{other}, history.Options{Exclude: []object.ID{head}}) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "\ncommit %s\n", c.ID)
		if len(c.Parents) > 1 {
			text.WriteString("Merge:")
			for _, id := range c.Parents {
				text.WriteString(" " + id.Short())
			}
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "Author: %s <%s>\nDate:   %s\n\n", c.Author.Name, c.Author.Email, c.Author.When().Format("Mon Jan 2 15:04:05 2006 -0700"))
		for line := range strings.Lines(strings.TrimRight(c.Message, "\n")) {
			text.WriteString("    " + line)
		}
		text.WriteString("\n")
		if text.Len() > maxSquashed {
			return strings.ToValidUTF8(text.String()[:maxSquashed], "") + "\n…", nil
		}
	}
	return strings.TrimRight(text.String(), "\n"), nil
}
