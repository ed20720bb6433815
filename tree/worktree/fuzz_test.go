package worktree

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// fuzzOps decodes operations from lines: the first byte selects the operation, the rest is the
// path.
func fuzzOps(f *fixture, data string) []Op {
	old := &index.Entry{Type: object.TypeFile, Mode: 0o644}
	var ops []Op
	for line := range strings.SplitSeq(data, "\n") {
		if line == "" {
			continue
		}
		what, path := line[0], line[1:]
		op := Op{Path: path}
		mode := uint16(what>>4) * 0o111
		if what&8 != 0 {
			op.Old = old
		}

		switch what & 7 {
		case 0, 1:
			op.New = f.file("fuzz " + path)
		case 2:
			op.New = f.file(random(int(what), 5000))
		case 3:
			op.New = link(".kist")
		case 4:
			op.New = link("../outside")
		case 5:
			op.New = dir(mode)
		case 6:
			op.New = link(filepath.Join(f.root, path))
		}
		ops = append(ops, op)
	}
	return ops
}

// FuzzApply applies two lists of operations. They must write only below the root, and not in the
// repository's folder.
func FuzzApply(f *testing.F) {
	f.Add("\x13a\n\x10a/config", "\x10a/config\n\x1fa")
	f.Add("\x14out/secret\n\x15out", "\x10../outside/secret\n\x10s/x\n\x15s")
	f.Add("\x75d\n\x10d/x\n\x17d", "\x08d/x\n\x0fd\n\x16link\n\x10link/.kist/config")
	f.Add("\x10.KIST\n\x10\xff\xfe\n\x10a b", "\x10"+strings.Repeat("n", 255))
	f.Fuzz(func(t *testing.T, first, second string) {
		if len(first)+len(second) > 4000 {
			return
		}

		x, check := newTrap(t)
		for _, data := range []string{first, second} {
			ops := fuzzOps(x, data)
			x.w.Check(ctx, x.idx, ops)
			applied, err := x.w.Apply(ctx, x.store, ops, ApplyOptions{})
			for _, a := range applied {
				if a.New == nil || err != nil {
					continue
				}
				info, err := x.w.Lstat(a.Path)
				if err != nil || info.Type != a.New.Type {
					t.Errorf("%q: %+v, error %v, want type %v", a.Path, info, err, a.New.Type)
				}
			}

			check(data)
			if len(x.temps()) > 0 {
				t.Errorf("temporary files are left: %v", x.temps())
			}
		}

		if _, err := x.w.Scan(ctx, nil, ScanOptions{}); err != nil {
			t.Error(err)
		}
	})
}
