package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A page has places for results, each between two comments:
//
//	<!-- kistbench: machine -->
//	<!-- /kistbench -->
//
// A result replaces the text between them.
const (
	placeBegins = "<!-- kistbench: "
	placeEnds   = "<!-- /kistbench -->"
)

// updateDocument puts the results of a report into their places in a page. It writes the plots to
// the folder that has the name of the page without its extension.
func updateDocument(path string, r *Report) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	folder := strings.TrimSuffix(path, filepath.Ext(path))
	drawn, err := drawCharts(folder, r)
	if err != nil {
		return err
	}
	updated, err := fillPlaces(string(page), func(place string) (string, error) {
		if name, ok := strings.CutPrefix(place, "plot "); ok {
			return picture(drawn, filepath.Base(folder), name)
		}
		return section(r, place)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o666)
}

// picture returns the Markdown that shows a chart.
func picture(drawn []chart, folder, name string) (string, error) {
	for _, c := range drawn {
		if c.name == name {
			return fmt.Sprintf("![%s](%s/%s.svg)\n", c.alt, folder, c.name), nil
		}
	}
	for _, c := range charts {
		if c.name == name {
			return notMeasured, nil
		}
	}
	return "", fmt.Errorf("there is no plot %q", name)
}

// fillPlaces returns the page with the text of fill in each place.
func fillPlaces(page string, fill func(place string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(page, placeBegins)
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		place, rest, ok := strings.Cut(rest, " -->\n")
		if !ok || strings.Contains(place, "\n") {
			return "", fmt.Errorf("a comment %q does not end", placeBegins)
		}
		old, rest, ok := strings.Cut(rest, placeEnds)
		if !ok || strings.Contains(old, placeBegins) {
			return "", fmt.Errorf("the place %q has no %q", place, placeEnds)
		}
		text, err := fill(place)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s%s -->\n\n%s\n%s", placeBegins, place, text, placeEnds)
		page = rest
	}
}
