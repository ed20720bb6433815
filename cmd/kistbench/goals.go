package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is a limit that some figures should not exceed.
type goal struct {
	what, limitText string
	limit           float64
	figures         []figure
}

// figure is a named value of a report. It is NaN if it was not measured.
type figure struct {
	name  string
	value func(*Report) float64
}

// against returns a figure for each set: the ratio of kist to the best of the tools that among
// selects.
func against(work string, m metric, among func(tool string) bool, sets ...string) []figure {
	return ofTool(kistTool, work, m, among, sets...)
}

// ofTool is against for another tool than kist.
func ofTool(tool, work string, m metric, among func(tool string) bool, sets ...string) []figure {
	var figures []figure
	for _, set := range sets {
		figures = append(figures, figure{set, func(r *Report) float64 {
			peers := slices.DeleteFunc(r.peers(set, work), func(x *Result) bool { return !among(x.Tool) })
			return toBest(r.samples(set, work, tool), peers, m)
		}})
	}
	return figures
}

// toClear returns a figure for each set in some places: the ratio of an encrypted remote to one in clear.
func toClear(work string, m metric, places ...string) []figure {
	var figures []figure
	for _, place := range places {
		for _, set := range remoteSets {
			figures = append(figures, figure{set + place, func(r *Report) float64 {
				return ratio(r.samples(set+place, work, encryptedTool), r.samples(set+place, work, kistTool), m)
			}})
		}
	}
	return figures
}

// openingCost returns the milliseconds of processor time that a fetch without news takes more from an encrypted remote than from
// one in clear.
func openingCost(r *Report) float64 {
	var more []float64
	for _, place := range []string{onFolder, onServer} {
		for _, set := range remoteSets {
			ours, theirs := r.samples(set+place, workFetch, encryptedTool), r.samples(set+place, workFetch, kistTool)
			for i := range min(len(ours), len(theirs)) {
				more = append(more, 1000*(ours[i].cpu()-theirs[i].cpu()))
			}
		}
	}
	return median(more)
}

func anyTool(string) bool { return true }

func toBest(ours []Sample, peers []*Result, m metric) float64 {
	rival := best(peers, m)
	if rival == nil {
		return math.NaN()
	}
	return ratio(ours, rival.Samples, m)
}

// toOther returns a figure for each set: the ratio of the seconds of kist's work to those of some
// tool's other work.
func toOther(label, work, tool, otherWork string, sets ...string) []figure {
	var figures []figure
	for _, set := range sets {
		figures = append(figures, figure{label + set, func(r *Report) float64 {
			return ratio(r.samples(set, work, kistTool), r.samples(set, otherWork, tool), seconds)
		}})
	}
	return figures
}

var goals = []goal{
	{"first version", "≤ 0.5 × the fastest peer", 0.5, against(workFirst, seconds, anyTool, "media", "src", "many")},
	{"status and version without a change", "≤ git status", 1, slices.Concat(
		toOther("status of ", workStatus, "git", workStatus, "src", "many"),
		toOther("backup of ", workUnchanged, "git", workStatus, "src", "many"))},
	{"version without a change", "≤ 1.3 × status", 1.3, toOther("", workUnchanged, kistTool, workStatus, "many", "many"+onServer)},
	{"version after one change among many files", "≤ 1.5 × status", 1.5, toOther("", workChanged, kistTool, workStatus, "many", "many"+onServer)},
	{"— requests to a server", "≤ 5", 5, []figure{{"many" + onServer, func(r *Report) float64 {
		return medianOf(r.samples("many"+onServer, workChanged, kistTool), requests)
	}}}},
	{"first version with full metadata", "≤ 1.15 × without", 1.15, toOther("", workMetadata, kistTool, workFirst, "many")},
	{"find in a mount", "≤ 2 × restic", 2, against(workList, seconds, func(tool string) bool { return tool == "restic" }, "many")},
	{"read in a mount", "≤ 1.4 × without a mount", 1.4, toOther("", workRead, floorTool, workRead, "media")},
	{"99 % of requests over HTTP", "≤ 5 × Go's file server", 5, toOther("", workRequest, floorTool, workRequest, "src", "many")},
	{"restore", "≤ 0.7 × the fastest peer", 0.7, against(workRestore, seconds, anyTool, "media", "src", "many")},
	{"stored, one tree", "≤ the smallest peer", 1, against(workFirst, stored, anyTool, "media", "src", "many", "db", "wide")},
	{"stored, ten releases", "≤ the smallest backup tool", 1, []figure{{setVersions, func(r *Report) float64 {
		var peers []*Result
		for _, x := range r.peers(setVersions, workNext) {
			if x.Tool != "git" {
				peers = append(peers, &Result{Tool: x.Tool, Samples: lastStep(r, setVersions, workNext, x.Tool)})
			}
		}
		return toBest(lastStep(r, setVersions, workNext, kistTool), peers, stored)
	}}}},
	{"stored, ten releases, after gc", "≤ 1.1 × git after gc", 1.1, against(workCompact, stored, func(tool string) bool { return tool == "git" }, setVersions)},
	{"first version to a server, text", "≤ 0.6 × the fastest peer", 0.6, against(workFirst, seconds, anyTool, "src"+onServer, "many"+onServer)},
	{"first version to a server, media", "≤ 0.7 × the fastest peer", 0.7, against(workFirst, seconds, anyTool, "media"+onServer)},
	{"clone from a server", "≤ 0.7 × the fastest restore", 0.7, against(workRestore, seconds, anyTool, "media"+onServer, "src"+onServer, "many"+onServer)},
	{"lazy clone, requests", "≤ 30", 30, partFigures(workLazy)},
	{"— then one file", "≤ 16", 16, partFigures(workOpen)},
	{"— then a folder of 1,000 files", "≤ 12", 12, partFigures(workPart)},
	{"— the same again", "≤ 2", 2, partFigures(workAgain)},
	{"first version by SSH", "≤ 0.6 × restic", 0.6, against(workFirst, seconds, anyTool, "src"+onSSH, "many"+onSSH)},
	{"— with 20 ms for a round trip", "≤ 0.5 × restic", 0.5, against(workFirst, seconds, anyTool, "src"+onSlowSSH, "many"+onSlowSSH)},
	{"clone by SSH", "≤ 0.4 × restic", 0.4, against(workRestore, seconds, anyTool, "src"+onSSH, "many"+onSSH, "src"+onSlowSSH, "many"+onSlowSSH)},
	{"copy of a remote in a folder", "≤ 1.5 × cp", 1.5, toOther("", workCopy, floorTool, workCopy, "media"+onFolder, "src"+onFolder, "many"+onFolder)},
	{"clone over HTTPS", "≤ 1.2 × from the folder", 1.2, toOther("", workWeb, kistTool, workRestore, "media"+onFolder, "src"+onFolder, "many"+onFolder)},
	{"push to an encrypted remote", "≤ 1.1 × clear", 1.1, toClear(workPush, seconds, onFolder, onServer)},
	{"— processor time", "≤ 1.1 × clear", 1.1, toClear(workPush, cpu, onFolder, onServer)},
	{"clone of an encrypted remote", "≤ 1.1 × clear", 1.1, toClear(workRestore, seconds, onFolder, onServer)},
	{"— processor time", "≤ 1.1 × clear", 1.1, toClear(workRestore, cpu, onFolder, onServer)},
	{"stored on an encrypted remote", "≤ 1.02 × clear", 1.02, toClear(workFirst, stored, onFolder, onServer)},
	{"fetch without news, requests", "≤ clear", 1, toClear(workFetch, requests, onServer)},
	{"— processor time that encryption adds", "≤ 10 ms", 10, []figure{{"ms", openingCost}}},
	{"first version to a server, encrypted", "≤ 0.65 × the fastest peer", 0.65, ofTool(encryptedTool, workFirst, seconds, anyTool, "media"+onServer, "src"+onServer, "many"+onServer)},
	{"clone from a server, encrypted", "≤ 0.35 × the fastest restore", 0.35, ofTool(encryptedTool, workRestore, seconds, anyTool, "media"+onServer, "src"+onServer, "many"+onServer)},
	{"memory, up to 200,000 files", "≤ 256 MiB", 256, []figure{{"MiB", func(r *Report) float64 { return mostMemory(r, 0, 200_000) }}}},
	{"memory, up to 1,000,000 files", "≤ 512 MiB", 512, []figure{{"MiB", func(r *Report) float64 { return mostMemory(r, 200_001, 1_000_000) }}}},
	{"one change in a wide folder", "≤ 64 KiB more on disk", 64, []figure{{"KiB", func(r *Report) float64 {
		return medianOf(added(r, "wide", workUnchanged, workChanged, kistTool), stored) / 1024
	}}}},
	{"start, processor time", "≤ 5 ms", 5, []figure{{"ms", func(r *Report) float64 { return 1000 * medianOf(r.samples("small", "version", kistTool), cpu) }}}},
	{"status of ten files, processor time", "≤ 2 × git", 2, beside("small", cpu, "status")},
	{"commands on a file with 1,000 commits", "≤ 2 × git", 2, beside("long", seconds, "blame FILE", "log -S WORD -- FILE")},
	{"log of 10,000 commits", "≤ 1.5 × git", 1.5, beside("log", seconds, "log --format=fuller", "log --format='%h %an %ad %s'", "log --format='%H %s'")},
	{"search in 20,000 files", "≤ 2 × git", 2, beside("searched", seconds, "grep WORD", "grep -i WORD", "grep --cached WORD")},
	{"switch among 200,000 files", "≤ 2 × git", 2, beside("switched", seconds, "switch BRANCH")},
	{"open the repository, and log -n 1", "≤ 20 ms", 20, []figure{{"ms", func(r *Report) float64 { return 1000 * lastOfCurve(r, curveHistory, workLog) }}}},
	{"the last commits beside the first, of a long history", "≤ 1.2 ×", 1.2, []figure{{"commit", growth(workCommit)}, {"status", growth(workStatus)}, {"log", growth(workLog)}}},
}

// partFigures returns the requests of kist for a part of a version.
func partFigures(work string) []figure {
	return []figure{{"mixed" + onDemand, func(r *Report) float64 { return medianOf(r.samples("mixed"+onDemand, work, kistTool), requests) }}}
}

// beside returns a figure for each work on a set: the ratio of a metric of kist to that of git.
func beside(set string, m metric, works ...string) []figure {
	var figures []figure
	for _, work := range works {
		figures = append(figures, figure{work, func(r *Report) float64 {
			return ratio(r.samples(set, work, kistTool), r.samples(set, work, "git"), m)
		}})
	}
	return figures
}

// mostMemory returns the highest peak memory of the work on from to most files, in MiB.
func mostMemory(r *Report, from, most int) float64 {
	found := math.NaN()
	for _, work := range filesWork {
		for _, p := range filesCurve(r, work).Points {
			if v := float64(p.Peak) / mib; from <= p.X && p.X <= most && !(v <= found) {
				found = v
			}
		}
	}
	return found
}

// lastOfCurve returns the seconds of the last point of a curve, or NaN.
func lastOfCurve(r *Report, name, work string) float64 {
	if c := r.curve(name, work); c != nil && len(c.Points) > 0 {
		return c.Points[len(c.Points)-1].Seconds
	}
	return math.NaN()
}

// growth returns the ratio of the seconds at the end of the history to those at its start. Each is
// the median of three points.
func growth(work string) func(*Report) float64 {
	return func(r *Report) float64 {
		c := r.curve(curveHistory, work)
		if c == nil || len(c.Points) < 6 {
			return math.NaN()
		}
		of := func(points []Point) float64 {
			return median([]float64{points[0].Seconds, points[1].Seconds, points[2].Seconds})
		}
		return of(c.Points[len(c.Points)-3:]) / of(c.Points)
	}
}

// goalTable returns the table of the goals and their figures. A figure above its limit is bold.
func goalTable(r *Report) string {
	var out strings.Builder
	out.WriteString("| what | goal | measured |\n|---|---|---|\n")
	for _, g := range goals {
		var cells []string
		for _, f := range g.figures {
			v := f.value(r)
			if math.IsNaN(v) {
				continue
			}
			cell := f.name + " " + cmp.Or(number(v), "0")
			if math.Round(v*100)/100 > g.limit { // of the rounded figure
				cell = "**" + cell + "**"
			}
			cells = append(cells, cell)
		}
		if len(cells) == 0 {
			cells = []string{"–"}
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", g.what, g.limitText, strings.Join(cells, ", "))
	}
	return out.String()
}
