package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// backupSummary is what backup prints with --json.
type backupSummary struct {
	Exit       int                `json:"exit" doc:"the exit status"`
	Commit     *object.ID         `json:"commit" doc:"the last commit of the branch; null: there is none"`
	Committed  bool               `json:"committed" doc:"true if that commit is new"`
	Branch     *string            `json:"branch" doc:"the branch; null: HEAD is detached"`
	Remote     *string            `json:"remote" doc:"the remote; null: the backup stays here"`
	RemoteHead *object.ID         `json:"remote_head" doc:"the commit of the branch on the remote; null: unknown"`
	Files      backupFiles        `json:"files" doc:"the numbers of files, with symlinks and empty folders"`
	NotStored  []jsonform.Skipped `json:"not_stored" doc:"sockets and other things that kist does not store"`
	show.Work
	Sent    int64        `json:"bytes_sent" doc:"the number of bytes that were sent to the remote"`
	Start   time.Time    `json:"start" doc:"when the backup began"`
	Seconds float64      `json:"seconds" doc:"how long it took"`
	Steps   []backupStep `json:"steps" doc:"the steps"`
}

// backupFiles counts files, with symlinks and empty folders.
type backupFiles struct {
	New        int                `json:"new" doc:"new files"`
	Changed    int                `json:"changed" doc:"changed files"`
	Unmodified int                `json:"unmodified" doc:"unchanged files"`
	Removed    int                `json:"removed" doc:"deleted files"`
	Skipped    []jsonform.Skipped `json:"skipped" doc:"files that could not be read"`
}

// backupStep is a step of a backup and its outcome.
type backupStep struct {
	Name    string       `json:"name" doc:"the step"`
	Outcome string       `json:"outcome" doc:"its outcome" values:"done|nothing to do|failed|not run"`
	Seconds float64      `json:"seconds" doc:"how long it took"`
	Error   *cli.Outcome `json:"error,omitempty" doc:"the error, if it failed"`

	text string // details for people
}

// addReport adds the report to the summary.
func (b *backupCommand) addReport(ctx context.Context) {
	s, r := &b.summary, b.report
	if r.Staged != nil {
		s.Files.New, s.Files.Changed, s.Files.Removed = r.Staged.Added.Len(), len(r.Staged.Modified), len(r.Staged.Deleted)
		s.Work = show.NewWork(r.Staged.Read, r.Stored)
	}
	s.Files.Unmodified, s.Files.Skipped, s.NotStored = r.Unmodified, jsonform.NewSkipped(r.Skipped), jsonform.NewSkipped(r.NotStored)
	s.Committed, s.Sent = r.Committed != nil, r.Sent
	if !r.Head.Unborn() {
		s.Branch, s.Commit = cli.OrNull(r.Head.Branch), &r.Head.ID
	}
	if s.Remote = cli.OrNull(remote.Redact(r.Remote)); !r.RemoteID.IsZero() {
		s.RemoteHead = &r.RemoteID
	}
	for _, st := range r.Steps {
		b.addStep(backupStep{Name: st.Name, Outcome: st.Outcome, Seconds: st.Took.Seconds(), text: b.effectOf(st)}, b.explainError(st.Err))
	}

	if r.EvictErr != nil {
		b.env.Warn("the local limit is exceeded: %s", b.env.Secrets.Hide(r.EvictErr.Error()))
	}
	if r.Pushed != nil {
		show.PrintLost(ctx, b.env, b.repo, r.Remote, r.Pushed.Lost)
	}
}

// remoteName returns the remote of the backup, "" if there is none.
func (b *backupCommand) remoteName() string {
	if b.report == nil {
		return ""
	}
	return b.report.Remote
}

// addStep adds a step to the summary. A step that failed has an error.
func (b *backupCommand) addStep(st backupStep, err error) {
	if st.Outcome == backup.Failed {
		o := cli.OutcomeOf(err)
		o.Message, o.Hint = b.env.Secrets.Hide(o.Message), b.env.Secrets.Hide(o.Hint)
		st.Error = &o
		if b.summary.Exit == cli.ExitOK {
			b.summary.Exit = o.Exit
		}
	}
	b.summary.Steps = append(b.summary.Steps, st)
}

// ownStep runs a step of the command itself, and reports whether it succeeded.
func (b *backupCommand) ownStep(ctx context.Context, name string, do func() error) bool {
	st := backupStep{Name: name, Outcome: backup.NotRun}
	var err error
	if ctx.Err() == nil {
		begin := b.env.Now()
		err = do()
		if st.Seconds, st.Outcome = b.secondsSince(begin), backup.Done; err != nil {
			st.Outcome = backup.Failed
		}
	}
	b.addStep(st, err)
	return st.Outcome == backup.Done
}

// secondsSince returns the seconds from begin until now, at least 0.
func (b *backupCommand) secondsSince(begin time.Time) float64 {
	return max(0, b.env.Now().Sub(begin).Seconds())
}

// effectOf describes the effect of a step for people. It is "" if the outcome says enough.
func (b *backupCommand) effectOf(st backup.Step) string {
	r := b.report
	switch {
	case errors.Is(st.Err, backup.ErrNotPermitted):
		return "not permitted: somebody with permission to delete should run 'kist remote gc'"
	case st.Outcome != backup.Done:
		return ""
	}
	switch st.Name {
	case backup.StepAdd:
		return b.stagedText()
	case backup.StepCommit:
		if r.Committed.Branch == "" {
			return r.Committed.ID.Short()
		}
		return r.Committed.ID.Short() + " on " + r.Committed.Branch
	case backup.StepPush:
		if r.Pushed.Objects == 0 && r.Pushed.Confirmed {
			return "up to date, confirmed for check-age"
		}
		return fmt.Sprintf("%s, %s to %s", readable.Plural(uint64(r.Pushed.Objects), "object", "objects"), readable.FormatSize(uint64(r.Pushed.Bytes)), cli.Printable(r.Remote))
	case backup.StepCopy:
		return fmt.Sprintf("%s, %s to %s", readable.Plural(uint64(r.Copied.Objects), "object", "objects"), readable.FormatSize(uint64(r.Copied.Bytes)), cli.Printable(remote.Redact(b.copyTo)))
	case backup.StepExpire:
		return readable.Plural(uint64(len(r.Expired.Expired)), "commit", "commits") + ", kept " + readable.FormatCount(uint64(len(r.Expired.Kept)))
	case backup.StepEvict:
		if r.Postponed {
			return "put off: another process maintains the repository"
		}
		return fmt.Sprintf("%s moved to %s, %s left here", readable.FormatSize(uint64(r.Evicted)), cli.Printable(r.Remote), readable.FormatSize(uint64(r.Left)))
	case backup.StepRemoteGC:
		st := r.Collected
		return fmt.Sprintf("%s marked, %s deleted; %s left", readable.Plural(uint64(st.Condemned), "file", "files"), readable.FormatCount(uint64(st.Deleted)), readable.FormatSize(uint64(st.After)))
	case backup.StepCheck:
		text := readable.FormatSize(uint64(r.Checked)) + " read, no errors found"
		if r.Unread.Archived > 0 {
			text += "; " + uncheckedText(r.Unread)
		}
		return text
	}
	return ""
}

// stagedText describes the staged changes.
func (b *backupCommand) stagedText() string {
	s, staged := &b.summary, b.report.Staged
	n := show.ChangeCounts{Added: s.Files.New, Modified: s.Files.Changed, Deleted: s.Files.Removed}
	parts := n.Parts()
	if staged.Restored > 0 {
		parts = append(parts, readable.Plural(uint64(staged.Restored), "unchanged file", "unchanged files")+" stored again")
	}
	return strings.Join(parts, ", ") + "; " + s.Work.String()
}

// explainError words the errors of steps that need the context of the backup.
func (b *backupCommand) explainError(err error) error {
	var many *stage.DeletedError
	var push *backup.PushError
	var damage *backup.CheckDamageError
	switch {
	case errors.As(err, &many):
		return b.refusedDeletions(many)
	case errors.As(err, &push) && push.Locks:
		return share.LocksFailed(push.Result)
	case errors.As(err, &push):
		return share.PushFailed(b.repo, push.Push, push.Result, err)
	case errors.As(err, &damage):
		return damageFound(damage)
	case errors.Is(err, backup.ErrLimit):
		return cli.Hintf(cli.Failf(cli.ExitFailed, "no-remote", "--local-limit needs a remote"), "'kist remote add origin URL' adds one")
	case errors.Is(err, backup.ErrEmptyStream):
		return errors.New("standard input is empty: did the command before the pipe fail?")
	}
	return copyFailed(collectionFailed(b.report.Remote, err))
}

// refusedDeletions words the error for more deletions than --max-deleted permits.
func (b *backupCommand) refusedDeletions(e *stage.DeletedError) error {
	where := ""
	if e.Root != "" {
		where = " below " + b.env.Shown(b.repo, e.Root)
	}
	err := cli.Failf(cli.ExitFailed, "max-deleted", "%s of %s%s are gone; nothing was committed", readable.FormatCount(uint64(e.Deleted)), readable.Plural(uint64(e.Files), "file", "files"), where)
	return cli.Hintf(err, "is a disk missing? If they were deleted on purpose, 'kist backup --max-deleted 100%%' commits that")
}

// damageFound words the error of a check. The next one begins at the same place, until the
// damage is repaired.
func damageFound(e *backup.CheckDamageError) error {
	verify := "kist verify --read-data"
	if e.Remote != "" {
		verify += " --remote " + cli.ShellWord(e.Remote)
	}
	err := cli.LinesError(cli.ExitDamaged, "", readable.Plural(uint64(len(e.Found)), "thing is", "things are")+" damaged or missing",
		cli.FirstOf(e.Found, show.ShownPaths, "", func(found error) string {
			problem, ok := found.(collect.Problem)
			if !ok {
				return found.Error()
			}
			what := show.NewRemoteProblemJSON(&gc.Problem{Key: problem.Key, Where: problem.Blob, Err: problem.Err})
			return fmt.Sprintf("%s %s: %s", what.Kind, cmp.Or(what.Blob, problem.Key.ID.String()), what.Problem)
		}))
	return cli.Hintf(err, "'%s' lists all damage, and with --repair instead of --read-data it looks for intact copies", verify)
}

// printSummary prints the summary. The failed steps and skipped files go to standard error.
func (b *backupCommand) printSummary() {
	env, s := b.env, &b.summary
	env.JSON(s)
	failed := ""
	for _, st := range s.Steps {
		text := st.text
		if text == "" || st.Outcome == backup.Failed {
			text = st.Outcome
		}
		env.PrintOutcome("%-9s %s\n", st.Name, text)
		if st.Error != nil {
			o := *st.Error
			o.Message = st.Name + ": " + strings.TrimPrefix(o.Message, st.Name+": ")
			cli.SayOutcome(env, o)
			failed += ", " + st.Name + " failed"
		}
	}
	for _, line := range cli.FirstOf(s.NotStored, cli.DetailLines, "", func(left jsonform.Skipped) string {
		return env.Shown(b.repo, left.Path) + ": " + left.Reason
	}) {
		env.Warn("not stored: %s", line)
	}
	if slices.ContainsFunc(s.NotStored, func(left jsonform.Skipped) bool { return left.Reason == worktree.Nested.String() }) {
		env.Info("hint: the .kist of another repository is in no backup but its own: 'kist -C FOLDER backup'")
	}
	if b.report != nil && len(b.report.Skipped) > 0 {
		err := cli.PartialError(env, b.repo, b.report.Skipped)
		if slices.ContainsFunc(b.report.Skipped, func(s object.Skipped) bool { return s.Reason == worktree.ErrEmptyRoot.Error() }) {
			err = cli.Hintf(err, "if its files were deleted on purpose, 'kist backup --max-deleted 100%%' commits that")
		}
		cli.SayOutcome(env, cli.OutcomeOf(err))
	}

	took := (time.Duration(s.Seconds*1000) * time.Millisecond).Round(100 * time.Millisecond)
	how := "complete"
	switch {
	case failed != "":
		how = "incomplete" + failed
	case s.Exit == cli.ExitInterrupted:
		how = "incomplete, interrupted"
	case len(s.Files.Skipped) > 0:
		how += ", " + readable.Plural(uint64(len(s.Files.Skipped)), "path", "paths") + " skipped"
	}
	if n := len(s.NotStored); n > 0 {
		how += ", " + readable.Plural(uint64(n), "path", "paths") + " not stored"
	}
	env.PrintOutcome("%s; %s unmodified; %s\n", how, readable.Plural(uint64(s.Files.Unmodified), "file", "files"), took)
}
