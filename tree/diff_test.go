package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// diffLines returns changes as lines of text.
func diffLines(t testing.TB, r object.Reader, a, b object.ID, opts DiffOptions) []string {
	t.Helper()
	var lines []string
	for c, err := range Diff(ctx, r, a, b, opts) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, changeLine(c))
	}
	return lines
}

func changeLine(c Change) string {
	line := fmt.Sprintf("%s: %s => %s", c.Path, describe(c.Old), describe(c.New))
	if c.From != "" {
		line += fmt.Sprintf(" from %s %d%%", c.From, c.Similarity)
	}
	return line
}

func TestDiff(t *testing.T) {
	m := memory()
	base := files{
		"a":       inline("1"),
		"d":       directory(0o755),
		"d/x":     inline("x"),
		"d/y":     inline("y"),
		"d-":      inline("after d/"), // as bytes before d/
		"gone/z":  inline("z"),
		"l":       symlink("a"),
		"touched": inline("t"),
	}

	changed := func(do func(f files)) files {
		f := newGenerator(1, m).change(t, base, 0)
		do(f)
		return f
	}
	tests := []struct {
		name string
		to   files
		opts DiffOptions
		want []string
	}{
		{name: "same", to: base},
		{"content and mode", changed(func(f files) {
			f["a"] = inline("2")
			f["d/x"] = withMode(inline("x"), 0o600)
		}), DiffOptions{}, []string{`a: "1"(644) => "2"(644)`, `d/x: "x"(644) => "x"(600)`}},
		{"mtime is no change", changed(func(f files) { f["touched"] = withTime(inline("t"), 5) }), DiffOptions{}, nil},
		{"mtime is an exact change", changed(func(f files) { f["touched"] = withTime(inline("t"), 5) }),
			DiffOptions{Exact: true}, []string{`touched: "t"(644) => "t"(644)`}},
		{"path order", changed(func(f files) { f["d-"] = inline("!"); f["d/z"] = inline("z") }), DiffOptions{},
			[]string{`d/z: - => "z"(644)`, `d-: "after d/"(644) => "!"(644)`}},
		{"directory mode", changed(func(f files) { f["d"] = directory(0o700); delete(f, "d/y") }), DiffOptions{},
			[]string{`d: dir(755) => dir(700)`, `d/y: "y"(644) => -`}},
		{"removed directory", changed(func(f files) { delete(f, "gone/z"); f["new/n/n"] = inline("n") }), DiffOptions{},
			[]string{`gone: dir(755) => -`, `new: - => dir(755)`}},
		{"removed directory, recursive", changed(func(f files) { delete(f, "gone/z"); f["new/n/n"] = inline("n") }), DiffOptions{Recursive: true},
			[]string{`gone: dir(755) => -`, `gone/z: "z"(644) => -`, `new: - => dir(755)`, `new/n: - => dir(755)`, `new/n/n: - => "n"(644)`}},
		{"file to directory", changed(func(f files) { f.remove("a"); f["a/b"] = inline("b") }), DiffOptions{Recursive: true},
			[]string{`a: "1"(644) => -`, `a: - => dir(755)`, `a/b: - => "b"(644)`}},
		{"directory to file", changed(func(f files) { f.remove("d"); f["d"] = inline("d") }), DiffOptions{Recursive: true},
			[]string{`d: dir(755) => -`, `d: - => "d"(644)`, `d/x: "x"(644) => -`, `d/y: "y"(644) => -`}},
		{"file to directory, paired", changed(func(f files) { f.remove("a"); f["a/b"] = inline("b") }), DiffOptions{Recursive: true, Paired: true},
			[]string{`a: "1"(644) => dir(755)`, `a/b: - => "b"(644)`}},
		{"directory to file, paired", changed(func(f files) { f.remove("d"); f["d"] = inline("d") }), DiffOptions{Paired: true},
			[]string{`d: dir(755) => "d"(644)`}},
		{"file to symlink", changed(func(f files) { f["a"] = symlink("l") }), DiffOptions{}, []string{`a: "1"(644) => ->l`}},
		{"paths", changed(func(f files) {
			f["a"] = inline("2")
			f["d/x"] = inline("X")
			f["d/y"] = inline("Y")
			f["l"] = symlink("b")
		}),
			DiffOptions{Paths: []string{"l", "d/x", "nothing/here", "a/b", "l/m", "d/x"}}, []string{`d/x: "x"(644) => "X"(644)`, `l: ->a => ->b`}},
		{"path of a directory", changed(func(f files) { f["a"] = inline("2"); f["d/x"] = inline("X") }),
			DiffOptions{Paths: []string{"d", "d/x"}}, []string{`d/x: "x"(644) => "X"(644)`}},
		{"path of the root", changed(func(f files) { f["a"] = inline("2") }), DiffOptions{Paths: []string{"d", ""}}, []string{`a: "1"(644) => "2"(644)`}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := diffLines(t, m, base.build(t, m).ID, tt.to.build(t, m).ID, tt.opts)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}

	root := base.build(t, m).ID
	if got := diffLines(t, m, object.ID{}, root, DiffOptions{Recursive: true}); len(got) != len(base)+1 {
		t.Errorf("from nothing: %d changes, want %d", len(got), len(base)+1)
	}
	if got := diffLines(t, m, root, object.ID{}, DiffOptions{}); len(got) != 6 {
		t.Errorf("to nothing: %q, want 6 changes", got)
	}
}

// The difference between two random directories, applied to the first, gives the second.
func TestDiffAppliedGivesTheOther(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	for seed := range uint64(60) {
		m := memory()
		g := newGenerator(seed, m)
		from := g.change(t, nil, g.IntN(2*g.names))
		to := g.change(t, from, g.IntN(30))
		if seed%10 == 0 {
			to = g.change(t, nil, g.IntN(30))
		}

		a, b := from.build(t, m), to.build(t, m)
		for i := range 4 {
			opts := DiffOptions{Exact: true, Recursive: i&1 > 0, Paired: i&2 > 0}
			edit := NewEditor(m, a)
			last := ""
			for c, err := range Diff(ctx, m, a.ID, b.ID, opts) {
				if err != nil {
					t.Fatal(err)
				}
				if ComparePaths(c.Path, last) < 0 {
					t.Fatalf("seed %d: %q comes after %q", seed, c.Path, last)
				}
				last = c.Path
				if err := applyChange(edit, c); err != nil {
					t.Fatalf("seed %d: %s: %v", seed, changeLine(c), err)
				}
			}

			got, err := edit.Finish(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got != b {
				t.Fatalf("seed %d, %+v: got %+v, want %+v\n%s", seed, opts, got, b,
					cmp.Diff(list(t, m, b.ID), list(t, m, got.ID)))
			}
		}
	}
}

// big returns n files in one directory.
func big(n int) files {
	f := files{}
	for i := range n {
		f[fmt.Sprintf("file %07d", i)] = inline(fmt.Sprint(i))
	}
	return f
}

func TestDiffReadsLittle(t *testing.T) {
	m := memory()
	f := big(30_000)
	a := f.build(t, m)
	for name, change := range map[string]func(){
		"change": func() { f["file 0012345"] = inline("changed") },
		"add":    func() { f["file 0012345+"] = inline("new") },
		"remove": func() { delete(f, "file 0020000") },
		"first":  func() { delete(f, "file 0000000") },
		"last":   func() { f["g"] = inline("last") },
	} {
		t.Run(name, func(t *testing.T) {
			change()
			b := f.build(t, m)
			counted := objecttest.NewFaulty(m)
			got := diffLines(t, counted, a.ID, b.ID, DiffOptions{})
			if len(got) != 1 {
				t.Errorf("%d changes, want 1", len(got))
			}
			if n := counted.Calls(objecttest.Get); n > 12 {
				t.Errorf("read %d nodes, want at most 12", n)
			}
			a = b
		})
	}
}

func TestDiffStops(t *testing.T) {
	m := memory()
	a, b := big(1000).build(t, m), files{}.build(t, m)
	n := 0
	for range Diff(ctx, m, a.ID, b.ID, DiffOptions{}) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d changes, want 3", n)
	}

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range Diff(cancelled, m, a.ID, b.ID, DiffOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: error %v, want Canceled", err)
		}
	}

	lost := slices.Collect(func(yield func(object.Key) bool) {
		for _, key := range m.Keys() {
			if key.ID != a.ID && key.ID != b.ID && !yield(key) {
				return
			}
		}
	})[0]
	m.Delete(lost)

	var failed error
	for _, err := range Diff(ctx, m, a.ID, b.ID, DiffOptions{}) {
		failed = err
	}
	var at *PathError
	if !errors.Is(failed, object.ErrNotFound) || !errors.As(failed, &at) || at.Path != "" {
		t.Errorf("missing node: error %v, want ErrNotFound at the root", failed)
	}
}

// applyChange makes a change that [Diff] reported with Exact.
func applyChange(e *Editor, c Change) error {
	switch {
	case c.New == nil:
		return e.Remove(ctx, c.Path)
	case c.New.Type == object.TypeDir && c.Old != nil && c.Old.Type == object.TypeDir:
		return e.SetDir(ctx, c.Path, *c.New)
	}
	return e.Set(ctx, c.Path, *c.New)
}
