package tree

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// edit is a call of an Editor.
type edit func(*Editor) error

func set(path, content string) edit {
	return func(e *Editor) error { return e.Set(ctx, path, inline(content)) }
}
func setDir(path string, mode uint16) edit {
	return func(e *Editor) error { return e.SetDir(ctx, path, directory(mode)) }
}
func offer(path string, mode uint16) edit {
	return func(e *Editor) error { return e.Offer(ctx, path, directory(mode)) }
}
func remove(path string) edit {
	return func(e *Editor) error { return e.Remove(ctx, path) }
}

func TestEditor(t *testing.T) {
	base := files{"a": inline("a"), "d": directory(0o700), "d/e/f": inline("f"), "d/x": inline("x"), "z": inline("z")}
	tests := []struct {
		name  string
		edits []edit
		want  func(f files)
	}{
		{"nothing", nil, func(f files) {}},
		{"set", []edit{set("a", "A"), set("b", "B"), set("zz", "Z")}, func(f files) {
			f["a"], f["b"], f["zz"] = inline("A"), inline("B"), inline("Z")
		}},
		{"set below", []edit{set("d/e/f", "F"), set("d/e/g", "G"), set("d/n/n", "N")}, func(f files) {
			f["d/e/f"], f["d/e/g"], f["d/n/n"] = inline("F"), inline("G"), inline("N")
		}},
		{"remove", []edit{remove("a"), remove("d"), remove("nothing"), remove("z/below")}, func(f files) { delete(f, "a"); f.remove("d") }},
		{"empty folders stay", []edit{remove("d/e/f"), remove("d/x")}, func(f files) { f.remove("d/e/f"); f.remove("d/x"); f["d/e"] = directory(0o755) }},
		{"directory mode", []edit{setDir("d", 0o711), set("d/x", "X")}, func(f files) { f["d"] = directory(0o711); f["d/x"] = inline("X") }},
		{"new directory", []edit{setDir("n", 0o711)}, func(f files) { f["n"] = directory(0o711) }},
		{"file to directory", []edit{remove("a"), setDir("a", 0o711), set("a/b", "B")}, func(f files) {
			f["a"], f["a/b"] = directory(0o711), inline("B")
		}},
		{"directory to file", []edit{remove("d"), set("d", "D"), remove("d/e"), remove("d/e/f"), remove("d/x")}, func(f files) {
			f.remove("d")
			f["d"] = inline("D")
		}},
		{"offered and used", []edit{offer("d", 0o1), offer("n", 0o711), offer("n/m", 0o711), set("n/m/o", "O")}, func(f files) {
			f["n"], f["n/m"], f["n/m/o"] = directory(0o711), directory(0o711), inline("O")
		}},
		{"offered and not used", []edit{offer("a", 0o1), offer("n", 0o711), offer("n/m", 0o711)}, func(f files) {}},
		{"offered and emptied", []edit{offer("d", 0o1), offer("d/e", 0o1), remove("d/e/f"), remove("d/x")}, func(f files) { f.remove("d") }},
		{"last edit of a path counts", []edit{remove("a"), set("a", "1"), set("a", "2")}, func(f files) { f["a"] = inline("2") }},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := memory()
			want := files(maps.Clone(base))
			tt.want(want)

			e := NewEditor(m, base.build(t, m))
			for _, do := range tt.edits {
				if err := do(e); err != nil {
					t.Fatal(err)
				}
			}

			got, err := e.Finish(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if info := want.build(t, m); got != info {
				t.Errorf("got %+v, want %+v\n%s", got, info, cmp.Diff(list(t, m, info.ID), list(t, m, got.ID)))
			}
		})
	}
}

func TestEditorFromNothing(t *testing.T) {
	m := memory()
	e := NewEditor(m, Info{})
	if err := e.Set(ctx, "a/b", inline("b")); err != nil {
		t.Fatal(err)
	}
	got, err := e.Finish(ctx)
	if want := (files{"a/b": inline("b")}).build(t, m); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := NewEditor(m, Info{}).Finish(ctx); err != nil || got.ID != emptyID {
		t.Errorf("no edits: %v, %v, want an empty directory", got, err)
	}
}

func TestEditorRefuses(t *testing.T) {
	m := memory()
	base := files{"a": inline("a"), "d/e": inline("e")}.build(t, m)
	deep := "d"
	for range object.MaxDepth {
		deep += "/d"
	}

	for name, tt := range map[string]struct {
		edits []edit
		want  error
	}{
		"order":            {[]edit{set("d/e", ""), set("d", "")}, ErrOutOfOrder},
		"order of bytes":   {[]edit{set("d-", ""), set("d/e", "")}, ErrOutOfOrder},
		"root":             {[]edit{remove("")}, ErrIsRoot},
		"below a file":     {[]edit{set("a/b", "")}, ErrNotDir},
		"depth":            {[]edit{set(deep, "")}, ErrTooDeep},
		"name":             {[]edit{set("a", ""), set("d/.KIST", "")}, object.ErrInvalid},
		"dots":             {[]edit{set("../x", "")}, object.ErrInvalid},
		"entry of no type": {[]edit{func(e *Editor) error { return e.Set(ctx, "a", object.Entry{}) }}, object.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEditor(m, base)
			var err error
			for _, do := range tt.edits {
				if err = do(e); err != nil {
					break
				}
			}

			if err == nil {
				_, err = e.Finish(ctx)
			}
			var at *PathError
			if !errors.Is(err, tt.want) || !errors.As(err, &at) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestEditorTouchesLittle(t *testing.T) {
	m := memory()
	f := big(30_000)
	base := f.build(t, m)
	for _, path := range []string{"file 0000000", "file 0012345", "file 0029999", "g"} {
		counted := objecttest.NewFaulty(m)
		e := NewEditor(counted, base)
		if err := e.Set(ctx, path, inline("changed")); err != nil {
			t.Fatal(err)
		}
		before := m.Len()
		got, err := e.Finish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		added := m.Len() - before
		f[path] = inline("changed")
		if want := f.build(t, m); got != want {
			t.Fatalf("%s: got %v, want %v", path, got, want)
		}
		if n := counted.Calls(objecttest.Get); n > 12 || added > 4 {
			t.Errorf("%s: read %d nodes and wrote %d, want at most 12 and 4", path, n, added)
		}
		base = got
	}
}

func ExampleEditor() {
	store := objecttest.NewMemory()
	e := NewEditor(store, Info{})
	_ = e.Set(ctx, "docs/read me", object.Entry{Type: object.TypeFile, Mode: 0o644, Size: 5, Inline: []byte("hello")})
	info, _ := e.Finish(ctx)
	fmt.Println(info.Files, info.Bytes)
	// Output: 1 5
}
