package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// textHistory makes a random history of text files with edits, renames and merges. All new lines
// differ.
type textHistory struct {
	rnd     *rand.Rand
	lines   int // made so far
	commits []textCommit
	tips    []int
}

type textCommit struct {
	parents []int
	files   map[int]textFile // by the number of the file, which renames keep
}

type textFile struct {
	path string
	text []string
}

func newTextHistory(rnd *rand.Rand, commits int) *textHistory {
	h := &textHistory{rnd: rnd, tips: []int{0}}
	first := textCommit{files: map[int]textFile{}}
	for i := range 3 {
		first.files[i] = textFile{fmt.Sprintf("d%d/f%d", i%2, i), h.newLines(30)}
	}
	h.commits = append(h.commits, first)
	for len(h.commits) < commits {
		h.grow()
	}
	for len(h.tips) > 1 { // the last commit merges all branches
		h.merge(h.tips[0], h.tips[1])
	}
	return h
}

func (h *textHistory) newLines(n int) (list []string) {
	for range n {
		h.lines++
		list = append(list, fmt.Sprintf("line %d of %x\n", h.lines, h.rnd.Uint32()))
	}
	return list
}

// grow adds a commit with one change, or a merge.
func (h *textHistory) grow() {
	at := h.tips[h.rnd.IntN(len(h.tips))]
	other := h.tips[h.rnd.IntN(len(h.tips))]
	if h.rnd.IntN(5) == 0 && other != at {
		h.merge(at, other)
		return
	}
	c := textCommit{parents: []int{at}, files: maps.Clone(h.commits[at].files)}
	h.change(c)
	h.add(c)
	if h.rnd.IntN(4) == 0 && len(h.tips) < 4 {
		h.tips = append(h.tips, at)
	}
}

func (h *textHistory) add(c textCommit) {
	h.tips = slices.DeleteFunc(h.tips, func(tip int) bool { return slices.Contains(c.parents, tip) })
	h.tips = append(h.tips, len(h.commits))
	h.commits = append(h.commits, c)
}

func (h *textHistory) change(c textCommit) {
	number := h.rnd.IntN(len(c.files))
	f := c.files[number]
	text := slices.Clone(f.text)
	for range 1 + h.rnd.IntN(3) {
		at := h.rnd.IntN(len(text))
		switch h.rnd.IntN(5) {
		case 0:
			text = slices.Delete(text, at, min(at+2, max(len(text)-20, at)))
		case 1, 2:
			text = slices.Insert(text, at, h.newLines(1+h.rnd.IntN(3))...)
		case 3:
			text[at] = h.newLines(1)[0]
		case 4:
			text[at] = "  " + strings.Replace(text[at], " of", "\tof", 1)
		}
	}
	f.text = text
	if h.rnd.IntN(6) == 0 {
		h.lines++
		f.path = fmt.Sprintf("d%d/f%d", h.rnd.IntN(2), h.lines)
	}
	c.files[number] = f
}

// merge adds a merge of two tips. In conflicts, the first tip wins.
func (h *textHistory) merge(at, other int) {
	c := textCommit{parents: []int{at, other}, files: map[int]textFile{}}
	base := h.commits[h.base(at, other)]
	for number, ours := range h.commits[at].files {
		theirs, old := h.commits[other].files[number], base.files[number]
		merged := ours
		if ours.path == old.path {
			merged.path = theirs.path
		}
		text, conflicts := tree.MergeText(joined(old.text), joined(ours.text), joined(theirs.text), tree.Labels{})
		if !conflicts {
			merged.text = tree.SplitLines(text)
		}
		c.files[number] = merged
	}
	if h.rnd.IntN(3) == 0 {
		h.change(c)
	}
	h.add(c)
}

func joined(lines []string) []byte { return []byte(strings.Join(lines, "")) }

// base returns the latest common ancestor of two commits.
func (h *textHistory) base(a, b int) int {
	ancestors := func(of int) map[int]bool {
		seen := map[int]bool{of: true}
		for i := of; i >= 0; i-- {
			if seen[i] {
				for _, p := range h.commits[i].parents {
					seen[p] = true
				}
			}
		}
		return seen
	}
	common := ancestors(a)
	best := 0
	for i := range ancestors(b) {
		if common[i] {
			best = max(best, i)
		}
	}
	return best
}

// stream returns the history in the format of git fast-import.
func (h *textHistory) stream() []byte {
	var out bytes.Buffer
	out.WriteString("feature done\n")
	data := func(text string) { fmt.Fprintf(&out, "data %d\n%s\n", len(text), text) }
	for i, c := range h.commits {
		when := time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC).Unix()
		fmt.Fprintf(&out, "commit refs/heads/main\nmark :%d\nauthor Anna %d <a%d@chest.example> %d +0100\ncommitter Bo <bo@chest.example> %d -0230\n", i+1, i%7, i, when, when)
		data(fmt.Sprintf("c%d", i))
		for k, p := range c.parents {
			fmt.Fprintf(&out, "%s :%d\n", []string{"from", "merge"}[k], p+1)
		}
		out.WriteString("deleteall\n")
		for _, f := range c.files {
			fmt.Fprintf(&out, "M 100644 inline %s\n", f.path)
			data(string(joined(f.text)))
		}
	}
	out.WriteString("done\n")
	return out.Bytes()
}

// vcsTwins are two repositories with the same history and worktree.
type vcsTwins struct {
	t         *testing.T
	git, kist string            // folders
	names     map[string]string // the number of a commit, "c1", by ID
}

// newVCSTwins makes the repositories from a fast-import stream.
func newVCSTwins(t *testing.T, stream []byte) *vcsTwins {
	objecttest.NeedProgram(t, "git")
	v := &vcsTwins{t: t, git: filepath.Join(t.TempDir(), "git"), kist: t.TempDir(), names: map[string]string{}}
	if err := os.Mkdir(v.git, 0o755); err != nil {
		t.Fatal(err)
	}
	v.runGit(nil, "init", "-q", "-b", "main")
	v.runGit(stream, "fast-import", "--quiet", "--done")
	v.runGit(nil, "reset", "-q", "--hard", "main")
	v.runKist(nil, "init")
	v.runKist(stream, "import", "git", "-")
	for line := range strings.Lines(v.runGit(nil, "log", "--all", "--format=%H %s")) {
		id, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		v.names[id] = subject
	}
	for line := range strings.Lines(v.runKist(nil, "log", "--all", "--json")) {
		var c jsonform.Commit
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		v.names[c.ID.String()] = strings.TrimSpace(c.Message)
	}
	return v
}

func (v *vcsTwins) runGit(stdin []byte, args ...string) string {
	v.t.Helper()
	out, err := objecttest.Git(v.git, string(stdin), nil, args...)
	if err != nil && (strings.Contains(err.Error(), "Assertion") || strings.Contains(err.Error(), "no match")) {
		return gitAborts
	}
	if status := objecttest.GitStatus(err); status != 0 && status != 1 {
		v.t.Fatal(err)
	}
	return out
}

// gitAborts stands for the output if git fails an assertion, or if a :RE matches no line.
const gitAborts = "git aborts"

func (v *vcsTwins) runKist(stdin []byte, args ...string) string {
	v.t.Helper()
	env, stdout, stderr := testEnv(v.t)
	env.Dir, env.Stdin = v.kist, bytes.NewReader(stdin)
	if status := cli.Run(v.t.Context(), env, args); status > 1 {
		v.t.Fatalf("kist %q: status %d\n%s", args, status, stderr)
	}
	return stdout.String()
}

var longHex = regexp.MustCompile(`\b[0-9a-f]{7,64}\b`)

// named replaces the IDs in output by the names of their commits.
func (v *vcsTwins) named(output string) string {
	return longHex.ReplaceAllStringFunc(output, func(word string) string {
		for id, name := range v.names {
			if strings.HasPrefix(id, word) {
				return name
			}
		}
		return word
	})
}

// same fails the test if the outputs differ.
func (v *vcsTwins) same(git, kist []string) {
	v.t.Helper()
	want, got := v.named(v.runGit(nil, git...)), v.named(v.runKist(nil, kist...))
	if got != want || strings.HasPrefix(git[0], "blame") && got == "" {
		v.t.Errorf("git %q prints\n%s\nkist %q prints\n%s", git, want, kist, got)
	}
}

// firstHunks keeps only the first hunk of each file, and sorts the files of each commit. Git's
// log -L shows only the first of several ranges that one edit touched. It expects sorted lists of
// files, but after renames they are not sorted.
func firstHunks(output string) string {
	var out strings.Builder
	var files []string // of one commit
	hunks := 0
	for line := range strings.Lines(output + "\n\n") {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			files, hunks = append(files, ""), 0
		case strings.HasPrefix(line, "@@ "):
			hunks++
		case !strings.ContainsRune(" -+\\", rune(line[0])):
			slices.Sort(files)
			out.WriteString(strings.Join(files, ""))
			files = nil
		}
		switch {
		case len(files) == 0:
			out.WriteString(line)
		case hunks < 2:
			files[len(files)-1] += line
		}
	}
	return out.String()
}

// both is same for a command that has the same form in both programs.
func (v *vcsTwins) both(args ...string) {
	v.t.Helper()
	v.same(args, args)
}

// write writes a file of both worktrees.
func (v *vcsTwins) write(path, text string) {
	v.t.Helper()
	for _, dir := range []string{v.git, v.kist} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			v.t.Fatal(err)
		}
	}
}

// TestBlameAsGit compares blame with git in random histories.
func TestBlameAsGit(t *testing.T) {
	for round := range objecttest.Rounds(t, 4) {
		seed := objecttest.Seed() + uint64(round)
		h := newTextHistory(rand.New(rand.NewPCG(seed, 1)), 40)
		v := newVCSTwins(t, h.stream())
		last := h.commits[len(h.commits)-1]
		chain := strings.Count(v.runGit(nil, "rev-list", "--first-parent", "main"), "\n")

		older := fmt.Sprintf("main~%d", chain/2)
		for _, f := range last.files {
			v.both("blame", "--porcelain", "main", "--", f.path)
			v.both("blame", "--porcelain", "-w", "main", "--", f.path)
			v.both("blame", "--line-porcelain", "-L", "3,+4", "-L", "/line [0-9]*[1-9]/,+2", f.path)
			v.both("blame", "-l", "-s", "-L", "5,9", f.path)
			v.both("blame", "--porcelain", older+"..main", "--", f.path)
			v.both("blame", "--porcelain", "^"+older, "main", "--", f.path)
		}

		for _, f := range last.files { // uncommitted changes, and a staged rename
			text := append(h.newLines(2), f.text[1:]...)
			v.write(f.path, string(joined(text)))
			v.both("blame", "-s", f.path)
			v.both("mv", f.path, f.path+"-moved")
			v.both("blame", "-s", "-L", "1,4", f.path+"-moved")
		}

		for path := range strings.Lines(v.runGit(nil, "ls-tree", "-r", "--name-only", older)) {
			v.both("blame", older, "--", strings.TrimSpace(path))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// besideEdit matches a range that ends where an edit of the next range begins. Git's log -L
// misses such an edit, and so its commit.
var besideEdit = regexp.MustCompile(`(?m)^@@.*\n(?: .*\n)+@@`)

// hasLinesOf reports whether text has all lines of part, in their order. If git's log -L follows
// two files, it may lose ranges at a merge, so hunks may be shorter in git.
func hasLinesOf(text, part string) bool {
	for line := range strings.Lines(part) {
		if strings.HasPrefix(line, "@@") {
			continue
		}
		_, rest, found := strings.Cut(text, line)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// TestLinesAsGit compares log -L with git in random histories.
func TestLinesAsGit(t *testing.T) {
	for round := range objecttest.Rounds(t, 4) {
		seed := objecttest.Seed() + uint64(round)
		rnd := rand.New(rand.NewPCG(seed, 4))
		h := newTextHistory(rnd, 40)

		v := newVCSTwins(t, h.stream())
		compare := func(agree func(got, want string) bool, args ...string) {
			want := strings.TrimSpace(v.named(v.runGit(nil, args...)))
			if want == gitAborts { // adjacent ranges, or a heading that matches no line
				return
			}
			got := strings.TrimSpace(v.named(v.runKist(nil, args...)))
			all := v.runKist(nil, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-s" })...)
			if !agree(firstHunks(got), firstHunks(want)) && !besideEdit.MatchString(all) {
				t.Errorf("%q prints in git\n%s\nin kist\n%s", args, want, got)
			}
		}

		same := func(args ...string) {
			compare(func(got, want string) bool { return got == want }, args...)
		}
		for number, f := range h.commits[len(h.commits)-1].files {
			from := 1 + rnd.IntN(len(f.text)-5)
			other := h.commits[len(h.commits)-1].files[(number+1)%3]
			lines := []string{"log", "-L", fmt.Sprintf("%d,+%d:%s", from, 1+rnd.IntN(5), f.path)}
			same(append(lines, "--format=%s")...)
			same(append(lines, "-s", "--oneline", "--no-merges")...)
			same("log", "-L", "/line [0-9]*1/,/line/:"+f.path, "-3", "--format=medium")
			compare(hasLinesOf, "log", "-L", ":[1-9]*2 of:"+f.path, "-L", "^:line:"+other.path, "--reverse", "--oneline")
			compare(func(got, want string) bool { // git may miss the edit of a merge, which shows no lines
				return got == want || strings.Contains(got, "\nMerge: ") && hasLinesOf(got, want)
			}, append(lines, "-L", ":line:"+f.path, "-s")...)
			same(append(lines, "--first-parent", "--oneline", "main~3..")...)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestPickaxeAsGit compares the commits that -S and -G select with git, in random histories.
func TestPickaxeAsGit(t *testing.T) {
	for round := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(round)
		rnd := rand.New(rand.NewPCG(seed, 3))
		h := newTextHistory(rnd, 40)
		v := newVCSTwins(t, h.stream())
		for range 8 {
			word := fmt.Sprintf("line %d", rnd.IntN(h.lines))
			if rnd.IntN(3) == 0 {
				word = fmt.Sprintf("%x", rnd.IntN(256))
			}
			args := [][]string{
				{"-S", word}, {"-G", word + ".*[0-9]"}, {"-S", "line [0-9]*" + word[len(word)-1:] + " ", "--pickaxe-regex"}, {"-i", "-S", strings.ToUpper(word)},
			}[rnd.IntN(4)]
			args = append([]string{"log", []string{"--format=%s", "--oneline", "--name-status"}[rnd.IntN(3)]}, args...)
			if rnd.IntN(3) == 0 {
				args = append(args, "--", h.commits[len(h.commits)-1].files[0].path)
			}
			v.both(args...)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
