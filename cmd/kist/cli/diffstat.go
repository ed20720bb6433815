package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/kist-vcs/kist/tree"
)

// counts has the changed lines of a text, or the old and new bytes of another file.
type counts struct {
	name           string // quoted
	added, removed int    // lines
	binary         bool   //
	before, after  uint64 // bytes, if binary
	unmerged       bool
}

func (c *comparison) counts(ctx context.Context, change fileChange) (counts, error) {
	n := counts{name: renamed(change), unmerged: change.unmerged}
	if change.unmerged {
		return n, nil
	}
	t, isText, err := c.texts(ctx, change)
	if err != nil {
		return n, fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
	}
	if isText {
		n.added, n.removed = tree.CountLines(t.old, t.new)
		return n, nil
	}
	n.binary = true
	if change.Old != nil {
		n.before = change.Old.Size
	}
	if change.New != nil {
		n.after = change.New.Size
	}
	return n, nil
}

// renamed returns the path of a change, of a renamed file as git shows it:
// "film/{old => new}/a.mov".
func renamed(change fileChange) string {
	from, to := change.From, change.path()
	if from == "" {
		return quotePath(to)
	}
	if needsQuotes(from) || needsQuotes(to) {
		return quotePath(from) + " => " + quotePath(to)
	}
	prefix := 0
	for i := 0; i < len(from) && i < len(to) && from[i] == to[i]; i++ {
		if from[i] == '/' {
			prefix = i + 1
		}
	}
	least := max(prefix-1, 0) // the slash that ends the prefix may begin the suffix
	suffix := 0
	for i := 1; len(from)-i >= least && len(to)-i >= least && from[len(from)-i] == to[len(to)-i]; i++ {
		if from[len(from)-i] == '/' {
			suffix = i
		}
	}
	middle := func(s string) string { return s[prefix:max(prefix, len(s)-suffix)] }
	if prefix+suffix == 0 {
		return from + " => " + to
	}
	return from[:prefix] + "{" + middle(from) + " => " + middle(to) + "}" + from[len(from)-suffix:]
}

// showStat prints changes as --numstat, --stat and --shortstat do.
func (c *comparison) showStat(ctx context.Context, changes []fileChange) error {
	list := make([]counts, len(changes))
	for i, change := range changes {
		var err error
		if list[i], err = c.counts(ctx, change); err != nil {
			return err
		}
	}
	if c.form.numStat {
		for i, n := range list {
			c.printNumStat(changes[i], n)
		}
	}
	if c.form.stat {
		c.printStat(list)
	}
	if (c.form.stat || c.form.shortStat) && len(list) > 0 {
		c.env.printf("%s\n", statTotal(list))
	}
	return nil
}

func (c *comparison) printNumStat(change fileChange, n counts) {
	added, removed := strconv.Itoa(n.added), strconv.Itoa(n.removed)
	if n.binary {
		added, removed = "-", "-"
	}
	switch {
	case !c.form.nul:
		c.env.printf("%s\t%s\t%s\n", added, removed, n.name)
	case change.From == "":
		c.env.printf("%s\t%s\t%s\x00", added, removed, change.path())
	default:
		c.env.printf("%s\t%s\t\x00%s\x00%s\x00", added, removed, change.From, change.Path)
	}
}

// statTotal returns the line that sums up.
func statTotal(list []counts) string {
	added, removed, files := 0, 0, 0
	for _, n := range list {
		added += n.added
		removed += n.removed
		if !n.unmerged {
			files++
		}
	}
	number := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.Itoa(n) + " " + many
	}
	text := " " + number(files, "file changed", "files changed")
	if files == 0 {
		return text
	}
	if added > 0 || removed == 0 {
		text += ", " + number(added, "insertion(+)", "insertions(+)")
	}
	if removed > 0 || added == 0 {
		text += ", " + number(removed, "deletion(-)", "deletions(-)")
	}
	return text
}
