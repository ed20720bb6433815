package tree

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// wide returns a directory with depth levels. Each level links to the next one width times.
func wide(t testing.TB, m object.Writer, depth, width int, bottom object.Entry) object.ID {
	t.Helper()
	dir := putTree(t, m, &object.Tree{Entries: []object.Entry{bottom}})
	for range depth {
		var n object.Tree
		for i := range width {
			n.Entries = append(n.Entries, object.Entry{
				Name: fmt.Sprintf("%04d", i), Type: object.TypeDir, Mode: 0o755, Content: treeKey(dir),
			})
		}
		dir = putTree(t, m, &n)
	}
	return dir
}

// Walk and Diff refuse directories of few nodes that stand for too many paths.
func TestTooMany(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}
	m := memory()
	none := putTree(t, m, &object.Tree{})
	file := object.Entry{Name: "f", Type: object.TypeFile}

	walk := func(root object.ID) (seen int, err error) {
		err = Walk(ctx, m, root, func(string, object.Entry) error { seen++; return nil })
		return seen, err
	}

	diff := func(root object.ID) (seen int, err error) {
		for _, e := range Diff(ctx, m, none, root, DiffOptions{Recursive: true}) {
			seen, err = seen+1, e
		}
		return seen, err
	}

	mtimes := func(root object.ID) (seen int, err error) {
		later := file
		later.MTime.Sec++
		for _, e := range Diff(ctx, m, wide(t, m, 40, 2, later), root, DiffOptions{}) {
			seen, err = seen+1, e
		}
		return seen, err
	}

	for _, tt := range []struct {
		name string
		of   func(root object.ID) (int, error)
		root object.ID
	}{
		{"walk over files", walk, wide(t, m, 40, 2, file)},
		{"diff of folders", diff, wide(t, m, 40, 2, object.Entry{Name: "d", Type: object.TypeDir, Content: treeKey(none)})},
		{"walk over 2^64", walk, wide(t, m, 64, 2, file)},
		{"diff in which times alone differ", mtimes, wide(t, m, 40, 2, file)},
		{"diff of long folders", diff, wide(t, m, 4, 1000, file)},
	} {
		if seen, err := tt.of(tt.root); !errors.Is(err, ErrTooMany) || seen > firstPaths {
			t.Errorf("%s: error %v after %d paths, want ErrTooMany", tt.name, err, seen)
		}
	}

	// A folder with many equal subfolders is accepted.
	if seen, err := walk(wide(t, m, 2, 400, file)); err != nil || seen != 400+400*400+400*400 {
		t.Errorf("equal subfolders: %d paths, error %v", seen, err)
	}
}
