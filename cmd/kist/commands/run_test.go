package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/about"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func TestRunWrongCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"frob":                "error: unknown command \"frob\" for kist\nhint: 'kist --help' lists the commands\n",
		"frob --no-such -x":   "error: unknown command \"frob\" for kist\n",
		"versoin":             "hint: did you mean 'version'?\n",
		"--no-such":           "error: unknown flag: --no-such\nhint: see 'kist --help'\n",
		"version --no-such":   "hint: see 'kist version --help'\n",
		"version -x":          "error: unknown shorthand flag: 'x' in -x\n",
		"version x":           "error: one argument too many: \"x\"\n",
		"completion":          "error: the name of a shell (bash, zsh or fish) is missing\n",
		"completion csh":      "error: no completion for \"csh\": bash, zsh and fish are known\n",
		"version --color red": "must be one of auto, always, never\n",
		"-C no-such version":  "no-such",
		"help frob":           "error: unknown command \"frob\" for kist\n",
		"":                    "usage: kist [OPTIONS] COMMAND\n",
	} {
		t.Run(args, func(t *testing.T) {
			env, stdout, stderr := testEnv(t)
			status := cli.Run(t.Context(), env, strings.Fields(args))
			if status != cli.ExitUsage {
				t.Errorf("exit status %d, want %d", status, cli.ExitUsage)
			}
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("stderr is\n%s\nwhich lacks\n%s", stderr, want)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout is not empty: %s", stdout)
			}
		})
	}
}

func TestRunJSONError(t *testing.T) {
	for _, args := range []string{"version --json x", "--no-such --json", "frob --json"} {
		env, stdout, stderr := testEnv(t)
		status := cli.Run(t.Context(), env, strings.Fields(args))
		var got struct{ Error cli.Outcome }
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatalf("kist %s: %v in %q", args, err, stdout)
		}
		if status != cli.ExitUsage || got.Error.Exit != status || got.Error.Kind != "usage" {
			t.Errorf("kist %s: exit status %d, reported %+v", args, status, got.Error)
		}
		if !strings.Contains(stderr.String(), "error: "+got.Error.Message) {
			t.Errorf("kist %s: stderr %q lacks the message %q", args, stderr, got.Error.Message)
		}
	}
	env, stdout, _ := testEnv(t)
	cli.Run(t.Context(), env, []string{"frob", "--", "--json"})
	if stdout.Len() > 0 {
		t.Errorf("--json after -- took effect: stdout is %s", stdout)
	}
}

func TestRunWriteError(t *testing.T) {
	env, _, stderr := testEnv(t)
	env.Stdout = failingWriter{}
	if status := cli.Run(t.Context(), env, []string{"version"}); status != cli.ExitFailed {
		t.Errorf("exit status %d after a failed write of the results, want %d", status, cli.ExitFailed)
	}
	if !strings.Contains(stderr.String(), "error: write the results: no space left on device\n") {
		t.Errorf("stderr lacks the write error: %s", stderr)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutcome(t *testing.T) {
	corrupt := &object.CorruptError{Key: object.Key{Kind: object.KindChunk}, Err: errors.New("checksum")}
	for _, test := range []struct {
		err  error
		exit int
		kind string
		hint string
	}{
		{errors.New("any"), cli.ExitFailed, "failed", ""},
		{cli.Usagef("bad"), cli.ExitUsage, "usage", ""},
		{fmt.Errorf("here: %w", kist.ErrNoRepository), cli.ExitNoRepository, "no-repository", "kist init"},
		{kist.ErrUnsupportedFormat, cli.ExitFormat, "format", "newer kist"},
		{&stage.LocalChangesError{}, cli.ExitFailed, "local-changes", "--force"},
		{commits.ErrNotFastForward, cli.ExitMoved, "not-fast-forward", ""},
		{&refs.MovedError{Name: "refs/heads/main"}, cli.ExitMoved, "moved", "again"},
		{&refs.UnknownRevisionError{Rev: "x"}, cli.ExitFailed, "unknown-revision", "kist branch"},
		{&refs.AmbiguousError{Rev: "3fa9"}, cli.ExitFailed, "ambiguous-revision", "more digits"},
		{refs.Damaged("HEAD", errors.New("empty")), cli.ExitDamaged, "ref", "kist verify --repair"},
		{refs.Damaged("HEAD", &refs.NameError{}), cli.ExitDamaged, "ref", "kist verify --repair"},
		{refs.Damaged("logs/HEAD", errors.New("line 3")), cli.ExitDamaged, "reflog", "lines"},
		{&disk.BusyError{}, cli.ExitBusy, "busy", "when that process has ended"},
		{&index.VersionError{}, cli.ExitFormat, "format", "newer kist"},
		{index.Damaged("index", errors.New("checksum")), cli.ExitDamaged, "index", "kist verify --repair"},
		{&object.FormatError{Kind: object.KindTree, Reason: object.ReasonNewerVersion}, cli.ExitFormat, "format", "newer kist"},
		{&object.FormatError{Kind: object.KindTree, Reason: object.ReasonBody}, cli.ExitDamaged, "damaged", "kist verify"},
		{context.Canceled, cli.ExitInterrupted, "interrupted", "kept"},
		{fmt.Errorf("read: %w", corrupt), cli.ExitDamaged, "damaged", "kist verify"},
		{fmt.Errorf("read: %w", &object.AbsentError{}), cli.ExitDamaged, "missing", "kist verify"},
		{&object.AbsentError{Reason: object.ErrLost, Key: object.Key{Kind: object.KindCommit}}, cli.ExitDamaged, "lost", "kist reflog"},
		{&object.AbsentError{Reason: object.ErrEvicted}, cli.ExitFailed, "evicted", "clone or fetch"},
		{&object.AbsentError{Reason: object.ErrPurged}, cli.ExitFailed, "purged", "kist purge --list"},
		{&object.AbsentError{Reason: object.ErrExpired}, cli.ExitFailed, "expired", "kist expire --undo 0000"},
		{&object.AbsentError{Reason: kist.ErrExpiredHead}, cli.ExitFailed, "expired", "HEAD is at this commit"},
		{&object.AbsentError{Reason: kist.ErrExpiredBase}, cli.ExitFailed, "expired", "--allow-unrelated-histories"},
		{&object.AbsentError{Reason: kist.ErrExpiredGone}, cli.ExitFailed, "expired", "another clone"},
		{fmt.Errorf("write: %w", syscall.ENOSPC), cli.ExitFailed, "disk-full", "free some space"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, cli.ExitFailed, "permission", "its owner"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, cli.ExitFailed, "not-found", ""},
		{cli.Hintf(corrupt, "first this"), cli.ExitDamaged, "damaged", "first this\n'kist verify'"},
		{cli.Hintf(cli.Hintf(cli.Usagef("bad"), "inner"), "outer"), cli.ExitUsage, "usage", "outer\ninner"},
		{fmt.Errorf("wrapped: %w", cli.Usagef("bad")), cli.ExitUsage, "usage", ""},
		{cli.Failf(cli.ExitMoved, "diverged", "no"), cli.ExitMoved, "diverged", ""},
		{cli.Quiet(cli.ExitPartial), cli.ExitPartial, "partial", ""},
	} {
		got := cli.OutcomeOf(test.err)
		if got.Exit != test.exit || got.Kind != test.kind || !strings.Contains(got.Hint, test.hint) || (test.hint == "") != (got.Hint == "") {
			t.Errorf("%v: got %+v, want exit %d, kind %s, hint %q", test.err, got, test.exit, test.kind, test.hint)
		}
	}
}

func TestReportListsPaths(t *testing.T) {
	local := &stage.LocalChangesError{}
	for i := range cli.DetailLines + 5 {
		local.Obstacles = append(local.Obstacles, stage.Obstacle{Path: fmt.Sprintf("file\n%d", i), Reason: "changed"})
	}
	got := cli.OutcomeOf(local).Message
	for _, want := range []string{"\n\"file\\n0\": changed\n", "\"file\\n19\": changed\nand 5 more"} {
		if !strings.Contains(got, want) {
			t.Errorf("the message lacks %q:\n%s", want, got)
		}
	}
}

func TestReportIsSafe(t *testing.T) {
	env, _, stderr := testEnv(t)
	env.Report(errors.New("open \x1b[2Jx\nhint: run this"))
	if got, want := stderr.String(), "error: open ␛[2Jx\n  hint: run this\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	env, _, stderr := testEnv(t)
	if status := cli.Run(ctx, env, []string{"docs", "."}); status != cli.ExitInterrupted {
		t.Errorf("exit status %d, want %d", status, cli.ExitInterrupted)
	}
	if !strings.HasPrefix(stderr.String(), "error: interrupted\n") {
		t.Errorf("stderr lacks the interruption: %s", stderr)
	}
}

func TestDirectoryOption(t *testing.T) {
	env, _, _ := testEnv(t)
	base := env.Dir
	mustMkdir(t, base, "a/b")
	if status := cli.Run(t.Context(), env, []string{"-C", "a", "-C", "b", "docs", "out"}); status != cli.ExitOK {
		t.Fatalf("exit status %d", status)
	}
	if len(about.DocFiles(base+"/a/b/out", about.ReferenceFiles)) == 0 {
		t.Error("nothing was written below a/b")
	}
	if env.Dir != base {
		t.Errorf("Run changed Dir of its environment to %s", env.Dir)
	}
}

func TestEveryCommandIsDescribed(t *testing.T) {
	env, _, _ := testEnv(t)
	cli.EachCommand(cli.New(env), func(cmd *cobra.Command) {
		name := cmd.CommandPath()
		switch {
		case cmd.Short == "" || cmd.Long == "" || cmd.Example == "":
			t.Errorf("%s lacks a short text, a long one or an example", name)
		case strings.ToLower(cmd.Short[:1]) != cmd.Short[:1] || strings.HasSuffix(cmd.Short, "."):
			t.Errorf("%s: the short text must be lower case, without a full stop: %q", name, cmd.Short)
		}
		for line := range strings.SplitSeq(strings.Trim(cmd.Example, "\n"), "\n") {
			if line != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: a line of the example is not indented by two spaces: %q", name, line)
			}
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len(line) > 80 || strings.Contains(line, "\t") {
				t.Errorf("%s: a line is wider than a terminal, or has a tab: %q", name, line)
			}
		}
		if cmd.RunE == nil || cmd.Run != nil {
			t.Errorf("%s does not run with RunE", name)
		}
	})
}
