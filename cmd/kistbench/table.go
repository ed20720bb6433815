package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const notMeasured = "Not measured in this run.\n"

// row is a line of a table: a metric of a piece of work.
type row struct {
	label   string
	m       metric
	samples func(r *Report, set, tool string) []Sample
}

// of returns the row of a metric of a piece of work.
func of(label, work string, m metric) row {
	return row{label, m, func(r *Report, set, tool string) []Sample { return r.samples(set, work, tool) }}
}

// added returns samples with the growth of the repository from one piece of work to another.
func added(r *Report, set, before, after, tool string) []Sample {
	var samples []Sample
	for _, b := range r.samples(set, before, tool) {
		for _, a := range r.samples(set, after, tool) {
			if a.Round == b.Round && a.Stored > 0 {
				samples = append(samples, Sample{Round: a.Round, Stored: a.Stored - b.Stored})
			}
		}
	}
	return samples
}

// lastStep returns the samples of the last step of a piece of work.
func lastStep(r *Report, set, work, tool string) []Sample {
	samples := r.samples(set, work, tool)
	last := 0
	for _, s := range samples {
		last = max(last, s.Step)
	}
	return slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.Step != last })
}

// rows are the rows of races on a set of files.
var rows = []row{
	of("first version, s", workFirst, seconds),
	of("— writing as much, flushed, s", workFlush, seconds),
	of("— processor, s", workFirst, cpu),
	of("— peak memory, MiB", workFirst, mebibytes(peak)),
	of("first version with full metadata, s", workMetadata, seconds),
	of("no change, s", workUnchanged, seconds),
	of("status, s", workStatus, seconds),
	of("after the change, s", workChanged, seconds),
	of("push of all, s", workPush, seconds),
	of("— processor, s", workPush, cpu),
	of("fetch without news, s", workFetch, seconds),
	of("— processor, s", workFetch, cpu),
	of("— requests", workFetch, requests),
	of("`find` in a mount, s", workList, seconds),
	of("read in a mount, s", workRead, seconds),
	of("99 % of requests over HTTP within, s", workRequest, seconds),
	of("copy of the remote, s", workCopy, seconds),
	of("— processor, s", workCopy, cpu),
	of("restore, s", workRestore, seconds),
	of("— processor, s", workRestore, cpu),
	of("— peak memory, MiB", workRestore, mebibytes(peak)),
	of("restore over HTTPS, s", workWeb, seconds),
	of("— processor, s", workWeb, cpu),
	of("stored, MiB", workFirst, mebibytes(stored)),
	{"added by the change, MiB", mebibytes(stored), func(r *Report, set, tool string) []Sample { return added(r, set, workUnchanged, workChanged, tool) }},
	of("gc, s", workCompact, seconds),
	of("— peak memory, MiB", workCompact, mebibytes(peak)),
	of("stored after gc, MiB", workCompact, mebibytes(stored)),
	of("sent for the first version, MiB", workFirst, mebibytes(sent)),
	of("sent after the change, MiB", workChanged, mebibytes(sent)),
	of("received for the restore, MiB", workRestore, mebibytes(received)),
	of("requests without a change", workUnchanged, requests),
	of("requests after the change", workChanged, requests),
}

// partRows are the rows of the race for parts of a version.
var partRows = []row{
	of("lazy clone or mount, s", workLazy, seconds),
	of("— requests", workLazy, requests),
	of("— received, MiB", workLazy, mebibytes(received)),
	of("one file, s", workOpen, seconds),
	of("— requests", workOpen, requests),
	of("— received, MiB", workOpen, mebibytes(received)),
	of("a folder of 1,000 files, s", workPart, seconds),
	of("— requests", workPart, requests),
	of("— received, MiB", workPart, mebibytes(received)),
	of("the same again, s", workAgain, seconds),
	of("— requests", workAgain, requests),
	of("a large file, s", workLarge, seconds),
	of("— requests", workLarge, requests),
	of("— received, MiB", workLarge, mebibytes(received)),
}

// releaseRows are the rows of the race over releases.
var releaseRows = []row{
	of("first release, s", workFirst, seconds),
	of("each next one, s", workNext, seconds),
	of("— processor, s", workNext, cpu),
	of("— peak memory, MiB", workNext, mebibytes(peak)),
	of("restore the last, s", workRestore, seconds),
	of("stored after the first, MiB", workFirst, mebibytes(stored)),
	{"stored after the last, MiB", mebibytes(stored), func(r *Report, set, tool string) []Sample { return lastStep(r, set, workNext, tool) }},
	of("gc, s", workCompact, seconds),
	of("— peak memory, MiB", workCompact, mebibytes(peak)),
	of("stored after gc, MiB", workCompact, mebibytes(stored)),
}

// commandRows returns the rows of a history with commands, or none for another set.
func commandRows(r *Report, set string) (lines []row) {
	if !slices.ContainsFunc(histories(&options{}), func(h history) bool { return h.name == set }) {
		return nil
	}
	for _, x := range r.Results {
		if x.Set == set && x.Tool == kistTool {
			lines = append(lines, of("`"+x.Work+"`, s", x.Work, seconds), of("— processor, s", x.Work, cpu))
		}
	}
	return lines
}

// setTable returns the table of the medians of a set. Its last columns are the ratio of kist to the
// best of the other programs, and that of an encrypted remote to one in clear.
func setTable(r *Report, set string) string {
	lines := rows
	if set == setVersions {
		lines = releaseRows
	} else if strings.HasSuffix(set, onDemand) {
		lines = partRows
	} else if commands := commandRows(r, set); len(commands) > 0 {
		lines = commands
	}
	tools := []string{}
	for _, t := range r.Tools {
		if len(lines[0].samples(r, set, t.Name)) > 0 {
			tools = append(tools, t.Name)
		}
	}
	if len(tools) == 0 {
		return notMeasured
	}
	encrypts := slices.Contains(tools, encryptedTool)
	peers := len(tools) > 1 && !slices.Equal(tools, []string{kistTool, encryptedTool})
	var out strings.Builder
	header := append([]string{""}, tools...)
	header = append(header, floorTool)
	if peers {
		header = append(header, "kist / best other")
	}
	if encrypts {
		header = append(header, "encrypted / clear")
	}
	writeRow(&out, header)
	fmt.Fprintf(&out, "|---|%s\n", strings.Repeat("---:|", len(header)-1))
	for _, line := range lines {
		cells := []string{line.label}
		var others []*Result
		for _, tool := range append(slices.Clone(tools), floorTool) {
			samples := line.samples(r, set, tool)
			cells = append(cells, number(medianOf(samples, line.m)))
			if tool != kistTool && tool != encryptedTool && tool != floorTool {
				others = append(others, &Result{Tool: tool, Samples: samples})
			}
		}
		if peers {
			cells = append(cells, comparison(line.samples(r, set, kistTool), others, line.m))
		}
		if encrypts {
			cells = append(cells, number(ratio(line.samples(r, set, encryptedTool), line.samples(r, set, kistTool), line.m)))
		}
		if slices.ContainsFunc(cells[1:], func(s string) bool { return s != "" }) {
			writeRow(&out, cells)
		}
	}
	return out.String()
}

// comparison returns the ratio of ours to the best of the others, with its name.
func comparison(ours []Sample, others []*Result, m metric) string {
	rival := best(others, m)
	if rival == nil {
		return ""
	}
	v := ratio(ours, rival.Samples, m)
	if math.IsNaN(v) || v == 0 {
		return ""
	}
	return fmt.Sprintf("%s × %s", number(v), rival.Tool)
}

func writeRow(out *strings.Builder, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}

// number returns a value with three significant digits or more. It returns nothing for zero and
// NaN.
func number(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v) || v == 0:
		return ""
	case size >= 99.5:
		return thousands(int(math.Round(v)))
	case size >= 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.0995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}
