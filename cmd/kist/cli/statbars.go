package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printStat prints a line for each file, with a bar as long as its changes.
func (c *comparison) printStat(list []counts) {
	w := c.statWidths(list)
	for _, n := range list {
		name := cutName(n.name, w.name)
		pad := strings.Repeat(" ", max(w.name-utf8.RuneCountInString(name), 0))
		switch {
		case n.unmerged:
			c.env.printf(" %s%s | %*s\n", name, pad, w.number, "Unmerged")
		case n.binary:
			c.env.printf(" %s%s | %*s %s -> %s bytes\n", name, pad, w.number, "Bin",
				c.env.paint(red, strconv.FormatUint(n.before, 10)), c.env.paint(green, strconv.FormatUint(n.after, 10)))
		default:
			plus, minus := w.bars(n.added, n.removed)
			line := fmt.Sprintf(" %s%s | %*d %s%s", name, pad, w.number, n.added+n.removed,
				c.env.paint(green, strings.Repeat("+", plus)), c.env.paint(red, strings.Repeat("-", minus)))
			c.env.printf("%s\n", strings.TrimRight(line, " "))
		}
	}
}

// statWidths are how many columns the parts of a line of --stat have.
type statWidths struct{ name, number, graph, most int }

// statWidths shares out the width that there is, as git does.
func (c *comparison) statWidths(list []counts) statWidths {
	width := 80
	if c.env.Terminal.Stdout && c.env.Terminal.Width != nil {
		width = c.env.Terminal.Width()
	}
	width -= c.form.indent
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

// bars returns how many signs stand for a number of added and removed lines.
func (w statWidths) bars(added, removed int) (plus, minus int) {
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
