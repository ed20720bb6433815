package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

type backupOptions struct {
	messageOptions
	policy retain.Policy
	remote string
	host   string // recorded in the commit; empty: this machine
	labels []string
	selection
	reports
	wait       bool
	dryRun     bool
	check      float64 // share of the stored data to read back
	localLimit uint64  // bytes; 0: none
	maxDeleted float64 // share of the files of a root; 0: the default
	emptyRoots bool    // the command line permits paths without files

	flags *pflag.FlagSet
}

func newBackup(env *Env) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup [OPTIONS] [PATH... | --stdin-from-command NAME -- CMD...]",
		Short: "stage, commit, push and clean up in one run",
		Long: `Makes a backup, in these steps:

  add     stages all changes, or only those at the PATHs.
  commit  commits, if something changed.
  push    sends the current branch to the remote. If nothing is new for 20
          hours, it confirms the branch there, for 'kist check-age'.
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
'kist config --global --add safe.hooks DIR'. A failed ping is only a warning.

With --json, one object: exit; commit (the last one of the branch, null if there
is none), committed (whether it is new), branch, remote, remote_head; files
(new, changed and removed, also empty or changed folders; unmodified; skipped:
path and reason); not_stored (sockets and the like); bytes_read, bytes_new,
bytes_stored, bytes_sent; start, seconds; steps (name, outcome, seconds, error
if it failed). The outcome is "done", "nothing to do", "failed" or "not run".`,
		Example: `  kist backup
  kist -C /srv backup --keep-daily 7 --keep-monthly 12
  kist config backup.keep-daily 7
  kist backup --remote offsite photos`,
		ValidArgsFunction: env.complete(worktreePaths),
	}
	env.inRepository(cmd, o.run, exitPartial, exitMoved, exitBusy)
	o.register(env, cmd)
	return cmd
}

func (o *backupOptions) register(env *Env, cmd *cobra.Command) {
	flags := cmd.Flags()
	o.flags = flags
	o.messageOptions.register(cmd)
	flags.StringVar(&o.host, "host", "", "record `NAME` as the host, instead of this machine's")
	flags.StringArrayVar(&o.labels, "label", nil, "add the label `NAME` to the commit; may be repeated")
	flags.StringVar(&o.remote, "remote", "", "push to the remote `NAME`")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be committed; store, send and run nothing")
	flags.BoolVar(&o.wait, "wait", false, "wait until another backup of this repository has ended")
	o.selection.register(cmd)
	env.repo.xattrs.register(flags, "record")
	flags.Var(newParsed(&o.check, "", kist.ParseShare), "check", "read back and check `N%` of the stored data")
	flags.Var(newParsed(&o.maxDeleted, "", kist.ParseShare), "max-deleted", "commit nothing if more than `N%` of the files below a path are gone (default 75%, from 100 files on)")
	flags.Var(newParsed(&o.localLimit, "", kist.ParseSize), "local-limit", "keep about `SIZE` here, and the rest only on the remote")
	o.reports.register(flags)
	registerPolicy(env, cmd, &o.policy)
	env.transfer.registerJobs(cmd)
	propose(env, cmd, "remote", env.complete(remotes))
}

// The outcomes of a step of a backup.
const (
	stepDone    = "done"
	stepNothing = "nothing to do"
	stepFailed  = "failed"
	stepNotRun  = "not run"
)

// backupSummary is what backup prints with --json.
type backupSummary struct {
	Exit       int                `json:"exit"`
	Commit     *object.ID         `json:"commit"` // null: the branch has none
	Committed  bool               `json:"committed"`
	Branch     *string            `json:"branch"` // null: HEAD is detached
	Remote     *string            `json:"remote"` // null: the backup stays here
	RemoteHead *object.ID         `json:"remote_head"`
	Files      backupFiles        `json:"files"`
	NotStored  []jsonform.Skipped `json:"not_stored"`
	work
	Sent    int64        `json:"bytes_sent"`
	Start   time.Time    `json:"start"`
	Seconds float64      `json:"seconds"`
	Steps   []backupStep `json:"steps"`
}

// backupFiles counts files, with symlinks and empty folders.
type backupFiles struct {
	New        int                `json:"new"`
	Changed    int                `json:"changed"`
	Unmodified int                `json:"unmodified"`
	Removed    int                `json:"removed"`
	Skipped    []jsonform.Skipped `json:"skipped"`
}

// backupStep is a step of a backup and its outcome.
type backupStep struct {
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Seconds float64  `json:"seconds"`
	Error   *outcome `json:"error,omitempty"`

	text string // details for people
}

// backup is a backup in progress.
type backup struct {
	backupOptions
	env     *Env
	repo    *kist.Repository
	summary backupSummary

	skipped []object.Skipped
	result  *stage.AddResult // nil: nothing was staged

	committed *commits.CommitResult
	commitErr error

	session  volume.SessionOptions
	ahead    *exchange.Ahead // sends chunks while files are read; nil: the push sends them
	endAhead func()          // ends the sending, unless a push has ended it
	unloaded []string        // volumes whose chunks are not evicted yet

	firstUnloaded string // name of the first volume that was unloaded
}

// run makes a backup and prints its summary. Only one backup of a repository runs at a
// time.
func (o *backupOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	o.emptyRoots = o.maxDeleted >= 1 // for this backup only, so no key permits it
	if err := o.configure(env, r); err != nil {
		return err
	}
	if err := checkNames(append([]string{cmp.Or(o.host, "-")}, o.labels...)...); err != nil {
		return err
	}
	if o.dryRun {
		b := &backup{backupOptions: *o, env: env, repo: r}
		return b.showChanges(ctx, args)
	}
	if o.namesPaths(r, args) {
		err := o.addPaths(ctx, env, r, args)
		if err != nil {
			return err
		}
		if r, err = env.open(); err != nil { // its worktree has the paths
			return err
		}
		defer r.Close()
		args, o.filesFrom, o.rawFrom = nil, nil, nil
	}

	wait := time.Duration(0)
	if o.wait {
		wait = math.MaxInt64
	}
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), "backup.lock"), disk.Exclusive, wait)
	if errors.Is(err, disk.ErrBusy) {
		return hintf(err, "another backup is running; --wait waits for its end")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()

	b := &backup{backupOptions: *o, env: env, repo: r, endAhead: func() {}}
	defer func() { b.endAhead() }()
	b.all(ctx, args)
	b.print()
	if b.summary.Exit != exitOK {
		return quiet(b.summary.Exit)
	}
	return nil
}

// namesPaths reports whether args or lists have the first paths of a bare repository.
func (o *backupOptions) namesPaths(r *kist.Repository, args []string) bool {
	named := len(args)+len(o.filesFrom)+len(o.rawFrom) > 0
	return r.IsBare() && named && !o.streams() && len(r.Config().Values(kist.KeyBackupPaths)) == 0
}

// maxFirstPaths is the largest number of paths that the first backup adds to the configuration.
const maxFirstPaths = 1000

// addPaths adds existing paths, from args and the lists, to backup.paths.
func (o *backupOptions) addPaths(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	args, err := o.selection.args(env, args)
	if err != nil {
		return err
	}
	if len(args) > maxFirstPaths {
		return hintf(usagef("%d paths are too many for %s", len(args), kist.KeyBackupPaths),
			"'kist config --add %s DIR' adds a folder above them; then the list selects what to back up", kist.KeyBackupPaths)
	}

	var paths []string
	for _, arg := range args {
		arg = strings.TrimPrefix(arg, literalPath)
		path, err := filepath.Abs(env.path(arg))
		if err == nil {
			_, err = os.Lstat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return failf(exitFailed, "not-found", "path %s does not exist", quoteArg(arg))
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
		env.tell("added to %s: %s\n", kist.KeyBackupPaths, printable(path))
	}
	return nil
}

// showChanges shows the changes that a backup would commit.
func (b *backup) showChanges(ctx context.Context, args []string) error {
	if b.streams() {
		return usagef("--dry-run does not go together with --stdin and --stdin-from-command")
	}
	add, err := b.addOptions(ctx, args)
	if err != nil {
		return err
	}

	add.DryRun = true
	p := b.env.progress("comparing")
	add.Progress = p.amounts()
	result, err := stage.Add(ctx, b.repo, add)
	p.Stop()
	var many *stage.DeletedError
	if errors.As(err, &many) {
		return b.refusedDeletions(many)
	}
	if err != nil {
		return err
	}

	printAdded(b.env, b.repo, true, result)
	return addOutcome(b.env, b.repo, result, add.Paths)
}

// configure sets the options that the command line leaves out from the keys backup.*.
// It ignores keys that kist does not know: an option that reads any file of the machine
// must not come from the repository.
func (o *backupOptions) configure(env *Env, r *kist.Repository) error {
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
				return usagef("%s: %w", key.Name, err)
			}
		}
	}
	return nil
}

// paths returns the paths to back up, those of the configuration if args has none.
func (b *backup) paths(ctx context.Context, args []string) ([]string, error) {
	env := b.env
	switch {
	case len(args)+len(b.filesFrom)+len(b.rawFrom) > 0:
	case b.repo.IsBare():
		return nil, nil // also the paths that were configured before
	default:
		top := *env
		top.Dir = b.repo.Root()
		env, args = &top, b.repo.Config().Values(kist.KeyBackupPaths)
	}
	return b.selection.find(ctx, env, b.repo, args)
}

// all runs the steps and completes the summary.
func (b *backup) all(ctx context.Context, args []string) {
	s := &b.summary
	s.Start = b.env.Now()
	s.Files.Skipped, s.NotStored = []jsonform.Skipped{}, []jsonform.Skipped{}
	if b.hook(ctx, "before", b.before) {
		b.steps(ctx, args)
	}
	s.Seconds = b.since(s.Start)
	switch {
	case s.Exit == exitOK && ctx.Err() != nil: // between two steps
		s.Exit = exitInterrupted
	case s.Exit == exitOK && len(b.skipped) > 0:
		s.Exit = exitPartial
	}
	b.report(ctx)
}

// steps runs the steps of the backup itself.
func (b *backup) steps(ctx context.Context, args []string) {
	s := &b.summary
	staged := b.step(ctx, "add", true, func() (string, error) { return b.add(ctx, args) })
	if !staged {
		b.endAhead()
	}
	b.step(ctx, "commit", staged, func() (string, error) { return b.commit() })
	b.noteHead(ctx)
	remote := len(registry.All(b.repo)) > 0 || b.remote != ""
	pushed := remote && b.step(ctx, "push", true, func() (string, error) { return b.push(ctx) }) && s.Remote != nil
	if s.Sent == 0 { // no push counted the data that was sent ahead of it
		b.endAhead()
		s.Sent = b.ahead.Sent()
	}
	if !b.policy.IsEmpty() {
		b.step(ctx, "expire", true, func() (string, error) { return b.expire(ctx) })
	}
	if b.localLimit > 0 {
		b.step(ctx, "evict", pushed, func() (string, error) { return b.evict(ctx) })
	}
	if autoMaintains(b.env, b.repo) {
		b.step(ctx, "gc", true, func() (string, error) { return b.gc(ctx) })
		if remote {
			b.step(ctx, "remote gc", pushed, func() (string, error) { return b.remoteGC(ctx, *s.Remote) })
		}
	}
	switch {
	case b.check == 0:
	case remote:
		b.step(ctx, "check", pushed, func() (string, error) { return b.checkRemote(ctx, *s.Remote) })
	default:
		b.step(ctx, "check", true, func() (string, error) { return b.checkLocal(ctx) })
	}
}

// step runs a step if it is ready and the backup was not interrupted. It reports whether
// the step succeeded. The text that do returns describes the effect; it is empty if
// there was nothing to do.
func (b *backup) step(ctx context.Context, name string, ready bool, do func() (string, error)) bool {
	st := backupStep{Name: name, Outcome: stepNotRun}
	if ready && ctx.Err() == nil {
		begin := b.env.Now()
		text, err := do()
		st.text, st.Seconds = text, b.since(begin)
		switch {
		case errors.Is(err, errNotPermitted):
			st.text = err.Error()
		case err != nil:
			o := outcomeOf(err)
			o.Message, o.Hint = b.env.secrets.hide(o.Message), b.env.secrets.hide(o.Hint)
			st.Outcome, st.Error = stepFailed, &o
			if b.summary.Exit == exitOK {
				b.summary.Exit = o.Exit
			}
		case text == "":
			st.Outcome = stepNothing
		default:
			st.Outcome = stepDone
		}
	}
	b.summary.Steps = append(b.summary.Steps, st)
	return st.Outcome == stepDone || st.Outcome == stepNothing
}

// since returns the seconds from begin until now, at least 0.
func (b *backup) since(begin time.Time) float64 { return max(0, b.env.Now().Sub(begin).Seconds()) }

// commit reports the commit, which the session of add made.
func (b *backup) commit() (string, error) {
	if errors.Is(b.commitErr, commits.ErrNothingToCommit) {
		return "", nil
	}
	if b.commitErr != nil {
		return "", b.commitErr
	}
	b.summary.Committed = true
	text := b.committed.ID.Short()
	if b.committed.Branch != "" {
		text += " on " + b.committed.Branch
	}
	return text, nil
}

// noteHead notes the branch, its last commit, and the unmodified files in the summary,
// as far as they can be read.
func (b *backup) noteHead(ctx context.Context) {
	head, err := b.repo.Refs().Head()
	if err != nil || head.Unborn() {
		return
	}
	s := &b.summary
	s.Branch, s.Commit = orNull(head.Branch), &head.ID
	if c, err := object.ReadCommit(ctx, b.repo.Objects(), head.ID); err == nil && b.result != nil {
		s.Files.Unmodified = max(0, int(c.Files)-(s.Files.New+s.Files.Changed-b.result.Folders))
	}
}

// confirmAfter is the age from which a backup without changes confirms the branch on the
// remote, so that check-age counts it. A day less the longest delay of a nightly timer: each
// nightly backup confirms, but of hourly ones only one a day.
const confirmAfter = 20 * time.Hour

// push sends the current branch. A complete backup also confirms it.
func (b *backup) push(ctx context.Context) (string, error) {
	ref, name, err := pushTarget(ctx, b.env, b.repo, b.remote)
	if errors.Is(err, kist.ErrUnborn) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b.summary.Remote = &name
	p := b.env.progress("pushing")
	defer p.Stop()
	list, err := b.endIncomplete(ctx, []registry.PushRef{ref}, name)
	if err != nil {
		return "", err
	}
	push := exchange.PushOptions{Remote: name, Refs: list, Ahead: b.ahead, Jobs: b.env.transfer.jobs, Progress: p.transferred()}
	if b.summary.Exit == exitOK && len(b.skipped) == 0 {
		push.ConfirmAfter = confirmAfter
	}
	result, err := exchange.Push(ctx, b.repo, push)
	if result != nil && result.PushResult != nil {
		b.summary.Sent += result.Bytes
	}
	if err != nil {
		return "", pushFailed(b.repo, push, result, err)
	}
	p.Stop()
	printLost(ctx, b.env, b.repo, name, result.Lost)
	b.summary.RemoteHead = &ref.ID
	if err := locksFailed(result); err != nil {
		return "", err
	}
	if result.Objects == 0 && result.Records == 0 && result.Refs[0].Old == result.Refs[0].New {
		if result.Confirmed {
			return "up to date, confirmed for check-age", nil
		}
		return "", nil
	}
	return fmt.Sprintf("%s, %s to %s", plural(uint64(result.Objects), "object", "objects"), formatSize(uint64(result.Bytes)), printable(name)), nil
}

// expire applies the policy.
func (b *backup) expire(ctx context.Context) (string, error) {
	if err := b.policy.Check(); err != nil {
		return "", usagef("%w", err)
	}
	p := b.env.progress("looking at commits")
	defer p.Stop()
	var result *retain.ExpireResult
	err := gc.WithReserve(ctx, b.repo, func() (err error) {
		result, err = retain.Expire(ctx, b.repo, retain.ExpireOptions{Policy: b.policy})
		return err
	})
	if err != nil || len(result.Expired) == 0 {
		return "", err
	}
	return plural(uint64(len(result.Expired)), "commit", "commits") + ", kept " + formatCount(uint64(len(result.Kept))), nil
}

// print prints the summary. The failed steps and skipped files go to standard error.
func (b *backup) print() {
	env, s := b.env, &b.summary
	env.json(s)
	failed := ""
	for _, st := range s.Steps {
		text := st.text
		if text == "" || st.Outcome == stepFailed {
			text = st.Outcome
		}
		env.tell("%-9s %s\n", st.Name, text)
		if st.Error != nil {
			o := *st.Error
			o.Message = st.Name + ": " + strings.TrimPrefix(o.Message, st.Name+": ")
			sayOutcome(env, o)
			failed += ", " + st.Name + " failed"
		}
	}
	for _, line := range firstOf(s.NotStored, detailLines, "", func(left jsonform.Skipped) string {
		return env.shown(b.repo, left.Path) + ": " + left.Reason
	}) {
		env.warn("not stored: %s", line)
	}
	if slices.ContainsFunc(s.NotStored, func(left jsonform.Skipped) bool { return left.Reason == worktree.Nested.String() }) {
		env.info("hint: the .kist of another repository is in no backup but its own: 'kist -C FOLDER backup'")
	}
	if err := partialError(env, b.repo, b.skipped); err != nil {
		if slices.ContainsFunc(b.skipped, func(s object.Skipped) bool { return s.Reason == worktree.ErrEmptyRoot.Error() }) {
			err = hintf(err, "if its files were deleted on purpose, 'kist backup --max-deleted 100%%' commits that")
		}
		sayOutcome(env, outcomeOf(err))
	}

	took := (time.Duration(s.Seconds*1000) * time.Millisecond).Round(100 * time.Millisecond)
	how := "complete"
	switch {
	case failed != "":
		how = "incomplete" + failed
	case s.Exit == exitInterrupted:
		how = "incomplete, interrupted"
	case len(b.skipped) > 0:
		how += ", " + plural(uint64(len(b.skipped)), "path", "paths") + " skipped"
	}
	if n := len(s.NotStored); n > 0 {
		how += ", " + plural(uint64(n), "path", "paths") + " not stored"
	}
	env.tell("%s; %s unmodified; %s\n", how, plural(uint64(s.Files.Unmodified), "file", "files"), took)
}
