package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// add stages the changes.
func (b *backup) add(ctx context.Context, args []string) (string, error) {
	if err := operation.NoOperation(b.repo); err != nil {
		return "", err
	}
	add, err := b.addOptions(ctx, args)
	if err != nil {
		return "", err
	}
	message, err := b.message(b.env, errNoMessage)
	if err != nil {
		return "", err
	}
	if message == "" {
		message = fmt.Sprintf("backup of %s, %s", cmp.Or(b.host, b.env.Hostname), b.repo.Options().Date().Format("2006-01-02 15:04"))
	}
	if err := b.limitSession(ctx); err != nil {
		return "", err
	}
	b.sendAhead(ctx)
	p := b.env.progress("adding")
	defer p.Stop()
	add.Progress = p.amounts()
	var streamed volume.Stats
	if b.streams() {
		data, end, err := b.stream(ctx, args)
		if err != nil {
			return "", err
		}
		defer end()
		if add.Stream, streamed, err = commits.StoreStream(ctx, b.repo, data, b.session, p.amounts()); err != nil {
			return "", cmp.Or(ctx.Err(), err)
		}
		if b.command == "" && add.Stream.Entry.Size == 0 {
			return "", errors.New("standard input is empty: did the command before the pipe fail?")
		}
	}
	commit := commits.CommitOptions{Message: withLabels(message, b.labels), Host: b.host, Brief: true, Times: b.repo.Config().Metadata == kist.MetadataFull, Session: b.session}
	note := noteUnrecorded(b.env, b.repo, false)
	result, done, err := commits.StageAndCommit(ctx, b.repo, add, commit)
	note()
	var many *stage.DeletedError
	if errors.As(err, &many) {
		return "", b.refusedDeletions(many)
	}
	if result == nil {
		return "", err
	}
	b.committed, b.commitErr = done, err
	b.result, b.skipped = result, result.Skipped
	var special []object.Skipped
	for _, left := range result.Special {
		if slices.Contains(add.Paths, left.Path) {
			b.skipped = append(b.skipped, left)
		} else {
			special = append(special, left)
		}
	}
	for _, path := range result.Ignored {
		b.skipped = append(b.skipped, object.Skipped{Path: path, Reason: "ignored"})
	}
	s := &b.summary
	s.Files = backupFiles{New: len(result.Added), Changed: len(result.Modified), Removed: len(result.Deleted), Skipped: jsonform.NewSkipped(b.skipped)}
	s.NotStored, s.work = jsonform.NewSkipped(special), newWork(result.Read, streamed.Plus(result.Stats))
	n := changeCounts{Added: s.Files.New, Modified: s.Files.Changed, Deleted: s.Files.Removed}
	parts := n.parts()
	if result.Restored > 0 {
		parts = append(parts, plural(uint64(result.Restored), "unchanged file", "unchanged files")+" stored again")
	}
	if len(parts) == 0 {
		return "", nil
	}
	return strings.Join(parts, ", ") + "; " + s.work.String(), nil
}

// sendAhead makes the session send new chunks to the remote while it stores them.
func (b *backup) sendAhead(ctx context.Context) {
	if len(registry.All(b.repo)) == 0 {
		return
	}
	_, name, err := b.target(ctx)
	if err != nil {
		return // the push reports it
	}
	ctx, cancel := context.WithCancel(ctx)
	b.ahead = &exchange.Ahead{Repo: b.repo, Remote: name, Jobs: b.env.transfer.jobs}
	b.session.New = func(key object.Key, value []byte, raw int) { b.ahead.Add(ctx, key, value, raw) }
	b.endAhead = func() {
		cancel()
		b.ahead.Close()
	}
}

// addOptions returns the options for staging.
func (b *backup) addOptions(ctx context.Context, args []string) (stage.AddOptions, error) {
	if b.streams() {
		path, err := b.streamPath(args)
		return stage.AddOptions{Paths: []string{path}}, err
	}
	paths, err := b.paths(ctx, args)
	if err != nil {
		return stage.AddOptions{}, err
	}
	exclude, err := b.selection.options(b.env)
	limit := stage.DeletedLimit{Share: b.maxDeleted, EmptyRoots: b.emptyRoots}
	if b.maxDeleted == 0 {
		limit = stage.DeletedLimit{Share: 0.75, Least: 100}
	}
	if err != nil {
		return stage.AddOptions{}, err
	}
	evicted, err := volume.HasEvicted(ctx, b.repo.Objects())
	return stage.AddOptions{Paths: paths, Git: true, Exclude: exclude, AllowMissing: true, MaxDeleted: limit, AskRemotes: evicted}, err
}

// refusedDeletions words the error for more deletions than --max-deleted permits.
func (b *backup) refusedDeletions(e *stage.DeletedError) error {
	where := ""
	if e.Root != "" {
		where = " below " + b.env.shown(b.repo, e.Root)
	}
	err := failf(exitFailed, "max-deleted", "%s of %s%s are gone; nothing was committed", formatCount(uint64(e.Deleted)), plural(uint64(e.Files), "file", "files"), where)
	return hintf(err, "is a disk missing? If they were deleted on purpose, 'kist backup --max-deleted 100%%' commits that")
}
