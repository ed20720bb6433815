package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/pack"
)

// gc merges small volumes and collects garbage here, as far as they are due.
func (b *backup) gc(ctx context.Context) (string, error) {
	gc.KeepReserve(ctx, b.repo)
	if !b.repo.Objects().NeedsMaintenance() && !gc.IsDue(b.repo) {
		return "", nil
	}
	p := b.env.progress("collecting garbage")
	defer p.Stop()
	if err := gc.WithReserve(ctx, b.repo, func() error { return autoGC(ctx, b.repo, defaultPlan) }); err != nil {
		return "", err
	}
	return stepDone, nil
}

// remoteGCInterval is the time between two collections of a remote.
const remoteGCInterval = 14 * 24 * time.Hour

// errNotPermitted means that the credentials do not permit a step, so it was not run.
var errNotPermitted = errors.New("not permitted: somebody with permission to delete should run 'kist remote gc'")

// remoteGC collects the garbage of a remote, if that is due: two weeks after the last
// time or after the first backup, and when files that the last one marked may be deleted.
func (b *backup) remoteGC(ctx context.Context, name string) (string, error) {
	file := filepath.Join(registry.Dir(b.repo, name), "gc.due")
	later := b.env.Now().Add(remoteGCInterval)
	due, err := time.Parse(time.RFC3339, readNote(file))
	if err != nil {
		return "", writeNote(file, later.UTC().Format(time.RFC3339))
	}
	if b.env.Now().Before(due) && !due.After(later) { // else the clock was wrong then
		return "", nil
	}
	st, err := collectRemote(ctx, b.env, b.repo, name, defaultCollection)
	if err != nil && !errors.Is(err, remote.ErrPermission) {
		return "", err
	}
	if err == nil && st.Waiting > 0 && st.Next.Before(later) {
		later = st.Next.Add(time.Second)
	}
	if werr := writeNote(file, later.UTC().Format(time.RFC3339)); werr != nil {
		return "", werr
	}
	if err != nil {
		return "", errNotPermitted
	}
	return fmt.Sprintf("%s marked, %s deleted; %s left", plural(uint64(st.Marked), "file", "files"), formatCount(uint64(st.Deleted)), formatSize(uint64(st.After))), nil
}

// checkRemote reads back the next packs of a remote.
func (b *backup) checkRemote(ctx context.Context, name string) (string, error) {
	file := filepath.Join(registry.Dir(b.repo, name), "checked")
	opened, err := openRemote(ctx, b.env, b.repo, name)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	after, _ := pack.ParseName(readNote(file)) // zero: begin with the first
	p := b.env.progress("checking " + name)
	defer p.Stop()
	var found []string
	done, err := collect.Check(ctx, opened, collect.CheckOptions{
		Sample: b.check, After: after, Progress: func(bytes int64) { p.Set(0, uint64(bytes)) },
	}, func(problem collect.Problem) {
		what := newRemoteProblemJSON(&gc.Problem{Key: problem.Key, Where: problem.Blob, Err: problem.Err})
		found = append(found, fmt.Sprintf("%s %s: %s", what.Kind, cmp.Or(what.Blob, problem.Key.ID.String()), what.Problem))
	})
	if err == nil {
		err = damagedError(found, "kist verify --read-data --remote "+shellWord(name))
	}
	if err == nil {
		err = writeNote(file, done.Last.String())
	}
	return formatSize(uint64(done.Bytes)) + " read, no errors found", err
}

// damagedError returns the error of a check that found problems, nil if it found none.
// Then the next check begins at the same place, until the damage is repaired.
func damagedError(found []string, verify string) error {
	if len(found) == 0 {
		return nil
	}
	err := linesError(exitDamaged, "", plural(uint64(len(found)), "thing is", "things are")+" damaged or missing",
		firstOf(found, shownPaths, "", func(problem string) string { return problem }))
	return hintf(err, "'%s' lists all damage, and with --repair instead of --read-data it looks for intact copies", verify)
}

// checkLocal reads the next objects of the store.
func (b *backup) checkLocal(ctx context.Context) (string, error) {
	file := filepath.Join(b.repo.Dir(), "checked")
	start, _ := strconv.Atoi(readNote(file))
	size := func(n int) int { return int(math.Ceil(b.check * float64(n))) }
	subset := func(i, n int) bool { return (i-start%n+n)%n < size(n) }
	p := b.env.progress("checking")
	defer p.Stop()
	var found []string
	done, err := b.repo.Objects().Check(ctx, volume.CheckOptions{
		ReadData: true, Subset: subset, Progress: func(done volume.Checked) { p.Set(0, uint64(done.Bytes)) },
	}, func(problem volume.Problem) { found = append(found, problem.Error()) })
	if err == nil {
		err = damagedError(found, "kist verify --read-data")
	}
	if n := done.Objects; err == nil && n > 0 {
		err = writeNote(file, strconv.Itoa((start+size(n))%n))
	}
	return formatSize(uint64(done.Bytes)) + " read, no errors found", err
}
