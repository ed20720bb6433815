package kist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/kist-vcs/kist/gc"
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

// NeedsGC reports whether it is time to look for garbage: two weeks after the
// last time, or after something was stored first. It reads next to nothing.
func (r *Repository) NeedsGC() bool {
	last := r.objects.Oldest()
	if data, err := disk.ReadFile(filepath.Join(r.dir, lastGC)); err == nil {
		if t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(data))); err == nil {
			last = t
		}
	}
	since := r.opt.Now().Sub(last)
	return !last.IsZero() && (since > gc.DefaultPruneOlder || since < -gc.DefaultPruneOlder) // the clock was wrong then
}

// PutOffGC has NeedsGC say no for two weeks, though there was no collection.
func (r *Repository) PutOffGC(ctx context.Context) error {
	lock, err := disk.Lock(ctx, filepath.Join(r.dir, "maintenance.lock"), disk.Exclusive, 0)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return r.noteGC()
}

// noteGC notes that now is the last time. The maintenance lock is held.
func (r *Repository) noteGC() error {
	return disk.WriteFile(filepath.Join(r.dir, lastGC), fmt.Appendln(nil, r.opt.Now().UTC().Format(time.RFC3339)))
}

// failedGC is the file with the message of the last 'kist gc --auto', if it
// failed.
const failedGC = "gc.failed"

// maxFailedGC is the most bytes of that message.
const maxFailedGC = 4 << 10

// NoteAutoGC records how an automatic collection ended, for [Repository.AutoGCFailure].
func (r *Repository) NoteAutoGC(failed error) error {
	path := filepath.Join(r.dir, failedGC)
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

// AutoGCFailure returns why the last automatic collection failed; "" if it did
// not. It is for people to read.
func (r *Repository) AutoGCFailure() string {
	f, err := disk.Open(filepath.Join(r.dir, failedGC))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxFailedGC))
	first, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), "\n")
	return first
}

// PlanGC finds out what in the repository is garbage: what neither HEAD,
// branches, tags, remote-tracking branches, their logs, holds, the index, an
// operation under way nor the next merge of unpushed work need. The log entries that have expired do not count, and
// are removed when the plan is applied; so are holds that are over, which are
// switched off then. Options that only the repository knows
// are set by it. Close the plan.
func (r *Repository) PlanGC(ctx context.Context, o gc.PlanOptions) (*gc.Plan, error) {
	keep, err := r.logEntriesKept(ctx)
	if err != nil {
		return nil, err
	}
	o.Now = r.opt.Now()
	o.Before = func(ctx context.Context) error {
		return errors.Join(r.Records().Update(ctx, r.endHolds), r.expireLogs(ctx, keep))
	}
	o.After = func(context.Context) error { return errors.Join(r.noteGC(), r.NoteAutoGC(nil)) }
	return gc.NewPlan(ctx, r.objects, func(ctx context.Context) (gc.Needed, error) {
		set, err := r.Records().Load()
		if err == nil {
			err = r.endHolds(set)
		}
		if err != nil {
			return gc.Needed{}, rootError(&gc.Problem{Err: err})
		}
		needed, problems := r.needs(ctx, r.view(set), keep)
		for _, p := range problems {
			return needed, rootError(p)
		}
		orphans, err := r.orphans(ctx)
		needed.Roots = append(needed.Roots, orphans...)
		return needed, err
	}, o)
}

// endHolds switches off the holds that are over.
func (r *Repository) endHolds(set *record.Set) error {
	set.EndHolds(r.opt.Now(), r.recorder(), r.opt.Host)
	return nil
}

// rootError returns the error for roots that cannot be read.
func rootError(p *gc.Problem) error {
	if errors.Is(p.Err, object.ErrCorrupt) {
		return &gc.DamageError{Err: p.Err}
	}
	return p.Err
}

// expireLogs removes the entries of all logs that are not to be kept.
func (r *Repository) expireLogs(ctx context.Context, keep func(refs.LogEntry) bool) error {
	names, err := r.refs.Logs()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := r.refs.ExpireLog(ctx, name, keep); err != nil {
			return fmt.Errorf("expire the log of %s: %w", name, err)
		}
	}
	return nil
}

// logEntriesKept returns which log entries have not expired. What was rewritten
// is not kept by logs.
func (r *Repository) logEntriesKept(ctx context.Context) (func(refs.LogEntry) bool, error) {
	all, err := r.age(keyLogExpire, defaultLogExpire)
	if err != nil {
		return nil, err
	}
	unreachable, err := r.age(keyLogExpireUnreachable, defaultLogExpireUnreachable)
	if err != nil {
		return nil, err
	}
	now := r.opt.Date() // the clock that logs are written by
	expired := func(e refs.LogEntry, age time.Duration) bool { return age != refs.Forever && now.Sub(e.Time) >= age }
	between, err := r.anyLogEntry(func(e refs.LogEntry) bool { return expired(e, unreachable) && !expired(e, all) })
	if err != nil {
		return nil, err
	}
	var reached map[object.ID]bool
	if between {
		if reached, err = r.reachable(ctx); err != nil {
			return nil, err
		}
	}
	rewritten, err := r.rewritten()
	if err != nil {
		return nil, err
	}
	return func(e refs.LogEntry) bool {
		return !rewritten[e.Old] && !rewritten[e.New] && !expired(e, all) && (!expired(e, unreachable) || reached[e.New] && (e.Old.IsZero() || reached[e.Old]))
	}, nil
}

// age returns the age that a key of the configuration has.
func (r *Repository) age(key string, otherwise time.Duration) (time.Duration, error) {
	text, set := r.config.Get(key)
	if !set {
		return otherwise, nil
	}
	age, err := refs.ParseAge(text)
	if err != nil {
		err = &ConfigError{Err: fmt.Errorf("%s: %q is %w", key, text, err)}
	}
	return age, err
}

// anyLogEntry reports whether a log has an entry for which is returns true.
func (r *Repository) anyLogEntry(is func(refs.LogEntry) bool) (bool, error) {
	names, err := r.refs.Logs()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		log, err := r.refs.Log(name)
		if err != nil {
			return false, rootError(&gc.Problem{Err: err})
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
func (r *Repository) reachable(ctx context.Context) (map[object.ID]bool, error) {
	head, err := r.refs.Head()
	if err != nil {
		return nil, rootError(&gc.Problem{Err: err})
	}
	list, err := r.refs.List("refs/")
	if err != nil {
		return nil, rootError(&gc.Problem{Err: err})
	}
	queue := []object.ID{head.ID}
	for _, ref := range list {
		id, err := refs.Peel(ctx, r.objects, ref.ID)
		if err != nil {
			return nil, &gc.DamageError{Root: ref.Name, Err: err}
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
		c, err := object.ReadCommit(ctx, r.objects, id)
		if err != nil {
			return nil, &gc.DamageError{Err: err}
		}
		queue = append(queue, c.Parents...)
	}
	return reached, nil
}
