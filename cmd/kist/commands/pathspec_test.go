package commands

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// TestPathspecsLikeGit compares the files that pathspecs select in kist and git, from the top
// folder and from two subfolders.
func TestPathspecsLikeGit(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	objecttest.NeedProgram(t, "git")
	env, _, stderr := testEnv(t)
	top := env.Dir
	files := []string{
		"a.mov", "A.MOV", "b.txt", "*.mov", ":(exclude)", ":!a", ":x", "-x", "sub/a.mov", "sub/b.txt", "sub/deep/a.mov", "sub/deep/c",
		"sub/*.mov", "sub/Sub/x", "doc[1]/a.mov", "doc[1]/b", "doc1/a.mov", "doc1/b", `back\slash`, "[ab]", "[", "ab", "a", "é.mov", "sp ace",
	}

	for _, file := range files {
		path := filepath.Join(top, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, line := range []string{"init", "add ."} {
		if status := cli.Run(t.Context(), env, strings.Fields(line)); status != cli.ExitOK {
			t.Fatal(line, stderr)
		}
	}

	git := func(dir string, args ...string) (string, error) {
		return objecttest.Git(dir, "", []string{"GIT_DIR=" + filepath.Join(top, ".git"), "GIT_WORK_TREE=" + top}, args...)
	}
	if _, err := git(top, "init", "-q", "."); err != nil {
		t.Fatal(err)
	}
	if _, err := git(top, "add", "--", ".", ":!.kist"); err != nil {
		t.Fatal(err)
	}

	for _, line := range []string{
		"*.mov", ":(literal)*.mov", ":(glob)*.mov", ":(glob)**/*.mov", ":(glob)sub/**", ":(glob)sub/*", ":(glob)**/deep/*", ":(icase)*.mov",
		":(icase)a.mov", ":(icase)SUB", ":(icase)sub/sub", ":(icase,glob)*.MOV", ":(glob,icase)SUB/*", "sub", "sub/", "s*", "su?", "su?/a.mov", "*/a.mov", "*/*.mov", "*/", "?.mov",
		"su?/deep", ".", ":/", ":/sub", ":(top)sub", ":(top)*.txt", ":/*.txt", "./*.mov", "./:(exclude)", "./:!a", ":(literal):!a", "./-x",
		"doc[1]", "doc[1]/*", "doc[1]/a.mov", "doc?1?", `doc\[1\]/*`, `back\slash`, `back\\slash`, "[ab]", "[", "[a", "[!a]", "[^a]*", "[[:alpha:]]*", `\[`, "**", "***", "a**", "**/a.mov", "é*", "?????",
		"sp ace", "sp*", "nosuch", "nos*", "sub/nos*", ":(icase)nosuch", "* :!*.mov", "sub :!sub/deep", "sub :^*.mov", ":!sub", ":^*.mov",
		":(exclude)*.mov", ":(exclude,icase)*.mov", ":(top,exclude)sub", ":/!sub", ":!/sub", "sub :(exclude,glob)sub/*", "sub :!sub", "a.mov :!nosuch", "*.mov b*",
		":()a.mov", ":(glob,literal)x", ":(nosuch)x", ":(top", "../sub", "../*.mov", "deep/*", "*c", ":(glob)../*.mov",
	} {
		specs := strings.Fields(line)
		if line == "sp ace" {
			specs = []string{line}
		}

		for _, dir := range []string{"", "sub", "doc[1]"} {
			if strings.Contains(line, "..") && dir == "" {
				continue
			}
			out, err := git(filepath.Join(top, dir), append([]string{"ls-files", "-z", "--full-name", "--"}, specs...)...)
			want := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
			if out == "" || err != nil {
				want = nil
			}
			slices.SortFunc(want, tree.ComparePaths)
			got, err := selected(t, env, filepath.Join(top, dir), specs)
			if err != nil && !errors.Is(err, kist.ErrNoMatch) && want != nil {
				t.Errorf("%q in %q: %v", specs, dir, err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q in %q:\n got %q\nwant %q", specs, dir, got, want)
			}
		}
	}
}

// selected returns the files in the index that pathspecs select.
func selected(t *testing.T, env *cli.Env, dir string, args []string) ([]string, error) {
	t.Helper()
	in := *env
	in.Dir = dir
	r, err := in.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list, err := input.Pathspecs(&in, r, args, false)
	if err != nil {
		return nil, err
	}
	if err := pathspec.CheckMatches(t.Context(), r, list, pathspec.Places{Index: true}); err != nil {
		return nil, err
	}
	paths, err := pathspec.Find(t.Context(), r, list, pathspec.Places{Index: true})
	if err != nil {
		return nil, err
	}
	var got []string
	err = pathspec.Places{Index: true}.Each(t.Context(), r, nil, func(path string) {
		below := slices.ContainsFunc(paths, func(p string) bool { return tree.Below(path, p) })
		if below != list.Selects(path) {
			t.Errorf("%q: %q is found: %t, but selected: %t", args, path, below, list.Selects(path))
		}
		if below {
			got = append(got, path)
		}
	})

	slices.SortFunc(got, tree.ComparePaths)
	return got, err
}
