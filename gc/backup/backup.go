// Package backup makes backups: it stages, commits and pushes the changes of a worktree in one
// session, and takes care of the repository and its remote.
package backup

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/mirror"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// The names of the steps, in their order.
const (
	StepAdd      = "add"
	StepCommit   = "commit"
	StepPush     = "push"
	StepCopy     = "copy"
	StepExpire   = "expire"
	StepEvict    = "evict"
	StepGC       = "gc"
	StepRemoteGC = "remote gc"
	StepCheck    = "check"
)

// The outcomes of a step.
const (
	Done    = "done"
	Nothing = "nothing to do"
	Failed  = "failed"
	NotRun  = "not run" // an earlier step failed that this one needs, or it is not permitted
)

// ErrEmptyStream is the error for a stream without content.
var ErrEmptyStream = errors.New("the stream is empty")

// Options are the options of [Run].
type Options struct {
	Add     stage.AddOptions // what to stage; see [AddOptions]
	Message string           // of the commit; default: [Message]
	Host    string           // recorded in the commit; default: that of the repository

	// Stream, if not nil, is the content of the only path in Add. The worktree is not
	// read. An error of it leaves the backup without a commit. CanBeEmpty permits a stream
	// without content.
	Stream     io.Reader
	CanBeEmpty bool

	// Prepare, if not nil, completes the options when the step add begins. Its error is the
	// error of that step.
	Prepare func(ctx context.Context, o *Options) error

	Remote     string        // its name or URL; default: that of the upstream, or the only one
	CopyTo     string        // the name or URL of a second remote that gets the branch from the first; empty: none
	Jobs       int           // uploads at once; 0: the default of package transfer
	Policy     retain.Policy // expire the commits that it does not keep; empty: none
	LocalLimit int64         // keep about so many bytes here, and the rest only on the remote; 0: no limit
	Copies     int           // the number of remotes that must keep the rest; 0: one
	Maintain   bool          // collect garbage, if that is due
	Check      float64       // the share of the stored data to read back, from 0 to 1

	// Progress, if not nil, is called when the long part of a step begins. It returns where
	// the step reports its progress, and a function that is called at the end of the part.
	Progress func(step, remote string) (progress kist.Progress, end func())
}

// Step is a step of a backup and its outcome.
type Step struct {
	Name    string
	Outcome string
	Took    time.Duration
	Err     error // if it failed, or was not permitted
}

// Report has the effects of a backup.
type Report struct {
	Steps []Step

	Staged     *stage.AddResult // nil: nothing was staged
	Stored     volume.Stats
	Skipped    []object.Skipped // files that the backup should have, but has not
	NotStored  []object.Skipped // files that no backup has, such as sockets
	Unmodified int              // number of files

	Head      refs.Head             // after the commit
	Committed *commits.CommitResult // nil: no new commit
	Remote    string                // nothing: the backup stays here
	Pushed    *exchange.PushResult  // nil: nothing was pushed
	RemoteID  object.ID             // the commit that the branch of the remote has; zero: not known
	Sent      int64                 // bytes

	Care
}

// Care has the effects of the steps that follow the push.
type Care struct {
	Copied    *mirror.Result       // to the second remote; nil: not copied
	Expired   *retain.ExpireResult // nil: no policy was applied
	Collected *collect.Stats       // of the remote; nil: not collected
	Checked   int64                // bytes that were read back
	Unread    collect.ArchiveStats // packs that the check would have read back

	Evicted   int64 // bytes that were moved to the remote
	Left      int64 // bytes that are left here, if some were moved
	Postponed bool  // nothing was moved, because another process maintains the repository
	EvictErr  error // why the backup began above the local limit; nil: it did not
}

// Err returns the error of the first step that failed, or nil.
func (r *Report) Err() error {
	at := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Outcome == Failed })
	if at < 0 {
		return nil
	}
	return r.Steps[at].Err
}

// Lock takes the lock of the backups of a repository. Only its holder calls [Run]. The error
// matches [disk.ErrBusy] if another backup still runs after wait.
func Lock(ctx context.Context, r *kist.Repository, wait time.Duration) (*disk.FileLock, error) {
	return disk.Lock(ctx, filepath.Join(r.Dir(), "backup.lock"), disk.Exclusive, wait)
}

// Message returns the default message of a commit. The host is that of the repository if it is
// empty.
func Message(r *kist.Repository, host string) string {
	return "backup of " + cmp.Or(host, r.Options().Host) + ", " + r.Options().Date().Format("2006-01-02 15:04")
}

// run is a backup in progress.
type run struct {
	Options
	repo *kist.Repository
	*Report

	commitErr error
	session   volume.SessionOptions
	ahead     *exchange.EarlyPush // sends chunks while files are read; nil: the push sends them
	endAhead  func()              // ends the sending, unless a push has ended it

	unloaded      []string // volumes whose chunks are not evicted yet
	firstUnloaded string   // name of the first volume that was unloaded
}

// Run makes a backup. It stages, commits and pushes; then it expires, evicts, collects garbage
// and checks, as the options say. A step that fails undoes no earlier one, and later steps still
// run, unless they need it. The caller holds [Lock]. The report is also that of a backup that
// ctx ended.
func Run(ctx context.Context, r *kist.Repository, o Options) *Report {
	b := &run{Options: o, repo: r, Report: &Report{}, endAhead: func() {}}
	defer func() { b.endAhead() }()

	staged := b.runStep(ctx, StepAdd, true, b.addAndCommit)
	if !staged {
		b.endAhead()
	}
	b.runStep(ctx, StepCommit, staged, b.reportCommit)
	b.noteHead(ctx)

	remote := len(registry.All(r)) > 0 || b.Options.Remote != ""
	pushed := remote && b.runStep(ctx, StepPush, true, b.pushBranch) && b.Report.Remote != ""
	if b.Sent == 0 { // no push counted the data that was sent ahead of it
		b.endAhead()
		b.Sent = b.ahead.Sent()
	}
	b.takeCare(ctx, remote, pushed)
	return b.Report
}

// takeCare runs the steps that follow the push. Remote means that there is a remote, and pushed
// that it has the backup.
func (b *run) takeCare(ctx context.Context, remote, pushed bool) {
	if b.CopyTo != "" {
		b.runStep(ctx, StepCopy, pushed, b.copyRemote)
	}
	if !b.Policy.IsEmpty() {
		b.runStep(ctx, StepExpire, true, b.expireCommits)
	}
	if b.LocalLimit > 0 {
		b.runStep(ctx, StepEvict, pushed, b.evictChunks)
	}
	if b.Maintain {
		b.runStep(ctx, StepGC, true, b.collectHere)
		if remote {
			b.runStep(ctx, StepRemoteGC, pushed, b.collectRemote)
		}
	}
	switch {
	case b.Check == 0:
	case remote:
		b.runStep(ctx, StepCheck, pushed, b.checkRemote)
	default:
		b.runStep(ctx, StepCheck, true, b.checkLocal)
	}
}

// runStep runs a step if it is ready and ctx has not ended. It reports whether the step succeeded.
// Do reports whether there was anything to do.
func (b *run) runStep(ctx context.Context, name string, ready bool, do func(context.Context) (did bool, err error)) bool {
	st := Step{Name: name, Outcome: NotRun}
	if ready && ctx.Err() == nil {
		begin := b.repo.Options().Now()
		did, err := do(ctx)
		st.Err, st.Took = err, max(0, b.repo.Options().Now().Sub(begin))
		switch {
		case errors.Is(err, ErrNotPermitted):
		case err != nil:
			st.Outcome = Failed
		case did:
			st.Outcome = Done
		default:
			st.Outcome = Nothing
		}
	}
	b.Steps = append(b.Steps, st)
	return st.Outcome == Done || st.Outcome == Nothing
}

// beginProgress begins the long part of a step.
func (b *run) beginProgress(step string) (progress kist.Progress, end func()) {
	if b.Progress == nil {
		return nil, func() {}
	}
	return b.Progress(step, b.Report.Remote)
}

// transferred returns the function that a transfer reports its progress to.
func transferred(progress kist.Progress) func(transfer.Progress) {
	if progress == nil {
		return nil
	}
	return func(at transfer.Progress) {
		progress(kist.Amount{Files: at.Objects, Bytes: at.Bytes}, kist.Amount{Files: at.TotalObjects, Bytes: at.TotalBytes})
	}
}

// addAndCommit stages the changes and commits them, in one session.
func (b *run) addAndCommit(ctx context.Context) (did bool, err error) {
	if err := operation.NoOperation(b.repo); err != nil {
		return false, err
	}
	if b.Prepare != nil {
		if err := b.Prepare(ctx, &b.Options); err != nil {
			return false, err
		}
	}
	if b.Message == "" {
		b.Message = Message(b.repo, b.Host)
	}
	add := b.Add
	if b.Stream == nil {
		if add, err = AddOptions(ctx, b.repo, add); err != nil {
			return false, err
		}
	}
	if err := b.limitSession(ctx); err != nil {
		return false, err
	}
	b.sendAhead(ctx)

	progress, end := b.beginProgress(StepAdd)
	defer end()
	add.Progress = progress
	if b.Stream != nil {
		if add.Stream, b.Stored, err = commits.StoreStream(ctx, b.repo, b.Stream, b.session, progress); err != nil {
			return false, cmp.Or(ctx.Err(), err)
		}
		if add.Stream.Entry.Size == 0 && !b.CanBeEmpty {
			return false, ErrEmptyStream
		}
	}
	commit := commits.CommitOptions{
		Message: b.Message, Host: b.Host, Brief: true, Times: b.repo.Config().Metadata == kist.MetadataFull, Session: b.session,
	}
	result, done, err := commits.StageAndCommit(ctx, b.repo, add, commit)
	if result == nil {
		return false, err
	}
	b.noteStaged(add.Paths, result)
	b.Committed, b.commitErr = done, err
	return result.Added.Len()+len(result.Modified)+len(result.Deleted)+result.Restored > 0, nil
}

// AddOptions returns add as a backup stages: with folders of git, without paths that do not
// exist, and with a limit for deletions.
func AddOptions(ctx context.Context, r *kist.Repository, add stage.AddOptions) (stage.AddOptions, error) {
	add.Git, add.AllowMissing = true, true
	if add.MaxDeleted.Share == 0 {
		add.MaxDeleted.Share, add.MaxDeleted.Least = 0.75, 100
	}
	var err error
	add.AskRemotes, err = volume.HasEvicted(ctx, r.Objects())
	return add, err
}

// noteStaged notes the result of staging. A path that the caller asked for counts as skipped if
// it is not stored.
func (b *run) noteStaged(asked []string, result *stage.AddResult) {
	b.Staged, b.Stored, b.Skipped = result, b.Stored.Plus(result.Stats), result.Skipped
	for _, left := range result.NeverStored {
		if slices.Contains(asked, left.Path) {
			b.Skipped = append(b.Skipped, left)
		} else {
			b.NotStored = append(b.NotStored, left)
		}
	}
	for _, path := range result.Ignored {
		b.Skipped = append(b.Skipped, object.Skipped{Path: path, Reason: "ignored"})
	}
}

// sendAhead makes the session send new chunks to the remote while it stores them.
func (b *run) sendAhead(ctx context.Context) {
	if len(registry.All(b.repo)) == 0 {
		return
	}
	_, name, err := b.findTarget(ctx)
	if err != nil {
		return // the push reports it
	}
	ctx, cancel := context.WithCancel(ctx)
	b.ahead = &exchange.EarlyPush{Repo: b.repo, Remote: name, Jobs: b.Jobs}
	b.session.New = func(key object.Key, value []byte, raw int) { b.ahead.Add(ctx, key, value, raw) }
	b.endAhead = func() {
		cancel()
		b.ahead.Close()
	}
}

// findTarget returns the branch to push to, which need not exist, and its remote.
func (b *run) findTarget(ctx context.Context) (to registry.PushRef, name string, err error) {
	to, name, err = registry.PushTarget(ctx, b.repo, b.Options.Remote)
	if !errors.Is(err, kist.ErrUnborn) {
		return to, name, err
	}
	if b.Options.Remote != "" {
		return to, b.Options.Remote, nil
	}
	name, err = registry.Default(b.repo)
	return to, name, err
}

// reportCommit reports the commit, which the session of add made.
func (b *run) reportCommit(context.Context) (did bool, err error) {
	if errors.Is(b.commitErr, commits.ErrNothingToCommit) {
		return false, nil
	}
	return b.commitErr == nil, b.commitErr
}

// noteHead notes the branch, its last commit, and the number of unmodified files, as far as they
// can be read.
func (b *run) noteHead(ctx context.Context) {
	head, err := b.repo.Refs().Head()
	if err != nil || head.Unborn() {
		return
	}
	b.Head = head
	if c, err := object.ReadCommit(ctx, b.repo.Objects(), head.ID); err == nil && b.Staged != nil {
		b.Unmodified = max(0, int(c.Files)-(b.Staged.Added.Len()+len(b.Staged.Modified)-b.Staged.Folders))
	}
}

// confirmAfter is the age from which a backup without changes confirms the branch on the
// remote, so that check-age counts it. A day less the longest delay of a nightly timer: each
// nightly backup confirms, but of hourly ones only one a day.
const confirmAfter = 20 * time.Hour

// pushBranch sends the current branch.
func (b *run) pushBranch(ctx context.Context) (did bool, err error) {
	ref, name, err := registry.PushTarget(ctx, b.repo, b.Options.Remote)
	if errors.Is(err, kist.ErrUnborn) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	b.Report.Remote = name
	progress, end := b.beginProgress(StepPush)
	defer end()

	list, err := b.endIncomplete(ctx, []registry.PushRef{ref}, name)
	if err != nil {
		return false, err
	}
	push := exchange.PushOptions{Remote: name, Refs: list, Ahead: b.ahead, Jobs: b.Jobs, Progress: transferred(progress)}
	if b.Err() == nil && len(b.Skipped) == 0 { // a complete backup
		push.ConfirmAfter = confirmAfter
	}
	b.Pushed, err = exchange.Push(ctx, b.repo, push)
	if b.Pushed != nil && b.Pushed.PushResult != nil {
		b.Sent += b.Pushed.Bytes
	}
	if err != nil {
		return false, &PushError{Push: push, Result: b.Pushed, Err: err}
	}

	b.RemoteID = ref.ID
	if b.Pushed.LockErr != nil {
		return false, &PushError{Push: push, Result: b.Pushed, Locks: true, Err: b.Pushed.LockErr}
	}
	return b.Pushed.Confirmed || b.Pushed.Objects > 0 || b.Pushed.Records > 0 || b.Pushed.Refs[0].Old != b.Pushed.Refs[0].New, nil
}

// PushError is the error of a push, or of its locks.
type PushError struct {
	Push   exchange.PushOptions
	Result *exchange.PushResult // may be nil
	Locks  bool                 // everything was pushed, but the error is about locks of files
	Err    error
}

func (e *PushError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PushError) Unwrap() error { return e.Err }

// expireCommits applies the policy.
func (b *run) expireCommits(ctx context.Context) (did bool, err error) {
	if err := b.Policy.Check(); err != nil {
		return false, err
	}
	_, end := b.beginProgress(StepExpire)
	defer end()
	err = gc.WithReserve(ctx, b.repo, func() (err error) {
		b.Expired, err = retain.Expire(ctx, b.repo, retain.ExpireOptions{Policy: b.Policy})
		return err
	})
	return err == nil && len(b.Expired.Expired) > 0, err
}
