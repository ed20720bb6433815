package show

import (
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/log"
)

// hunkJSON is a change of lines as log -L prints it with --json.
type hunkJSON struct {
	jsonform.AtPath
	From string `json:"renamed_from,omitempty" doc:"the path before a rename"`
	Text string `json:"patch" doc:"the hunks in the unified format"`
}

func newHunksJSON(changes []log.LineChange) (list []hunkJSON) {
	for _, c := range changes {
		h := hunkJSON{AtPath: jsonform.NewPath(c.Path), Text: string(blame.Hunks(c.Old, c.New, c.Ranges, c.Touched))}
		if c.From != c.Path {
			h.From = c.From
		}
		list = append(list, h)
	}
	return list
}

// showLines prints the changes of lines, as git does.
func (c *Comparison) showLines(changes []log.LineChange) {
	c.Env.Printf("\n")
	for _, change := range changes {
		from, old := "a/"+change.From, "a/"+change.From
		if change.From == "" {
			from, old = "a/"+change.Path, noFile
		}
		head := fmt.Sprintf("diff --git %s %s\n", cli.QuotePath(from), cli.QuotePath("b/"+change.Path))
		text := blame.Hunks(change.Old, change.New, change.Ranges, change.Touched)
		var all strings.Builder
		fmt.Fprintf(&all, "%s--- %s\n+++ %s\n%s", head, cli.QuotePath(old), cli.QuotePath("b/"+change.Path), text)
		c.PrintLines([]byte(all.String()), 3)
	}
}
