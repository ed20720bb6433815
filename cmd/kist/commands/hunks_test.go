package commands

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/objecttest"
)

// twins are a git repository and a kist repository with the same content.
type twins struct {
	*testing.T
	git, kist string // folders
	editor    string // the program that edits hunks, for both
	refused   bool   // git could not apply the chosen hunks and changed nothing
}

func newTwins(t *testing.T) *twins {
	objecttest.NeedProgram(t, "git")
	dir := t.TempDir()
	w := &twins{T: t, git: filepath.Join(dir, "git"), kist: filepath.Join(dir, "kist"), editor: filepath.Join(dir, "edit")}
	for _, dir := range []string{w.git, w.kist} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.both("init", "-q")
	return w
}

// run runs a command in both repositories and returns the outputs. If answers is not nil, it
// answers the questions of kist, and git gets the same answers.
func (w *twins) run(answers *answerer, args ...string) (git, kist string) {
	w.Helper()
	env, stdout, errors := testEnv(w.T)
	env.Dir, env.Now = w.kist, time.Now
	if answers != nil {
		answers.asked = stdout
		env.Stdin = answers
	}
	env.Getenv = func(name string) string { return map[string]string{"KIST_EDITOR": w.editor}[name] }
	status := cli.Run(w.Context(), env, args)
	if status > 1 || status == 1 && args[0] != "stash" {
		w.Fatalf("kist %q: exit status %d: %s", args, status, errors)
	}

	cmd := exec.Command("git", args...)
	cmd.Dir = w.git
	if answers != nil {
		cmd.Stdin = strings.NewReader(answers.given.String())
	}
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_EDITOR="+w.editor,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	w.refused = strings.Contains(stderr.String(), "'git apply' failed") || strings.Contains(stderr.String(), "patch does not apply")
	if (err != nil) != (status != 0) && !w.refused {
		w.Fatalf("%q: exit status %d in kist, %v in git: %s%s", args, status, err, errors, stderr.String())
	}
	return string(out), stdout.String()
}

func (w *twins) both(args ...string) { w.Helper(); w.run(nil, args...) }

// write writes a file into both worktrees. If lines is nil, it removes the file.
func (w *twins) write(name string, lines []string, mode os.FileMode) {
	w.Helper()
	for _, dir := range []string{w.git, w.kist} {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			w.Fatal(err)
		}
		if lines == nil {
			continue
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), mode); err != nil {
			w.Fatal(err)
		}
	}
}

// equal checks that index and worktree have the same content in both. Then it restores the
// worktrees from the index. It compares no patches: moved lines have several correct patches.
func (w *twins) equal(what string, names []string) {
	w.Helper()
	if git, kist := w.run(nil, "diff", "--cached", "--name-status", "HEAD"); git != kist {
		w.Fatalf("%s: staged in git\n%s\nin kist\n%s", what, git, kist)
	}
	read := func(dir, name string) string {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return "nothing"
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			w.Fatal(err)
		}
		return fmt.Sprintf("%s\n%s", info.Mode(), content)
	}
	for _, of := range []string{"worktree", "index"} {
		for _, name := range names {
			if git, kist := read(w.git, name), read(w.kist, name); git != kist {
				w.Fatalf("%s: %s in the %s of git\n%s\nof kist\n%s", what, name, of, git, kist)
			}
		}
		w.both("restore", ".")
	}
}

// equalStash checks that the stashes have the same changes.
func (w *twins) equalStash(what string) {
	w.Helper()
	if git, _ := w.run(nil, "stash", "list"); git == "" {
		return
	}
	for _, rev := range []string{"stash", "stash^2"} {
		if git, kist := w.run(nil, "diff", "HEAD", rev); withoutIDs(git) != withoutIDs(kist) {
			w.Fatalf("%s: stashes in git\n%s\nin kist\n%s", what, git, kist)
		}
	}
}

// unequal matches the lines of a dialogue that differ because they have IDs.
var unequal = regexp.MustCompile(`(?m)^index .*\n`)

func withoutIDs(text string) string { return unequal.ReplaceAllString(text, "") }

// lineMaker makes lines that are all different, and changes lists of them.
type lineMaker struct {
	*rand.Rand
	made int
	open bool // the last line of a file may lack its newline
}

func (m *lineMaker) lines(n int) (lines []string) {
	for range n {
		m.made++
		lines = append(lines, fmt.Sprintf("%sline %d\n", []string{"", "  ", "\t"}[m.IntN(3)], m.made))
	}
	return lines
}

// change changes lines in a few places.
func (m *lineMaker) change(lines []string) []string {
	lines = slices.Clone(lines)
	for range 1 + m.IntN(5) {
		at := m.IntN(len(lines) + 1)
		cut := min(m.IntN(3), len(lines)-at)
		lines = slices.Replace(lines, at, at+cut, m.lines(m.IntN(3))...)
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n") + "\n"
	}
	if n := len(lines); n > 0 && m.open && m.IntN(5) == 0 {
		lines[n-1] = strings.TrimSuffix(lines[n-1], "\n")
	}
	if len(lines) == 0 {
		return m.lines(1)
	}
	return lines
}

// answerer answers questions about hunks at random. It uses only the offered letters, because git
// takes any other letter for a different answer.
type answerer struct {
	*rand.Rand
	left  int           // the number of answers until the end of the input
	back  bool          // the command takes hunks back
	split bool          // s was answered
	asked *bytes.Buffer // the printed text
	given strings.Builder
}

var question = regexp.MustCompile(`.*\[y,n,q,a,d((?:,[^]],?)*),\?\]\? $`)

func (a *answerer) Read(p []byte) (int, error) {
	if a.left--; a.left < 0 {
		return 0, io.EOF
	}
	answers := []string{"y", "n"} // the answers to "edit again?"
	if offered := question.FindStringSubmatch(a.asked.String()); offered != nil {
		answers = []string{"y", "y", "y", "n", "n", "n", "?", "", "x", "Y", "yes"}
		switch a.IntN(20) {
		case 0:
			answers = []string{"a", "d"}
		case 1:
			answers = []string{"q"}
		}

		for _, letter := range strings.Split(strings.TrimPrefix(offered[1], ","), ",") {
			switch letter {
			case "g":
				answers = append(answers, "g 1", "g2", "g 99", "gx")
			case "/":
				answers = append(answers, "/line 1", "/^[-+].*[13579]$", "/nowhere")
			case "":
			case "e": // git often refuses edited parts of a split hunk, and an edited hunk of a new file to take back
				if !a.split && !(a.back && strings.Contains(offered[0], "addition")) {
					answers = append(answers, letter, letter)
				}
			default:
				answers = append(answers, letter, letter)
			}
		}
	}

	answer := answers[a.IntN(len(answers))] + "\n"
	a.split = a.split || answer == "s\n"
	a.given.WriteString(answer)
	return copy(p, answer), nil
}

// hunkEdits are edits of hunks, for sed: of hunks to apply, and of hunks to take back.
var hunkEdits = [2][]string{
	{"0,/^+/{/^+/d}", "s/^-/ /", `s/^+\(.*\)/+edited \1/`, "s/^ /-other/", `/^[-+ @\\]/d`},
	{"0,/^-/{/^-/d}", "s/^+/ /", `s/^-\(.*\)/-edited \1/`, "s/^ /+other/", `/^[-+ @\\]/d`},
}

// TestHunksLikeGit gives the same random answers to git and kist, after the same random edits of
// files. The dialogues, the indexes and the worktrees must be equal.
func TestHunksLikeGit(t *testing.T) {
	t.Parallel()
	commands := []struct {
		line   string
		back   int  // 1: the command takes hunks back
		staged bool // index and worktree must be equal beforehand
	}{
		{"add -p", 0, false}, {"reset -p", 1, false}, {"reset -p HEAD~1", 0, false}, {"checkout -p", 1, false},
		{"checkout -p HEAD", 1, true}, {"checkout -p HEAD~1", 0, true}, {"restore -p", 1, false}, {"restore -p --staged", 1, false},
		{"restore -p --source HEAD~1", 0, false}, {"restore -p --source HEAD", 1, false}, {"restore -p --staged --source HEAD~1 .", 0, false},
		{"restore -p -S -W", 1, true}, {"stash push -q -p", 0, false}, {"stash push -q -p", 0, true},
	}
	rounds, refused := objecttest.Rounds(t, len(commands)), 0
	for n := range rounds {
		c := commands[n%len(commands)]
		w := newTwins(t)
		m := &lineMaker{Rand: objecttest.Rand(uint64(n))}
		how := m.IntN(len(hunkEdits[0]))
		edit := hunkEdits[c.back][how]
		m.open = how == 2 || how == 4 // other edits would separate the "no newline" line from its line
		names := []string{"a", "b", "c"}
		files := map[string][]string{}
		// Each step changes some files. It does not recreate a file that is not in the index: the
		// file would be untracked.
		change := func(often int, made, removed bool) {
			for _, name := range names {
				switch {
				case files[name] == nil:
					if made {
						files[name] = m.lines(1 + m.IntN(40))
					}
				case removed && m.IntN(12) == 0:
					files[name] = nil
				case m.IntN(often) > 0:
					files[name] = m.change(files[name])
				}
				mode := []os.FileMode{0o644, 0o644, 0o755}[m.IntN(3)]
				if strings.HasPrefix(c.line, "stash") { // git loses a mode change that was not chosen
					mode = 0o644
				}
				w.write(name, files[name], mode)
			}
		}
		w.write("kept", []string{"kept\n"}, 0o644)
		for _, message := range []string{"one", "two"} {
			change(8, true, true)
			w.both("add", "-A")
			w.both("commit", "-q", "--allow-empty", "-m", message)
		}
		change(2, true, false)
		w.both("add", "-A")
		if change(4, false, true); c.staged {
			w.both("add", "-A")
		}

		w.editor = filepath.Join(filepath.Dir(w.git), "edit")
		if err := os.WriteFile(w.editor, []byte("#!/bin/sh\nsed -i '"+edit+"' \"$1\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		answers := &answerer{Rand: m.Rand, left: m.IntN(60), back: c.back == 1}
		git, kist := w.run(answers, strings.Fields(c.line)...)
		what := fmt.Sprintf("round %d: %s with %q, edits %s", n, c.line, answers.given.String(), edit)
		// After an edit, git offers s if the hunk could be split before.
		split := strings.NewReplacer(",s,", ",", "s - split the current hunk into smaller hunks\n", "")
		comparable := func(text string) string { return split.Replace(withoutIDs(text)) }
		const again = "does not apply. Edit again" // git checks an edited hunk together with all other hunks
		if strings.Count(git, again) > strings.Count(kist, again) {
			refused++
			continue
		}
		if a, b := comparable(git), comparable(kist); a != b {
			t.Fatalf("%s\nprints in git\n%s\nin kist\n%s", what, a, b)
		}
		if w.refused {
			refused++
			continue
		}
		w.equal(what, names)
		if strings.HasPrefix(c.line, "stash") {
			w.equalStash(what)
		}
	}
	if refused > rounds/4 {
		t.Errorf("git refused the hunks of %d of %d rounds", refused, rounds)
	}
}
