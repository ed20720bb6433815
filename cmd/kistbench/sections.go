package main

import (
	"fmt"
	"strings"
)

// section returns the text for a place of a page: machine, goals, skipped,
// growth, or "set NAME".
func section(r *Report, place string) (string, error) {
	switch place {
	case "machine":
		return machineSection(r), nil
	case "goals":
		return goalTable(r), nil
	case "skipped":
		return skippedSection(r), nil
	case "growth":
		return growthTable(r), nil
	}
	name, ok := strings.CutPrefix(place, "set ")
	if !ok {
		return "", fmt.Errorf("there is no place %q", place)
	}
	set := r.set(name)
	if set == nil {
		return notMeasured, nil
	}
	return setTitle(set) + setTable(r, name), nil
}

func setTitle(set *Set) string {
	if set.Files == 0 { // a history
		return set.Title + ".\n\n"
	}
	files := "files"
	if set.Files == 1 {
		files = "file"
	}
	return fmt.Sprintf("%s. %s %s, %s.\n\n", strings.ToUpper(set.Title[:1])+set.Title[1:], thousands(set.Files), files, byteSize(set.Bytes))
}

func machineSection(r *Report) string {
	m := r.Machine
	var out strings.Builder
	kind := "an ordinary run"
	if r.Quick {
		kind = "a quick run, with smaller sets"
	}
	rounds := fmt.Sprintf("%d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "one round"
	}
	fmt.Fprintf(&out, "%s, %s, of %s; %s s in all.\n\n", strings.ToUpper(kind[:1])+kind[1:], rounds, r.Began.Format("2 January 2006"), thousands(int(r.Seconds)))
	out.WriteString("| | |\n|---|---|\n")
	for _, line := range [][2]string{
		{"processor", m.CPU}, {"cores", fmt.Sprint(m.Cores)}, {"memory", byteSize(m.Memory)}, {"kernel", m.Kernel + ", " + m.Arch}, {"file system", m.FileSystem}, {"Go", m.Go},
	} {
		if line[1] != "" {
			writeRow(&out, line[:])
		}
	}
	for _, t := range r.Tools {
		text := t.Version
		if t.Settings != "" {
			text += "; " + t.Settings
		}
		writeRow(&out, []string{t.Name, text})
	}
	return out.String()
}

func skippedSection(r *Report) string {
	if len(r.Skipped) == 0 {
		return "All was measured.\n"
	}
	var out strings.Builder
	for _, s := range r.Skipped {
		fmt.Fprintf(&out, "- %s: %s\n", s.What, s.Why)
	}
	return out.String()
}

// growthTable returns a table of the first, the middle and the last point of each curve.
func growthTable(r *Report) string {
	var curves []*Curve
	for _, work := range filesWork {
		if c := filesCurve(r, work); len(c.Points) > 1 {
			curves = append(curves, c)
		}
	}
	if curves = append(curves, r.Curves...); len(curves) == 0 {
		return notMeasured
	}
	var out strings.Builder
	out.WriteString("| | seconds | processor, s | peak memory, MiB | stored, MiB |\n|---|---:|---:|---:|---:|\n")
	for _, c := range curves {
		for _, i := range places(len(c.Points)) {
			p := c.Points[i]
			writeRow(&out, []string{
				fmt.Sprintf("%s, %s %s", c.Work, thousands(p.X), c.X),
				number(p.Seconds), number(p.cpu()), number(float64(p.Peak) / mib), number(float64(p.Stored) / mib),
			})
		}
	}
	return out.String()
}

// places returns the first, the middle and the last of n indexes.
func places(n int) []int {
	switch n {
	case 0:
		return nil
	case 1:
		return []int{0}
	case 2:
		return []int{0, 1}
	}
	return []int{0, n / 2, n - 1}
}

// allTables returns a page with all results of a report.
func allTables(r *Report) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# kist beside others\n\n%s\n", machineSection(r))
	for i := range r.Sets {
		set := &r.Sets[i]
		if strings.HasPrefix(set.Name, filesPrefix) {
			continue // in the table of growth
		}
		fmt.Fprintf(&out, "## %s\n\n%s%s\n", set.Name, setTitle(set), setTable(r, set.Name))
	}
	fmt.Fprintf(&out, "## kist alone\n\n%s\n## Goals\n\nBold: missed.\n\n%s\n## Not measured\n\n%s", growthTable(r), goalTable(r), skippedSection(r))
	return out.String()
}
