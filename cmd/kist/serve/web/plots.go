package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
)

func queryEscape(s string) string { return url.QueryEscape(s) }

// factor returns how many times larger a is than b, or "" if that is hardly so.
func factor(a, b int64) string {
	if b <= 0 || float64(a)/float64(b) < 1.05 {
		return ""
	}
	return fmt.Sprintf("%.1f×", float64(a)/float64(b))
}

// bar is a bar of a chart: a number of bytes, and how many of them no other holder has.
type bar struct {
	Label, Note, Href string
	Bytes, Own        int64
	Shares            bool // Own is known
	Class             string
	Picture           template.HTML
}

// hoverText returns the values of a bar, for a pointer.
func (b *bar) hoverText() string {
	if !b.Shares {
		return size(b.Bytes)
	}
	return fmt.Sprintf("%s, of it %s only here and %s shared", size(b.Bytes), size(b.Own), size(max(0, b.Bytes-b.Own)))
}

// The measures of plots, in the units of their view boxes.
const (
	barWidth, barHeight       = 1000, 14
	plotWidth, plotHeight     = 1000, 260
	narrowWidth               = 400
	plotLeft, plotTop         = 76, 12
	plotRight, plotBottom     = 12, 28
	maxPoints             int = 200
)

// bars draws the bars of a chart, the longest over the full width.
func bars(list []bar) []bar {
	longest := int64(1)
	for _, b := range list {
		longest = max(longest, b.Bytes)
	}
	width := func(n int64) int { return int(math.Ceil(float64(n) / float64(longest) * barWidth)) }
	for i := range list {
		b := &list[i]
		var s strings.Builder
		fmt.Fprintf(&s, `<svg class="bar" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true" focusable="false"><title>%s</title>`, barWidth, barHeight, b.hoverText())
		fmt.Fprintf(&s, `<rect class="track" width="%d" height="%d"/>`, barWidth, barHeight)
		if b.Shares {
			fmt.Fprintf(&s, `<rect class="%s shared" width="%d" height="%d"/>`, b.Class, width(b.Bytes), barHeight)
			fmt.Fprintf(&s, `<rect class="%s" width="%d" height="%d"/>`, b.Class, width(b.Own), barHeight)
		} else {
			fmt.Fprintf(&s, `<rect class="%s" width="%d" height="%d"/>`, b.Class, width(b.Bytes), barHeight)
		}
		s.WriteString(`</svg>`)
		b.Picture = template.HTML(s.String())
	}
	return list
}

// plot is a picture of the growth of a repository, and its last number.
type plot struct {
	Picture template.HTML
	Stored  int64
}

// growthPlot draws the growth of the stored bytes beside that of the latest content, once for
// screens and once for phones. It returns nil for less than two commits.
func growthPlot(steps []stats.HistorySize) *plot {
	if len(steps) < 2 {
		return nil
	}
	stored := steps[len(steps)-1].Stored
	label := fmt.Sprintf("Growth over time: %s stored after %d commits", size(stored), len(steps))
	points := thinned(steps, maxPoints)
	return &plot{drawn(points, "plot", label, plotWidth, 4) + drawn(points, "plot narrow", label, narrowWidth, 2), stored}
}

// drawn draws the growth as a picture of a width, with some times below it.
func drawn(points []stats.HistorySize, class, label string, wide, ticks int) template.HTML {
	start := object.Writable(points[0].When.Time())
	span := object.Writable(points[len(points)-1].When.Time()).Sub(start)
	inner := float64(wide - plotLeft - plotRight)
	top := int64(1)
	for _, s := range points {
		top = max(top, s.Stored, int64(s.Bytes))
	}
	top = niceTop(top)
	x := func(i int) float64 {
		share := float64(i) / float64(max(1, len(points)-1)) // if all have the same time
		if span > 0 {
			share = float64(points[i].When.Time().Sub(start)) / float64(span)
		}
		return plotLeft + min(1, max(0, share))*inner
	}
	y := func(n int64) float64 {
		return plotTop + (1-float64(n)/float64(top))*(plotHeight-plotTop-plotBottom)
	}

	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="%s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, class, wide, plotHeight, label)
	for i := range 5 {
		n := top / 4 * int64(i)
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text class="tick end" x="%d" y="%.1f">%s</text>`,
			plotLeft, y(n), wide-plotRight, plotLeft-8, y(n)+4, size(n))
	}
	for i := range ticks + 1 {
		at := start.Add(span / time.Duration(ticks) * time.Duration(i))
		class, px := "tick middle", plotLeft+float64(i)/float64(ticks)*inner
		if i == ticks {
			class = "tick end"
		}
		if span == 0 && i > 0 {
			break
		}
		fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%d">%s</text>`, class, px, plotHeight-8, tickText(at, span))
	}
	stored := func(s stats.HistorySize) int64 { return s.Stored }
	content := func(s stats.HistorySize) int64 { return int64(s.Bytes) }
	fmt.Fprintf(&b, `<path class="area c0" d="%sL%.1f %.1fL%.1f %.1fZ"/>`, steppedPath(points, x, y, stored), x(len(points)-1), y(0), x(0), y(0))
	fmt.Fprintf(&b, `<path class="curve c0" d="%s"/>`, steppedPath(points, x, y, stored))
	fmt.Fprintf(&b, `<path class="curve c3" d="%s"/>`, steppedPath(points, x, y, content))
	for i, s := range points { // what a pointer sees
		left, right := x(i), float64(wide-plotRight)
		if i+1 < len(points) {
			right = x(i + 1)
		}
		fmt.Fprintf(&b, `<rect class="hit" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s: %s stored, %s in the version</title></rect>`,
			left, plotTop, max(2, right-left), plotHeight-plotTop-plotBottom, object.Writable(s.When.Time()).Format("2006-01-02 15:04"), size(s.Stored), size(s.Bytes))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// steppedPath returns the path of a curve that changes only at its points.
func steppedPath(points []stats.HistorySize, x func(int) float64, y func(int64) float64, value func(stats.HistorySize) int64) string {
	var b strings.Builder
	for i, s := range points {
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f %.1f", x(i), y(value(s)))
		} else {
			fmt.Fprintf(&b, "H%.1fV%.1f", x(i), y(value(s)))
		}
	}
	return b.String()
}

// thinned returns at most so many of the steps, with the first and the last one.
func thinned(steps []stats.HistorySize, most int) []stats.HistorySize {
	if len(steps) <= most {
		return steps
	}
	out := make([]stats.HistorySize, 0, most)
	for i := range most {
		out = append(out, steps[i*(len(steps)-1)/(most-1)])
	}
	return out
}

// niceTop returns a round number of bytes that is at least n, divisible by four.
func niceTop(n int64) int64 {
	unit := int64(1)
	for unit <= n/1024 && unit < 1<<60 {
		unit *= 1024
	}
	for _, k := range []int64{4, 8, 12, 16, 20, 40, 60, 80, 100, 120, 160, 200, 240, 320, 400, 600, 800, 1000, 1200} {
		if k*unit >= n {
			return k * unit
		}
	}
	return n/4*4 + 4
}

// tickText returns a time below a plot, as exact as the plot is.
func tickText(at time.Time, span time.Duration) string {
	switch {
	case span > 3*365*24*time.Hour:
		return at.Format("2006")
	case span > 400*24*time.Hour:
		return at.Format("2006-01")
	case span > 4*24*time.Hour:
		return at.Format("2 Jan")
	case span > 2*time.Minute:
		return at.Format("2 Jan 15:04")
	}
	return at.Format("15:04:05")
}
