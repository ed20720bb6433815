package cli

import (
	"bytes"
	"context"
	"strings"

	"github.com/kist-vcs/kist/refs/log"
)

// printGraph prints a commit to the right of the graph.
func (p *commitPrinter) printGraph(ctx context.Context, c log.Logged, cmp *comparison, changes []fileChange) error {
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
	for _, line := range p.head(c, cmp.note) {
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
