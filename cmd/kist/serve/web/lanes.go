package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// lanes draws the lines of history beside a list of commits, one row for each commit. A lane
// leads down to a commit that is not shown yet.
type lanes struct {
	list  []lane
	seen  map[object.ID]bool // shown commits; a wrong clock can show a parent first
	color int                // of the next new lane
}

type lane struct {
	id    object.ID
	color int
}

// graphColors is the number of colours of lanes. static/style.css has them.
const graphColors = 6

// maxLanes is the most lanes that are drawn beside each other. The others share the last one.
const maxLanes = 16

// maxKept is the number of lanes that are kept. Further lines end early.
const maxKept = 200

// line is a line in a row: from a lane at its top or from the commit in its middle, down to a
// lane at its bottom or to the commit.
type line struct {
	from, to       int
	color          int
	begins, arrive bool // at the commit; at the commit
}

// addRow adds a commit and returns the picture of its row.
func (l *lanes) addRow(id object.ID, parents []object.ID) template.HTML {
	if l.seen == nil {
		l.seen = map[object.ID]bool{}
	}
	l.seen[id] = true
	at := l.findLane(id)
	isNew := at < 0
	if isNew {
		at = len(l.list)
		l.list = append(l.list, l.newLane(id))
	}
	before := slices.Clone(l.list)

	var next []object.ID // parents with a line from this commit
	reuse := object.ID{} // the parent that takes over the lane
	for _, parent := range parents {
		if l.seen[parent] || slices.Contains(next, parent) {
			continue
		}
		switch {
		case l.findLane(parent) >= 0:
		case reuse.IsZero() && len(l.list) <= maxKept:
			reuse = parent
			l.list[at].id = parent
		case len(l.list) >= maxKept:
			continue
		default:
			l.list = append(l.list, l.newLane(parent))
		}
		next = append(next, parent)
	}
	if reuse.IsZero() {
		l.list = slices.Delete(l.list, at, at+1)
	}

	var lines []line
	for i, old := range before {
		if i != at {
			lines = append(lines, line{from: i, to: l.findLane(old.id), color: old.color})
		} else if !isNew {
			lines = append(lines, line{from: i, to: at, color: old.color, arrive: true})
		}
	}
	for _, parent := range next {
		to := l.findLane(parent)
		lines = append(lines, line{from: at, to: to, color: l.list[to].color, begins: true})
	}
	return picture(at, before[at].color, max(len(before), len(l.list)), lines)
}

func (l *lanes) findLane(id object.ID) int {
	return slices.IndexFunc(l.list, func(lane lane) bool { return lane.id == id })
}

func (l *lanes) newLane(id object.ID) lane {
	l.color++
	return lane{id, (l.color - 1) % graphColors}
}

// The measures of a row in pixels. static/style.css has its height, too.
const (
	rowHeight = 56
	laneWidth = 16
)

// picture returns the row of a commit in a lane as SVG.
func picture(at, color, width int, lines []line) template.HTML {
	x := func(lane int) int { return laneWidth*min(lane, maxLanes-1) + laneWidth/2 }
	var b strings.Builder
	wide := laneWidth * min(width, maxLanes)
	fmt.Fprintf(&b, `<svg class="lanes" width="%d" height="%d" viewBox="0 0 %d %d" aria-hidden="true" focusable="false">`, wide, rowHeight, wide, rowHeight)
	shared := false // whether the last lane has a line
	for _, l := range lines {
		if l.from >= maxLanes-1 && l.to >= maxLanes-1 && !l.begins && !l.arrive {
			if shared {
				continue
			}
			shared = true
		}
		top, bottom := 0, rowHeight
		if l.begins {
			top = rowHeight / 2
		}
		if l.arrive {
			bottom = rowHeight / 2
		}
		from, to := x(l.from), x(l.to)
		if from == to {
			fmt.Fprintf(&b, `<path class="lane c%d" d="M%d %dV%d"/>`, l.color, from, top, bottom)
		} else {
			middle := (top + bottom) / 2
			fmt.Fprintf(&b, `<path class="lane c%d" d="M%d %dC%d %d %d %d %d %d"/>`, l.color, from, top, from, middle, to, middle, to, bottom)
		}
	}
	fmt.Fprintf(&b, `<circle class="commit c%d" cx="%d" cy="%d" r="5"/></svg>`, color, x(at), rowHeight/2)
	return template.HTML(b.String())
}
