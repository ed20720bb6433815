package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFillPlaces(t *testing.T) {
	page := "# Speed\n\n<!-- kistbench: a -->\nold\n<!-- /kistbench -->\n\nprose\n\n<!-- kistbench: b c -->\n<!-- /kistbench -->\nend\n"
	want := "# Speed\n\n<!-- kistbench: a -->\n\n[a]\n\n<!-- /kistbench -->\n\nprose\n\n<!-- kistbench: b c -->\n\n[b c]\n\n<!-- /kistbench -->\nend\n"
	fill := func(place string) (string, error) { return "[" + place + "]\n", nil }
	for range 2 { // the second call changes nothing
		got, err := fillPlaces(page, fill)
		if err != nil || got != want {
			t.Fatalf("%v, got\n%swant\n%s", err, got, want)
		}
		page = got
	}
	for _, page := range []string{
		"<!-- kistbench: a -->\nno end",
		"<!-- kistbench: a",
		"<!-- kistbench: a -->\n<!-- kistbench: b -->\n<!-- /kistbench -->\n",
	} {
		if got, err := fillPlaces(page, fill); err == nil {
			t.Errorf("%q became %q", page, got)
		}
	}
	failed := errors.New("failed")
	if _, err := fillPlaces(page, func(string) (string, error) { return "", failed }); err != failed {
		t.Errorf("error %v, want that of fill", err)
	}
}

func TestUpdateDocument(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "speed.md")
	place := func(name string) string { return placeBegins + name + " -->\n" + placeEnds + "\n" }
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(place("machine") + place("set many") + place("set media") + place("plot throughput") + place("plot dedup"))
	stale := filepath.Join(dir, "speed", "dedup.svg")
	if err := os.MkdirAll(filepath.Dir(stale), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := updateDocument(page, exampleReport()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| processor | Abacus |", "| git | 2.39; gc.auto=0 |", "0.25 × restic", "(speed/throughput.svg)"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(string(got), notMeasured); n != 2 { // media and dedup
		t.Errorf("%d places without a result, want 2, in\n%s", n, got)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale plot was not removed: %v", err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "speed", "throughput.svg"))
	if err != nil || !strings.Contains(string(svg), "<svg") || !strings.Contains(string(svg), "restic") {
		t.Errorf("the plot: %v, %d bytes", err, len(svg))
	}
	for _, name := range []string{"plot nothing", "nothing"} {
		write(place(name))
		if err := updateDocument(page, exampleReport()); err == nil {
			t.Errorf("no error for the unknown place %q", name)
		}
	}
}
