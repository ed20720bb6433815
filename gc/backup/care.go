package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/mirror"
	"github.com/kist-vcs/kist/remote/pack"
)

// copyRemote copies the pushed branch, and the records of its commits, from the remote to the second one.
func (b *run) copyRemote(ctx context.Context) (did bool, err error) {
	ref, _, err := registry.PushTarget(ctx, b.repo, b.Options.Remote)
	if err != nil {
		return false, err
	}
	progress, end := b.beginProgress(StepCopy)
	defer end()
	b.Copied, err = exchange.CopyRemote(ctx, b.repo, exchange.CopyOptions{
		From: b.Report.Remote, To: b.CopyTo, Options: mirror.Options{Refs: []string{ref.Name}, Jobs: b.Jobs, Progress: transferred(progress)},
	})
	return err == nil && b.Copied.Appended != nil, err
}

// collectHere merges small volumes and collects garbage here, as far as they are due.
func (b *run) collectHere(ctx context.Context) (did bool, err error) {
	gc.KeepReserve(ctx, b.repo)
	if !b.repo.Objects().NeedsMaintenance() && !gc.IsDue(b.repo) {
		return false, nil
	}
	_, end := b.beginProgress(StepGC)
	defer end()
	return true, gc.WithReserve(ctx, b.repo, func() error { return gc.CollectDue(ctx, b.repo, gc.DefaultPlan) })
}

// remoteGCInterval is the time between two collections of a remote.
const remoteGCInterval = 14 * 24 * time.Hour

// ErrNotPermitted means that the credentials do not permit a step, so it was not run.
var ErrNotPermitted = errors.New("not permitted")

// collectRemote collects the garbage of a remote, if that is due: two weeks after the last
// time or after the first backup, and when files that the last one marked may be deleted.
func (b *run) collectRemote(ctx context.Context) (did bool, err error) {
	name, now := b.Report.Remote, b.repo.Options().Now()
	file := filepath.Join(registry.Dir(b.repo, name), "gc.due")
	later := now.Add(remoteGCInterval)
	due, err := time.Parse(time.RFC3339, readNote(file))
	if err != nil {
		return false, writeNote(file, later.UTC().Format(time.RFC3339))
	}
	if now.Before(due) && !due.After(later) { // else the clock was wrong then
		return false, nil
	}

	progress, end := b.beginProgress(StepRemoteGC)
	defer end()
	o := gc.DefaultRemoteOptions
	o.Progress = transferred(progress)
	st, err := gc.CollectRemote(ctx, b.repo, name, gc.DefaultKeepAge, o)
	if err != nil && !errors.Is(err, remote.ErrPermission) {
		return false, err
	}
	later = b.repo.Options().Now().Add(remoteGCInterval)
	if err == nil && st.Waiting > 0 && st.Next.Before(later) {
		later = st.Next.Add(time.Second)
	}
	if err := writeNote(file, later.UTC().Format(time.RFC3339)); err != nil {
		return false, err
	}
	if err != nil {
		return false, ErrNotPermitted
	}
	b.Collected = &st
	return true, nil
}

// CheckDamageError means that a check found damage.
type CheckDamageError struct {
	Remote string  // empty: the damage is here
	Found  []error // [collect.Problem] of a remote, and else [volume.Problem]
}

func (e *CheckDamageError) Error() string {
	return fmt.Sprintf("%d things are damaged or missing", len(e.Found))
}

// noteChecked is the error of a check. Without damage, it notes in a file where the next check
// begins. With damage, that one begins at the same place.
func (e *CheckDamageError) noteChecked(file, next string) error {
	if len(e.Found) > 0 {
		return e
	}
	return writeNote(file, next)
}

// checkRemote reads back the next packs of a remote.
func (b *run) checkRemote(ctx context.Context) (did bool, err error) {
	found := &CheckDamageError{Remote: b.Report.Remote}
	opened, err := registry.OpenNamed(ctx, b.repo, found.Remote)
	if err != nil {
		return false, err
	}
	defer opened.Close()

	file := filepath.Join(registry.Dir(b.repo, found.Remote), "checked")
	after, _ := pack.ParseName(readNote(file)) // zero: begin with the first
	progress, end := b.beginProgress(StepCheck)
	defer end()
	done, err := collect.Check(ctx, opened, collect.CheckOptions{
		Sample: b.Check, After: after, Progress: func(bytes int64) { read(progress, bytes) },
	}, func(problem collect.Problem) { found.Found = append(found.Found, problem) })
	if err != nil {
		return false, err
	}
	b.Checked, b.Unread = done.Bytes, done.ArchiveStats
	return true, found.noteChecked(file, done.Last.String())
}

// checkLocal reads the next objects of the store.
func (b *run) checkLocal(ctx context.Context) (did bool, err error) {
	file := filepath.Join(b.repo.Dir(), "checked")
	start, _ := strconv.Atoi(readNote(file))
	size := func(n int) int { return int(math.Ceil(b.Check * float64(n))) }
	subset := func(i, n int) bool { return (i-start%n+n)%n < size(n) }
	progress, end := b.beginProgress(StepCheck)
	defer end()

	found := &CheckDamageError{}
	done, err := b.repo.Objects().Check(ctx, volume.CheckOptions{
		ReadData: true, Subset: subset, Progress: func(done volume.Checked) { read(progress, done.Bytes) },
	}, func(problem volume.Problem) { found.Found = append(found.Found, problem) })
	if err != nil {
		return false, err
	}
	b.Checked = done.Bytes
	n := max(done.Objects, 1)
	return true, found.noteChecked(file, strconv.Itoa((start+size(n))%n))
}

// read reports the number of bytes that a check has read.
func read(progress kist.Progress, bytes int64) {
	if progress != nil {
		progress(kist.Amount{Bytes: bytes}, kist.Amount{})
	}
}

// readNote returns the text of a file that [writeNote] wrote, "" if there is none.
func readNote(file string) string {
	data, _ := disk.ReadFile(file)
	return strings.TrimSpace(string(data))
}

// writeNote writes a line to a file, without syncing: a lost note costs a backup nothing.
// The caller holds the lock of the backup.
func writeNote(file, text string) error { return disk.WriteUnsynced(file, []byte(text+"\n")) }
