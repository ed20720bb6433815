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
	Since   object.ID    `json:"changes_since,omitzero"` // the commit that they are compared to, if that is not the first parent
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
// merge is passed over, but with firstParent and for show. A commit whose content
// has expired has none; where that of a parent has, see [log.Before].
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

// decorations are the names that commits have, painted, in the order in which
// they are shown: HEAD, tags, branches of remotes, branches.
type decorations map[object.ID][]string

// decorate collects the names of all commits, in full if full is set. Names
// that cannot be read are left out: they are for show.
func decorate(ctx context.Context, env *Env, r *kist.Repository, full bool) decorations {
	d := decorations{}
	head, err := r.Refs().Head()
	if err != nil {
		head = refs.Head{}
	}
	short := func(name, prefix string) string {
		if full {
			return name
		}
		return strings.TrimPrefix(name, prefix)
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
			text := env.paint(kind.color, kind.label+quotePath(short(ref.Name, kind.prefix)))
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

// text returns the names of a commit in brackets, with a space in front, or
// nothing if it has none.
func (d decorations) text(e *Env, id object.ID) string {
	names := d[id]
	if len(names) == 0 {
		return ""
	}
	return " " + e.paint(yellow, "(") + strings.Join(names, e.paint(yellow, ", ")) + e.paint(yellow, ")")
}
