package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestIsText(t *testing.T) {
	for _, tt := range []struct {
		data string
		want bool
	}{{"", true}, {"a\xff\n", true}, {"a\x00", false}, {strings.Repeat("a", MaxText), true}, {strings.Repeat("a", MaxText+1), false}} {
		if got := IsText([]byte(tt.data)); got != tt.want {
			t.Errorf("IsText(%.10q) = %t, want %t", tt.data, got, tt.want)
		}
	}
}

func TestUnified(t *testing.T) {
	numbers := func(lo, hi int) string {
		var b strings.Builder
		for i := lo; i <= hi; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}

	for _, tt := range []struct {
		name, old, new string
		context        int
		want           string
	}{
		{"equal", "a\n", "a\n", 3, ""},
		{"from nothing", "", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"to nothing", "a\n", "", 3, "@@ -1 +0,0 @@\n-a\n"},
		{"change", "a\nb\nc\n", "a\nB\nc\n", 3, "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"no newline", "a\nb", "a\nb\n", 3, "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"no newline, both", "a\nb", "A\nb", 3, "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n"},
		{"no context", "a\nb\nc\n", "a\nx\nb\n", 0, "@@ -1,0 +2 @@ a\n+x\n@@ -3 +3,0 @@ b\n-c\n"},
		{"headings", "func f(x int) { \n\t1\n2\n_g\n\n3\n  h\n", "func f(x int) { \n\t1\ntwo\n_g\n\nthree\n  h\n", 0,
			"@@ -3 +3 @@ func f(x int) {\n-2\n+two\n@@ -6 +6 @@ _g\n-3\n+three\n"},
		{"a long heading", strings.Repeat("x", 100) + "\n1\n2\n", strings.Repeat("x", 100) + "\n1\n3\n", 0,
			"@@ -3 +3 @@ " + strings.Repeat("x", 80) + "\n-2\n+3\n"},
		{"two hunks", numbers(1, 20), strings.Replace(strings.Replace(numbers(1, 20), "5\n", "five\n", 1), "\n16\n", "\nsixteen\n", 1), 3,
			"@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -13,7 +13,7 @@\n 13\n 14\n 15\n-16\n+sixteen\n 17\n 18\n 19\n"},
		{"hunks that touch are one", numbers(1, 9), strings.Replace(strings.Replace(numbers(1, 9), "2\n", "", 1), "9\n", "", 1), 3,
			"@@ -1,9 +1,7 @@\n 1\n-2\n 3\n 4\n 5\n 6\n 7\n 8\n-9\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want != "" {
				want = "--- a\n+++ b\n" + want
			}
			if got := string(Unified("a", "b", []byte(tt.old), []byte(tt.new), TextOptions{Context: tt.context})); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestCountLines(t *testing.T) {
	for _, tt := range []struct {
		old, new       string
		added, removed int
	}{
		{"", "", 0, 0},
		{"a\nb\n", "a\nb\n", 0, 0},
		{"", "a\nb", 2, 0},
		{"a\nb\n", "", 0, 2},
		{"a\nb", "a\nb\n", 1, 1},
		{"a\nb\nc\nd\n", "a\nx\nc\n", 1, 2},
		{"a\na\n", "a\na\na\n", 1, 0},
	} {
		if added, removed := CountLines([]byte(tt.old), []byte(tt.new), TextOptions{}); added != tt.added || removed != tt.removed {
			t.Errorf("%q to %q: %d added and %d removed, want %d and %d", tt.old, tt.new, added, removed, tt.added, tt.removed)
		}
	}
}

// apply applies a unified diff.
func apply(t *testing.T, old, patch string) string {
	t.Helper()
	lines := SplitLines([]byte(old))
	at := 0
	var out []string
	hunk := SplitLines([]byte(patch))[2:]

	for _, line := range hunk {
		if line[0] == '\\' {
			out[len(out)-1] = strings.TrimSuffix(out[len(out)-1], "\n")
			continue
		}
		switch rest := line[1:]; line[0] {
		case '@':
			start, count, _ := strings.Cut(strings.Fields(line)[1][1:], ",")
			n, err := strconv.Atoi(start)
			if err != nil {
				t.Fatal(err)
			}
			if count != "0" {
				n--
			}
			out = append(out, lines[at:n]...)
			at = n
		case ' ':
			if strings.TrimSuffix(lines[at], "\n") != strings.TrimSuffix(rest, "\n") {
				t.Fatalf("line %d is %q, want %q", at, lines[at], rest)
			}
			out = append(out, rest)
			at++
		case '-':
			if strings.TrimSuffix(lines[at], "\n") != strings.TrimSuffix(rest, "\n") {
				t.Fatalf("line %d is %q, want %q", at, lines[at], rest)
			}
			at++
			out = append(out, "") // a mark of a missing newline may follow
		case '+':
			out = append(out, rest)
		}
	}
	return strings.Join(append(out, lines[at:]...), "")
}

// randomLines returns n random lines out of a number of different ones.
func randomLines(r *rand.Rand, n, different int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d\n", r.IntN(different))
	}
	return lines
}

// changeLines makes n random changes.
func changeLines(r *rand.Rand, lines []string, n, different int) []string {
	out := append([]string(nil), lines...)
	for range n {
		at := r.IntN(len(out) + 1)
		end := min(len(out), at+r.IntN(3))
		insert := randomLines(r, r.IntN(3), different)
		out = append(out[:at:at], append(insert, out[end:]...)...)
	}
	return out
}

// randomTexts returns a text and two changed versions, some without a last newline.
func randomTexts(seed uint64) (r *rand.Rand, base, a, b string) {
	r = rand.New(rand.NewPCG(seed, 5))
	different := []int{3, 40, 1 << 40}[r.IntN(3)]
	lines := randomLines(r, r.IntN([]int{10, 100, 1000}[r.IntN(3)]), different)
	join := func(lines []string) string {
		text := strings.Join(lines, "")
		if r.IntN(4) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		return text
	}
	changes := []int{3, 30, 300}[r.IntN(3)]
	return r, join(lines), join(changeLines(r, lines, r.IntN(changes), different)), join(changeLines(r, lines, r.IntN(changes), different))
}

func TestUnifiedAppliedGivesTheOther(t *testing.T) {
	for seed := range uint64(200) {
		r, old, new, _ := randomTexts(seed)
		patch := string(Unified("a", "b", []byte(old), []byte(new), TextOptions{Context: r.IntN(4)}))
		if patch == "" {
			if old != new {
				t.Fatalf("seed %d: Unified finds no difference", seed)
			}
			continue
		}
		if got := apply(t, old, patch); got != new {
			t.Fatalf("seed %d: applied:\n%q\nwant\n%q\n%s", seed, got, new, patch)
		}
	}
}

func TestDiffSeqIsShort(t *testing.T) {
	// A block moved across a long text, and changes are everywhere. The difference
	// must not have many more lines than these.
	r := rand.New(rand.NewPCG(1, 1))
	lines := randomLines(r, 20_000, 1<<40)
	changed := append(append(append([]string(nil), lines[:5000]...), lines[6000:]...), lines[5000:6000]...)
	for i := 0; i < len(changed); i += 40 {
		changed[i] = "changed\n"
	}
	numbers := symbols[string]{}
	total := 0
	for _, e := range diffSeq(numberLines(numbers, lines), numberLines(numbers, changed), 1<<17) {
		total += e.aHi - e.aLo + e.bHi - e.bLo
	}
	if total > 2*1000+2*500+100 {
		t.Errorf("the difference has %d lines, want at most 3100", total)
	}
}

// Texts without unique lines take a bounded time.
func TestDiffOfHostileTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}
	r := rand.New(rand.NewPCG(2, 2))
	two := func(n int) []byte { return []byte(strings.Join(randomLines(r, n, 2), "")) }
	newlines := bytes.Repeat([]byte("\n"), MaxText)
	for _, texts := range [][2][]byte{
		{two(200_000), two(200_000)},
		{newlines, append(newlines[:MaxText/2:MaxText/2], bytes.Repeat([]byte("x\n"), MaxText/4)...)},
	} {
		if len(Unified("a", "b", texts[0], texts[1], TextOptions{Context: 3})) == 0 {
			t.Error("Unified finds no difference")
		}
	}
	if _, conflicts := MergeText(two(100_000), two(100_000), two(100_000), Labels{}); !conflicts {
		t.Error("MergeText finds no conflict")
	}
}

func TestMergeText(t *testing.T) {
	for _, tt := range []struct {
		name, base, ours, theirs, want string
	}{
		{"nothing", "", "", "", ""},
		{"one side", "a\nb\n", "a\nb\n", "a\nB\n", "a\nB\n"},
		{"both sides", "1\n2\n3\n4\n", "one\n2\n3\n4\n", "1\n2\n3\nfour\n", "one\n2\n3\nfour\n"},
		{"same change", "1\n2\n", "one\n2\n", "one\n2\n", "one\n2\n"},
		{"conflict", "1\n2\n3\n", "1\no\n3\n", "1\nt\n3\n", "1\n<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\n3\n"},
		{"touching changes are a conflict", "1\n2\n", "o\n2\n", "1\nt\n", "<<<<<<< HEAD\no\n2\n=======\n1\nt\n>>>>>>> topic\n"},
		{"removed and changed", "1\n2\n3\n", "1\n3\n", "1\nt\n3\n", "1\n<<<<<<< HEAD\n=======\nt\n>>>>>>> topic\n3\n"},
		{"two insertions", "1\n", "1\no\n", "1\nt\n", "1\n<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\n"},
		{"equal lines are outside the conflict", "", "a\no\nb\n", "a\nt\nb\n", "a\n<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\nb\n"},
		{"near conflicts are one", "1\n2\n3\n4\n5\n", "o\n2\n3\n4\no\n", "t\n2\n3\n4\nt\n", "<<<<<<< HEAD\no\n2\n3\n4\no\n=======\nt\n2\n3\n4\nt\n>>>>>>> topic\n"},
		{"far conflicts are two", "1\n2\n3\n4\n5\n6\n", "o\n2\n3\n4\n5\no\n", "t\n2\n3\n4\n5\nt\n",
			"<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\n2\n3\n4\n5\n<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\n"},
		{"no last newline", "1", "o", "t", "<<<<<<< HEAD\no\n=======\nt\n>>>>>>> topic\n"},
		{"last newline removed", "1\n2\n3\n", "1\n2\n3", "one\n2\n3\n", "one\n2\n3"},
		{"carriage returns", "1\r\n", "o\r\n", "t\r\n", "<<<<<<< HEAD\r\no\r\n=======\r\nt\r\n>>>>>>> topic\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, conflicts := MergeText([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs), Labels{"HEAD", "topic"})
			if string(got) != tt.want || conflicts != strings.Contains(tt.want, "<<<<") {
				t.Errorf("conflicts %t, merged\n%s\nwant\n%s", conflicts, got, tt.want)
			}
		})
	}
}

func TestMergeTextProperties(t *testing.T) {
	merge := func(b, o, t string) (string, bool) {
		merged, conflicts := MergeText([]byte(b), []byte(o), []byte(t), Labels{"o", "t"})
		return string(merged), conflicts
	}
	for seed := range uint64(200) {
		_, base, a, b := randomTexts(seed)
		if got, conflicts := merge(base, base, a); got != a || conflicts {
			t.Fatalf("seed %d: only theirs changed: %t\n%q\nwant\n%q", seed, conflicts, got, a)
		}
		if got, conflicts := merge(base, a, base); got != a || conflicts {
			t.Fatalf("seed %d: only ours changed: %t\n%q\nwant\n%q", seed, conflicts, got, a)
		}
		if got, conflicts := merge(base, a, a); got != a || conflicts {
			t.Fatalf("seed %d: same change: %t\n%q\nwant\n%q", seed, conflicts, got, a)
		}
		got, conflicts := merge(base, a, b)
		mirrored, mirroredConflicts := merge(base, b, a)
		if conflicts != mirroredConflicts || !conflicts && got != mirrored {
			t.Fatalf("seed %d: the merge is not symmetric", seed)
		}
		if chosen(got, "o") != resolveOurs(base, a, b) {
			t.Fatalf("seed %d: lines of ours are missing in\n%s", seed, got)
		}
	}
}

// chosen resolves all conflicts in favour of one side.
func chosen(merged, side string) string {
	var out strings.Builder
	in := ""
	for line := range strings.Lines(merged) {
		switch {
		case strings.HasPrefix(line, markOurs):
			in = "o"
		case strings.HasPrefix(line, markMiddle):
			in = "t"
		case strings.HasPrefix(line, markTheirs):
			in = ""
		case in == "" || in == side:
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String()
}

// resolveOurs returns the result of a merge in which ours wins every conflict.
func resolveOurs(base, ours, theirs string) string {
	numbers := symbols[string]{}
	m := textMerge{base: SplitLines([]byte(base)), ours: SplitLines([]byte(ours)), theirs: SplitLines([]byte(theirs))}
	b, o, t := numberLines(numbers, m.base), numberLines(numbers, m.ours), numberLines(numbers, m.theirs)
	m.oursIDs, m.theirsIDs, m.symbols = o, t, len(numbers)
	m.alignChanges(diffSeq(b, o, len(numbers)), diffSeq(b, t, len(numbers)))
	var out strings.Builder
	for _, s := range m.spans {
		lines := m.ours[s.oLo:s.oHi]
		if s.from == fromTheirs {
			lines = m.theirs[s.tLo:s.tHi]
		}
		for _, line := range lines {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String()
}

// MergeText gives the same as git, if the lines have only one good alignment.
func TestMergeTextAgreesWithGit(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 6))
		lines := randomLines(r, r.IntN(40), 1<<40)
		texts := map[string]string{"base": strings.Join(lines, "")}
		for _, side := range []string{"ours", "theirs"} {
			texts[side] = strings.Join(changeLines(r, lines, r.IntN(5), 1<<40), "")
		}
		for name, text := range texts {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git := exec.Command("git", "merge-file", "-p", "-L", "HEAD", "-L", "base", "-L", "topic", "ours", "base", "theirs")
		git.Dir = dir
		want, err := git.Output()
		if _, failed := err.(*exec.ExitError); err != nil && !failed {
			t.Fatal(err)
		}
		got, _ := MergeText([]byte(texts["base"]), []byte(texts["ours"]), []byte(texts["theirs"]), Labels{"HEAD", "topic"})
		if string(got) != string(want) {
			t.Errorf("seed %d: got\n%s\ngit has\n%s", seed, got, want)
		}
	}
}

func FuzzMergeText(f *testing.F) {
	f.Add("1\n2\n", "1\n", "2\n")
	f.Add("", "a", "b\r\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		got, conflicts := MergeText([]byte(base), []byte(ours), []byte(theirs), Labels{"o", "t"})
		if base == ours && (string(got) != theirs || conflicts) {
			t.Errorf("only theirs changed: %q", got)
		}
		patch := Unified("a", "b", []byte(base), []byte(ours), TextOptions{Context: 1})
		if (patch == nil) != (base == ours) {
			t.Errorf("Unified = %q for equal texts, or none for different ones", patch)
		}
	})
}

func BenchmarkUnified(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	lines := randomLines(r, 100_000, 50_000)
	old, new := []byte(strings.Join(lines, "")), []byte(strings.Join(changeLines(r, lines, 1000, 50_000), ""))
	b.SetBytes(int64(len(old) + len(new)))
	for b.Loop() {
		Unified("a", "b", old, new, TextOptions{Context: 3})
	}
}
