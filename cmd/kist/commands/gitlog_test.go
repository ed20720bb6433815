package commands

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// logTwin is a git repository and a kist repository with the same history.
type logTwin struct {
	*place
	rnd    *rand.Rand
	git    string   // the folder of git's repository
	ids    []string // the IDs of all commits and trees, each with its number, sorted
	sum    int      // the number of commits
	single int      // a commit with one parent
	short  string   // git's option for the length of short IDs
}

// newLogTwin makes a random history in both repositories.
func newLogTwin(t *testing.T, rnd *rand.Rand, now time.Time) *logTwin {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	w := &logTwin{place: newPlace(t), rnd: rnd, git: t.TempDir(), short: fmt.Sprintf("core.abbrev=%d", len(object.ID{}.Short()))}
	w.env.Now = func() time.Time { return now }
	stream := w.history(now)
	w.runGit("", "init", "-q", "-b", "main")
	w.runGit(stream, "fast-import", "--quiet")
	w.env.Stdin = strings.NewReader(stream + "done\n")
	w.run("import", "git", "-")
	w.runGit("", "symbolic-ref", "HEAD", "refs/heads/main")
	for _, list := range []string{w.runGit("", "log", "--all", "--format=%H %T %ct"), w.run("log", "--all", "--format=%H %T %ct")} {
		for line := range strings.Lines(list) {
			f := strings.Fields(line)
			w.ids = append(w.ids, f[0]+" c"+f[2], f[1]+" t"+f[2])
		}
	}
	slices.Sort(w.ids)
	return w
}

func (w *logTwin) runGit(stdin string, args ...string) string {
	w.t.Helper()
	env := []string{"LC_ALL=C", "TZ=KST-2", "GIT_TEST_DATE_NOW=" + strconv.FormatInt(w.env.Now().Unix(), 10)}
	out, err := objecttest.Git(w.git, stdin, env, append([]string{"-c", "core.quotePath=false", "-c", w.short}, args...)...)
	if status := objecttest.GitStatus(err); status != 0 && status != 1 {
		w.t.Fatal(err)
	}
	return out
}

// pick returns one of several texts.
func (w *logTwin) pick(list ...string) string { return list[w.rnd.IntN(len(list))] }

// history returns a fast-import stream with branches, merges, tags, and texts whose lines differ.
func (w *logTwin) history(now time.Time) string {
	var s strings.Builder
	rnd := w.rnd
	start := now.Add(-time.Duration(rnd.IntN(3)) * 350 * 24 * time.Hour).Add(-100 * time.Hour)
	files := []map[string]string{}
	tips := []int{}
	w.sum = 5 + rnd.IntN(25)

	step := time.Duration(1+rnd.IntN(4000)) * time.Minute
	for i := range w.sum {
		at := start.Add(time.Duration(i) * step / 10).Unix()
		var parents []int
		tree := map[string]string{}
		if i > 0 {
			parents = []int{tips[rnd.IntN(len(tips))]}
			tree = maps.Clone(files[parents[0]])
			if other := tips[rnd.IntN(len(tips))]; other != parents[0] && rnd.IntN(2) == 0 {
				parents = append(parents, other)
				for name, text := range files[other] {
					if rnd.IntN(2) == 0 {
						tree[name] = text
					}
				}
			}
		}

		for range 1 + rnd.IntN(2) {
			w.change(tree, i)
		}
		files = append(files, tree)
		zone := w.pick("+0000", "+0100", "-0730", "+0200")
		message := w.message(i)
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\nauthor %s %d %s\ncommitter %s %d +0000\ndata %d\n%s\n",
			i+1, w.person(), at-int64(rnd.IntN(5000)), zone, w.person(), at, len(message), message)

		for j, p := range parents {
			fmt.Fprintf(&s, "%s :%d\n", []string{"from", "merge"}[j], p+1)
		}
		if len(parents) == 0 && i > 0 {
			panic("no parent")
		}
		if len(parents) < 2 {
			w.single = i
		}
		s.WriteString("deleteall\n")

		for _, name := range slices.Sorted(maps.Keys(tree)) {
			fmt.Fprintf(&s, "M 644 inline %s\ndata %d\n%s\n", name, len(tree[name]), tree[name])
		}
		if rnd.IntN(4) == 0 || len(tips) == 0 {
			tips = append(tips, i)
		} else {
			tips[rnd.IntN(len(tips))] = i
		}
		if len(parents) > 1 {
			tips = slices.DeleteFunc(tips, func(tip int) bool { return tip == parents[1] })
		}
	}

	for i := range 3 + rnd.IntN(4) {
		fmt.Fprintf(&s, "reset refs/%s%d\nfrom :%d\n\n", w.pick("heads/b", "tags/v"), i, 1+rnd.IntN(w.sum))
	}
	fmt.Fprintf(&s, "reset refs/heads/main\nfrom :%d\n\n", w.sum)

	for _, i := range []int{0, w.sum / 2, w.single} {
		fmt.Fprintf(&s, "reset refs/tags/n%d\nfrom :%d\n\n", i, i+1)
	}
	return s.String()
}

func (w *logTwin) person() string {
	return w.pick("Anna Aal <anna@x.example>", "Bo <bo@x.example>", "Zoë Ä <z@y.example>", "anna aal <anna@x.example>", "Bo <other@x.example>")
}

func (w *logTwin) message(i int) string {
	subject := fmt.Sprintf("%s %d: %s", w.pick("fix", "add", "Fix", "[PATCH 1/2] do"), i, w.pick("a roof", "the wall (old).", "a  door\nand its frame", "ünïcödé … 日本", ".dots.. and--dashes"))
	body := w.pick("", "", "\n\nA body.\n\tindented\ta tab\n  \n\nAnd more.", "\n\none line\n", "\n\n\n\n  two spaces \nlast\n\n")
	return w.pick("", "", "\n", " \n\n") + subject + w.pick("", "\n") + body
}

// change changes, moves or deletes a file of a tree. Lines are unique, except blank lines.
func (w *logTwin) change(tree map[string]string, n int) {
	names := slices.Sorted(maps.Keys(tree))
	name := w.pick("a", "b.txt", "d/c", "d/e/f", "ü", "with space")
	rnd := w.rnd
	switch kind := rnd.IntN(10); {
	case kind == 0 && len(names) > 1:
		delete(tree, names[rnd.IntN(len(names))])
		return
	case kind == 1 && tree[name] == "" && len(names) > 0 && name != "a" && names[0] != "a":
		from := names[rnd.IntN(len(names))]
		tree[name] = tree[from]
		delete(tree, from)
		return
	}

	lines := strings.SplitAfter(tree[name], "\n")
	if tree[name] == "" {
		of := n
		if name == "a" { // this file gets blank lines, so its initial text is always the same
			of = 0
		}
		for i := range 12 {
			lines = append(lines, fmt.Sprintf("word%d_%d and%d_%d more%d_%d\n", of, i, of, i, of, i))
		}
	}

	for i := range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(lines))
		line := strings.TrimSuffix(lines[at], "\n")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch rnd.IntN(8) {
		case 0:
			lines[at] = line + w.pick(" ", "  ", "\t") + "\n"
		case 1:
			lines[at] = strings.Join(words, w.pick("  ", "\t", " ")) + "\n"
		case 2:
			lines[at] = w.pick(" ", "\t") + line + "\n"
		case 3:
			// A diff could align two adjacent blank lines in two ways.
			if name == "a" && at > 0 && strings.TrimSpace(lines[at-1]) != "" && words[0][len(words[0])-1]%2 == 0 {
				lines[at] = w.pick("\n", " \n") + lines[at]
			}
		case 4:
			words[rnd.IntN(len(words))] = fmt.Sprintf("new%d_%d", n, i)
			lines[at] = strings.Join(words, " ") + "\n"
		case 5:
			lines[at] += fmt.Sprintf("line%d_%d x%d_%d\n", n, i, n, i)
		case 6:
			lines = slices.Delete(lines, at, at+1)
		case 7:
			lines[at] = strings.Join(append(words, fmt.Sprintf("end%d_%d", n, i)), " ") + "\n"
		}
	}

	if text := strings.Join(lines, ""); text != "" {
		tree[name] = text
	}
}

var (
	hexID     = regexp.MustCompile(`[0-9a-f]{7,64}`)
	color     = regexp.MustCompile("\x1b\\[[0-9;]*m")
	indexLine = regexp.MustCompile(`(?m)^(\x1b\[1m)?index [0-9a-f]+\.\.[0-9a-f]+`)
)

// normal replaces the IDs in an output by numbers.
func (w *logTwin) normal(out string) string {
	out = indexLine.ReplaceAllString(out, "${1}index")
	return hexID.ReplaceAllStringFunc(out, func(id string) string {
		i, _ := slices.BinarySearch(w.ids, id)
		if i < len(w.ids) && strings.HasPrefix(w.ids[i], id) {
			_, number, _ := strings.Cut(w.ids[i], " ")
			return "<" + number + ">"
		}
		return id
	})
}

// paintsMore reports whether git colours more than kist because of this argument: parts of
// patches, and the matches of a filter.
func paintsMore(arg string) bool {
	return slices.ContainsFunc([]string{"-p", "-U", "--word-diff", "--grep", "--author", "--committer", "--shortstat", "--stat", "diff", "show"},
		func(option string) bool { return strings.HasPrefix(arg, option) })
}

// compare runs a command in both repositories and compares the outputs.
func (w *logTwin) compare(args ...string) {
	w.t.Helper()
	plain := func(out string) string { return out }
	if slices.ContainsFunc(args, paintsMore) {
		plain = func(out string) string { return color.ReplaceAllString(out, "") }
	}
	want := w.normal(plain(w.runGit("", args...)))
	w.stdout.Reset()
	w.stderr.Reset()
	if status := cli.Run(w.t.Context(), w.env, args); status > 1 || w.stderr.Len() > 0 {
		w.t.Fatalf("kist %q: exit status %d: %s", args, status, w.stderr)
	}
	if got := w.normal(plain(w.stdout.String())); got != want && sidesOf(got) != sidesOf(want) {
		ours, theirs := strings.Split(got, "\n"), strings.Split(want, "\n")
		at := 0
		for at < min(len(ours), len(theirs))-1 && ours[at] == theirs[at] {
			at++
		}
		w.t.Errorf("%q, line %d\nkist %q\n git %q", args, at+1, ours[at:min(at+8, len(ours))], theirs[at:min(at+8, len(theirs))])
	}
}

// sides are the two texts of a patch. If an edit has several shortest forms, git and kist may
// choose different forms, but the sides are equal.
type sides struct {
	old, new string
	changed  int // lines
}

func sidesOf(out string) (s sides) {
	for line := range strings.Lines(out) {
		switch line[0] {
		case '-':
			s.old += line[1:]
			s.changed++
		case '+':
			s.new += line[1:]
			s.changed++
		default:
			line = strings.TrimPrefix(line, " ")
			s.old += line
			s.new += line
		}
	}
	return s
}

// logFormats are formats of commits.
var logFormats = []string{
	"oneline", "short", "medium", "full", "fuller", "raw", "reference",
	"%H %h %T %t %P %p|%an <%ae> %al|%cn <%ce> %cl", "%ad %aD %ar %at %ai %aI %as %ah|%cd %cD %cr %ct %ci %cI %cs %ch",
	"%s%n%f%n%b%x41%n%B%%%x0a", "format:%h%d%n%D", "format:%s", "tformat:%h %s", "%h%+d%-b% D|%+b|% s%- D",
	"%<(12)%an|%>(9,trunc)%s|%<(15,mtrunc)%s|%><(20)%h|%<|(90)%an|%>>(5)%s|%<(7,ltrunc)%an|%>|(120)%s|",
	"%C(auto)%h%d %D%Cred%s%Creset%C(bold blue)x%C(reset)%C(auto)%H%C(always,green)g%Cblue%h%C(auto)g%p",
	"%q%+q%ZZ%a%", "%h %m %gd%gD%gs",
}

// formatArgs returns random options for the format of commits.
func (w *logTwin) formatArgs() (args []string) {
	args = append(args, w.pick("--format=", "--pretty=")+w.pick(logFormats...))
	if w.rnd.IntN(8) == 0 {
		args = []string{w.pick("--oneline", "--format=", "--pretty", "--abbrev-commit")}
	}
	if w.rnd.IntN(3) == 0 {
		args = append(args, "--date="+w.pick("default", "iso", "iso-strict", "rfc", "short", "relative", "human", "unix", "raw", "local",
			"iso-local", "raw-local", "human-local", "format:%Y-%m-%d %H:%M:%S %z|%a %A %b %B %d %e %j %U %V %W %u %w %G %g %C %y|%I %l %k %p %s|%c %D %F %T %R %r %x %X %n %t %%",
			"format-local:%H:%M %z %Z"))
	}
	if w.rnd.IntN(4) == 0 {
		args = append(args, w.pick("--decorate", "--decorate=full", "--no-decorate", "--decorate=no"))
	}
	if w.rnd.IntN(4) == 0 {
		args = append(args, "--color=always")
	}
	return args
}

// filterArgs returns random options that select commits.
func (w *logTwin) filterArgs() (args []string) {
	for range w.rnd.IntN(3) {
		args = append(args, w.pick("--author=Anna", "--author=bo", "--committer=x.example", "--grep=fix", "--grep=roof", "--grep=o", "--all-match",
			"--invert-grep", "-i", "-E", "-F", "--merges", "--no-merges", "--min-parents=1", "--max-parents=0", "--max-parents=1", "-n3", "--max-count=2", "--skip=2",
			"--reverse", "--first-parent", "--all", "--branches", "--tags", "--left-right"))
	}
	slices.Sort(args) // in git, repeating an option may undo it
	args = slices.Compact(args)
	if slices.Contains(args, "--invert-grep") || slices.Contains(args, "--all-match") {
		args = append(args, "--grep=a", "--grep="+w.pick("door", "wall"))
	}
	return args
}

// changeArgs returns random options that show changes.
func (w *logTwin) changeArgs() (args []string) {
	if w.rnd.IntN(2) == 0 {
		return nil
	}
	args = append(args, w.pick("--stat", "--name-only", "--name-status", "-p", "--shortstat", "--numstat", "-p"))
	for range w.rnd.IntN(3) {
		args = append(args, w.pick("--diff-filter=AD", "--diff-filter=m", "--diff-filter=R", "--diff-filter=M*", "-R", "-w", "-b",
			"--ignore-space-at-eol", "--ignore-blank-lines", "-U1", "--no-renames", "--word-diff=plain", "--word-diff=porcelain", "--word-diff=color", "-z"))
	}
	return args
}

func (w *logTwin) rev() string {
	return w.pick("n0", "n"+strconv.Itoa(w.sum/2), "main", "main~1")
}

// TestLogFormatsAsGit compares log, show, diff and shortlog with git on random histories.
func TestLogFormatsAsGit(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 34, 56, 0, time.FixedZone("KST", 7200))
	for i := range uint64(objecttest.Rounds(t, 4)) {
		seed := objecttest.Seed() + i
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newLogTwin(t, rand.New(rand.NewPCG(seed, 3)), now)
			for range 12 {
				revs := [][]string{nil, {w.rev() + ".." + w.rev()}, {w.rev() + "..." + w.rev()}, {"main", "^" + w.rev()}, {w.rev(), "--not", w.rev()}}[w.rnd.IntN(5)]
				w.compare(slices.Concat([]string{"log"}, w.formatArgs(), w.filterArgs(), w.changeArgs(), revs)...)
			}
			for range 3 {
				w.compare(slices.Concat([]string{"show"}, w.formatArgs(), w.changeArgs(), []string{fmt.Sprintf("n%d", w.single)})...)
				w.compare(slices.Concat([]string{"show", "-s", w.rev(), w.rev()}, w.formatArgs())...)
				w.compare(slices.Concat([]string{"show", "-s", w.pick("-2", w.rev()+".."+w.rev())}, w.formatArgs(), []string{w.rev()})...)
			}
			for range 3 {
				w.compare(slices.Concat([]string{"shortlog", w.pick("-n", "-s", "-e", "-ns", "-sne", "--group=committer"), w.pick("-e", "-n", "--no-merges", "--max-parents=1")}, []string{w.rev()})...)
			}
			for range 12 {
				args := w.changeArgs()
				w.compare(slices.Concat([]string{"diff"}, args, []string{w.pick("-U3", "--exit-code"), w.rev(), w.rev()})...)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
