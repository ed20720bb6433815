package tree

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// files is a directory in a test: entries by path. Parent directories are implied.
type files map[string]object.Entry

var ctx = context.Background()

// text returns a file entry. It stores content of more than 32 bytes in w as one chunk.
func text(t testing.TB, w object.Writer, content string) object.Entry {
	t.Helper()
	e := object.Entry{Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content)), MTime: object.Time{Sec: 1000}}
	if len(content) <= object.MaxInline {
		if content != "" {
			e.Inline = []byte(content)
		}
		return e
	}
	id, err := w.Put(ctx, object.KindChunk, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	e.Content = object.Key{Kind: object.KindChunk, ID: id}
	return e
}

func inline(content string) object.Entry {
	e := object.Entry{Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content))}
	if content != "" {
		e.Inline = []byte(content)
	}
	return e
}

func symlink(target string) object.Entry {
	return object.Entry{Type: object.TypeSymlink, Mode: 0o777, Target: target}
}

func directory(mode uint16) object.Entry {
	return object.Entry{Type: object.TypeDir, Mode: mode}
}

func withMode(e object.Entry, mode uint16) object.Entry { e.Mode = mode; return e }
func withTime(e object.Entry, sec int64) object.Entry   { e.MTime.Sec = sec; return e }

// build writes the directory to w and returns its totals.
func (f files) build(t testing.TB, w object.Writer) Info {
	t.Helper()
	type node struct {
		entry object.Entry
		below map[string]*node
	}

	root := &node{below: map[string]*node{}}
	for path, e := range f {
		at := root
		for name := range strings.SplitSeq(path, "/") {
			next := at.below[name]
			if next == nil {
				next = &node{entry: directory(defaultDirMode), below: map[string]*node{}}
				at.below[name] = next
			}
			at = next
		}
		at.entry = e
	}

	var write func(*node) Info
	write = func(n *node) Info {
		var info Info
		out := object.NewTreeWriter(w)
		for _, name := range slices.Sorted(maps.Keys(n.below)) {
			e := n.below[name].entry
			e.Name = name
			if e.Type == object.TypeDir {
				sub := write(n.below[name])
				e.Content, e.Files, e.Size = treeKey(sub.ID), sub.Files, sub.Bytes
			} else if len(n.below[name].below) > 0 {
				t.Fatalf("%q is not a directory", name)
			}

			addFiles, addBytes := totalsOf(&e)
			info.Files += addFiles
			info.Bytes += addBytes
			if err := out.Add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}

		id, err := out.Finish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		info.ID = id
		return info
	}
	return write(root)
}

// list returns the entries below a directory, one line each, in path order.
func list(t testing.TB, r object.Reader, root object.ID) []string {
	t.Helper()
	var lines []string
	err := Walk(ctx, r, root, func(path string, e object.Entry) error {
		lines = append(lines, path+" "+describe(&e))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func describe(e *object.Entry) string {
	if e == nil {
		return "-"
	}
	switch e.Type {
	case object.TypeDir:
		return fmt.Sprintf("dir(%o)", e.Mode)
	case object.TypeSymlink:
		return "->" + e.Target
	case object.TypeFile:
		if e.Content.IsZero() {
			return fmt.Sprintf("%q(%o)%s", e.Inline, e.Mode, e.Attrs["k"])
		}
		return fmt.Sprintf("%s(%o)", e.Content.ID.Short(), e.Mode)
	}
	return fmt.Sprintf("type%d(%o)", e.Type, e.Mode)
}

// generator makes random directories and changes them.
type generator struct {
	*rand.Rand
	w     object.Writer
	names int // different names in a directory
}

func newGenerator(seed uint64, w object.Writer) *generator {
	r := rand.New(rand.NewPCG(seed, 7))
	return &generator{r, w, []int{3, 20, 3000}[r.IntN(3)]}
}

func (g *generator) entry(t testing.TB) object.Entry {
	switch g.IntN(12) {
	case 0:
		return symlink(fmt.Sprint("to", g.IntN(3)))
	case 1:
		return directory(uint16([]int{0o755, 0o700}[g.IntN(2)]))
	case 2:
		return inline("")
	case 3:
		return text(t, g.w, strings.Repeat(fmt.Sprint("long content ", g.IntN(4)), 5))
	}
	e := inline(fmt.Sprint("content ", g.IntN(5)))
	e.MTime.Sec = int64(g.IntN(3))
	e.Mode = uint16([]int{0o644, 0o755}[g.IntN(2)])
	if e.MTime.Sec > 0 {
		e.Attrs = map[string]string{"k": fmt.Sprint(e.MTime.Sec)}
	}
	return e
}

func (g *generator) path() string {
	names := []string{}
	for range 1 + g.IntN(4)*g.IntN(2) {
		names = append(names, fmt.Sprintf("%c%d", "ab.-Z\xff"[g.IntN(6)], g.IntN(g.names)))
	}
	return strings.Join(names, "/")
}

// change makes n random changes.
func (g *generator) change(t testing.TB, f files, n int) files {
	f = maps.Clone(f)
	if f == nil {
		f = files{}
	}
	paths := slices.Sorted(maps.Keys(f))
	for range n {
		path := g.path()
		if len(paths) > 0 && g.IntN(2) == 0 {
			path = paths[g.IntN(len(paths))]
		}
		switch g.IntN(4) {
		case 0:
			f.remove(path)
		case 1:
			if e, ok := f[path]; ok && e.Type != object.TypeDir {
				e.MTime.Sec++
				f[path] = e
			}
		default:
			f.set(path, g.entry(t))
		}
	}
	return f
}

func (f files) remove(path string) {
	for p := range f {
		if Below(p, path) {
			delete(f, p)
		}
	}
}

// set puts an entry at a path. It removes entries in the way.
func (f files) set(path string, e object.Entry) {
	if e.Type != object.TypeDir {
		f.remove(path)
	}
	for dir, _ := Split(path); dir != ""; dir, _ = Split(dir) {
		if f[dir].Type != object.TypeDir {
			delete(f, dir)
		}
	}
	f[path] = e
}

func memory() *objecttest.Memory { return objecttest.NewMemory() }
