package tree

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// Applying random hunks of a patch gives the same text as applying the other hunks of the reverse
// patch.
func TestPatchApply(t *testing.T) {
	for round := range objecttest.Rounds(t, 200) {
		r, text, changed, _ := randomTexts(uint64(round))
		old, new := []byte(text), []byte(changed)
		forward, back := NewPatch(old, new), NewReversePatch(old, new)
		for range r.IntN(3) {
			if forward.Len() > 0 {
				i := r.IntN(forward.Len())
				forward.Split(i)
				back.Split(i)
			}
		}
		if forward.Len() != back.Len() {
			t.Fatalf("round %d: %d hunks forward, %d backwards", round, forward.Len(), back.Len())
		}

		chosen := make([]bool, forward.Len())
		for i := range chosen {
			chosen[i] = r.IntN(2) == 0
			if a, b := forward.Hunk(i), back.Hunk(i); !bytes.Equal(a, b) {
				t.Fatalf("round %d: hunk %d is\n%s\nand backwards\n%s", round, i, a, b)
			}
		}

		want, err := forward.Apply(func(i int) bool { return chosen[i] })
		got, backErr := back.Apply(func(i int) bool { return !chosen[i] })
		if err != nil || backErr != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %q to %q with %v is\n%q, and backwards\n%q; %v, %v", round, old, new, chosen, want, got, err, backErr)
		}
		all, err := forward.Apply(func(int) bool { return true })
		none, noneErr := forward.Apply(func(int) bool { return false })
		if err != nil || noneErr != nil || !bytes.Equal(all, new) || !bytes.Equal(none, old) {
			t.Fatalf("round %d: from %q to %q, all hunks give %q and none give %q; %v, %v", round, old, new, all, none, err, noneErr)
		}
	}
}

func TestPatchEdit(t *testing.T) {
	old, new := []byte("1\n2\n3\n4\n5\n6\n7\n"), []byte("1\ntwo\n3\n4\n5\nsix\n7\n")
	for _, test := range []struct {
		name, edited string
		want, back   string // "" if the edit is refused
		err          error
	}{
		{"as it is", "@@ -1,7 +1,7 @@\n 1\n-2\n+two\n 3\n 4\n 5\n-6\n+six\n 7\n", "1\ntwo\n3\n4\n5\nsix\n7\n", "1\n2\n3\n4\n5\n6\n7\n", nil},
		{"an added line", " 1\n-2\n+zwei\n+two\n", "1\nzwei\ntwo\n3\n4\n5\n6\n7\n", "", nil},
		{"a kept line", "# comment\n 1\n 2\n+two\n", "1\n2\ntwo\n3\n4\n5\n6\n7\n", "", nil},
		{"backwards, a kept line", " 5\n-6\n six\n", "", "1\ntwo\n3\n4\n5\n6\nsix\n7\n", nil},
		{"without lines around it", "-4\n", "1\n2\n3\n5\n6\n7\n", "4\n1\ntwo\n3\n4\n5\nsix\n7\n", nil},
		{"a blank is gone", "+new\n\n", "", "", ErrHunkMismatch},
		{"a line of another file", " 1\n 9\n+two\n", "", "", ErrHunkMismatch},
		{"too long", " 1\n 2\n 3\n 4\n 5\n 6\n 7\n 8\n", "", "", ErrHunkMismatch},
		{"no change", " 1\n", "", "", ErrHunkMismatch},
		{"no mark", "two\n", "", "", ErrHunkMismatch},
		{"a line without an end before others", " 1\n-2\n+two\n\\ No newline at end of file\n 3\n", "", "", ErrHunkMismatch},
		{"nothing", "# only\n@@ -1 +1 @@\n# comments\n", "", "", ErrNoHunk},
		{"empty", "", "", "", ErrNoHunk},
	} {
		for _, back := range []bool{false, true} {
			p, want := NewPatch(old, new), test.want
			if back {
				p, want = NewReversePatch(old, new), test.back
			}
			err := p.Edit(0, []byte(test.edited))
			if want == "" {
				if err == nil || test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("%s, back %v: error %v, want %v", test.name, back, err, test.err)
				}
				if p.Len() != 1 || len(p.hunks[0].edits) != 2 {
					t.Errorf("%s, back %v: a refused edit changed the hunk to\n%s", test.name, back, p.Hunk(0))
				}
				continue
			}

			got, applyErr := p.Apply(func(int) bool { return true })
			if err != nil || applyErr != nil || string(got) != want {
				t.Errorf("%s, back %v: %q, want %q; %v, %v", test.name, back, got, want, err, applyErr)
			}
		}
	}
}

// An edited hunk must not change a line that another hunk changes.
func TestPatchEditOverlap(t *testing.T) {
	p := NewPatch([]byte("1\n2\n3\n4\n5\n"), []byte("1\ntwo\n3\nfour\n5\n"))
	p.Split(0)
	if err := p.Edit(0, []byte(" 1\n-2\n+two\n-3\n")); err != nil {
		t.Errorf("editing a line between two hunks: %v", err)
	}
	if err := p.Edit(1, []byte("-3\n+drei\n-4\n+four\n 5\n")); !errors.Is(err, ErrHunkMismatch) {
		t.Errorf("two hunks that change a line: error %v, want ErrHunkMismatch", err)
	}
	got, err := p.Apply(func(int) bool { return true })
	if err != nil || string(got) != "1\ntwo\nfour\n5\n" {
		t.Errorf("Apply = %q, %v", got, err)
	}
}

// FuzzPatchEdit edits the first hunk of a patch. An accepted edit can be applied and shown. Edit
// accepts the shown form, too, with the same result.
func FuzzPatchEdit(f *testing.F) {
	f.Add("1\n2\n3\n", "1\ntwo\n3\n", " 1\n-2\n+two\n 3\n", false)
	f.Add("1\n2\n3\n", "1\ntwo\n3\n", "@@ -1 +1 @@\n 1\n 2\n+two\n\n", true)
	f.Add("1\n2", "1\n2\n3", "-2\n\\ No newline at end of file\n+3\n# x", false)
	f.Fuzz(func(t *testing.T, old, new, edited string, back bool) {
		p := NewPatch([]byte(old), []byte(new))
		if back {
			p = NewReversePatch([]byte(old), []byte(new))
		}
		if p.Len() == 0 {
			return
		}

		before := p.Hunk(0)
		if err := p.Edit(0, []byte(edited)); err != nil {
			if !errors.Is(err, ErrNoHunk) && !errors.Is(err, ErrHunkMismatch) || !bytes.Equal(p.Hunk(0), before) {
				t.Fatalf("refused with error %v, but the hunk is\n%s", err, p.Hunk(0))
			}
			return
		}

		use := func(i int) bool { return i == 0 }
		want, err := p.Apply(use)
		if err != nil {
			t.Fatal(err)
		}
		shown := p.Hunk(0)
		if err := p.Edit(0, shown); err != nil {
			t.Fatalf("the hunk\n%s\nis refused: %v", shown, err)
		}
		if got, err := p.Apply(use); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the edit gives %q, but its shown form\n%s\ngives %q; %v", want, shown, got, err)
		}
	})
}
