package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// gitTableSetup is an sh script that makes the repository of TestGitTable. The command
// vcs in it is git or kist. The repository has these commits. Main follows origin/main
// and is one commit ahead:
//
//	first -- second -- third -- merge of side -- last    main
//	   \        \                 /
//	    \        `---- side one -'                       side
//	     `-- topic one -- topic two                      topic
//
// Second has the tag v1, third the annotated tag v2. Second renames old.txt to new.txt.
// The worktree has an untracked file, junk.tmp.
const gitTableSetup = `
mkdir remote proj && test $vcs = kist || git init -q --bare remote
cd proj && vcs init -q
commit() { day=$((day + 1)); export KIST_DATE=2026-03-0${day}T12:00:00Z; at=$KIST_DATE; at; vcs add . && vcs commit -q -m "$1"; }
at() { export GIT_AUTHOR_DATE=$at GIT_COMMITTER_DATE=$at; }
at=2026-03-01T12:00:00Z; at; export KIST_DATE=$at
mkdir dir && seq 1 20 >a.txt && seq 101 120 >dir/b.txt && seq 201 220 >old.txt && printf 'a\0b\n' >data.bin
commit first; at
vcs branch topic
sed -i 's/^5$/five/' a.txt && vcs mv old.txt new.txt
commit second; at
vcs tag v1
vcs checkout -q -b side && seq 301 310 >side.txt
commit 'side one'; at
vcs checkout -q main && sed -i 's/^110$/one hundred and ten/' dir/b.txt
commit third; at
vcs tag -a -m 'version two' v2
vcs merge -q -m 'merge of side' side
vcs checkout -q topic && sed -i 's/^15$/fifteen/' a.txt
commit 'topic one'; at
printf 'topic\n' >topic.txt
commit 'topic two'; at
vcs checkout -q main
vcs remote add origin ../remote && vcs push -q -u origin main topic 2>&1
printf 'last\n' >>new.txt
commit last; at
printf 'junk\n' >junk.tmp
`

// TestGitTable runs each row of the tables in docs/git.md: the first column in a git
// repository, the second in a kist repository with the same content, see gitTableSetup.
// Both must succeed. Without text in the third column they must also print the
// same. IDs count as equal if their commits have the same subject, "git" counts as
// "kist", and the number of spaces between words does not matter. A row without a
// command in the second column describes kist's way.
func TestGitTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/git.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	git, kist := s.twin("git"), s.twin("kist")
	for _, v := range []*twin{git, kist} {
		if out, err := v.sh("..", gitTableSetup); err != nil {
			t.Fatalf("%s: %v\n%s", v.vcs, err, out)
		}
		v.nameCommits()
	}

	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) != 5 || cells[1] == "---" || strings.TrimSpace(cells[1]) == "typed in git" {
			continue
		}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|")
		}
		rows++
		ours, isCommand := code(cells[2])
		theirs, ok := code(cells[1])
		if !ok || !isCommand && cells[2] == "" {
			t.Errorf("no command of git, or no text about kist: %s", line)
		}
		if !isCommand {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", rows, theirs), func(t *testing.T) {
			t.Parallel()
			want := git.in(t).succeeds(theirs)
			got := kist.in(t).succeeds(ours)
			if cells[3] == "" && got != want {
				t.Errorf("%s = %s\nwant the output of %s: %s", ours, got, theirs, want)
			}
		})
	}
	if rows < 25 {
		t.Errorf("docs/git.md has %d rows, want at least 25", rows)
	}
}

// code returns the command of a cell, if the cell is one.
func code(cell string) (command string, ok bool) {
	ok = len(cell) > 1 && strings.HasPrefix(cell, "`") && strings.HasSuffix(cell, "`")
	return strings.Trim(cell, "`"), ok
}

// twin is one of two repositories with the same content.
type twin struct {
	*shell
	vcs   string            // "git" or "kist"
	names map[string]string // commit ID to subject
}

// twin makes a folder for a repository, which gitTableSetup makes in the folder "proj" there.
func (s *shell) twin(vcs string) *twin {
	other := s.in(vcs + "/proj")
	if err := os.MkdirAll(filepath.Dir(other.dir), 0o777); err != nil {
		s.Fatal(err)
	}
	return &twin{shell: other, vcs: vcs, names: map[string]string{}}
}

// in returns a copy of the repository.
func (v *twin) in(t *testing.T) *twin {
	other := *v
	other.shell = &shell{TB: t, dir: tempDir(t), program: "kist"}
	if err := copyTree(filepath.Dir(v.dir), other.dir); err != nil {
		t.Fatal(err)
	}
	other.shell = other.shell.in("proj")
	if v.vcs == "kist" { // the URL of its remote is absolute
		config := filepath.Join(other.dir, ".kist/config")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte(filepath.Dir(v.dir)+"/"), []byte(filepath.Dir(other.dir)+"/"))
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &other
}

// sh runs a script in a folder. The folder is relative to the repository.
func (v *twin) sh(dir, script string) (output string, err error) {
	ctx, cancel := context.WithTimeout(v.Context(), commandTime)
	defer cancel()
	cmd := v.command(ctx)
	bin := v.TempDir()
	if err := os.Symlink(cmd.Path, filepath.Join(bin, "kist")); err != nil {
		v.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(v.dir, "../.home"), 0o777); err != nil {
		v.Fatal(err)
	}
	cmd.Path, cmd.Args, cmd.Dir = "/bin/sh", []string{"sh", "-c", "set -eu\nvcs() { $vcs \"$@\"; }\n" + script}, filepath.Join(v.dir, dir)
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+filepath.Join(v.dir, "../.home"), "vcs="+v.vcs, "day=0",
		"GIT_AUTHOR_NAME=Anna Chest", "GIT_AUTHOR_EMAIL=anna@chest.example", "GIT_COMMITTER_NAME=Anna Chest", "GIT_COMMITTER_EMAIL=anna@chest.example",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_EDITOR=true", "KIST_EDITOR=true")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s%s", err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// nameCommits fills v.names from the log.
func (v *twin) nameCommits() {
	command := "git log --all --format='{\"id\":\"%H\",\"message\":\"%s\"}'"
	if v.vcs == "kist" {
		command = "kist log --all --json"
	}
	out, err := v.sh(".", command)
	if err != nil {
		v.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var c struct{ ID, Message string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			v.Fatal(err)
		}
		v.names[c.ID] = strings.TrimSpace(c.Message)
	}
	if len(v.names) != 8 {
		v.Fatalf("%s: the log has %d commits, want 8", v.vcs, len(v.names))
	}
}

var (
	hexWord = regexp.MustCompile(`\bg?[0-9a-f]{7,64}\b`) // describe prints a "g" before an ID
	blanks  = regexp.MustCompile(` +`)
)

// succeeds runs a command in the repository and returns its output, in the form that
// TestGitTable compares.
func (v *twin) succeeds(command string) string {
	v.Helper()
	out, err := v.sh(".", command)
	if err != nil {
		v.Fatalf("%s: %v", command, err)
	}
	out = strings.ReplaceAll(out, v.dir, "<proj>")
	out = hexWord.ReplaceAllStringFunc(out, func(word string) string {
		for id, subject := range v.names {
			if strings.HasPrefix(id, strings.TrimPrefix(word, "g")) {
				return "<" + subject + ">"
			}
		}
		return "<id>"
	})
	return blanks.ReplaceAllString(strings.ReplaceAll(out, "git", "kist"), " ")
}
