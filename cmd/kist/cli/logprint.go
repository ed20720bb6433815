package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/log"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/view"
)

// gitTime is how git prints a time.
const gitTime = "Mon Jan 2 15:04:05 2006 -0700"

// commitPrinter prints commits and their changes, for log and show.
type commitPrinter struct {
	env         *Env
	repo        *kist.Repository
	records     *record.View // holds and expirations
	form        *changeForm
	paths       pathspecs // limit the shown changes; none: all are shown
	oneline     bool
	abbrev      bool // short IDs
	firstParent bool // the changes of a merge are compared to its first parent
	show        bool // for show, which prints more of merges than log
	decorations decorations
	graph       *graph

	printed bool     // a commit was printed
	rows    []string // of the graph, to be printed before the next commit
	rest    string   // stands for the graph beside text that has no row
}

// loggedJSON is a commit as log and show print it with --json.
type loggedJSON struct {
	commitJSON
	Expired *expiredJSON `json:"expired,omitempty"` // null: its content has not expired
	Held    *heldJSON    `json:"held,omitempty"`    // null: it is not held
	Path    string       `json:"path,omitempty"`    // with --follow
	PathRaw []byte       `json:"path_raw,omitempty"`
	Changes []changeJSON `json:"changes,omitempty"`
	Since   object.ID    `json:"changes_since,omitzero"` // the commit of the comparison, if it is not the first parent
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
	if cmp.note != "" {
		out.Since = cmp.old.Commit
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

// head returns the lines that describe a commit. note is a remark on its changes, or
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
		lines = append(lines, "Held:   "+heldText(p.env, *c.Held))
	}
	if note != "" {
		lines = append(lines, "Changes: "+note)
	}
	lines = append(lines,
		"Author: "+person(c.Author),
		"Date:   "+c.Author.When().Format(gitTime))
	if c.Host != "" && (c.Host != p.env.Hostname || p.env.global.verbose) {
		lines = append(lines, "Host:   "+printable(c.Host))
	}
	return append(lines, messageLines(c.Message)...)
}

// person returns a name and an address as git prints them.
func person(s object.Signature) string { return printable(s.Name + " <" + s.Email + ">") }

// messageLines returns the lines of a message: an empty one, then the message, indented.
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

// maxSubject is the number of characters after which a subject is cut.
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

// printChanges prints the changes of a commit below its description.
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

// changes returns the changes of a commit, or none if they are not to be shown. As in
// git, log skips merges without --first-parent. An expired commit has no changes. For an
// expired parent, see [log.Before].
func (p *commitPrinter) changes(ctx context.Context, c log.Logged) (*comparison, []fileChange, error) {
	merge := len(c.Parents) > 1
	cmp := &comparison{env: p.env, repo: p.repo, form: p.form}
	if !p.form.wanted() || merge && !p.firstParent && !p.show || c.Expired != nil {
		return cmp, nil, nil
	}
	views := make([]view.View, max(len(c.Parents), 1))
	views[0] = view.View{Objects: p.repo.Contents()}
	for i, parent := range c.Parents {
		var err error
		if views[i], err = log.Before(ctx, p.repo, p.records, parent); err != nil {
			return cmp, nil, err
		}
	}

	switch before := views[0].Commit; {
	case len(c.Parents) == 0 || before == c.Parents[0]:
	case before.IsZero():
		cmp.note = "not known; what was before has expired"
		return cmp, nil, nil
	default:
		cmp.note = "since " + before.Short() + "; what lies between has expired"
	}
	cmp.old, cmp.new = views[0], view.View{Tree: c.Tree, Objects: p.repo.Contents()}
	var changes []fileChange
	var err error
	if c.Path != "" {
		changes, err = cmp.followed(ctx, c.Path)
	} else {
		changes, err = cmp.selected(ctx, p.paths)
	}
	if err != nil || !merge || p.firstParent || !p.form.patch {
		return cmp, changes, err
	}
	// The changes of the merge itself: files that differ from all its parents.
	for _, view := range views[1:] {
		others := *cmp
		others.old = view
		differ, err := others.selected(ctx, p.paths)
		if err != nil {
			return cmp, nil, err
		}
		changes = slices.DeleteFunc(changes, func(c fileChange) bool {
			return !slices.ContainsFunc(differ, func(d fileChange) bool { return d.Path == c.Path })
		})
	}
	return cmp, changes, nil
}

// followed returns the change of one path, with its former path if it was renamed. It
// compares other files only if the path is new.
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

// decorations are the painted names of commits, in the order of the output: HEAD, tags,
// branches of remotes, branches.
type decorations map[object.ID][]string

// decorate collects the names of all commits, in full if full is set. It leaves out names
// that it cannot read.
func decorate(ctx context.Context, env *Env, r *kist.Repository, full bool) decorations {
	d := decorations{}
	head, err := r.Refs().Head()
	if err != nil {
		head = refs.Head{}
	}
	if head.Branch == "" && !head.ID.IsZero() {
		d[head.ID] = append(d[head.ID], env.paint(boldCyan, "HEAD"))
	}

	for _, kind := range []struct {
		prefix, label string
		color         style
	}{
		{refs.Tags, "tag: ", boldYellow},
		{refs.Remotes, "", boldRed},
		{refs.Heads, "", boldGreen},
	} {
		list, _ := r.Refs().List(kind.prefix)
		for _, ref := range list {
			id := ref.ID
			if kind.prefix == refs.Tags {
				if id, err = refs.Peel(ctx, r.Objects(), id); err != nil {
					continue
				}
			}
			name := ref.Name
			if !full {
				name = strings.TrimPrefix(name, kind.prefix)
			}
			text := env.paint(kind.color, kind.label+quotePath(name))
			if ref.Name == refs.Heads+head.Branch {
				text = env.paint(boldCyan, "HEAD -> ") + text
				d[id] = append([]string{text}, d[id]...)
			} else {
				d[id] = append(d[id], text)
			}
		}
	}
	return d
}

// text returns the names of a commit in parentheses, after a space. It returns "" if the
// commit has no name.
func (d decorations) text(e *Env, id object.ID) string {
	names := d[id]
	if len(names) == 0 {
		return ""
	}
	return " " + e.paint(yellow, "(") + strings.Join(names, e.paint(yellow, ", ")) + e.paint(yellow, ")")
}
