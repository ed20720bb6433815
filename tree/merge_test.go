package tree

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// but returns a copy of f with changed entries. A nil entry removes its path.
func (f files) but(changes map[string]*object.Entry) files {
	f = maps.Clone(f)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if changes[path] == nil {
			f.remove(path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if e := changes[path]; e != nil {
			f.set(path, *e)
		}
	}
	return f
}

// stored returns a copy of f, with long inline content stored in w instead.
func (f files) stored(t testing.TB, w object.Writer) files {
	f = maps.Clone(f)
	for path, e := range f {
		if len(e.Inline) > object.MaxInline {
			chunk := text(t, w, string(e.Inline))
			e.Content, e.Inline = chunk.Content, nil
			f[path] = e
		}
	}
	return f
}

func to(e object.Entry) *object.Entry { return &e }

func conflictLine(c Conflict) string {
	line := fmt.Sprintf("%s: %s: %s | %s | %s", c.Kind, c.Path, describe(c.Base), describe(c.Ours), describe(c.Theirs))
	if c.From != "" {
		line += " from " + c.From
	}
	if c.OursPath != "" {
		line += " ours at " + c.OursPath
	}
	if c.TheirsPath != "" {
		line += " theirs at " + c.TheirsPath
	}
	if c.Markers {
		line += " marked"
	}
	return line
}

const marked = "<<<<<<< HEAD\n%s=======\n%s>>>>>>> topic\n"

func TestMerge(t *testing.T) {
	type edits = map[string]*object.Entry
	file := func(content string) *object.Entry { return to(inline(content)) }
	dir := func(mode uint16) *object.Entry { return to(directory(mode)) }
	conflictText := func(ours, theirs string) *object.Entry {
		return file(fmt.Sprintf(marked, ours, theirs))
	}
	base := files{
		"a": inline("1\n"), "b": inline("2\n"), "bin": inline("\x00b"), "l": symlink("a"),
		"d": directory(0o755), "d/x": inline("x\n"), "d/y": inline("y\n"), "e/e": inline("e\n"),
	}
	none := files{}
	tests := []struct {
		name         string
		base         files // nil for the base above
		ours, theirs edits
		want         edits
		conflicts    []string
	}{
		{name: "nothing", ours: edits{}, theirs: edits{}, want: edits{}},
		{name: "one side", ours: edits{"a": file("A\n")}, theirs: edits{"d/x": nil, "n/n": file("n"), "d/y": to(symlink("x"))},
			want: edits{"a": file("A\n"), "d/x": nil, "n/n": file("n"), "d/y": to(symlink("x"))}},
		{name: "same change", ours: edits{"a": file("A\n"), "b": nil, "n": file("n")}, theirs: edits{"a": file("A\n"), "b": nil, "n": file("n")},
			want: edits{"a": file("A\n"), "b": nil, "n": file("n")}},
		{name: "mtime gives ours", ours: edits{"a": to(withTime(inline("1\n"), 5)), "b": to(withTime(inline("2\n"), 5))},
			theirs: edits{"a": to(withTime(inline("1\n"), 9)), "b": to(withMode(withTime(inline("2\n"), 9), 0o600))},
			want:   edits{"a": to(withTime(inline("1\n"), 5)), "b": to(withMode(withTime(inline("2\n"), 5), 0o600))}},
		{name: "content comes with its mtime", ours: edits{"a": to(withTime(inline("1\n"), 5))},
			theirs: edits{"a": to(withTime(inline("A\n"), 9))}, want: edits{"a": to(withTime(inline("A\n"), 9))}},
		{name: "content here, mode there", ours: edits{"a": file("A\n"), "b": to(withMode(*file("2\n"), 0o600))},
			theirs: edits{"a": to(withMode(*file("1\n"), 0o755)), "b": file("B\n")},
			want:   edits{"a": to(withMode(*file("A\n"), 0o755)), "b": to(withMode(*file("B\n"), 0o600))}},
		{name: "text", base: files{"t": inline("1\n2\n3\n4\n5\n")}, ours: edits{"t": file("one\n2\n3\n4\n5\n")}, theirs: edits{"t": file("1\n2\n3\n4\nfive\n")},
			want: edits{"t": file("one\n2\n3\n4\nfive\n")}},
		{name: "text conflict", ours: edits{"a": file("A\n")}, theirs: edits{"a": file("B\n")},
			want: edits{"a": conflictText("A\n", "B\n")}, conflicts: []string{`content: a: "1\n"(644) | "A\n"(644) | "B\n"(644) marked`}},
		{name: "text conflict and mode", ours: edits{"a": file("A\n")}, theirs: edits{"a": to(withMode(*file("B\n"), 0o755))},
			want: edits{"a": to(withMode(*conflictText("A\n", "B\n"), 0o755))}, conflicts: []string{`content: a: "1\n"(644) | "A\n"(644) | "B\n"(755) marked`}},
		{name: "binary keeps both", ours: edits{"bin": file("\x00o")}, theirs: edits{"bin": file("\x00t")},
			want:      edits{"bin": file("\x00o"), "bin~topic": file("\x00t")},
			conflicts: []string{`content: bin: "\x00b"(644) | "\x00o"(644) | "\x00t"(644) theirs at bin~topic`}},
		{name: "free name for the other side", ours: edits{"bin": file("\x00o"), "bin~topic": file("o")}, theirs: edits{"bin": file("\x00t"), "bin~topic_1": file("t")},
			want:      edits{"bin": file("\x00o"), "bin~topic": file("o"), "bin~topic_1": file("t"), "bin~topic_2": file("\x00t")},
			conflicts: []string{`content: bin: "\x00b"(644) | "\x00o"(644) | "\x00t"(644) theirs at bin~topic_2`}},
		{name: "symlinks", ours: edits{"l": to(symlink("o"))}, theirs: edits{"l": to(symlink("t"))},
			want: edits{"l": to(symlink("o")), "l~topic": to(symlink("t"))}, conflicts: []string{`content: l: ->a | ->o | ->t theirs at l~topic`}},
		{name: "type and content", ours: edits{"a": file("A\n")}, theirs: edits{"a": to(symlink("b"))},
			want: edits{"a": file("A\n"), "a~topic": to(symlink("b"))}, conflicts: []string{`type: a: "1\n"(644) | "A\n"(644) | ->b theirs at a~topic`}},
		{name: "type here, mode there", ours: edits{"a": to(withMode(*file("1\n"), 0o600))}, theirs: edits{"a": to(symlink("b"))},
			want: edits{"a": to(symlink("b"))}},
		{name: "add/add text", ours: edits{"n": file("same\no\n")}, theirs: edits{"n": file("same\nt\n")},
			want: edits{"n": file("same\n" + fmt.Sprintf(marked, "o\n", "t\n"))}, conflicts: []string{`add/add: n: - | "same\no\n"(644) | "same\nt\n"(644) marked`}},
		{name: "add/add mode", ours: edits{"n": file("n")}, theirs: edits{"n": to(withMode(*file("n"), 0o600))},
			want: edits{"n": file("n")}, conflicts: []string{`mode: n: - | "n"(644) | "n"(600)`}},
		{name: "add/add types", ours: edits{"n": file("n")}, theirs: edits{"n": to(symlink("n"))},
			want: edits{"n": file("n"), "n~topic": to(symlink("n"))}, conflicts: []string{`add/add: n: - | "n"(644) | ->n theirs at n~topic`}},
		{name: "mode conflict", ours: edits{"a": to(withMode(*file("1\n"), 0o600))}, theirs: edits{"a": to(withMode(*file("A\n"), 0o755))},
			want: edits{"a": to(withMode(*file("A\n"), 0o600))}, conflicts: []string{`mode: a: "1\n"(644) | "1\n"(600) | "A\n"(755)`}},
		{name: "modify/delete", ours: edits{"a": file("A\n"), "b": nil}, theirs: edits{"a": nil, "b": file("B\n")},
			want:      edits{"a": file("A\n"), "b": file("B\n")},
			conflicts: []string{`modify/delete: a: "1\n"(644) | "A\n"(644) | -`, `modify/delete: b: "2\n"(644) | - | "B\n"(644)`}},

		{name: "directory removed and changed", ours: edits{"d": nil}, theirs: edits{"d/x": file("X\n"), "d": dir(0o700)},
			want: edits{"d": dir(0o700), "d/x": file("X\n"), "d/y": nil}, conflicts: []string{`modify/delete: d/x: "x\n"(644) | - | "X\n"(644)`}},
		{name: "directory removed and added to", ours: edits{"d": nil, "e/n": file("n")}, theirs: edits{"d/n/n": file("n"), "e": nil},
			want: edits{"d": nil, "d/n/n": file("n"), "e/e": nil, "e/n": file("n")}},
		{name: "directory removed and only its mode changed", ours: edits{"d": nil, "e": dir(0o700)}, theirs: edits{"d": dir(0o711), "e": nil},
			want: edits{"d": nil, "e": nil}},
		{name: "directory removed and restored with its mode", base: files{"d": directory(0o711), "d/x": inline("x\n")},
			ours: edits{"d": nil}, theirs: edits{"d/n": file("n")}, want: edits{"d/x": nil, "d/n": file("n")}},
		{name: "directory emptied", ours: edits{"d/x": nil}, theirs: edits{"d/y": nil}, want: edits{"d/x": nil, "d/y": nil}},
		{name: "directory modes", ours: edits{"d": dir(0o700), "e": dir(0o700)}, theirs: edits{"d": dir(0o711), "e/e": file("E")},
			want: edits{"d": dir(0o700), "e": dir(0o700), "e/e": file("E")}, conflicts: []string{`mode: d: dir(755) | dir(700) | dir(711)`}},
		{name: "both make a directory", ours: edits{"n": dir(0o700), "n/o": file("o")}, theirs: edits{"n": dir(0o711), "n/t": file("t")},
			want: edits{"n": dir(0o700), "n/o": file("o"), "n/t": file("t")}},

		{name: "file here, directory there", ours: edits{"n": file("n"), "m/m": file("m")}, theirs: edits{"n/n": file("t"), "m": file("t")},
			want: edits{"n/n": file("t"), "n~HEAD": file("n"), "m/m": file("m"), "m~topic": file("t")},
			conflicts: []string{`file/directory: m: - | dir(755) | "t"(644) theirs at m~topic`,
				`file/directory: n: - | "n"(644) | dir(755) ours at n~HEAD`}},
		{name: "file changed here, directory there", ours: edits{"a": file("A\n"), "b": nil, "b/b": file("b")}, theirs: edits{"a": nil, "a/a": file("a"), "b": file("B\n")},
			want: edits{"a": nil, "a/a": file("a"), "a~HEAD": file("A\n"), "b": nil, "b/b": file("b"), "b~topic": file("B\n")},
			conflicts: []string{`file/directory: a: "1\n"(644) | "A\n"(644) | dir(755) ours at a~HEAD`,
				`file/directory: b: "2\n"(644) | dir(755) | "B\n"(644) theirs at b~topic`}},
		{name: "file to directory here", ours: edits{"a": nil, "a/a": file("a")}, theirs: edits{"b": nil}, want: edits{"a": nil, "a/a": file("a"), "b": nil}},
		{name: "file to directory there", theirs: edits{"a": nil, "a/a": file("a")}, ours: edits{"b": nil}, want: edits{"a": nil, "a/a": file("a"), "b": nil}},
		{name: "file to directory, and removed", ours: edits{"a": nil, "b": nil, "b/b": file("b")}, theirs: edits{"a": nil, "a/a": file("a"), "b": nil},
			want: edits{"a": nil, "a/a": file("a"), "b": nil, "b/b": file("b")}},
		{name: "directory to file", ours: edits{"d": file("file")}, theirs: edits{"e": file("file")}, want: edits{"d": file("file"), "e": file("file")}},
		{name: "directory to file here, changed there", ours: edits{"d": file("file")}, theirs: edits{"d/x": file("X\n"), "d/n": file("n")},
			want:      edits{"d~HEAD": file("file"), "d/x": file("X\n"), "d/n": file("n"), "d/y": nil},
			conflicts: []string{`file/directory: d: dir(755) | "file"(644) | dir(755) ours at d~HEAD`, `modify/delete: d/x: "x\n"(644) | - | "X\n"(644)`}},
		{name: "directory to file there, changed here", theirs: edits{"d": file("file")}, ours: edits{"d/x": file("X\n"), "d/n": file("n")},
			want:      edits{"d~topic": file("file"), "d/x": file("X\n"), "d/n": file("n"), "d/y": nil},
			conflicts: []string{`file/directory: d: dir(755) | dir(755) | "file"(644) theirs at d~topic`, `modify/delete: d/x: "x\n"(644) | "X\n"(644) | -`}},
		{name: "directory to file here, mode there", ours: edits{"d": file("file")}, theirs: edits{"d": dir(0o700)}, want: edits{"d": file("file")}},
		{name: "directory to file there, mode here", theirs: edits{"d": file("file")}, ours: edits{"d": dir(0o700)}, want: edits{"d": file("file")}},
		{name: "directory to file here, something removed there", ours: edits{"d": file("file")}, theirs: edits{"d/x": nil}, want: edits{"d": file("file")}},
		{name: "directory to file there, something removed here", theirs: edits{"d": file("file")}, ours: edits{"d/x": nil}, want: edits{"d": file("file")}},
		{name: "directory to file here, removed there", ours: edits{"d": file("file")}, theirs: edits{"d": nil}, want: edits{"d": file("file")}},
		{name: "directory to file there, removed here", theirs: edits{"d": file("file")}, ours: edits{"d": nil}, want: edits{"d": file("file")}},
		{name: "directory to files", ours: edits{"d": file("o\n")}, theirs: edits{"d": file("t\n")}, want: edits{"d": conflictText("o\n", "t\n")},
			conflicts: []string{`add/add: d: - | "o\n"(644) | "t\n"(644) marked`}},
		{name: "empty directory added where there is a file now", ours: edits{"d": file("file")}, theirs: edits{"d/n": dir(0o755)},
			want:      edits{"d~HEAD": file("file"), "d/n": dir(0o755), "d/x": nil, "d/y": nil},
			conflicts: []string{`file/directory: d: dir(755) | "file"(644) | dir(755) ours at d~HEAD`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.base
			if b == nil {
				b = base
			}
			checkMerge(t, b, b.but(tt.ours), b.but(tt.theirs), b.but(tt.want), tt.conflicts)
		})
	}

	t.Run("no base", func(t *testing.T) {
		checkMerge(t, none, files{"o": inline("o"), "s": inline("s")}, files{"t/t": inline("t"), "s": inline("s")},
			files{"o": inline("o"), "s": inline("s"), "t/t": inline("t")}, nil)
	})
}

// checkMerge merges in both directions.
func checkMerge(t *testing.T, base, ours, theirs, want files, conflicts []string) {
	t.Helper()
	m := memory()
	base, ours, theirs, want = base.stored(t, m), ours.stored(t, m), theirs.stored(t, m), want.stored(t, m)
	b, o, th := base.build(t, m), ours.build(t, m), theirs.build(t, m)
	opts := MergeOptions{Labels: Labels{"HEAD", "topic"}, Split: splitEven}
	got, err := Merge(ctx, m, Versions{b.ID, o.ID, th.ID}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if info := want.build(t, m); got.Tree != info {
		t.Errorf("got %+v, want %+v\n%s", got.Tree, info, cmp.Diff(list(t, m, info.ID), list(t, m, got.Tree.ID)))
	}

	var lines []string
	for _, c := range got.Conflicts {
		lines = append(lines, conflictLine(c))
	}
	if d := cmp.Diff(conflicts, lines); d != "" {
		t.Errorf("conflicts:\n%s", d)
	}

	for i, c := range got.Changes {
		if i > 0 && ComparePaths(c.Path, got.Changes[i-1].Path) < 0 {
			t.Errorf("%s comes after %s", c.Path, got.Changes[i-1].Path)
		}
	}

	mirrored, err := Merge(ctx, m, Versions{b.ID, th.ID, o.ID}, MergeOptions{Labels: Labels{"topic", "HEAD"}, Split: splitEven})
	if err != nil {
		t.Fatal(err)
	}
	if len(mirrored.Conflicts) != len(got.Conflicts) {
		t.Errorf("mirrored: %d conflicts, want %d", len(mirrored.Conflicts), len(got.Conflicts))
	}

	for i := range min(len(got.Conflicts), len(mirrored.Conflicts)) {
		a, b := got.Conflicts[i], mirrored.Conflicts[i]
		if a.Kind != b.Kind || a.Path != b.Path || describe(a.Ours) != describe(b.Theirs) || describe(a.Theirs) != describe(b.Ours) {
			t.Errorf("mirrored: conflict %s, want the mirror of %s", conflictLine(b), conflictLine(a))
		}
	}

	if len(got.Conflicts) == 0 && !slices.Equal(list(t, m, got.Tree.ID), list(t, m, mirrored.Tree.ID)) &&
		!strings.Contains(t.Name(), "both_make") {
		t.Errorf("mirrored: %s", cmp.Diff(list(t, m, got.Tree.ID), list(t, m, mirrored.Tree.ID)))
	}
}

// splitEven is a SplitFunc that cuts after every mebibyte.
func splitEven(r io.Reader, emit func(chunk []byte) error) error {
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := emit(buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}
