package show

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// counts has the changed lines of a text, or the old and new bytes of another file.
type counts struct {
	name           string // quoted
	added, removed int    // lines
	binary         bool   // not a text
	before, after  uint64 // bytes, if binary
	note           string // after the counts, for attributes
	unmerged       bool
}

func (c *Comparison) countLines(ctx context.Context, change compare.Change) (counts, error) {
	n := counts{name: renamed(change), note: AttrNote(change.Old, change.New), unmerged: change.Unmerged}
	if change.Unmerged {
		return n, nil
	}
	t, isText, err := c.Texts(ctx, change)
	if err != nil {
		return n, fmt.Errorf("compare %s: %w", cli.QuoteArg(change.Path), err)
	}
	if isText {
		n.added, n.removed = tree.CountLines(t.Old, t.New, c.Form.textOptions())
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

// renamed returns the path of a change. For a renamed file, it returns both paths as git
// does: "film/{old => new}/a.mov".
func renamed(change compare.Change) string {
	from, to := change.From, shownPath(change)
	if from == "" {
		return cli.QuotePath(to)
	}
	if cli.NeedsQuotes(from) || cli.NeedsQuotes(to) {
		return cli.QuotePath(from) + " => " + cli.QuotePath(to)
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
func (c *Comparison) showStat(ctx context.Context, changes []compare.Change) error {
	var list []counts
	for change, err := range c.Near(ctx, changes) {
		if err != nil {
			return err
		}
		n, err := c.countLines(ctx, change)
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	if c.Form.numStat {
		for i, n := range list {
			c.printNumStat(changes[i], n)
		}
	}
	if c.Form.Stat {
		c.printStat(list)
	}
	if (c.Form.Stat || c.Form.shortStat) && len(list) > 0 {
		c.Env.Printf("%s\n", statTotal(list))
	}
	return nil
}

func (c *Comparison) printNumStat(change compare.Change, n counts) {
	added, removed := strconv.Itoa(n.added), strconv.Itoa(n.removed)
	if n.binary {
		added, removed = "-", "-"
	}
	switch {
	case !c.Form.nul:
		c.Env.Printf("%s\t%s\t%s\n", added, removed, n.name)
	case change.From == "":
		c.Env.Printf("%s\t%s\t%s\x00", added, removed, shownPath(change))
	default:
		c.Env.Printf("%s\t%s\t\x00%s\x00%s\x00", added, removed, change.From, change.Path)
	}
}

// statTotal returns the last line of --stat, with the totals.
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

// printStat prints a line for each file, with a bar as long as its changes.
func (c *Comparison) printStat(list []counts) {
	w := c.statWidths(list)
	for _, n := range list {
		name := cutName(n.name, w.name)
		pad := strings.Repeat(" ", max(w.name-utf8.RuneCountInString(name), 0))
		switch {
		case n.unmerged:
			c.Env.Printf(" %s%s | %*s\n", name, pad, w.number, "Unmerged")
		case n.binary:
			c.Env.Printf(" %s%s | %*s %s -> %s bytes%s\n", name, pad, w.number, "Bin",
				c.Env.Paint(cli.Red, strconv.FormatUint(n.before, 10)), c.Env.Paint(cli.Green, strconv.FormatUint(n.after, 10)), n.note)
		default:
			plus, minus := w.barLengths(n.added, n.removed)
			line := fmt.Sprintf(" %s%s | %*d %s%s", name, pad, w.number, n.added+n.removed,
				c.Env.Paint(cli.Green, strings.Repeat("+", plus)), c.Env.Paint(cli.Red, strings.Repeat("-", minus)))
			c.Env.Printf("%s\n", strings.TrimRight(line, " ")+n.note)
		}
	}
}

// statWidths are the widths of the parts of a line of --stat, in columns.
type statWidths struct{ name, number, graph, most int }

// statWidths divides the width of the terminal, as git does.
func (c *Comparison) statWidths(list []counts) statWidths {
	width := 80
	if c.Env.Terminal.Stdout && c.Env.Terminal.Width != nil {
		width = c.Env.Terminal.Width()
	}
	width -= c.Form.indent
	var w statWidths
	bin := 0
	for _, n := range list {
		w.name = max(w.name, utf8.RuneCountInString(n.name))
		w.most = max(w.most, n.added+n.removed)
		if n.binary {
			bin = max(bin, 14+len(strconv.FormatUint(n.before, 10))+len(strconv.FormatUint(n.after, 10)))
			w.number = 3
		}
		if n.unmerged {
			bin = max(bin, 8)
		}
	}
	w.number = max(w.number, len(strconv.Itoa(w.most)))
	width = max(width, 16+6+w.number)
	w.graph = max(w.most, bin-4)
	if w.name+w.number+6+w.graph > width {
		w.graph = min(w.graph, max(width*3/8-w.number-6, 6))
		if w.name > width-w.number-6-w.graph {
			w.name = width - w.number - 6 - w.graph
		} else {
			w.graph = width - w.number - 6 - w.name
		}
	}
	return w
}

// barLengths returns the numbers of signs for added and removed lines.
func (w statWidths) barLengths(added, removed int) (plus, minus int) {
	if w.graph >= w.most {
		return added, removed
	}
	scale := func(n int) int {
		if n == 0 {
			return 0
		}
		return 1 + n*(w.graph-1)/w.most
	}
	total := scale(added + removed)
	if total < 2 && added > 0 && removed > 0 {
		total = 2
	}
	if added < removed {
		plus = scale(added)
		return plus, total - plus
	}
	minus = scale(removed)
	return total - minus, minus
}

// cutName shortens a name to width columns, at the front.
func cutName(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	rest := string(runes[len(runes)-max(width-3, 0):])
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		rest = rest[i:]
	}
	return "..." + rest
}
