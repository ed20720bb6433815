package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
)

// gitTime is how git prints a time.
const gitTime = "Mon Jan 2 15:04:05 2006 -0700"

// commitPrinter prints commits, and what they changed, as log and show do.
type commitPrinter struct {
	env         *Env
	repo        *kist.Repository
	form        *changeForm
	paths       []string // changes of these only; none: all
	oneline     bool
	abbrev      bool // short IDs
	firstParent bool // a merge has changed what is not as in its first parent
	show        bool // for show, which tells more of merges than log
	decorations decorations
	graph       *graph

	printed bool     // a commit
	rows    []string // of the graph, that are to come before the next commit
	rest    string   // of the graph, where there is text but no row
}

// loggedJSON is a commit as log and show print it with --json.
type loggedJSON struct {
	commitJSON
	Path    string       `json:"path,omitempty"` // that was followed
	PathRaw []byte       `json:"path_raw,omitempty"`
	Changes []changeJSON `json:"changes,omitempty"`
}

// print prints a commit.
func (p *commitPrinter) print(ctx context.Context, c kist.Logged) error {
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
	p.env.printf("%s\n", strings.Join(p.head(c), "\n"))
	return p.printChanges(ctx, cmp, changes)
}

// printGraph prints a commit to the right of the graph.
func (p *commitPrinter) printGraph(ctx context.Context, c kist.Logged, cmp *comparison, changes []fileChange) error {
	if p.printed && !p.oneline {
		p.printBeside("")
	}
	p.endGraph()
	p.printed = true
	p.rows, p.rest = p.graph.commit(c.ID, c.Next)

	var text bytes.Buffer
	beside := *p.env
	beside.Stdout = &text
	cmp.env = &beside
	own := *p
	own.env = &beside
	form := *p.form
	form.indent = len(p.graph.lanes) * 2
	cmp.form = &form
	if err := own.printChanges(ctx, cmp, changes); err != nil {
		return err
	}
	for _, line := range p.head(c) {
		p.printBeside(line)
	}
	for line := range strings.Lines(text.String()) {
		p.printBeside(strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// printBeside prints a line of text beside the next row of the graph.
func (p *commitPrinter) printBeside(text string) {
	row := p.rest
	if len(p.rows) > 0 {
		row, p.rows = p.rows[0], p.rows[1:]
	}
	if text == "" {
		row = strings.TrimRight(row, " ")
	}
	p.env.printf("%s%s\n", row, text)
}

// endGraph prints the rows that lead from the last commit to the next.
func (p *commitPrinter) endGraph() {
	for len(p.rows) > 0 {
		p.printBeside("")
	}
}

func (p *commitPrinter) printJSON(ctx context.Context, c kist.Logged, cmp *comparison, changes []fileChange) error {
	out := loggedJSON{commitJSON: newCommitJSON(c.ID, c.Commit), Path: c.Path, PathRaw: rawPath(c.Path)}
	for _, change := range changes {
		v, err := cmp.json(ctx, change)
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, v)
	}
	return p.env.json(out)
}

// head returns the lines that describe a commit.
func (p *commitPrinter) head(c kist.Logged) []string {
	id := c.ID.String()
	if p.abbrev {
		id = c.ID.Short()
	}
	names := p.decorations.text(p.env, c.ID)
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

// subject returns the first line of a message.
func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(message, "\n"), "\n")
	return line
}

// printChanges prints what a commit changed below what describes it.
func (p *commitPrinter) printChanges(ctx context.Context, cmp *comparison, changes []fileChange) error {
	if len(changes) == 0 {
		return nil
	}
	f := p.form
	switch {
	case p.oneline:
	case f.patch && (f.stat || f.shortStat || f.numStat):
		p.env.printf("---\n")
	default:
		p.env.printf("\n")
	}
	return cmp.show(ctx, changes)
}

// changes returns what a commit changed, if that is to be shown. As in git, a
// merge is passed over, but with firstParent and for show.
func (p *commitPrinter) changes(ctx context.Context, c kist.Logged) (*comparison, []fileChange, error) {
	merge := len(c.Parents) > 1
	cmp := &comparison{env: p.env, repo: p.repo, form: p.form}
	if !p.form.wanted() || merge && !p.firstParent && !p.show {
		return cmp, nil, nil
	}
	views := make([]kist.View, max(len(c.Parents), 1))
	views[0] = kist.View{Objects: p.repo.Objects()}
	for i, parent := range c.Parents {
		commit, err := object.ReadCommit(ctx, p.repo.Objects(), parent)
		if err != nil {
			return cmp, nil, err
		}
		views[i] = kist.View{Tree: commit.Tree, Objects: p.repo.Objects()}
	}
	cmp.old, cmp.new = views[0], kist.View{Tree: c.Tree, Objects: p.repo.Objects()}
	var changes []fileChange
	var err error
	if c.Path != "" {
		changes, err = cmp.followed(ctx, c.Path)
	} else {
		changes, err = cmp.changes(ctx, p.paths)
	}
	if err != nil || !merge || p.firstParent || !p.form.patch {
		return cmp, changes, err
	}
	// What the merge itself did: what is as in none of its parents.
	for _, view := range views[1:] {
		others := *cmp
		others.old = view
		differ, err := others.changes(ctx, p.paths)
		if err != nil {
			return cmp, nil, err
		}
		changes = slices.DeleteFunc(changes, func(c fileChange) bool {
			return !slices.ContainsFunc(differ, func(d fileChange) bool { return d.Path == c.Path })
		})
	}
	return cmp, changes, nil
}

// followed returns the change of one path, and where it was before. All other
// files are looked at only if it was not there.
func (c *comparison) followed(ctx context.Context, path string) ([]fileChange, error) {
	changes, err := c.changes(ctx, []string{path})
	if err != nil || len(changes) != 1 || changes[0].Old != nil || !c.form.renames {
		return changes, err
	}
	all, err := c.changes(ctx, nil)
	for _, change := range all {
		if change.Path == path {
			return []fileChange{change}, err
		}
	}
	return changes, err
}
