package work

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/stage"
)

const bisectExample = `  kist bisect start main v1.0       main has the mistake, v1.0 has not
  kist bisect run make test         test commits until the first bad one is found
  kist bisect reset                 go back to the branch`

func NewBisect(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bisect COMMAND",
		Short: "find the commit that brought a change",
		Long: `Finds the first commit with a mistake by few tests. 'kist bisect start' takes a
bad commit, which has the mistake, and good ones without it. kist checks out a
commit in the middle. Test it, and run 'kist bisect good' or 'kist bisect bad'.
Each answer halves the commits that are left. 'kist bisect run' does this
with a program.

'kist status' shows that a bisect is under way. 'kist bisect reset' ends it.`,
		Example: bisectExample,
	}
	cmd.AddCommand(
		newBisectMark(env, bisectMark{"bad", "new", "[REV]", "mark a commit as bad", "One REV, by default HEAD, is bad."}),
		newBisectMark(env, bisectMark{"good", "old", "[REV]...", "mark commits as good", "The REVs, by default HEAD, are good."}),
		newBisectLog(env),
		newBisectReset(env),
		newBisectRun(env),
		newBisectSkip(env),
		newBisectStart(env),
	)
	return cmd
}

// bisects makes cmd a step of a bisect.
func bisects(env *cli.Env, cmd *cobra.Command, step func(ctx context.Context, r *kist.Repository, args []string, p kist.Progress) (bisect.Outcome, error)) {
	env.Prints(cmd, "", bisectJSON{})
	env.InRepository(cmd, cli.NotBare(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		out, err := bisectStep(ctx, env, r, func(p kist.Progress) (bisect.Outcome, error) { return step(ctx, r, args, p) })
		if err == nil && len(out.Possible) > 0 {
			err = cli.Quiet(cli.ExitFailed)
		}
		return blocked(err)
	}), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	cli.RegisterSetID(env, cmd)
}

func newBisectStart(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start [BAD [GOOD...]] [-- PATH...]",
		Short: "begin, with a bad commit and good ones",
		Long: `Begins a bisect and checks out the commit to test first. Without BAD or GOOD, it
waits for 'kist bisect bad' or 'kist bisect good'. With PATHs, only commits that
changed them are tested. A bisect that is under way ends.

`,
		Example: `  kist bisect start HEAD v1.0
  kist bisect start HEAD v1.0 -- src      only commits that changed src`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions),
	}
	bisects(env, cmd, func(ctx context.Context, r *kist.Repository, args []string, p kist.Progress) (bisect.Outcome, error) {
		revs, specs, err := input.RevsAndPaths(ctx, env, r, args)
		if err != nil {
			return bisect.Outcome{}, err
		}
		if !specs.IsPlain() {
			return bisect.Outcome{}, cli.Usagef("bisect takes paths, not patterns")
		}
		o := bisect.StartOptions{Paths: specs.Paths(), Progress: p}
		if len(revs) > 0 {
			o.Bad, o.Good = revs[0], revs[1:]
		}
		return bisect.Start(ctx, r, o)
	})
	return cmd
}

// bisectMark describes the command bisect bad or bisect good.
type bisectMark struct{ term, alias, args, short, long string }

func newBisectMark(env *cli.Env, m bisectMark) *cobra.Command {
	cmd := &cobra.Command{
		Use:     m.term + " " + m.args,
		Aliases: []string{m.alias},
		Short:   m.short,
		Long: m.long + `
Then kist checks out the next commit to test, or shows the first bad commit.
'new' and 'old' are other words for bad and good, for a change that is no
mistake.

`,
		Example:           "  kist bisect " + m.term + "\n  kist bisect " + m.term + " HEAD~4",
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	if !strings.HasSuffix(m.args, "...") {
		cmd.Args = cli.Arguments(0, 1)
	}
	bisects(env, cmd, func(ctx context.Context, r *kist.Repository, args []string, p kist.Progress) (bisect.Outcome, error) {
		return bisect.Mark(ctx, r, cmd.CalledAs(), args, p)
	})
	return cmd
}

func newBisectSkip(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skip [REV | A..B]...",
		Short: "skip commits that cannot be tested",
		Long: `The REVs, by default HEAD, cannot be tested. Then kist checks out another commit
near them. If only such commits are left, it lists the possible first bad
commits, and the exit status is 1. Commits with expired content are skipped by
themselves.

`,
		Example: `  kist bisect skip
  kist bisect skip v1.1..v1.2`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	bisects(env, cmd, func(ctx context.Context, r *kist.Repository, args []string, p kist.Progress) (bisect.Outcome, error) {
		return bisect.Skip(ctx, r, args, p)
	})
	return cmd
}

func newBisectReset(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset [REV]",
		Short: "end the bisect and go back",
		Long: `Ends the bisect, and switches to REV, by default the branch or commit from which
it was started. Without a bisect under way, it does nothing.`,
		Example: `  kist bisect reset
  kist bisect reset HEAD         stay at the current commit`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "", CheckoutJSON{})
	env.InRepository(cmd, cli.NotBare(runBisectReset), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	cli.RegisterSetID(env, cmd)
	return cmd
}

func runBisectReset(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	rev := ""
	if len(args) > 0 {
		rev = input.Previous(args[0])
	}
	old, err := r.Refs().Head()
	if err != nil {
		return err
	}
	p := env.Progress("checking out")
	err = bisect.Reset(ctx, r, rev, p.Amounts())
	p.Stop()
	if errors.Is(err, bisect.ErrNone) {
		env.PrintOutcome("We are not bisecting.\n")
		err = nil
	}
	if err != nil {
		return cli.HalfDone(env.Unwritten(r, blocked(err)))
	}
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	env.JSON(NewCheckoutJSON(head))
	if head != old {
		checkoutOptions{}.printNewHead(ctx, env, r, old, head)
	}
	return nil
}

func newBisectLog(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "show the answers so far",
		Long:    `Prints the commands of the bisect under way. Lines with # are remarks.`,
		Example: `  kist bisect log`,
		Args:    cli.NoArguments,
	}
	env.Prints(cmd, "", bisectStateJSON{})
	env.InRepository(cmd, runBisectLog)
	return cmd
}

// bisectStateJSON is a bisect as bisect log prints it with --json.
type bisectStateJSON struct {
	Start string      `json:"start" doc:"the branch or commit where it was started"`
	Bad   *object.ID  `json:"bad" doc:"the bad commit; null: none is known yet"`
	Good  []object.ID `json:"good" doc:"the good commits"`
	Skip  []object.ID `json:"skip,omitempty" doc:"the skipped commits"`
	Paths []string    `json:"paths,omitempty" doc:"the paths that it is limited to"`
	Log   string      `json:"log" doc:"the commands so far"`
}

func runBisectLog(_ context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
	s, err := bisect.Current(r)
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(bisectStateJSON{s.Start, cli.OrNull(s.Bad), s.Good, s.Skip, s.Paths, s.Log})
		return nil
	}
	env.Printf("%s", cli.Printable(s.Log))
	return nil
}

// bisectJSON is the outcome of a step with --json.
type bisectJSON struct {
	Status    string      `json:"status" doc:"the state of the search" values:"waiting|testing|found|skipped"`
	ID        object.ID   `json:"id,omitzero" doc:"the commit to test, or the first bad one"`
	Left      *int        `json:"left,omitempty" doc:"the number of commits that are left to test"`
	Steps     *int        `json:"steps,omitempty" doc:"the number of tests that are left, roughly"`
	MergeBase bool        `json:"merge_base,omitempty" doc:"true if the commit is a merge base that must be tested first"`
	Possible  []object.ID `json:"possible,omitempty" doc:"the commits that can be the first bad one, if the others were skipped"`
}

// bisectStep does a step of a bisect and prints its outcome.
func bisectStep(ctx context.Context, e *cli.Env, r *kist.Repository, step func(kist.Progress) (bisect.Outcome, error)) (bisect.Outcome, error) {
	p := e.Progress("checking out")
	out, err := step(p.Amounts())
	p.Stop()
	if err != nil && !stage.IsPartial(err) {
		return out, cli.HalfDone(err)
	}
	if e.Global.JSON {
		v := bisectJSON{Status: "waiting", MergeBase: out.MergeBase, Possible: out.Possible}
		switch {
		case !out.Next.IsZero():
			v.Status, v.ID = "testing", out.Next
			if !out.MergeBase {
				v.Left, v.Steps = &out.Left, &out.Steps
			}
		case !out.Found.IsZero():
			v.Status, v.ID = "found", out.Found
		case len(out.Possible) > 0:
			v.Status = "skipped"
		}
		e.JSON(v)
		return out, e.Unwritten(r, err)
	}

	switch {
	case out.Waiting != "":
		e.PrintOutcome("status: waiting for %s\n", out.Waiting)
	case out.MergeBase:
		e.PrintOutcome("Bisecting: a merge base must be tested\n")
	case !out.Next.IsZero():
		e.PrintOutcome("Bisecting: %s left to test after this (roughly %s)\n",
			readable.Plural(uint64(out.Left), "revision", "revisions"), readable.Plural(uint64(out.Steps), "step", "steps"))
	case len(out.Possible) > 0:
		e.Printf("There are only 'skip'ped commits left to test.\nThe first bad commit could be any of:\n")
		for _, id := range out.Possible {
			e.Printf("%s\n", id)
		}
		e.Printf("We cannot bisect more!\n")
	default:
		if err := showFirstBad(ctx, e, r, out.Found); err != nil {
			return out, err
		}
	}
	if !out.Next.IsZero() {
		e.PrintOutcome("[%s] %s\n", out.Next, cli.Printable(bisect.Subject(ctx, r, out.Next)))
	}
	return out, e.Unwritten(r, err)
}

// showFirstBad prints the first bad commit with the files that it changed.
func showFirstBad(ctx context.Context, e *cli.Env, r *kist.Repository, id object.ID) error {
	s, err := bisect.Current(r)
	if err != nil {
		return err
	}
	e.Printf("%s is the first %s commit\n", id, s.Terms.Bad)
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return err
	}
	p, err := show.NewCommitPrinter(ctx, e, r, &show.ChangeForm{Stat: true}, &show.CommitForm{Decorate: "no"})
	if err != nil {
		return err
	}
	p.Show = true
	_, err = p.Print(ctx, log.One(p.Records, id, c))
	return err
}

func newBisectRun(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run PROGRAM [ARG...]",
		Short: "test commits with a program",
		Long: `Runs PROGRAM in the root of the worktree for each commit to test, until the
first bad commit is found. The exit status of PROGRAM is the answer: 0 means
good, 125 skip, and others below 128 mean bad. 128 or more, or a signal, stops
the bisect. If the first run ends with 126 or 127, kist also runs PROGRAM at a
good commit. If that has the same status, PROGRAM itself cannot be run.

A line is printed for each step. The output of PROGRAM goes to stderr.`,
		Example: `  kist bisect run make test
  kist bisect run sh -c '! grep -q mistake notes.txt'`,
		Args: cli.Arguments(1, -1, "PROGRAM"),
	}
	env.Prints(cmd, "for each step", bisectJSON{})
	env.InRepository(cmd, cli.NotBare(runBisect), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func runBisect(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = cli.ShellWord(arg)
	}
	out, err := bisect.Run(ctx, r, bisect.RunOptions{
		Test: func(ctx context.Context) (int, error) {
			env.PrintOutcome("running %s\n", cli.Printable(strings.Join(words, " ")))
			return runInside(ctx, env, r, args)
		},
		Step: func(answer func(kist.Progress) (bisect.Outcome, error)) (bisect.Outcome, error) {
			return bisectStep(ctx, env, r, answer)
		},
	})
	var failed *bisect.TestError
	switch {
	case errors.Is(err, bisect.ErrNoMarks):
		return cli.Hintf(cli.Failf(cli.ExitFailed, "in-progress", "%w", err), "'kist bisect bad' and 'kist bisect good' name them")
	case errors.As(err, &failed) && failed.AtGood:
		return cli.Failf(cli.ExitFailed, "program", "%s ends with status %d at a good commit, too", cli.QuoteArg(args[0]), failed.Status)
	case errors.As(err, &failed):
		return cli.Failf(cli.ExitFailed, "program", "%s ended with status %d, so the bisect stops; 'kist bisect run' continues it", cli.QuoteArg(args[0]), failed.Status)
	case err != nil:
		return err
	case len(out.Possible) > 0:
		return cli.Quiet(cli.ExitFailed)
	}
	s, err := bisect.Current(r)
	if err == nil {
		env.PrintOutcome("bisect found first %s commit\n", s.Terms.Bad)
	}
	return err
}

// runInside runs a program at the top of the worktree, and returns its exit status, as a shell
// does.
func runInside(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (int, error) {
	p := cli.NewProgram(ctx, env, args[0], args[1:]...)
	p.Dir, p.Stdin, p.Stdout, p.Stderr = r.Root(), env.Stdin, env.Stdout, env.Stderr
	if env.Global.JSON {
		p.Stdout = env.Stderr
	}
	err := p.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit):
		if state, ok := exit.Sys().(syscall.WaitStatus); ok && state.Signaled() {
			return 128 + int(state.Signal()), nil
		}
		return exit.ExitCode(), nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		env.Warn("%v", err)
		return 127, nil
	case err != nil:
		env.Warn("%v", err)
		return 126, nil
	}
	return 0, nil
}
