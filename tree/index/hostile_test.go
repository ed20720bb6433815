package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// A base with correct checksums and invalid content is refused.
func TestHostileBase(t *testing.T) {
	sub := func(d *Dir, name string) *Dir {
		s := &Dir{name: name, parent: d, mode: 0o755}
		d.subs = append(d.subs, s)
		return s
	}

	add := func(d *Dir, names ...string) {
		for _, name := range names {
			if len(d.entries.blocks) == 0 {
				d.entries.blocks = [][]Entry{nil}
			}
			e := file(1)
			e.Name = name
			d.entries.blocks[0] = append(d.entries.blocks[0], e)
			d.entries.n++
		}
	}

	last := func(d *Dir) *Entry { return &d.entries.blocks[0][d.entries.n-1] }
	for name, make := range map[string]func(d *Dir){
		"names not sorted":           func(d *Dir) { add(d, "b", "a") },
		"name twice":                 func(d *Dir) { add(d, "a", "a") },
		"no name":                    func(d *Dir) { add(d, "") },
		"parent":                     func(d *Dir) { add(d, "..") },
		"slash":                      func(d *Dir) { add(d, "a/b") },
		"form of .kist":              func(d *Dir) { add(d, ".Kist ") },
		"root with a name":           func(d *Dir) { d.name = "a" },
		"directory called ..":        func(d *Dir) { sub(d, "..") },
		"directory called .kist":     func(d *Dir) { sub(d, ".kist") },
		"directory with a slash":     func(d *Dir) { sub(d, "a/b") },
		"directories not sorted":     func(d *Dir) { sub(d, "b"); sub(d, "a") },
		"directory twice":            func(d *Dir) { sub(d, "a"); sub(d, "a") },
		"directory and entry":        func(d *Dir) { add(d, "a"); sub(d, "a") },
		"mode of a directory":        func(d *Dir) { sub(d, "a").mode = 0o10000 },
		"time with attributes alone": func(d *Dir) { s := sub(d, "a"); s.meta, s.mtime.Sec = "\xa1\x08\xa1\x41k\x41v", 1 },
		"attributes not UTF-8":       func(d *Dir) { add(d, "a"); last(d).Meta = "\xa1\x08\xa1\x41k\x41\xff" },
		"no attributes in their map": func(d *Dir) { add(d, "a"); last(d).Meta = "\xa1\x08\xa0" },
		"known above unknown":        func(d *Dir) { sub(d, "a"); d.tree.ID[0] = 1 },
		"type of an entry":           func(d *Dir) { add(d, "a"); last(d).Type = object.TypeDir },
		"removed entry":              func(d *Dir) { add(d, "a"); *last(d) = Entry{Name: "a"} },
		"mode of an entry":           func(d *Dir) { add(d, "a"); last(d).Mode = 0o10000 },
		"size":                       func(d *Dir) { add(d, "a"); last(d).Size++ },
		"nanoseconds":                func(d *Dir) { add(d, "a"); last(d).MTime.Nsec = 1e9 },
		"target of a file":           func(d *Dir) { add(d, "a"); last(d).Data = strings.Repeat("x", 33); last(d).Size = 33 },
		"symlink without target":     func(d *Dir) { add(d, "a"); last(d).Type, last(d).Data, last(d).Size = object.TypeSymlink, "", 0 },
		"entry in too deep a folder": func(d *Dir) { add(deep(d, sub, object.MaxDepth), "a") },
		"too deep":                   func(d *Dir) { deep(d, sub, object.MaxDepth+1) },
	} {
		x := New()
		make(x.root)
		var b bytes.Buffer
		size, _, err := x.writeBase(&b)
		must(t, err)
		if _, _, err := readBase(&b, size); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func deep(d *Dir, sub func(*Dir, string) *Dir, n int) *Dir {
	for range n {
		d = sub(d, "d")
	}
	return d
}

// TestHostileHead is TestHostileBase for the changes of a head.
func TestHostileHead(t *testing.T) {
	for name, change := range map[string]func(x *Index){
		"removed entry that is not there": func(x *Index) { x.root.edits = map[string]bool{"nothing": true} },
		"removed directory not there":     func(x *Index) { x.root.removed = map[string]struct{}{"nothing": {}} },
		"new directory that is there":     func(x *Index) { a := x.Dir("a"); a.inBase, a.dirty = false, true },
		"change of a directory not there": func(x *Index) { x.Dir("n").inBase = true },
		"entry where a directory is": func(x *Index) {
			e := file(1)
			e.Name = "a"
			x.root.entries.put(e)
			x.root.edits = map[string]bool{"a": false}
		},
		"directory where an entry is": func(x *Index) {
			x.root.subs = append(x.root.subs, &Dir{name: "z", parent: x.root, dirty: true})
		},
		"number of entries":     func(x *Index) { x.entries++ },
		"number of directories": func(x *Index) { x.dirs-- },
		"all of it fresh":       func(x *Index) { x.root.inBase = false },
		"unknown below known":   func(x *Index) { x.root.tree.ID[0] = 1 },
		"conflicts not sorted":  func(x *Index) { x.conflicts = []Conflict{{Path: "b"}, {Path: "a"}} },
		"conflict's path":       func(x *Index) { x.conflicts = []Conflict{{Path: "../a"}} },
		"conflict's side":       func(x *Index) { x.conflicts = []Conflict{{Path: "a", Ours: &object.Entry{Type: 9}}} },
		"skipped not sorted":    func(x *Index) { x.skipped = []skipped{{Path: "b"}, {Path: "a"}} },
		"skipped path":          func(x *Index) { x.skipped = []skipped{{Path: "a/../b"}} },
		"reason":                func(x *Index) { x.skipped = []skipped{{Path: "a", Reason: "\x1b"}} },
		"base without an ID":    func(x *Index) { x.file.base.id = baseID{} },
	} {
		dir := t.TempDir()
		x := New()
		set(t, x, "a/f", file(1))
		set(t, x, "z", file(1))
		must(t, x.saveBase(dir))
		set(t, x, "n/f", file(1))
		good := encodeHead(t, x)

		base := func(ref baseRef) (*Index, error) { return loadBase(filepath.Join(dir, x.file.base.fileName()), ref) }
		if _, err := readHead(good, base); err != nil {
			t.Fatal(err)
		}

		ref := x.file.base
		change(x)
		bad := encodeHead(t, x)
		x.file.base = ref
		if _, err := readHead(bad, base); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func encodeHead(t testing.TB, x *Index) []byte {
	var b bytes.Buffer
	must(t, x.writeHead(&b, 1<<30))
	return b.Bytes()
}

// Blocks must end where the format demands it.
func TestBlocks(t *testing.T) {
	x := New()
	for i := range 3000 {
		set(t, x, fmt.Sprintf("%04d", i), file(2))
	}
	var whole bytes.Buffer
	size, _, err := x.writeBase(&whole)
	must(t, err)

	payload := payload(t, whole.Bytes())
	var right []int // where blocks end in the payload
	for at, end := headerSize, 0; end < len(payload); {
		n := int(binary.LittleEndian.Uint32(whole.Bytes()[at:]))
		at, end = at+8+n, end+n
		right = append(right, end)
	}

	e := file(2)
	e.Name = "0000"
	record := len(appendEntry(nil, &e))
	first, rest := right[0], right[1:]
	if first < blockCut || first >= blockCut+record || len(right) < 3 {
		t.Fatalf("blocks end at %d, want 3 ends or more, the first at %d", right, blockCut)
	}

	for name, ends := range map[string][]int{
		"right":               right,
		"one record early":    append([]int{first - record}, rest...),
		"one record too late": append([]int{first + record}, rest...),
		"in a record":         append([]int{first - 1}, rest...),
		"in the next record":  append([]int{first + 1}, rest...),
		"an empty one":        append([]int{first, first}, rest...),
		"one more":            append([]int{record, first}, rest...),
		"all in one":          {len(payload)},
	} {
		var b bytes.Buffer
		w := newBlockWriter(&b, kindBase, versionFull)
		at := 0
		for _, end := range ends {
			w.buf = append(w.buf, payload[at:end]...)
			w.writeBlock()
			at = end
		}

		w.close()
		_, _, err := readBase(&b, size)
		if (err == nil) != (name == "right") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
