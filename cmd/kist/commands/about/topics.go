package about

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// write writes the topic for a terminal.
func write(t cli.Topic, w io.Writer) {
	fmt.Fprintf(w, "%s - %s\n", t.Name, t.Title())
	_, body, _ := strings.Cut(t.Page, "\n")
	WritePage(w, body)
}

// roff returns the manual page of the topic, of section 7.
func roff(t cli.Topic) string {
	var text, b strings.Builder
	_, body, _ := strings.Cut(t.Page, "\n")
	WritePage(&text, body)
	name := "kist-" + t.Name
	fmt.Fprintf(&b, ".TH %s 7 %s \"kist %s\" \"kist manual\"\n", roffArg(strings.ToUpper(name)), cli.Released, cli.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", roffText(name), roffText(t.Title()))
	roffLiteral(&b, strings.Trim(text.String(), "\n"))
	b.WriteString(".SH SEE ALSO\n\\fBkist\\fR(1)\n")
	return b.String()
}

// WritePage writes Markdown as text of at most 80 columns. It knows the parts that pages of docs
// use: headings, paragraphs, lists, tables, code that is indented or between fences. Code keeps its width.
func WritePage(w io.Writer, page string) {
	lines := strings.Split(strings.Trim(page, "\n"), "\n")
	for len(lines) > 0 {
		var block []string
		line := lines[0]
		switch {
		case line == "":
			lines = lines[1:]
			continue
		case strings.HasPrefix(line, "```"):
			end := 1 + max(0, slices.Index(lines[1:], "```"))
			block, lines = lines[1:end], lines[end+1:]
			fmt.Fprintf(w, "\n    %s\n", strings.Join(block, "\n    "))
		case strings.HasPrefix(line, "    "):
			block, lines = cutLines(lines, func(line string) bool { return strings.HasPrefix(line, "    ") })
			fmt.Fprintf(w, "\n%s\n", strings.Join(block, "\n"))
		case strings.HasPrefix(line, "#"):
			lines = lines[1:]
			fmt.Fprintf(w, "\n%s\n", strings.ToUpper(plainText(strings.TrimLeft(line, "# "))))
		case strings.HasPrefix(line, "|"):
			block, lines = cutLines(lines, func(line string) bool { return strings.HasPrefix(line, "|") })
			fmt.Fprintln(w)
			cli.WriteTerms(w, tableItems(block))
		default:
			block, lines = cutLines(lines, func(line string) bool { return line != "" })
			fmt.Fprintln(w)
			writeParagraph(w, block)
		}
	}
}

// cutLines returns the lines before the first one that does not belong to them, and the rest.
func cutLines(lines []string, belongs func(string) bool) (before, rest []string) {
	end := slices.IndexFunc(lines, func(line string) bool { return !belongs(line) })
	if end < 0 {
		end = len(lines)
	}
	return lines[:end], lines[end:]
}

// listItem matches the mark of an item of a list.
var listItem = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(- |[0-9]+\. )`) })

// writeParagraph writes a paragraph, or a list.
func writeParagraph(w io.Writer, block []string) {
	for len(block) > 0 {
		mark := listItem().FindString(block[0])
		item, rest := cutLines(block[1:], func(line string) bool { return !listItem().MatchString(line) })
		text := plainText(strings.TrimPrefix(block[0], mark) + " " + strings.Join(item, " "))
		indent := strings.Repeat(" ", len(mark))
		fmt.Fprintf(w, "%s%s\n", mark, strings.ReplaceAll(cli.Wrap(text, 80-len(mark)), "\n", "\n"+indent))
		block = rest
	}
}

// tableItems returns the rows of a table. With more than two columns, the text of a row has the titles of
// its columns.
func tableItems(block []string) []cli.ManualItem {
	titles := tableCells(block[0])
	var items []cli.ManualItem
	for _, line := range block[2:] {
		cells := tableCells(line)
		text := cells[1]
		if len(cells) > 2 {
			var parts []string
			for i, cell := range cells[1:] {
				if cell != "" {
					parts = append(parts, titles[i+1]+": "+cell)
				}
			}
			text = strings.Join(parts, "; ")
		}
		items = append(items, cli.ManualItem{Term: cells[0], Text: text})
	}
	return items
}

// tableCells returns the cells of a row as plain text.
func tableCells(line string) []string {
	line = strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00")
	cells := strings.Split(line, "|")
	for i, cell := range cells {
		cells[i] = plainText(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"))
	}
	return cells
}

var pageLink = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`) })

// plainText returns a line without Markdown's marks. A link becomes its text, and the command that
// prints its page, if there is one.
func plainText(line string) string {
	line = pageLink().ReplaceAllStringFunc(line, func(link string) string {
		match := pageLink().FindStringSubmatch(link)
		text, target := match[1], match[2]
		for _, t := range cli.Topics {
			if file, _, _ := strings.Cut(target, "#"); path.Base(file) == path.Base(t.File) {
				command := "'kist help " + t.Name + "'"
				if text == file {
					return command
				}
				return text + " (" + command + ")"
			}
		}
		return text
	})
	parts := strings.Split(line, "`")
	for i := 0; i < len(parts); i += 2 { // the others are code
		parts[i] = strings.ReplaceAll(parts[i], "**", "")
	}
	return strings.Join(parts, "")
}
