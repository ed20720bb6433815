package web

import (
	"fmt"
	"html"
	"html/template"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	lines "github.com/yuin/goldmark/text"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/tree"
)

// markdownWriter writes a parsed text as HTML. It knows each element that it writes. Text
// passes through [visible], and each address is made here, so nothing of the source is obeyed.
type markdownWriter struct {
	source  []byte
	at      linkBase
	b       strings.Builder
	code    []codeBlock
	anchors map[string]int // how often each anchor was used
	depth   int            // of blocks and emphasis
	link    bool           // the text is in a link
	skip    int            // bytes of the next text that are not shown
	full    bool           // something is left out
}

// writeChildren writes the nodes in a node.
func (w *markdownWriter) writeChildren(n ast.Node) {
	if w.depth >= maxNesting {
		w.full = true
		return
	}
	w.depth++
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if w.b.Len() > maxShown {
			w.full = true
			break
		}
		w.writeBlock(c)
	}
	w.depth--
}

// writeElement writes a node as an element; start may have attributes.
func (w *markdownWriter) writeElement(start string, n ast.Node) {
	name, _, _ := strings.Cut(start, " ")
	w.b.WriteString("<" + start + ">")
	w.writeChildren(n)
	w.b.WriteString("</" + name + ">")
	if n.Type() == ast.TypeBlock {
		w.b.WriteByte('\n')
	}
}

// writeBlock writes a node that is not part of a line.
func (w *markdownWriter) writeBlock(n ast.Node) {
	switch n := n.(type) {
	case *ast.TextBlock:
		w.writeChildren(n)
	case *ast.Paragraph:
		w.writeElement("p", n)
	case *ast.Heading:
		w.writeElement(fmt.Sprintf(`h%d id="%s"`, min(n.Level+1, 6), w.newAnchor(n)), n)
	case *ast.Blockquote:
		w.writeElement("blockquote", n)
	case *ast.List:
		switch {
		case !n.IsOrdered():
			w.writeElement("ul", n)
		case n.Start == 1:
			w.writeElement("ol", n)
		default:
			w.writeElement(fmt.Sprintf(`ol start="%d"`, n.Start), n)
		}
	case *ast.ListItem:
		w.writeItem(n)
	case *ast.ThematicBreak:
		w.b.WriteString("<hr>\n")
	case *ast.CodeBlock:
		w.codeBlock("", n.Lines())
	case *ast.FencedCodeBlock:
		w.codeBlock(string(n.Language(w.source)), n.Lines())
	case *ast.HTMLBlock:
		if shown := strings.TrimSpace(withoutTags(w.textOfLines(n.Lines()))); shown != "" {
			w.b.WriteString("<p>" + string(visible(shown)) + "</p>\n")
		}
	case *extension.Table:
		w.writeTable(n)
	default:
		w.writeInline(n)
	}
}

// codeBlock writes a block of code, and leaves its text to [painter.fillCode].
func (w *markdownWriter) codeBlock(language string, text *lines.Segments) {
	w.b.WriteString(`<pre tabindex="0"><code>`)
	w.code = append(w.code, codeBlock{w.b.Len(), language, w.textOfLines(text)})
	w.b.WriteString("</code></pre>\n")
}

// writeInline writes a node that is part of a line. Unknown nodes are left out.
func (w *markdownWriter) writeInline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		w.writeText(n)
	case *ast.String:
		w.b.WriteString(string(visible(string(n.Value))))
	case *ast.CodeSpan:
		w.writeElement("code", n)
	case *ast.Emphasis:
		if n.Level == 2 {
			w.writeElement("strong", n)
		} else {
			w.writeElement("em", n)
		}
	case *extension.Strikethrough:
		w.writeElement("del", n)
	case *ast.Link:
		w.writeLink(w.at.linkAddress("blob", unescaped(n.Destination)), func() { w.writeChildren(n) })
	case *ast.AutoLink:
		to := string(n.URL(w.source))
		if n.AutoLinkType == ast.AutoLinkEmail {
			to = "mailto:" + strings.TrimPrefix(to, "mailto:")
		}
		w.writeLink(w.at.linkAddress("blob", to), func() { w.b.WriteString(string(visible(string(n.Label(w.source))))) })
	case *ast.Image:
		w.writeImage(n)
	case *ast.RawHTML:
		if strings.HasPrefix(strings.ToLower(w.textOfLines(n.Segments)), "<br") {
			w.b.WriteString("<br>")
		}
	}
}

// writeText writes a text, and the line break after it.
func (w *markdownWriter) writeText(n *ast.Text) {
	value := n.Value(w.source)
	cut := min(w.skip, len(value))
	value, w.skip = value[cut:], w.skip-cut
	shown := string(value)
	if !n.IsRaw() && (n.Parent() == nil || n.Parent().Kind() != ast.KindCodeSpan) {
		shown = unescaped(value)
	}
	w.b.WriteString(string(visible(shown)))
	switch {
	case n.HardLineBreak():
		w.b.WriteString("<br>\n")
	case n.SoftLineBreak():
		w.b.WriteByte('\n')
	}
}

// writeItem writes an item of a list. One that begins with [ ] or [x] is a task.
func (w *markdownWriter) writeItem(n *ast.ListItem) {
	box := ""
	if first := n.FirstChild(); first != nil && first.Lines() != nil && first.Lines().Len() > 0 {
		line := first.Lines().At(0)
		if data := line.Value(w.source); len(data) > 4 && data[0] == '[' && data[2] == ']' && data[3] == ' ' {
			box = map[byte]string{' ': "☐", 'x': "☑", 'X': "☑"}[data[1]]
		}
	}
	if box == "" {
		w.writeElement("li", n)
		return
	}
	w.b.WriteString(`<li class="task">` + box)
	w.skip = len("[ ]")
	w.writeChildren(n)
	w.skip = 0
	w.b.WriteString("</li>\n")
}

// writeTable writes a table. Its region can be scrolled.
func (w *markdownWriter) writeTable(n *extension.Table) {
	w.b.WriteString(`<div class="sheet" tabindex="0" role="region" aria-label="Table"><table>`)
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		cell, body := "td", row == n.FirstChild().NextSibling()
		if _, head := row.(*extension.TableHeader); head {
			cell = `th scope="col"`
			w.b.WriteString("<thead>")
		} else if body {
			w.b.WriteString("<tbody>")
		}
		w.b.WriteString("<tr>")
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			class := ""
			if of, ok := c.(*extension.TableCell); ok && of.Alignment != extension.AlignLeft {
				class = ` class="` + of.Alignment.String() + `"`
			}
			w.writeElement(cell+class, c)
		}
		w.b.WriteString("</tr>")
		if row == n.FirstChild() {
			w.b.WriteString("</thead>")
		} else if row == n.LastChild() {
			w.b.WriteString("</tbody>")
		}
	}
	w.b.WriteString("</table></div>\n")
}

// writeLink writes a link. Without an address, and in another link, there is only its text.
func (w *markdownWriter) writeLink(to string, content func()) {
	if to == "" || w.link {
		content()
		return
	}
	w.link = true
	w.b.WriteString(`<a href="` + template.HTMLEscapeString(to) + `"`)
	if isExternal(to) {
		w.b.WriteString(` rel="noopener noreferrer nofollow"`)
	}
	w.b.WriteString(">")
	content()
	w.b.WriteString("</a>")
	w.link = false
}

// writeImage writes a picture of the repository. One of another host would tell that host who reads
// the page, so it becomes a link.
func (w *markdownWriter) writeImage(n *ast.Image) {
	to := w.at.linkAddress("files", unescaped(n.Destination))
	alt := readable.Escape(w.plainText(n))
	if to == "" || isExternal(to) {
		w.writeLink(to, func() { w.b.WriteString(template.HTMLEscapeString(alt)) })
		return
	}
	fmt.Fprintf(&w.b, `<img src="%s" alt="%s" loading="lazy" decoding="async">`, template.HTMLEscapeString(to), template.HTMLEscapeString(alt))
}

// plainText returns the text in a node without markup.
func (w *markdownWriter) plainText(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := c.(*ast.Text); ok && entering {
			b.WriteString(unescaped(t.Value(w.source)))
		}
		if b.Len() > maxTitle {
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return cut(b.String(), maxTitle)
}

// newAnchor returns a new anchor for a heading.
func (w *markdownWriter) newAnchor(n *ast.Heading) string {
	anchor := anchorOf(w.plainText(n))
	w.anchors[anchor]++
	if used := w.anchors[anchor]; used > 1 {
		anchor = fmt.Sprintf("%s.%d", anchor, used) // no anchorOf has a dot
	}
	return template.HTMLEscapeString(anchor)
}

// anchorOf returns the anchor of a title. The prefix keeps it apart from other anchors of a page.
func anchorOf(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return "md-" + b.String()
}

// textOfLines returns the text of some lines.
func (w *markdownWriter) textOfLines(list *lines.Segments) string {
	var b strings.Builder
	for _, s := range list.Sliced(0, list.Len()) {
		b.Write(s.Value(w.source))
	}
	return b.String()
}

// unescaped returns text of Markdown without its backslashes and references such as &amp;.
func unescaped(data []byte) string {
	const marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	var b strings.Builder
	from := 0
	for i := 0; i+1 < len(data); i++ {
		if data[i] == '\\' && strings.IndexByte(marks, data[i+1]) >= 0 {
			b.WriteString(html.UnescapeString(string(data[from:i])))
			b.WriteByte(data[i+1])
			i++
			from = i + 1
		}
	}
	b.WriteString(html.UnescapeString(string(data[from:])))
	return b.String()
}

// withoutTags returns the text of HTML, without comments, scripts and styles. The result is text,
// whatever it looks like.
func withoutTags(markup string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(markup, "<")
		b.WriteString(before)
		if !found {
			return html.UnescapeString(b.String())
		}
		end := ">"
		switch lower := strings.ToLower(rest[:min(len(rest), len("script"))]); {
		case strings.HasPrefix(lower, "!--"):
			end = "-->"
		case lower == "script":
			end = "</script>"
		case strings.HasPrefix(lower, "style"):
			end = "</style>"
		}
		_, markup, _ = strings.Cut(rest, end)
	}
}

// hasScheme reports whether an address begins with a scheme, as in "mailto:".
func hasScheme(address string) bool {
	name, _, found := strings.Cut(address, ":")
	return found && name != "" && !strings.ContainsAny(name, "/?#")
}

// isExternal reports whether an address leads to another site, by a scheme that a link may have.
func isExternal(address string) bool {
	for _, prefix := range []string{"https://", "http://", "mailto:"} {
		if len(address) > len(prefix) && strings.EqualFold(address[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// linkAddress returns the address of the target of a link in a text, or "" if it leads nowhere.
// Below is the page for paths of the repository.
func (p linkBase) linkAddress(below, target string) string {
	if hasScheme(target) {
		if !isExternal(target) {
			return ""
		}
		return quotedURL(target)
	}
	target, fragment, _ := strings.Cut(target, "#")
	target, _, _ = strings.Cut(target, "?")
	if target == "" {
		if fragment == "" {
			return ""
		}
		return "#" + url.PathEscape(anchorOf(fragment))
	}
	to, err := url.PathUnescape(target)
	if err != nil {
		to = target
	}
	if !strings.HasPrefix(to, "/") {
		to = path.Join(path.Dir(p.path), to)
	}
	to = strings.TrimPrefix(path.Clean(to), "/")
	switch {
	case strings.HasPrefix(target, "//"):
		return ""
	case to == "." || to == "":
		return address("tree", "", p.rev)
	case tree.CheckPath(to) != nil:
		return ""
	}

	at := address(below, to, p.rev)
	switch {
	case below != "blob" || fragment == "":
	case isLineAnchor(fragment):
		at += "#" + fragment
	case isMarkdown(to):
		at += "#" + url.PathEscape(anchorOf(fragment))
	}
	return at
}

// isLineAnchor reports whether an anchor is that of a line, as in "L12".
func isLineAnchor(anchor string) bool {
	digits, ok := strings.CutPrefix(anchor, "L")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// quotedURL returns an address with escapes for all bytes that do not belong in one.
func quotedURL(to string) string {
	var b strings.Builder
	for i := range len(to) {
		if c := to[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"'<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isMarkdown reports whether a name is that of a text in Markdown.
func isMarkdown(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".mdown", ".mkd":
		return true
	}
	return false
}
