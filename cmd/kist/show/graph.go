package show

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
)

// printGraph prints a commit to the right of the graph.
func (p *CommitPrinter) printGraph(ctx context.Context, c log.Logged, cmp *Comparison, changes []compare.Change) error {
	format := p.Text.Format
	if p.Printed && !format.Ended() && !p.open {
		p.printBeside("")
	}
	p.EndGraph()
	p.Printed = true
	p.rows, p.rest = p.Graph.Commit(c.ID, c.Next)
	if p.Text.Marks && c.Mark != 0 {
		p.rows[0] = strings.Replace(p.rows[0], "*", string(c.Mark), 1)
	}

	var text bytes.Buffer
	beside := *p.Env
	beside.Stdout = &text
	cmp.Env = &beside
	own := *p
	own.Env = &beside
	form := *p.form
	form.indent = len(p.Graph.Lanes) * 2
	cmp.Form = &form
	named := *p.Text
	named.Marks = false // the graph has the mark
	message := named.Text(c)
	_, _ = text.Write(message)
	if format.Ended() {
		text.WriteByte('\n')
	}
	if err := own.printChanges(ctx, cmp, changes); err != nil {
		return err
	}

	for line := range strings.Lines(text.String()) {
		p.printBeside(strings.TrimSuffix(line, "\n"))
	}
	p.open = !format.Ended() && !bytes.HasSuffix(text.Bytes(), []byte("\n"))
	return nil
}

// printBeside prints a line of text beside the next row of the graph.
func (p *CommitPrinter) printBeside(text string) {
	row := p.rest
	if len(p.rows) > 0 {
		row, p.rows = p.rows[0], p.rows[1:]
	}
	if text == "" {
		row = strings.TrimRight(row, " ")
	}
	p.Env.Printf("%s%s\n", row, text)
}

// EndGraph prints the rows that lead from the last commit to the next.
func (p *CommitPrinter) EndGraph() {
	for len(p.rows) > 0 {
		p.printBeside("")
	}
}

// graph draws the lines of history at the left of a log, as 'git log --graph' does. The
// commits come in topological order. After the first child of a commit is shown, and until
// the commit is, the commit has a lane: a column for its line, and a column of space.
type graph struct {
	Lanes []lane
	next  cli.Style // of the next new lane
	paint func(s cli.Style, text string) string
}

// lane is the line that leads down to a commit.
type lane struct {
	id    object.ID
	color cli.Style
}

// graphColors are the colours of lanes, in the order of their use.
var graphColors = []cli.Style{cli.Red, cli.Green, cli.Yellow, cli.Blue, cli.Magenta, cli.Cyan}

func NewGraph(paint func(s cli.Style, text string) string) *graph {
	return &graph{next: graphColors[0], paint: paint}
}

// row is one line of the graph: the sign in each column, and its colour.
type row struct {
	signs  []byte
	colors []cli.Style
}

func (r *row) putSign(column int, sign byte, color cli.Style) {
	for len(r.signs) <= column {
		r.signs, r.colors = append(r.signs, ' '), append(r.colors, "")
	}
	r.signs[column], r.colors[column] = sign, color
}

// straightRow returns a row in which all lanes go straight down, except one (-1: none).
func (g *graph) straightRow(without int) *row {
	r := &row{}
	for i, l := range g.Lanes {
		if i != without {
			r.putSign(2*i, '|', l.color)
		}
	}
	return r
}

// rowOfMove returns a row in which the lanes to the right of an ended one move left by one.
func (g *graph) rowOfMove(ended int) *row {
	r := &row{}
	for i, l := range g.Lanes {
		if i < ended {
			r.putSign(2*i, '|', l.color)
		} else if i > ended {
			r.putSign(2*i-1, '/', l.color)
		}
	}
	return r
}

// rowAfterMove returns the row below [graph.rowOfMove].
func (g *graph) rowAfterMove(ended int) *row {
	after := graph{Lanes: slices.Delete(slices.Clone(g.Lanes), ended, ended+1)}
	return after.straightRow(-1)
}

// Commit returns the rows to the left of a commit's lines of text: its own row, and
// the rows that lead to the next commits. rest stands beside further lines of text.
func (g *graph) Commit(id object.ID, next []object.ID) (rows []string, rest string) {
	at := slices.IndexFunc(g.Lanes, func(l lane) bool { return l.id == id })
	if at < 0 {
		at = len(g.Lanes)
		g.Lanes = append(g.Lanes, lane{id, g.newColor()})
	}
	own := g.straightRow(at)
	own.putSign(2*at, '*', "")
	drawn := []*row{own}

	var fresh []object.ID // commits that have no lane yet
	var joined []int      // lanes of the other commits
	for _, id := range next {
		if i := slices.IndexFunc(g.Lanes, func(l lane) bool { return l.id == id }); i >= 0 {
			joined = append(joined, i)
		} else {
			fresh = append(fresh, id)
		}
	}

	right := slices.IndexFunc(joined, func(i int) bool { return i > at })
	switch {
	case len(fresh) > 0:
		drawn = append(drawn, g.joinLanes(at, joined, false)...)
		g.Lanes[at].id = fresh[0]
		for i, id := range fresh[1:] {
			drawn = append(drawn, g.addLane(at+1+i, id))
		}
	case right >= 0: // the lane at the right ends, and this one leads to its commit
		other := joined[right]
		drawn = append(drawn, g.joinLanes(at, slices.Delete(joined, right, right+1), false)...)
		g.Lanes[at].id = g.Lanes[other].id
		drawn = append(drawn, g.joinLanes(other, []int{at}, true)...)
	default:
		drawn = append(drawn, g.joinLanes(at, joined, true)...)
	}

	last := g.straightRow(-1)
	width := len(last.signs)
	for _, r := range drawn {
		width = max(width, len(r.signs))
	}
	for _, r := range drawn {
		rows = append(rows, g.rowText(r, width))
	}
	return rows, g.rowText(last, width)
}

// joinLanes returns the rows in which lines lead from one lane to others. If the lane ends, the
// others are at its left, and the lanes at its right close the gap.
func (g *graph) joinLanes(at int, lanes []int, ends bool) []*row {
	far := slices.ContainsFunc(lanes, func(to int) bool { return to < at-1 || to > at+1 })
	gap := ends && at < len(g.Lanes)-1
	without := -1
	if ends {
		without = at
	}

	var rows []*row
	switch {
	case gap:
		rows = append(rows, g.rowOfMove(at))
	case len(lanes) > 0:
		rows = append(rows, g.straightRow(without))
	}
	if far {
		rows = append(rows, g.straightRow(without))
	}
	if far && gap {
		rows[1] = g.rowAfterMove(at)
	}

	for _, to := range lanes {
		g.drawLine(rows, at, to)
	}
	if ends {
		g.Lanes = slices.Delete(g.Lanes, at, at+1)
	}
	return rows
}

// drawLine draws a line from one lane to another. The first row has the line up to the
// neighbour of the other lane, the second row its last sign.
func (g *graph) drawLine(rows []*row, from, to int) {
	color := g.Lanes[to].color
	sign, step := byte('\\'), 1
	if to < from {
		sign, step = '/', -1
	}
	rows[0].putSign(2*from+step, sign, color)
	for column := 2*from + 3*step; (2*to-step-column)*step > 0; column += 2 * step {
		rows[0].putSign(column, '_', color)
	}
	if to != from+step {
		rows[1].putSign(2*to-step, sign, color)
	}
}

// addLane begins a lane at a place. It returns the row in which the new lane leaves the one
// at its left, and the lanes at its right make room.
func (g *graph) addLane(at int, id object.ID) *row {
	r := &row{}
	for i, l := range g.Lanes[:at] {
		r.putSign(2*i, '|', l.color)
	}
	g.Lanes = slices.Insert(g.Lanes, at, lane{id, g.newColor()})
	for i := at; i < len(g.Lanes); i++ {
		r.putSign(2*i-1, '\\', g.Lanes[i].color)
	}
	return r
}

// newColor returns the colour of a new lane.
func (g *graph) newColor() cli.Style {
	color := g.next
	g.next = graphColors[(slices.Index(graphColors, color)+1)%len(graphColors)]
	return color
}

// rowText returns a row and a space, padded to a width.
func (g *graph) rowText(r *row, width int) string {
	var b strings.Builder
	for i, sign := range r.signs {
		if sign := string(sign); r.colors[i] == "" {
			b.WriteString(sign)
		} else {
			b.WriteString(g.paint(r.colors[i], sign))
		}
	}
	b.WriteString(strings.Repeat(" ", width+1-len(r.signs)))
	return b.String()
}
