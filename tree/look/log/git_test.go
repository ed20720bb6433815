package log_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/look/log"
)

// randomHistory returns a history of n commits with branches and merges. The commits change,
// add, remove and move files. There are few files, so changes of branches overlap.
func randomHistory(rnd *rand.Rand, n int) []kisttest.Version {
	history := []kisttest.Version{{Files: map[string]string{"a": "a\n", "d/b": "b\n", "d/e/c": "c\n"}}}
	tips := []int{0}
	for len(history) < n {
		at := rnd.IntN(len(tips))
		v := kisttest.Version{Parents: []int{tips[at]}, Files: maps.Clone(history[tips[at]].Files)}
		grow := rnd.IntN(10)
		if other := rnd.IntN(len(tips)); grow < 3 && other != at {
			v.Parents = append(v.Parents, tips[other])
			for _, name := range slices.Sorted(maps.Keys(history[tips[other]].Files)) {
				if rnd.IntN(2) == 0 {
					v.Files[name] = history[tips[other]].Files[name]
				}
			}
			if rnd.IntN(2) == 0 { // the other branch ends here
				tips[other] = len(history)
			}
		}

		if len(v.Parents) == 1 || rnd.IntN(3) == 0 {
			change(rnd, v.Files, len(history))
		}
		if grow == 9 && len(tips) < 5 {
			tips = append(tips, tips[at])
		}
		tips[at] = len(history)
		slices.Sort(tips)
		tips = slices.Compact(tips)
		history = append(history, v)
	}

	// The last commit merges all branches.
	last := kisttest.Version{Files: maps.Clone(history[len(history)-1].Files)}
	for _, tip := range slices.Backward(tips) {
		last.Parents = append(last.Parents, tip)
	}
	return append(history, last)
}

// change changes, adds, removes or moves one of the files.
func change(rnd *rand.Rand, files map[string]string, number int) {
	names := slices.Sorted(maps.Keys(files))
	pool := []string{"a", "b", "c", "d/a", "d/b", "d/e/c", "d/e/f", "x/y/z"}
	name := pool[rnd.IntN(len(pool))]
	switch kind := rnd.IntN(8); {
	case kind == 0 && len(names) > 1:
		delete(files, names[rnd.IntN(len(names))])
	case kind == 1 && files[name] == "" && len(names) > 0:
		from := names[rnd.IntN(len(names))]
		files[name] = files[from]
		delete(files, from)
	case kind == 2: // a content that other commits may have, too
		files[name] = strconv.Itoa(rnd.IntN(3)) + "\n"
	default:
		files[name] = strconv.Itoa(number) + "\n"
	}
}

// gitRepository imports a history into a new git repository and tags each commit with its
// number. It returns a function that runs git there.
func gitRepository(t *testing.T, history []kisttest.Version) func(args ...string) string {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		out, err := objecttest.Git(dir, stdin, nil, args...)
		kisttest.Check(t, err)
		return out
	}
	var s strings.Builder
	for i, v := range history {
		fmt.Fprintf(&s, "commit refs/tags/t%d\nmark :%d\ncommitter A <a@x> %d +0000\ndata <<.\n%d\n.\n", i, i+1, v.When(i).Unix(), i)
		for j, p := range v.Parents {
			fmt.Fprintf(&s, "%s :%d\n", []string{"from", "merge"}[min(j, 1)], p+1)
		}
		s.WriteString("deleteall\n")
		for name, content := range v.Files {
			fmt.Fprintf(&s, "M 644 inline %s\ndata %d\n%s\n", name, len(content), content)
		}
	}
	fmt.Fprintf(&s, "reset refs/heads/main\nfrom :%d\n", len(history))
	run("", "init", "-q", "-b", "main")
	run(s.String(), "fast-import", "--quiet")
	return func(args ...string) string { return run("", args...) }
}

// numbers returns the messages of a log's commits. It checks that the log lists all commits
// that it announced in Next.
func numbers(t *testing.T, r *kist.Repository, o log.Options) []string {
	t.Helper()
	var list []string
	next := map[object.ID]bool{}
	for c, err := range log.Commits(t.Context(), r, o) {
		kisttest.Check(t, err)
		list = append(list, strings.TrimSpace(c.Message))
		delete(next, c.ID)
		for _, id := range c.Next {
			next[id] = true
		}
	}
	if len(next) > 0 {
		t.Errorf("%+v: the log lacks %d commits that it announced in Next", o, len(next))
	}
	return list
}

// TestLogAsGit compares the logs of kist and git for random histories and options.
func TestLogAsGit(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		history := randomHistory(rnd, 10+rnd.IntN(50))
		git := gitRepository(t, history)
		r := kisttest.Mirror(t, t.TempDir(), history)
		some := func() string { return "t" + strconv.Itoa(rnd.IntN(len(history))) }
		paths := [][]string{nil, {"a"}, {"b"}, {"d"}, {"d/b"}, {"d/e"}, {"d/e/c"}, {"a", "d/e"}, {"x"}, {"absent"}}

		for range 30 {
			o := log.Options{Paths: paths[rnd.IntN(len(paths))]}
			switch rnd.IntN(4) {
			case 0:
				o.Revs = []string{some() + ".." + some()}
			case 1:
				o.Revs = []string{some() + "..." + some()}
			case 2:
				o.Revs = []string{some(), some(), "^" + some()}
			}

			args := []string{"log", "--format=%s"}
			if o.FirstParent = rnd.IntN(4) == 0; o.FirstParent {
				args = append(args, "--first-parent")
			}
			if o.Topo = rnd.IntN(4) == 0; o.Topo {
				args = append(args, "--topo-order")
			}
			if rnd.IntN(4) == 0 {
				since, until := rnd.IntN(len(history)), rnd.IntN(len(history))
				o.Since, o.Until = history[0].When(since), history[0].When(until)
				args = append(args, "--since="+strconv.FormatInt(o.Since.Unix(), 10), "--until="+strconv.FormatInt(o.Until.Unix(), 10))
			}
			args = append(append(append(args, o.Revs...), "--"), o.Paths...)
			want, got := strings.Fields(git(args...)), numbers(t, r, o)
			if o.Topo && !o.Since.IsZero() { // git sorts only the commits that it shows
				slices.Sort(want)
				slices.Sort(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: git %s\n got %s\nwant %s", seed, strings.Join(args, " "), got, want)
			}
		}
	}
}

// TestFollowAsGit compares log --follow of kist and git, for files with renames.
func TestFollowAsGit(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		history := []kisttest.Version{{Files: map[string]string{}}}
		for i := range 5 {
			history[0].Files[fmt.Sprintf("f%d", i)] = text(rnd, 30)
		}

		for n := range 40 {
			v := kisttest.Version{Parents: []int{n}, Files: maps.Clone(history[n].Files)}
			names := slices.Sorted(maps.Keys(v.Files))
			name := names[rnd.IntN(len(names))]
			content := v.Files[name]
			switch rnd.IntN(4) {
			case 0: // move it, and perhaps change it a little
				delete(v.Files, name)
				name = fmt.Sprintf("%s/g%d", []string{"d", "d/e", "x"}[rnd.IntN(3)], n)
				if rnd.IntN(2) == 0 {
					content += "and a line more\n"
				}
				v.Files[name] = content
			case 1:
				v.Files[fmt.Sprintf("f%d", n)] = text(rnd, 30)
			case 2:
				v.Files[name] = text(rnd, 3) + content
			case 3:
				v.Files[name] = content + text(rnd, 2)
			}
			history = append(history, v)
		}

		git := gitRepository(t, history)
		r := kisttest.Mirror(t, t.TempDir(), history)
		for name := range history[len(history)-1].Files {
			want := strings.Fields(git("log", "--format=%s", "--follow", "--", name))
			got := numbers(t, r, log.Options{Paths: []string{name}, Follow: true})
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s\n got %s\nwant %s", seed, name, got, want)
			}
		}
	}
}

func text(rnd *rand.Rand, lines int) string {
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%x\n", rnd.Uint64())
	}
	return b.String()
}
