package main

import (
	"bytes"
	"cmp"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// colors are the colours of the tools. Colour-blind people can distinguish them, too.
var colors = map[string]color.Color{
	kistTool: color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"restic": color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"kopia":  color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"borg":   color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"git":    color.RGBA{0xd5, 0x5e, 0x00, 0xff},
}

// chart is a plot of a report.
type chart struct {
	name, title string // the file is name.svg
	alt         string // describes the plot in words
	draw        func(*plot.Plot, *Report) (measured bool, err error)
}

// charts are all plots.
var charts = []chart{
	{"throughput", "First version: MiB of files a second", "bars: the MiB of files a second that each tool stores in an empty repository", drawThroughput(workFirst)},
	{"restore", "Restore: MiB of files a second", "bars: the MiB of files a second that each tool restores", drawThroughput(workRestore)},
	{"dedup", "Releases of a module: MiB stored", "lines: the MiB that each tool has stored after each release", drawDedup},
	{"history", "kist: seconds, by commits before", "lines: the seconds of a commit, status and log with more and more commits", drawCurve(curveHistory, "commits", "seconds", seconds, workCommit, workStatus, workLog)},
	{"files-time", "kist: seconds, by files", "lines: the seconds of each command with more and more files", drawCurve(curveFiles, "files", "seconds", seconds, workFirst, workStatus, workChanged, workRestore)},
	{"files-memory", "kist: peak memory in MiB, by files", "lines: the peak memory of each command with more and more files", drawCurve(curveFiles, "files", "MiB", mebibytes(peak), workFirst, workStatus, workChanged, workRestore)},
}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// drawCharts writes the plots of a report into dir, and returns them. It removes the plots
// without results.
func drawCharts(dir string, r *Report) ([]chart, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var drawn []chart
	for _, c := range charts {
		p := plot.New()
		p.Title.Text, p.Title.Padding = c.title, vg.Points(6)
		p.Legend.Top, p.Legend.Padding = true, vg.Points(1)
		measured, err := c.draw(p, r)
		file := filepath.Join(dir, c.name+".svg")
		switch {
		case err != nil:
			return nil, err
		case !measured:
			if err := os.RemoveAll(file); err != nil {
				return nil, err
			}
			continue
		}
		p.Y.Min = 0
		p.Y.Max *= 1.2 // room for the legend
		if err := save(p, file); err != nil {
			return nil, err
		}
		drawn = append(drawn, c)
	}
	return drawn, nil
}

// save writes a plot as SVG, with a white margin.
func save(p *plot.Plot, file string) error {
	const width, height, margin = 18 * vg.Centimeter, 9 * vg.Centimeter, 8
	canvas := vgsvg.New(width, height)
	paper := vg.Rectangle{Max: vg.Point{X: width, Y: height}}.Path()
	canvas.SetColor(color.White)
	canvas.Fill(paper)
	p.BackgroundColor = color.Transparent
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o666)
}

func mebibytes(m metric) metric { return func(s Sample) float64 { return m(s) / mib } }

// drawThroughput draws a group of bars for each set. A group has a bar for each tool.
func drawThroughput(work string) func(*plot.Plot, *Report) (bool, error) {
	return func(p *plot.Plot, r *Report) (bool, error) {
		var sets []string
		for _, s := range r.Sets {
			if r.result(s.Name, work, kistTool) != nil && !strings.HasPrefix(s.Name, filesPrefix) {
				sets = append(sets, s.Name)
			}
		}
		if len(sets) == 0 {
			return false, nil
		}
		width := vg.Points(380 / float64(len(sets)*(len(r.Tools)+1)))
		for i, t := range r.Tools {
			values := make(plotter.Values, len(sets))
			for j, set := range sets {
				if samples := r.samples(set, work, t.Name); len(samples) > 0 {
					values[j] = float64(r.set(set).Bytes) / mib / medianOf(samples, seconds)
				}
			}
			bars, err := plotter.NewBarChart(values, width)
			if err != nil {
				return false, err
			}
			bars.Color, bars.LineStyle.Width = colors[t.Name], 0
			bars.Offset = width * vg.Length(float64(i)-float64(len(r.Tools)-1)/2)
			p.Add(bars)
			p.Legend.Add(t.Name, bars)
		}
		p.NominalX(sets...)
		p.X.Min, p.X.Max = -0.5, float64(len(sets))-0.5
		return true, nil
	}
}

// drawDedup draws the size of each tool's repository after each release.
func drawDedup(p *plot.Plot, r *Report) (bool, error) {
	p.X.Label.Text, p.Y.Label.Text = "releases", "MiB"
	p.Legend.Left = true
	measured := false
	for _, t := range slices.Backward(r.Tools) { // kist above the others
		samples := slices.Concat(r.samples(setVersions, workFirst, t.Name), r.samples(setVersions, workNext, t.Name))
		steps := map[int][]Sample{}
		for _, s := range samples {
			steps[s.Step] = append(steps[s.Step], s)
		}
		var points plotter.XYs
		for step, samples := range steps {
			points = append(points, plotter.XY{X: float64(step), Y: medianOf(samples, mebibytes(stored))})
		}
		if err := addLine(p, t.Name, colors[t.Name], points); err != nil {
			return false, err
		}
		measured = measured || len(points) > 0
	}
	return measured, nil
}

// drawCurve draws a curve of kist for each work.
func drawCurve(name, x, y string, m metric, works ...string) func(*plot.Plot, *Report) (bool, error) {
	return func(p *plot.Plot, r *Report) (bool, error) {
		p.X.Label.Text, p.Y.Label.Text = x, y
		p.X.Min = 0
		p.Legend.Left = true
		measured := false
		for i, work := range works {
			c := r.curve(name, work)
			if c == nil || len(c.Points) < 2 {
				continue
			}
			points := make(plotter.XYs, len(c.Points))
			for i, point := range c.Points {
				points[i] = plotter.XY{X: float64(point.X), Y: m(point.Sample)}
			}
			if err := addLine(p, work, colors[toolNames[i]], points); err != nil {
				return false, err
			}
			measured = true
		}
		return measured, nil
	}
}

// addLine adds a line with a mark at each point, in the order of X.
func addLine(p *plot.Plot, label string, c color.Color, points plotter.XYs) error {
	if len(points) == 0 {
		return nil
	}
	slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width, marks.Color = c, vg.Points(1.5), c
	p.Add(line, marks)
	p.Legend.Add(label, line, marks)
	return nil
}
