package web

import (
	"bytes"
	"context"
	"html/template"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	lines "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// The limits of Markdown. The parser needs time in the square of the size of hostile text.
const (
	maxMarkdown   = 64 << 10 // bytes that are rendered
	maxRendered   = 2        // texts at once
	maxReferences = 500      // definitions of links; the parser cannot be stopped among them
	maxCells      = 20_000   // of a table
	maxColumns    = 50       // of a table
	maxNesting    = 32       // lists and quotes inside each other
)

// maxRendering is the longest that a page waits for a text. Then it shows the source.
var maxRendering = 500 * time.Millisecond

// markdown renders texts in Markdown. It is safe for concurrent use.
type markdown struct {
	places  chan struct{}
	parser  parser.Parser
	painter *painter // of blocks of code
}

func newMarkdown(p *painter) *markdown {
	var inline []util.PrioritizedValue
	for _, p := range append(parser.DefaultInlineParsers(), util.Prioritized(strikethrough{}, 500)) {
		inline = append(inline, util.Prioritized(stoppableInline{p.Value.(parser.InlineParser)}, p.Priority))
	}
	paragraphs := append(parser.DefaultParagraphTransformers(), util.Prioritized(tables{}, 200))
	parser := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(inline...), parser.WithParagraphTransformers(paragraphs...))
	return &markdown{make(chan struct{}, maxRendered), parser, p}
}

// linkBase is where a text is: links in it are relative to that.
type linkBase struct{ path, rev string }

// renderHTML returns a text as HTML, and whether it is complete. The HTML is empty if the text is
// too hard to parse.
func (m *markdown) renderHTML(ctx context.Context, at linkBase, source []byte) (html template.HTML, complete bool) {
	complete = len(source) <= maxMarkdown
	if !complete {
		source = source[:bytes.LastIndexByte(source[:maxMarkdown], '\n')+1]
	}
	if len(source) == 0 || bytes.Count(source, []byte("]:")) > maxReferences {
		return "", false
	}

	rendering, stop := context.WithTimeout(ctx, maxRendering)
	defer stop()
	w, ok := beside(rendering, m.places, func(ctx context.Context) *markdownWriter {
		root := m.parseText(ctx, source)
		if root == nil {
			return nil
		}
		w := &markdownWriter{source: source, at: at, anchors: map[string]int{}}
		w.writeChildren(root)
		return w
	})
	if !ok || w == nil {
		return "", false
	}
	return m.painter.fillCode(ctx, w.b.String(), w.code), complete && !w.full
}

// codeBlock is a block of code in HTML that does not have its text yet.
type codeBlock struct {
	at             int // offset in the HTML
	language, text string
}

// fillCode returns HTML with the texts of blocks of code, which together get the time for one text of a
// file. Blocks without time, space or a known language have no colours.
func (p *painter) fillCode(ctx context.Context, html string, blocks []codeBlock) template.HTML {
	ctx, stop := context.WithTimeout(ctx, maxHighlighting)
	defer stop()
	var b strings.Builder
	done, space := 0, maxShown-len(html)
	for _, block := range blocks {
		b.WriteString(html[done:block.at])
		done = block.at
		text := strings.ReplaceAll(block.text, "\r\n", "\n")
		shown, ok := p.colorCode(ctx, block.language, text)
		if !ok || len(shown) > space {
			shown = string(visible(text))
		}
		b.WriteString(shown)
		space -= len(shown)
	}
	b.WriteString(html[done:])
	return template.HTML(b.String())
}

// colorCode returns a text in a language as HTML with colours. It returns false for an unknown language,
// a text with long lines, or if ctx ends.
func (p *painter) colorCode(ctx context.Context, language, text string) (string, bool) {
	long := func(line string) bool { return len(line) > maxLine }
	if language == "" || ctx.Err() != nil || !utf8.ValidString(text) || slices.ContainsFunc(strings.Split(text, "\n"), long) {
		return "", false
	}
	lexer := lexerOf(language)
	if lexer == nil {
		return "", false
	}
	lines, ok := p.colorLines(ctx, lexer, text)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(string(line) + "\n")
	}
	return b.String(), ok
}

// parseText returns the document, or nil if ctx ends earlier.
func (m *markdown) parseText(ctx context.Context, source []byte) ast.Node {
	defer func() { _ = recover() }() // the parser has no other way to stop, and a text may break it
	return m.parser.Parse(lines.NewReader(source), parser.WithContext(&stoppableContext{parser.NewContext(), ctx.Err}))
}

// stoppableContext is the state of a parser. It fails when ended returns an error, at calls that
// the parser makes for each block, link and emphasis.
type stoppableContext struct {
	parser.Context
	ended func() error
}

func (c *stoppableContext) checkEnd() {
	if err := c.ended(); err != nil {
		panic(err)
	}
}

// Get implements [parser.Context].
func (c *stoppableContext) Get(key parser.ContextKey) any { c.checkEnd(); return c.Context.Get(key) }

// SetBlockOffset implements [parser.Context].
func (c *stoppableContext) SetBlockOffset(n int) { c.checkEnd(); c.Context.SetBlockOffset(n) }

// OpenedBlocks implements [parser.Context].
func (c *stoppableContext) OpenedBlocks() []parser.Block {
	c.checkEnd()
	return c.Context.OpenedBlocks()
}

// RemoveDelimiter implements [parser.Context].
func (c *stoppableContext) RemoveDelimiter(d *parser.Delimiter) {
	c.checkEnd()
	c.Context.RemoveDelimiter(d)
}

// stoppableInline is a parser of text in a line that stops with its [stoppableContext].
type stoppableInline struct{ parser.InlineParser }

// Parse implements [parser.InlineParser].
func (p stoppableInline) Parse(parent ast.Node, block lines.Reader, pc parser.Context) ast.Node {
	pc.(*stoppableContext).checkEnd()
	return p.InlineParser.Parse(parent, block, pc)
}

// CloseBlock implements [parser.CloseBlocker].
func (p stoppableInline) CloseBlock(parent ast.Node, block lines.Reader, pc parser.Context) {
	if closing, ok := p.InlineParser.(parser.CloseBlocker); ok {
		closing.CloseBlock(parent, block, pc)
	}
}

// strikethrough parses ~~text~~. The package of goldmark for it would compile many expressions at
// the start of each command.
type strikethrough struct{}

// Trigger implements [parser.InlineParser].
func (strikethrough) Trigger() []byte { return []byte{'~'} }

// Parse implements [parser.InlineParser].
func (s strikethrough) Parse(_ ast.Node, block lines.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	node := parser.ScanDelimiter(line, before, 2, s)
	if node == nil || node.OriginalLength != 2 || before == '~' {
		return nil
	}
	node.Segment = segment.WithStop(segment.Start + node.OriginalLength)
	block.Advance(node.OriginalLength)
	pc.PushDelimiter(node)
	return node
}

// IsDelimiter implements [parser.DelimiterProcessor].
func (strikethrough) IsDelimiter(b byte) bool { return b == '~' }

// CanOpenCloser implements [parser.DelimiterProcessor].
func (strikethrough) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

// OnMatch implements [parser.DelimiterProcessor].
func (strikethrough) OnMatch(int) ast.Node { return extension.NewStrikethrough() }

// tables makes a table of a paragraph whose second line is like |---|:-:|. A table of too many
// cells stays a paragraph, since each short line would get all columns.
type tables struct{}

// Transform implements [parser.ParagraphTransformer].
func (tables) Transform(node *ast.Paragraph, reader lines.Reader, _ parser.Context) {
	source, list := reader.Source(), node.Lines()
	if list.Len() < 2 {
		return
	}
	second := list.At(1)
	columns := alignments(second.Value(source))
	if len(columns) == 0 || len(columns) > maxColumns || len(columns)*list.Len() > maxCells {
		return
	}
	head := cells(list.At(0), source)
	if len(head) != len(columns) {
		return
	}

	table := extension.NewTable()
	table.Alignments = columns
	table.SetPos(node.Pos())
	table.AppendChild(table, extension.NewTableHeader(tableRow(head, columns)))
	for i := 2; i < list.Len(); i++ {
		table.AppendChild(table, tableRow(cells(list.At(i), source), columns))
	}
	node.Parent().ReplaceChild(node.Parent(), node, table)
}

// alignments returns the columns that a line like |---|:-:| describes. Any other line has none.
func alignments(line []byte) (list []extension.Alignment) {
	line = bytes.TrimSpace(line)
	if !bytes.ContainsRune(line, '|') {
		return nil
	}
	line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte("|")), []byte("|"))
	for column := range bytes.SplitSeq(line, []byte("|")) {
		column = bytes.TrimSpace(column)
		left, right := bytes.HasPrefix(column, []byte(":")), bytes.HasSuffix(column, []byte(":"))
		dashes := bytes.Trim(column, ":")
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 || len(column)-len(dashes) > 2 {
			return nil
		}
		switch {
		case left && right:
			list = append(list, extension.AlignCenter)
		case right:
			list = append(list, extension.AlignRight)
		default:
			list = append(list, extension.AlignLeft)
		}
	}
	return list
}

// cells returns the cells of a line of a table, at most one more than a table can have. A | after
// a backslash does not end a cell.
func cells(line lines.Segment, source []byte) (list []lines.Segment) {
	line = trimmed(line, source)
	data := line.Value(source)
	from, to := 0, len(data)
	if to > 0 && data[0] == '|' {
		from = 1
	}
	if to > from && data[to-1] == '|' && data[to-2] != '\\' {
		to--
	}
	for at := from; at <= to && len(list) <= maxColumns; at++ {
		if at == to || data[at] == '|' && (at == 0 || data[at-1] != '\\') {
			list = append(list, trimmed(lines.NewSegment(line.Start+from, line.Start+at), source))
			from = at + 1
		}
	}
	return list
}

// trimmed returns a part of a text without the spaces around it.
func trimmed(part lines.Segment, source []byte) lines.Segment {
	part = part.TrimLeftSpace(source)
	return part.TrimRightSpace(source)
}

// tableRow returns a row with one cell for each column.
func tableRow(list []lines.Segment, columns []extension.Alignment) *extension.TableRow {
	row := extension.NewTableRow(columns)
	for i := range columns {
		cell := extension.NewTableCell()
		cell.Alignment = columns[i]
		if i < len(list) {
			cell.Lines().Append(list[i])
		}
		row.AppendChild(row, cell)
	}
	return row
}
