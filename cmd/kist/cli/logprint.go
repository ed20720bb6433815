package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/log"
	"github.com/kist-vcs/kist/refs/record"
)

// gitTime is how git prints a time.
const gitTime = "Mon Jan 2 15:04:05 2006 -0700"

// commitPrinter prints commits and their changes, for log and show.
type commitPrinter struct {
	env         *Env
	repo        *kist.Repository
	records     *record.View // of commits, apart from names
	form        *changeForm
	paths       pathspecs // changes of these only; none: all
	oneline     bool
	abbrev      bool // short IDs
	firstParent bool // the changes of a merge are compared to its first parent
	show        bool // for show, which prints more of merges than log
	decorations decorations
	graph       *graph

	printed bool     // a commit
	rows    []string // of the graph, that are to come before the next commit
	rest    string   // of the graph, where there is text but no row
}

// loggedJSON is a commit as log and show print it with --json.
type loggedJSON struct {
	commitJSON
	Expired *expiredJSON `json:"expired,omitempty"` // its content has
	Held    *heldJSON    `json:"held,omitempty"`    // its content is kept
	Path    string       `json:"path,omitempty"`    // that was followed
	PathRaw []byte       `json:"path_raw,omitempty"`
	Changes []changeJSON `json:"changes,omitempty"`
	Since   *object.ID   `json:"changes_since,omitempty"` // the commit that they are compared to, if that is not the first parent
}

// print prints a commit.
func (p *commitPrinter) print(ctx context.Context, c log.Logged) error {
	cmp, changes, err := p.changes(ctx, c)
	if err != nil {
		return fmt.Errorf("commit %s: %w", c.ID.Short(), err)
	}
	if p.env.global.json {
		return p.printJSON(ctx, c, cmp, changes)
	}
	if p.graph != nil {
		return p.printGraph(ctx, c, cmp, changes)
	}
	if p.printed && !p.oneline {
		p.env.printf("\n")
	}
	p.printed = true
	p.env.printf("%s\n", strings.Join(p.head(c, cmp.note), "\n"))
	return p.printChanges(ctx, cmp, changes)
}

func (p *commitPrinter) printJSON(ctx context.Context, c log.Logged, cmp *comparison, changes []fileChange) error {
	out := loggedJSON{commitJSON: newCommitJSON(c.ID, c.Commit), Path: c.Path, PathRaw: rawPath(c.Path)}
	if c.Expired != nil {
		out.Expired = newExpiredJSON(*c.Expired)
	}
	if c.Held != nil {
		out.Held = newHeldJSON(*c.Held)
	}
	if cmp.note != "" && !cmp.old.Commit.IsZero() {
		out.Since = &cmp.old.Commit
	}
	for _, change := range changes {
		v, err := cmp.json(ctx, change)
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, v)
	}
	p.env.json(out)
	return nil
}

// head returns the lines that describe a commit; note is one on its changes, or
// empty.
func (p *commitPrinter) head(c log.Logged, note string) []string {
	id := c.ID.String()
	if p.abbrev {
		id = c.ID.Short()
	}
	names := p.decorations.text(p.env, c.ID)
	if c.Expired != nil {
		names += " " + p.env.paint(red, "(expired)")
	}
	if c.Held != nil {
		names += " " + p.env.paint(cyan, "(held)")
	}
	if p.oneline {
		return []string{p.env.paint(yellow, id) + names + " " + printable(subject(c.Message))}
	}
	lines := []string{p.env.paint(yellow, "commit "+id) + names}
	if len(c.Parents) > 1 {
		merge := "Merge:"
		for _, parent := range c.Parents {
			merge += " " + parent.Short()
		}
		lines = append(lines, merge)
	}
	if n := c.SkippedCount; n > 0 {
		lines = append(lines, p.env.paint(red, "Partial: "+plural(n, "path was", "paths were")+" not stored"))
	}
	if c.Expired != nil {
		lines = append(lines, p.env.paint(red, "Expired: "+expiredText(*c.Expired)))
	}
	if c.Held != nil {
		lines = append(lines, "Held:   "+p.env.heldText(*c.Held))
	}
	if note != "" {
		lines = append(lines, "Changes: "+note)
	}
	lines = append(lines,
		"Author: "+person(c.Author),
		"Date:   "+c.Author.When().Format(gitTime))
	return append(lines, messageLines(c.Message)...)
}

// person returns who did something, as git does.
func person(s object.Signature) string { return printable(s.Name + " <" + s.Email + ">") }

// messageLines returns a message as it is shown: after an empty line, and
// indented.
func messageLines(message string) []string {
	message = strings.Trim(message, "\n")
	if message == "" {
		return nil
	}
	lines := []string{""}
	for line := range strings.SplitSeq(printable(message), "\n") {
		lines = append(lines, "    "+line)
	}
	return lines
}

// maxSubject is the most characters of a subject that are shown on one line.
const maxSubject = 200

// subject returns the first line of a message, cut if it is very long.
func subject(message string) string {
	message = strings.TrimLeft(message, "\n")
	line, _, _ := strings.Cut(message[:min(len(message), 4*maxSubject+4)], "\n")
	if runes := []rune(line); len(runes) > maxSubject {
		return string(runes[:maxSubject]) + "…"
	}
	return line
}
