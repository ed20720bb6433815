package care

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type backupOptions struct {
	work.MessageOptions
	policy retain.Policy
	remote string
	host   string // recorded in the commit; empty: this machine
	labels []string
	input.Selection
	reports
	wait       bool
	dryRun     bool
	check      float64 // share of the stored data to read back
	copyTo     string  // the second remote; empty: none
	localLimit uint64  // bytes; 0: none
	maxDeleted float64 // share of the files of a root; 0: the default
	emptyRoots bool    // the command line permits paths without files

	flags *pflag.FlagSet
}

func NewBackup(env *cli.Env) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup [OPTIONS] [PATH... | --stdin-from-command NAME -- CMD...]",
		Short: "stage, commit, push and clean up in one run",
		Long: `Makes a backup, in these steps:

  add     stages all changes, or only those at the PATHs.
  commit  commits, if something changed.
  push    sends the current branch to the remote. If nothing is new for 20
          hours, it confirms the branch there, for 'kist check-age'.
  copy    with --copy-to: copies the branch from the remote to a second one, as
          'kist remote copy' does. If that fails, the backup is still made.
  evict   with --local-limit: removes content here that the remote has.
  expire  applies the policy of the --keep options, if there are any.
  gc      cleans up here, if that is due (see gc.auto in 'kist help config').
  remote gc
          cleans up the remote: every two weeks, and when marked files may be
          deleted. It is not run if the credentials do not permit it.
  check   with --check: reads back a share of the data on the remote, or of the
          local data if there is no remote. The next check goes on from there.

Without --remote, it pushes to the upstream of the branch, or to the only
remote. Without any remote, the backup stays in this repository. Expirations
reach the remote with the next push.

A step that fails undoes no earlier step. Later steps still run, unless they
need the failed one. So a backup while the network is down commits, and the next
one sends both.

With --stdin, the only file of the backup is standard input; with
--stdin-from-command, it is the output of a command, and the backup fails if the
command does. Both need a bare repository without backup.paths. The other files
in it stay as they are.

The keys backup.* of the configuration hold defaults: backup.paths the PATHs,
counted from the top of the worktree, and each other key the option of its name.
So 'kist -C /srv backup' is all that cron needs. The first backup of a bare
repository adds its PATHs, also those of --files-from, to backup.paths. Below
these paths, files with patterns count only with backup.ignore-files. With
--dry-run, the output is that of 'kist add --dry-run', also as JSON.

With --local-limit, a backup pushes and evicts while it stores. The history
stays here, and commands fetch the content that they read.

A backup has .git folders, too. The --exclude options also leave out files that
earlier backups have. Files that cannot be read, and PATHs that do not exist,
keep their last version: they are skipped and listed, and the exit status is 3.
The status is that of the failed step if one failed. A path or mounted disk that
goes away while the backup reads it counts as skipped, not as deleted. If most
files of a path are gone, nothing is committed (see --max-deleted). An empty
path that had files is skipped, except with --max-deleted 100%. If another
backup of this repository is running, the status is 14, except with --wait.

The commands of --before, --after, --on-success and --on-failure get the summary
as JSON on standard input. Keys of these options, of --metrics and of --ping can
be in your own configuration: 'kist config --global backup.ping URL'. Those of
the repository are used only if you trust it:
'kist config --global --add safe.hooks DIR'. A failed ping is only a warning.`,
		Example: `  kist backup
  kist -C /srv backup --keep-daily 7 --keep-monthly 12
  kist config backup.keep-daily 7
  kist backup --remote offsite photos`,
		ValidArgsFunction: env.Complete(cli.WorktreePaths),
	}
	env.Prints(cmd, "", backupSummary{})
	env.Prints(cmd, "with --dry-run", work.AddJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	o.register(env, cmd)
	return cmd
}

func (o *backupOptions) register(env *cli.Env, cmd *cobra.Command) {
	flags := cmd.Flags()
	o.flags = flags
	o.MessageOptions.Register(cmd)
	flags.StringVar(&o.host, "host", "", "record `NAME` as the host, instead of this machine's")
	flags.StringArrayVar(&o.labels, "label", nil, "add the label `NAME` to the commit; may be repeated")
	flags.StringVar(&o.remote, "remote", "", "push to the remote `NAME`")
	flags.StringVar(&o.copyTo, "copy-to", "", "copy the backup from the remote to the remote `NAME`, too")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be committed; store, send and run nothing")
	flags.BoolVar(&o.wait, "wait", false, "wait until another backup of this repository has ended")
	o.Selection.Register(cmd)
	env.Repo.Xattrs.Register(flags, "record")
	flags.Var(cli.NewParsed(&o.check, "", kist.ParseShare), "check", "read back and check `N%` of the stored data")
	flags.Var(cli.NewParsed(&o.maxDeleted, "", kist.ParseShare), "max-deleted", "commit nothing if more than `N%` of the files below a path are gone (default 75%, from 100 files on)")
	flags.Var(cli.NewParsed(&o.localLimit, "", kist.ParseSize), "local-limit", "keep about `SIZE` here, and the rest only on the remote")
	o.reports.register(flags)
	registerPolicy(env, cmd, &o.policy)
	env.Transfer.RegisterJobs(cmd)
	cli.Propose(env, cmd, "remote", env.Complete(share.Remotes))
}

// backupCommand is a run of the command backup.
type backupCommand struct {
	backupOptions
	env     *cli.Env
	repo    *kist.Repository
	summary backupSummary
	report  *backup.Report // nil: the command of --before failed
}

// run makes a backup and prints its summary. Only one backup of a repository runs at a
// time.
func (o *backupOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	o.emptyRoots = o.maxDeleted >= 1 // for this backup only, so no key permits it
	if err := o.configure(env, r); err != nil {
		return err
	}
	if err := cli.CheckNames(append([]string{cmp.Or(o.host, "-")}, o.labels...)...); err != nil {
		return err
	}
	if o.dryRun {
		b := &backupCommand{backupOptions: *o, env: env, repo: r}
		return b.showChanges(ctx, args)
	}
	if o.namesPaths(r, args) {
		err := o.addPaths(ctx, env, r, args)
		if err != nil {
			return err
		}
		if r, err = env.Open(); err != nil { // its worktree has the paths
			return err
		}
		defer r.Close()
		args, o.FilesFrom, o.RawFrom = nil, nil, nil
	}

	wait := time.Duration(0)
	if o.wait {
		wait = math.MaxInt64
	}
	lock, err := backup.Lock(ctx, r, wait)
	if errors.Is(err, disk.ErrBusy) {
		return cli.Hintf(err, "another backup is running; --wait waits for its end")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()

	b := &backupCommand{backupOptions: *o, env: env, repo: r}
	b.backUpAndSummarize(ctx, args)
	b.printSummary()
	if b.summary.Exit != cli.ExitOK {
		return cli.Quiet(b.summary.Exit)
	}
	return nil
}

// namesPaths reports whether args or lists have the first paths of a bare repository.
func (o *backupOptions) namesPaths(r *kist.Repository, args []string) bool {
	named := len(args)+len(o.FilesFrom)+len(o.RawFrom) > 0
	return r.IsBare() && named && !o.Streams() && len(r.Config().Values(kist.KeyBackupPaths)) == 0
}

// maxFirstPaths is the largest number of paths that the first backup adds to the configuration.
const maxFirstPaths = 1000

// addPaths adds existing paths, from args and the lists, to backup.paths.
func (o *backupOptions) addPaths(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	args, err := o.Selection.Args(env, args)
	if err != nil {
		return err
	}
	if len(args) > maxFirstPaths {
		return cli.Hintf(cli.Usagef("%d paths are too many for %s", len(args), kist.KeyBackupPaths),
			"'kist config --add %s DIR' adds a folder above them; then the list selects what to back up", kist.KeyBackupPaths)
	}

	var paths []string
	for _, arg := range args {
		arg = strings.TrimPrefix(arg, input.LiteralPath)
		path, err := filepath.Abs(env.Path(arg))
		if err == nil {
			_, err = os.Lstat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return cli.Failf(cli.ExitFailed, "not-found", "path %s does not exist", cli.QuoteArg(arg))
		}
		if err != nil {
			return err
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}

	for _, path := range paths {
		if err := r.AddConfig(ctx, kist.KeyBackupPaths, path); err != nil {
			return err
		}
		env.PrintOutcome("added to %s: %s\n", kist.KeyBackupPaths, cli.Printable(path))
	}
	return nil
}

// showChanges shows the changes that a backup would commit.
func (b *backupCommand) showChanges(ctx context.Context, args []string) error {
	if b.Streams() {
		return cli.Usagef("--dry-run does not go together with --stdin and --stdin-from-command")
	}
	o := backup.Options{}
	err := b.selectPaths(ctx, args, &o)
	if err != nil {
		return err
	}
	add, err := backup.AddOptions(ctx, b.repo, o.Add)
	if err != nil {
		return err
	}

	add.DryRun = true
	p := b.env.Progress("comparing")
	add.Progress = p.Amounts()
	result, err := stage.Add(ctx, b.repo, add)
	p.Stop()
	var many *stage.DeletedError
	if errors.As(err, &many) {
		return b.refusedDeletions(many)
	}
	if err != nil {
		return err
	}

	work.PrintAdded(b.env, b.repo, true, result)
	return work.AddOutcome(b.env, b.repo, result, add.Paths)
}

// configure sets the options that the command line leaves out from the keys backup.*.
// It ignores keys that kist does not know: an option that reads any file of the machine
// must not come from the repository.
func (o *backupOptions) configure(env *cli.Env, r *kist.Repository) error {
	for _, key := range kist.ConfigKeys() {
		name, ok := strings.CutPrefix(key.Name, kist.KeyBackup)
		flag := o.flags.Lookup(name)
		if !ok || flag == nil || flag.Changed {
			continue
		}
		values, source := r.Config().Lookup(key.Name)
		if key.Trusted && source == kist.FromRepository && len(values) > 0 {
			if err := checkTrust(env, r, key.Name); err != nil {
				return err
			}
		}
		for _, value := range values {
			if err := o.flags.Set(name, value); err != nil {
				return cli.Usagef("%s: %w", key.Name, err)
			}
		}
	}
	return nil
}

// chosenPaths returns the paths to back up, those of the configuration if args has none.
func (b *backupCommand) chosenPaths(ctx context.Context, args []string) ([]string, error) {
	env := b.env
	switch {
	case len(args)+len(b.FilesFrom)+len(b.RawFrom) > 0:
	case b.repo.IsBare():
		return nil, nil // also the paths that were configured before
	default:
		top := *env
		top.Dir = b.repo.Root()
		env, args = &top, b.repo.Config().Values(kist.KeyBackupPaths)
	}
	return b.Selection.Find(ctx, env, b.repo, args)
}

// backUpAndSummarize makes the backup and completes the summary.
func (b *backupCommand) backUpAndSummarize(ctx context.Context, args []string) {
	s := &b.summary
	s.Start = b.env.Now()
	s.Files.Skipped, s.NotStored = []jsonform.Skipped{}, []jsonform.Skipped{}
	if b.runHook(ctx, "before", b.before) {
		b.backUp(ctx, args)
	}
	s.Seconds = b.secondsSince(s.Start)
	switch {
	case s.Exit == cli.ExitOK && ctx.Err() != nil: // between two steps
		s.Exit = cli.ExitInterrupted
	case s.Exit == cli.ExitOK && len(s.Files.Skipped) > 0:
		s.Exit = cli.ExitPartial
	}
	b.reportEnd(ctx)
}

// backUp makes the backup itself, and adds its steps and effects to the summary.
func (b *backupCommand) backUp(ctx context.Context, args []string) {
	end := func() {}
	limit, copies := exchange.LocalLimit(b.repo)
	if b.localLimit > 0 {
		limit = int64(b.localLimit)
	}
	o := backup.Options{
		Copies: copies,
		Host:   b.host, Remote: b.remote, Jobs: b.env.Transfer.Jobs, Policy: b.policy, LocalLimit: limit,
		Maintain: cli.AutoMaintains(b.env, b.repo), Check: b.check, Progress: b.showProgress,
		Prepare: func(ctx context.Context, o *backup.Options) (err error) {
			end, err = b.prepareOptions(ctx, args, o)
			return err
		},
	}
	if remote, err := share.RemoteOrURL(b.env, b.repo, b.remote); err == nil && b.remote != "" {
		o.Remote = remote // else the push reports the error
	}
	if o.CopyTo = b.copyTo; b.copyTo != "" {
		if remote, err := share.RemoteOrURL(b.env, b.repo, b.copyTo); err == nil {
			o.CopyTo = remote // else the copy reports the error
		}
	}
	note := work.NoteUnrecorded(b.env, b.repo, false)
	b.report = backup.Run(ctx, b.repo, o)
	end()
	note()
	b.addReport(ctx)
}

// showProgress shows the progress of a step.
func (b *backupCommand) showProgress(step, remote string) (kist.Progress, func()) {
	title := map[string]string{
		backup.StepAdd: "adding", backup.StepPush: "pushing", backup.StepCopy: "copying", backup.StepExpire: "looking at commits", backup.StepGC: "collecting garbage",
		backup.StepRemoteGC: "collecting garbage of " + remote, backup.StepCheck: strings.TrimSpace("checking " + remote),
	}[step]
	p := b.env.Progress(title)
	return p.Amounts(), p.Stop
}

// prepareOptions sets the options that can be wrong, and begins to read the stream. The caller calls
// end after the backup.
func (b *backupCommand) prepareOptions(ctx context.Context, args []string, o *backup.Options) (end func(), err error) {
	end = func() {}
	if err := b.selectPaths(ctx, args, o); err != nil {
		return end, err
	}
	if o.Message, err = b.ReadMessage(b.env, work.ErrNoMessage); err != nil {
		return end, err
	}
	o.Message = cli.WithLabels(cmp.Or(o.Message, backup.Message(b.repo, b.host)), b.labels)
	if b.Streams() {
		o.CanBeEmpty = b.Command != ""
		var stop func()
		if o.Stream, stop, err = b.openStream(ctx, args); err == nil {
			end = stop
		}
	}
	return end, err
}

// selectPaths sets what to stage.
func (b *backupCommand) selectPaths(ctx context.Context, args []string, o *backup.Options) error {
	if b.Streams() {
		path, err := b.streamPath(args)
		o.Add.Paths = []string{path}
		return err
	}
	var err error
	if o.Add.Paths, err = b.chosenPaths(ctx, args); err != nil {
		return err
	}
	o.Add.MaxDeleted.Share, o.Add.MaxDeleted.EmptyRoots = b.maxDeleted, b.emptyRoots
	o.Add.Exclude, err = b.Selection.Options(b.env)
	return err
}
