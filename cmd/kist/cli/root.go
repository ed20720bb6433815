// Package cli is the frame of the command line: the process as commands see it, options, output,
// errors, help, and the opening of a repository. The commands are in cmd/kist/commands.
//
// Commands use the process only through an [Env]. They print results with its PrintOutcome, Printf
// and JSON, and messages with its Info and Warn. They return errors. Only causes.go turns
// an error into a message and an exit status.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
)

// Run runs kist with args, which do not include the name of the program. It reports all
// errors, and returns the exit status.
func Run(ctx context.Context, env *Env, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	own := *env
	own.stdout, own.stderr = env.Stdout, env.Stderr
	own.pager = pager{stop: stop}
	own.Secrets = &secrets{}
	own.Secrets.learnPasswords(args...)
	for _, name := range []string{"KIST_MONGODB_PASSWORD", "KIST_HTTP_PASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		own.Secrets.Add(env.Getenv(name))
	}

	own.screen = newScreen(own.Secrets.hidingWriter(env.Stderr), env.Terminal)
	own.Stderr = own.screen
	out := newResults(own.screen.guardStream(env.Stdout), env.Terminal.Stdout)
	own.Stdout = out

	args = own.Completion.requestArgs(args)
	endProfile := startProfile(&own)
	ctx, endLog := startLog(ctx, &own, args)
	status := runArguments(ctx, &own, out, args)
	endLog(status)
	endProfile()
	return status
}

// runArguments runs the command in args, reports all errors, and returns the exit status. Results go
// through out.
func runArguments(ctx context.Context, own *Env, out *Results, args []string) int {
	own.User, own.UserErr = loadUserConfig(own)
	line := readLine(own, args)
	root := NewRoot(own, line.commandName())
	args, err := expandAliases(own, root, line)
	own.color = own.User.Get(kist.KeyColor)
	if err == nil {
		err = execute(ctx, own, root, args)
	}

	own.screen.clearLine()
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	if err == nil {
		return closePager(own, ExitOK)
	}

	if o := OutcomeOf(err); ctx.Err() != nil && !(o.quiet && o.Exit == ExitInterrupted) { // else the command reported it
		err = ctx.Err()
	}
	err = own.nearName(err)
	own.log.Note("failed", "error", err)
	own.Global.JSON = own.Global.JSON || asksForJSON(args)
	status := own.Report(err)
	if out.Flush() != nil && status == ExitOK {
		status = ExitFailed
	}
	return closePager(own, status)
}

// execute runs the command in args.
func execute(ctx context.Context, env *Env, root *cobra.Command, args []string) error {
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for the arguments of the process
	// In 'kist -C DIR grep' and with switch, -C is kist's; after grep, it is grep's own.
	if cmd, _, err := root.Find(args); err == nil && cmd.Flags().Lookup("directory") != root.PersistentFlags().Lookup("directory") {
		root.TraverseChildren = true
	}
	started := false
	EachCommand(root, func(cmd *cobra.Command) {
		beforeRun(cmd, func() { env.Cmd, started = cmd, true })
	})
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = usageError(cmd, err)
	}
	return err
}

// New returns the kist command with all its subcommands. They run in env.
func New(env *Env) *cobra.Command { return NewRoot(env, "") }

// NewRoot returns the kist command with the subcommand of a name, or with all: see [addCommands].
func NewRoot(env *Env, name string) *cobra.Command {
	if env.declared == nil {
		env.declared = map[*cobra.Command][]JSONResult{}
	}
	root := &cobra.Command{
		Use:   "kist [OPTIONS] COMMAND",
		Short: "version control for folders of any files",
		Long: `kist is version control for folders of any files: git's commands, for content
of any size. kist cuts files into chunks, deduplicates and compresses them, and
checks each chunk against its hash when it reads it.

With --json, a command prints each result as an object on a line of its own. Its
help lists the fields. Those in brackets can be absent. A path that is not UTF-8
has U+FFFD in place of its invalid bytes, and then another field, as path_raw,
has the exact bytes as base64.

With --progress json, long commands print an object a second on standard error,
and one at the end of each step. Other lines there are warnings and errors.`,
		Example: `  kist init                  create a repository in the current folder
  kist add .                 stage all its files
  kist commit -m 'first'     record it
  kist help commit           read about a command`,
		Version:           VersionString(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		RunE:              missingCommand,
	}
	env.Prints(root, "in place of a result", errorJSON{})
	env.Prints(root, "WITH --progress json, each second and at the end of a step", progressEvent{})
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		page(env)
		if cmd.Flags().Changed(briefHelp) {
			writeBriefHelp(cmd.OutOrStdout(), env, cmd)
		} else {
			WriteHelp(cmd.OutOrStdout(), env, cmd)
		}
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error { WriteHelp(cmd.ErrOrStderr(), env, cmd); return nil })
	env.Global.register(root, env)
	registerSettings(root.Flags())
	for _, s := range ExitStatuses {
		MayExit(root, s.Status)
	}

	addCommands(root, env, name)
	EachCommand(root, finish)
	if env.Completion.asked {
		EachCommand(root, func(cmd *cobra.Command) { completeValues(env, cmd) })
	}
	return root
}

// EachCommand calls fn with cmd and every command below it.
func EachCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, sub := range cmd.Commands() {
		EachCommand(sub, fn)
	}
}

// finish sets the properties that all commands share.
func finish(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().SortFlags = false
	addHelpFlags(cmd)
	cmd.InitDefaultVersionFlag()
	for name, usage := range map[string]string{"version": "show the version of kist"} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			flag.Usage = usage
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = missingCommand
	}
}

// missingCommand reports that the name of a subcommand is missing or unknown.
func missingCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	if cmd.HasParent() {
		return Hintf(Usagef("%s needs a command", cmd.CommandPath()), "see '%s --help'", cmd.CommandPath())
	}
	_ = cmd.Usage() // it cannot fail
	return Quiet(ExitUsage)
}

// beforeRun makes cmd call note when it begins to run. An error before that is about the command
// line.
func beforeRun(cmd *cobra.Command, note func()) {
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		note()
		return run(cmd, args)
	}
}

// asksForJSON reports whether args have --json. They need not be valid.
func asksForJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// Section is a part of the list of commands in kist's help.
type Section struct {
	ID, Title string
	Commands  []ListedCommand
}

// ListedCommand is a command in the list, before it is built.
type ListedCommand struct {
	Name     string
	Build    func(*Env) *cobra.Command
	Pages    bool // it shows its results in a pager
	NeedsAll bool // it looks at the other commands
}

// addCommands adds commands to root, each in its section of the help. If name is that of a command
// which needs no other, it adds only this one: building all takes longer than many commands run.
// Otherwise it adds all.
func addCommands(root *cobra.Command, env *Env, name string) {
	all := env.Commands
	for _, s := range all {
		for _, e := range s.Commands {
			if e.Name == name && !e.NeedsAll {
				all = []Section{{s.ID, s.Title, []ListedCommand{e}}}
			}
		}
	}

	for _, s := range all {
		root.AddGroup(&cobra.Group{ID: s.ID, Title: s.Title})
		for _, e := range s.Commands {
			cmd := e.Build(env)
			if e.Pages {
				cmd = pages(env, cmd)
			}
			cmd.GroupID = s.ID
			if e.Name == "help" {
				root.SetHelpCommand(cmd)
			}
			root.AddCommand(cmd)
		}
	}
}
