package tree

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// contents returns the parts of a tree that a merge keeps symmetric: paths, types and contents of
// all entries other than directories.
func contents(t testing.TB, r object.Reader, root object.ID) []string {
	t.Helper()
	var lines []string
	err := Walk(ctx, r, root, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir {
			e.MTime = object.Time{}
			lines = append(lines, path+" "+describe(&e))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestMergeProperties(t *testing.T) {
	clean := 0
	for seed := range uint64(300) {
		m := memory()
		g := newGenerator(seed, m)
		g.names = min(g.names, 200)
		from := g.change(t, nil, g.IntN(300))
		base := from.build(t, m)
		changes := 1 + g.IntN(10)

		ours, theirs := g.change(t, from, changes).build(t, m), g.change(t, from, changes).build(t, m)
		merge := func(base, ours, theirs object.ID) *MergeResult {
			merged, err := Merge(ctx, m, Versions{base, ours, theirs}, MergeOptions{Directories: DirectoryRenames(seed % 3), Split: splitEven})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if info, problems := verify(t, &Verifier{Reader: m}, merged.Tree.ID); len(problems) > 0 || info != merged.Tree {
				t.Fatalf("seed %d: merged tree %+v, verified %+v: %q", seed, merged.Tree, info, problems)
			}
			return merged
		}

		for _, tt := range []struct {
			name         string
			ours, theirs Info
			want         Info
		}{
			{"only theirs changed", base, theirs, theirs}, {"only ours changed", ours, base, ours}, {"same change", ours, ours, ours},
		} {
			if got := merge(base.ID, tt.ours.ID, tt.theirs.ID); got.Tree != tt.want || len(got.Conflicts) > 0 {
				t.Fatalf("seed %d: %s: %+v, want %+v, %d conflicts", seed, tt.name, got.Tree, tt.want, len(got.Conflicts))
			}
		}

		got, mirrored := merge(base.ID, ours.ID, theirs.ID), merge(base.ID, theirs.ID, ours.ID)

		kinds := func(r *MergeResult) (lines []string) {
			for _, c := range r.Conflicts {
				lines = append(lines, string(c.Kind)+" "+c.Path)
			}
			slices.Sort(lines)
			return lines
		}

		if d := cmp.Diff(kinds(got), kinds(mirrored)); d != "" {
			t.Fatalf("seed %d: mirrored conflicts:\n%s", seed, d)
		}
		if len(got.Conflicts) == 0 {
			clean++
			if d := cmp.Diff(contents(t, m, got.Tree.ID), contents(t, m, mirrored.Tree.ID)); d != "" {
				t.Fatalf("seed %d: mirrored:\n%s", seed, d)
			}
		}

		// The changes lead from ours to the merged tree.
		edit := NewEditor(m, ours)
		for _, c := range got.Changes {
			if err := applyChange(edit, c); err != nil {
				t.Fatal(err)
			}
		}

		applied, err := edit.Finish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(list(t, m, got.Tree.ID), list(t, m, applied.ID)); d != "" {
			t.Fatalf("seed %d: the changes applied to ours:\n%s", seed, d)
		}

		// No version of a side is lost: it is in the merged tree or between markers.
		if lost := lostVersions(t, m, base.ID, ours.ID, theirs.ID, got); len(lost) > 0 {
			t.Fatalf("seed %d: lost %q", seed, lost)
		}
	}
	if clean < 20 || clean > 280 {
		t.Errorf("%d of 300 merges are clean, want 20 to 280", clean)
	}
}

// lostVersions returns the versions that a side added or changed and that are neither in the
// merged tree nor between markers.
func lostVersions(t testing.TB, r object.Reader, base, ours, theirs object.ID, merged *MergeResult) []string {
	t.Helper()
	has := map[contentKey]bool{} // in the merged tree or in base
	for _, root := range []object.ID{base, merged.Tree.ID} {
		err := Walk(ctx, r, root, func(_ string, e object.Entry) error {
			has[keyOf(&e)] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var lost []string
	for _, side := range []object.ID{ours, theirs} {
		for c, err := range Diff(ctx, r, base, side, DiffOptions{Recursive: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if c.New == nil || IsDir(c.New) || c.New.Size == 0 && c.New.Type == object.TypeFile || has[keyOf(c.New)] {
				continue
			}
			marked := slices.ContainsFunc(merged.Conflicts, func(k Conflict) bool { return k.Path == c.Path && k.Markers })
			if !marked {
				lost = append(lost, changeLine(c))
			}
		}
	}
	return lost
}
