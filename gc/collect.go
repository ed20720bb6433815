package gc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
)

// The configuration keys that say for how long log entries are kept, and for
// how long those of commits that no branch or tag has any more.
const (
	keyLogExpire            = "gc.reflogExpire"
	keyLogExpireUnreachable = "gc.reflogExpireUnreachable"
)

const (
	day                         = 24 * time.Hour
	defaultLogExpire            = 90 * day
	defaultLogExpireUnreachable = 30 * day
)

// lastGC is the file that says when garbage was collected last.
const lastGC = "gc.last"

// IsDue reports whether it is time to look for garbage: two weeks after the
// last time, or after something was stored first. It reads next to nothing.
func IsDue(r *kist.Repository) bool {
	last := r.Objects().Oldest()
	if data, err := disk.ReadFile(filepath.Join(r.Dir(), lastGC)); err == nil {
		if t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(data))); err == nil {
			last = t
		}
	}
	since := r.Options().Now().Sub(last)
	return !last.IsZero() && (since > DefaultPruneOlder || since < -DefaultPruneOlder) // the clock was wrong then
}

// PutOff has NeedsGC say no for two weeks, though there was no collection.
func PutOff(ctx context.Context, r *kist.Repository) error {
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), "maintenance.lock"), disk.Exclusive, 0)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return noteGC(r)
}

// noteGC notes that now is the last time. The maintenance lock is held.
func noteGC(r *kist.Repository) error {
	return disk.WriteFile(filepath.Join(r.Dir(), lastGC), fmt.Appendln(nil, r.Options().Now().UTC().Format(time.RFC3339)))
}

// failedGC is the file with the message of the last 'kist gc --auto', if it
// failed.
const failedGC = "gc.failed"

// maxFailedGC is the most bytes of that message.
const maxFailedGC = 4 << 10

// NoteAuto records how an automatic collection ended, for [AutoFailure].
func NoteAuto(r *kist.Repository, failed error) error {
	path := filepath.Join(r.Dir(), failedGC)
	if failed == nil {
		if err := disk.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if errors.Is(failed, context.Canceled) {
		return nil
	}
	text := failed.Error()
	return disk.WriteFile(path, []byte(text[:min(len(text), maxFailedGC)]))
}

// AutoFailure returns why the last automatic collection failed; "" if it did
// not. It is for people to read.
func AutoFailure(r *kist.Repository) string {
	f, err := disk.Open(filepath.Join(r.Dir(), failedGC))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxFailedGC))
	first, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), "\n")
	return first
}

// PlanFor finds out what in the repository is garbage: what neither HEAD,
// branches, tags, remote-tracking branches, their logs, holds, the index, an
// operation under way nor the next merge of unpushed work need. The log entries that have expired do not count, and
// are removed when the plan is applied; so are holds that are over, which are
// switched off then. Options that only the repository knows
// are set by it. Close the plan.
func PlanFor(ctx context.Context, r *kist.Repository, o PlanOptions) (*Plan, error) {
	keep, err := logEntriesKept(ctx, r)
	if err != nil {
		return nil, err
	}
	o.Now = r.Options().Now()
	o.Before = func(ctx context.Context) error {
		return errors.Join(r.Records().Update(ctx, func(set *record.Set) error { return endHolds(r, set) }), ExpireLogs(ctx, r, keep))
	}
	o.After = func(context.Context) error { return errors.Join(noteGC(r), NoteAuto(r, nil)) }
	return NewPlan(ctx, r.Objects(), func(ctx context.Context) (Needed, error) {
		set, err := r.Records().Load()
		if err == nil {
			err = endHolds(r, set)
		}
		if err != nil {
			return Needed{}, RootError(&Problem{Err: err})
		}
		needed, problems := FindNeeds(ctx, r, r.ViewOf(set), keep)
		for _, p := range problems {
			return needed, RootError(p)
		}
		orphans, err := orphans(ctx, r)
		needed.Roots = append(needed.Roots, orphans...)
		return needed, err
	}, o)
}

// endHolds switches off the holds that are over.
func endHolds(r *kist.Repository, set *record.Set) error {
	set.EndHolds(r.Options().Now(), r.Recorder(), r.Options().Host)
	return nil
}

// RootError returns the error for roots that cannot be read.
func RootError(p *Problem) error {
	if errors.Is(p.Err, object.ErrCorrupt) {
		return &NeededError{Err: p.Err}
	}
	return p.Err
}

// ExpireLogs removes the entries of all logs that are not to be kept.
func ExpireLogs(ctx context.Context, r *kist.Repository, keep func(refs.LogEntry) bool) error {
	names, err := r.Refs().Logs()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := r.Refs().ExpireLog(ctx, name, keep); err != nil {
			return fmt.Errorf("expire the log of %s: %w", name, err)
		}
	}
	return nil
}

// logEntriesKept returns which log entries have not expired. What was rewritten
// is not kept by logs.
func logEntriesKept(ctx context.Context, r *kist.Repository) (func(refs.LogEntry) bool, error) {
	all, err := age(r, keyLogExpire, defaultLogExpire)
	if err != nil {
		return nil, err
	}
	unreachable, err := age(r, keyLogExpireUnreachable, defaultLogExpireUnreachable)
	if err != nil {
		return nil, err
	}
	now := r.Options().Date() // the clock that logs are written by
	expired := func(e refs.LogEntry, age time.Duration) bool { return age != refs.Forever && now.Sub(e.Time) >= age }
	between, err := anyLogEntry(r, func(e refs.LogEntry) bool { return expired(e, unreachable) && !expired(e, all) })
	if err != nil {
		return nil, err
	}
	var reached map[object.ID]bool
	if between {
		if reached, err = reachable(ctx, r); err != nil {
			return nil, err
		}
	}
	rewritten, err := Rewritten(r)
	if err != nil {
		return nil, err
	}
	return func(e refs.LogEntry) bool {
		return !rewritten[e.Old] && !rewritten[e.New] && !expired(e, all) && (!expired(e, unreachable) || reached[e.New] && (e.Old.IsZero() || reached[e.Old]))
	}, nil
}

// age returns the age that a key of the configuration has.
func age(r *kist.Repository, key string, otherwise time.Duration) (time.Duration, error) {
	text, set := r.Config().Get(key)
	if !set {
		return otherwise, nil
	}
	age, err := refs.ParseAge(text)
	if err != nil {
		err = &kist.ConfigError{Err: fmt.Errorf("%s: %q is %w", key, text, err)}
	}
	return age, err
}

// anyLogEntry reports whether a log has an entry for which is returns true.
func anyLogEntry(r *kist.Repository, is func(refs.LogEntry) bool) (bool, error) {
	names, err := r.Refs().Logs()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		log, err := r.Refs().Log(name)
		if err != nil {
			return false, RootError(&Problem{Err: err})
		}
		for _, e := range log {
			if is(e) {
				return true, nil
			}
		}
	}
	return false, nil
}

// reachable returns all commits that HEAD, a branch, a tag or a remote-tracking
// branch reaches.
func reachable(ctx context.Context, r *kist.Repository) (map[object.ID]bool, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, RootError(&Problem{Err: err})
	}
	list, err := r.Refs().List("refs/")
	if err != nil {
		return nil, RootError(&Problem{Err: err})
	}
	queue := []object.ID{head.ID}
	for _, ref := range list {
		id, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if err != nil {
			return nil, &NeededError{Root: ref.Name, Err: err}
		}
		queue = append(queue, id)
	}
	reached := map[object.ID]bool{{}: true}
	for len(queue) > 0 {
		id := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if reached[id] {
			continue
		}
		reached[id] = true
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return nil, &NeededError{Err: err}
		}
		queue = append(queue, c.Parents...)
	}
	return reached, nil
}
