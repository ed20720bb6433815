package tree

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// A merge moves arrivals along with their directory. Each case is also merged with the sides
// swapped.
func TestMergeDirectoryRenames(t *testing.T) {
	type edits = map[string]*object.Entry
	file := func(content string) *object.Entry { return to(inline(content)) }
	dir := func(mode uint16) *object.Entry { return to(directory(mode)) }
	base := files{"d": directory(0o755), "d/x": inline("x\n"), "d/y": inline("y\n"), "f": inline("f\n"), "e/e": inline("e\n")}
	moved := edits{"d": nil, "d/x": nil, "d/y": nil, "new/d": dir(0o750), "new/d/x": file("x\n"), "new/d/y": file("y\n")}

	for _, tt := range []struct {
		name           string
		renames, adds  edits
		want           edits // instead of the edits of adds; nil keeps those of renames
		asks, conflict []string
	}{
		{
			name: "a file", renames: moved, adds: edits{"d/n": file("n")},
			want: edits{"new/d/n": file("n")}, asks: []string{"new/d/n"},
		},
		{
			name: "a file in a new directory", renames: moved, adds: edits{"d/s": dir(0o700), "d/s/n": file("n")},
			want: edits{"new/d/s": dir(0o700), "new/d/s/n": file("n")}, asks: []string{"new/d/s/n"},
		},
		{
			name: "an empty directory", renames: moved, adds: edits{"d/s": dir(0o700)},
			want: edits{"new/d/s": dir(0o700)},
		},
		{
			name: "a file that moved there", renames: moved, adds: edits{"f": nil, "d/g": file("f\n")},
			want: edits{"f": nil, "new/d/g": file("f\n")}, asks: []string{"new/d/g"},
		},
		{
			name: "its place is taken", renames: moved, adds: edits{"d/n": file("n"), "new/d": dir(0o750), "new/d/n": file("o")},
			want: edits{"d": dir(0o755), "d/n": file("n"), "new/d/n": file("o")}, conflict: []string{"d/n"},
		},
		{
			name: "a file is above its place", renames: moved, adds: edits{"d/n": file("n"), "new": file("o")},
			want: edits{"d": dir(0o755), "d/n": file("n"), "new~side": file("o")}, conflict: []string{"d/n", "new"},
		},
		{
			name:    "the files went to two directories",
			renames: edits{"d": nil, "d/x": nil, "d/y": nil, "p/x": file("x\n"), "q/y": file("y\n")}, adds: edits{"d/n": file("n")},
			want: edits{"d": dir(0o755), "d/n": file("n")}, conflict: []string{"d/n"},
		},
		{
			name:    "a part of the directory is left",
			renames: edits{"d/x": nil, "p/x": file("x\n")}, adds: edits{"d/n": file("n")},
			want: edits{"d/n": file("n")},
		},
		{
			name: "to the root", renames: edits{"d": nil, "d/x": nil, "d/y": nil, "x": file("x\n"), "y": file("y\n")}, adds: edits{"d/n": file("n")},
			want: edits{"n": file("n")}, asks: []string{"n"},
		},
	} {
		for _, swapped := range []bool{false, true} {
			for _, how := range []DirectoryRenames{AskDirectoryRenames, FollowDirectoryRenames, IgnoreDirectoryRenames} {
				m := memory()
				build := func(f files) object.ID { return f.stored(t, m).build(t, m).ID }
				v := Versions{Base: build(base), Ours: build(base.but(tt.renames)), Theirs: build(base.but(tt.adds))}
				if swapped {
					v.Ours, v.Theirs = v.Theirs, v.Ours
				}
				o := MergeOptions{Directories: how, Split: splitEven, Labels: Labels{Ours: "side", Theirs: "side"}}
				got, err := Merge(ctx, m, v, o)
				if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}

				var paths []string
				for _, c := range got.Conflicts {
					paths = append(paths, c.Path)
				}
				if how == IgnoreDirectoryRenames {
					if slices.ContainsFunc(got.Conflicts, func(c Conflict) bool { return c.Kind == ConflictLocation }) {
						t.Errorf("%s, ignored: conflicts at %q", tt.name, paths)
					}
					continue
				}

				conflicts := tt.conflict
				if how == AskDirectoryRenames {
					conflicts = append(slices.Clone(conflicts), tt.asks...)
				}
				if !slices.Equal(paths, conflicts) {
					t.Errorf("%s, swapped %v, mode %d: conflicts at %q, want %q", tt.name, swapped, how, paths, conflicts)
				}
				want := list(t, m, build(base.but(tt.renames).but(tt.want)))
				if d := cmp.Diff(want, list(t, m, got.Tree.ID)); d != "" {
					t.Errorf("%s, swapped %v, mode %d: %s", tt.name, swapped, how, d)
				}
			}
		}
	}
}
