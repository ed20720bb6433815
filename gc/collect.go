// Package gc keeps a store healthy: it collects garbage, verifies a store, and
// finds the commits and paths that damaged or missing objects affect.
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
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
)

// lastGC is the file with the time of the last collection.
const lastGC = "gc.last"

// IsDue reports whether a collection is due: two weeks after the last one, or
// after the first object was stored. It reads almost nothing.
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

// putOff makes [IsDue] report false for two weeks, although no collection ran.
// It takes the maintenance lock.
func putOff(ctx context.Context, r *kist.Repository) error {
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), "maintenance.lock"), disk.Exclusive, 0)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return noteGC(r)
}

// noteGC records the present time as the time of the last collection. The caller
// holds the maintenance lock.
func noteGC(r *kist.Repository) error {
	return disk.WriteFile(filepath.Join(r.Dir(), lastGC), fmt.Appendln(nil, r.Options().Now().UTC().Format(time.RFC3339)))
}

// failedGC is the file with the message of the last 'kist gc --auto', if it
// failed.
const failedGC = "gc.failed"

// maxFailedGC is the most bytes of the message in failedGC.
const maxFailedGC = 4 << 10

// noteAuto records how an automatic collection ended, for [AutoFailure].
func noteAuto(r *kist.Repository, failed error) error {
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

// AutoFailure returns why the last automatic collection failed, or "" if it
// succeeded. The text is for people to read.
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

// Collect merges small volumes if there are many. Then it removes the garbage of the
// repository, as [PlanFor] and [Plan.Apply] do. The result counts both. The errors are those
// of PlanFor.
func Collect(ctx context.Context, r *kist.Repository, o PlanOptions) (Stats, error) {
	var merged volume.MaintainStats
	before, err := r.Objects().Size(ctx)
	if err == nil && !o.DryRun {
		merged, err = r.Objects().Maintain(ctx, volume.MaintainOptions{SingleHost: o.SingleHost})
	}
	if err != nil && !IsFull(err) { // the collection may free space for the next Maintain
		return Stats{}, err
	}

	plan, err := PlanFor(ctx, r, o)
	if err != nil {
		return Stats{}, err
	}
	defer plan.Close()
	if !o.DryRun {
		err = plan.Apply(ctx)
	}

	st := plan.Stats()
	st.Before = before
	st.Salvaged += merged.Salvaged
	st.Rewritten += merged.Merged
	st.Written += merged.Written
	return st, err
}

// CollectDue merges small volumes and collects garbage, as far as they are due, and records
// for [AutoFailure] how that ended. It does nothing if another process does it, or if it is
// not possible here. The configuration decides about [PlanOptions.Repack].
func CollectDue(ctx context.Context, r *kist.Repository, o PlanOptions) error {
	err := collectDue(ctx, r, o)
	if errors.Is(err, disk.ErrBusy) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return errors.Join(err, noteAuto(r, err))
}

// collectDue is CollectDue without the record.
func collectDue(ctx context.Context, r *kist.Repository, o PlanOptions) error {
	if r.Objects().NeedsMaintenance() {
		_, err := r.Objects().Maintain(ctx, volume.MaintainOptions{SingleHost: o.SingleHost})
		if err != nil && !IsFull(err) { // a collection may free space for it
			return err
		}
	}
	if !IsDue(r) {
		return nil
	}

	o.Idle = true
	var err error
	if o.Repack, o.MinRepack, err = r.Config().AutoRepack(); err != nil {
		return err
	}
	plan, err := PlanFor(ctx, r, o)
	if err == nil {
		err = plan.Apply(ctx)
		plan.Close()
	}
	if needed := (*NeededError)(nil); errors.As(err, &needed) { // or each command that writes would begin it again
		err = errors.Join(err, putOff(ctx, r))
	}
	return err
}

// PlanFor returns a plan that lists the garbage of the repository. An object is
// live if one of these reaches it: HEAD, a branch, a tag, a remote-tracking
// branch, a log of them, a hold, the index, an operation under way. The content
// that the next merge of unpushed work needs is live too.
//
// Expired log entries and ended holds keep nothing alive. Applying the plan
// removes these entries and switches off these holds. PlanFor sets the options
// that only the repository knows. The caller closes the plan.
func PlanFor(ctx context.Context, r *kist.Repository, o PlanOptions) (*Plan, error) {
	keep, err := logEntriesKept(ctx, r)
	if err != nil {
		return nil, err
	}
	o.Now = r.Options().Now()
	o.Before = func(ctx context.Context) error {
		return errors.Join(r.Records().Update(ctx, func(set *record.Set) error { return endHolds(r, set) }), ExpireLogs(ctx, r, keep))
	}

	o.After = func(context.Context) error { return errors.Join(noteGC(r), noteAuto(r, nil)) }
	return NewPlan(ctx, r.Objects(), func(ctx context.Context) (Needed, error) {
		set, err := r.Records().Load()
		if err == nil {
			err = endHolds(r, set)
		}
		if err != nil {
			return Needed{}, RootError(err)
		}
		needed, err := FindNeeds(ctx, r, r.ViewOf(set), keep)
		if err != nil {
			return needed, err
		}
		orphans, err := orphanRoots(ctx, r)
		needed.Roots = append(needed.Roots, orphans...)
		return needed, err
	}, o)
}

// endHolds switches off the holds that have ended.
func endHolds(r *kist.Repository, set *record.Set) error {
	set.EndHolds(r.Options().Now(), r.Recorder(), r.Options().Host)
	return nil
}

// ExpireLogs removes the entries of all logs for which keep returns false.
func ExpireLogs(ctx context.Context, r *kist.Repository, keep func(name string, e refs.LogEntry) bool) error {
	names, err := r.Refs().Logs()
	if err != nil {
		return err
	}
	for _, name := range names {
		kept := func(e refs.LogEntry) bool { return keep(name, e) }
		if _, err := r.Refs().ExpireLog(ctx, name, kept); err != nil {
			return fmt.Errorf("expire the log of %s: %w", name, err)
		}
	}

	return nil
}

// The configuration keys of the age at which log entries expire. The second one
// is for entries whose commit no branch or tag reaches any more.
const (
	keyLogExpire            = "gc.reflog-expire"
	keyLogExpireUnreachable = "gc.reflog-expire-unreachable"
)

const (
	day                         = 24 * time.Hour
	defaultLogExpire            = 90 * day
	defaultLogExpireUnreachable = 30 * day
)

// logEntriesKept returns a function that reports whether an entry of a log is kept: it
// has not expired and names no rewritten commit. Stashes do not expire.
func logEntriesKept(ctx context.Context, r *kist.Repository) (func(name string, e refs.LogEntry) bool, error) {
	all, unreachable, err := logAges(r)
	if err != nil {
		return nil, err
	}

	now := r.Options().Date() // the clock of log entries
	expired := func(e refs.LogEntry, age time.Duration) bool { return age != refs.Forever && now.Sub(e.Time) >= age }
	between, err := anyLogEntry(r, func(e refs.LogEntry) bool { return expired(e, unreachable) && !expired(e, all) })
	if err != nil {
		return nil, err
	}
	var reached map[object.ID]bool
	if between {
		if reached, err = reachableCommits(ctx, r); err != nil {
			return nil, err
		}
	}
	rewritten, err := Rewritten(r)
	if err != nil {
		return nil, err
	}
	return func(name string, e refs.LogEntry) bool {
		if name == refs.Stash {
			return true
		}
		return !rewritten[e.Old] && !rewritten[e.New] && !expired(e, all) && (!expired(e, unreachable) || reached[e.New] && (e.Old.IsZero() || reached[e.Old]))
	}, nil
}

// logAges returns the ages at which entries expire, and entries that no name reaches.
func logAges(r *kist.Repository) (all, unreachable time.Duration, err error) {
	if all, err = configAge(r, keyLogExpire, defaultLogExpire); err != nil {
		return 0, 0, err
	}
	unreachable, err = configAge(r, keyLogExpireUnreachable, defaultLogExpireUnreachable)
	return all, unreachable, err
}

// configAge returns the age that the configuration has for key, or otherwise.
func configAge(r *kist.Repository, key string, otherwise time.Duration) (time.Duration, error) {
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

// anyLogEntry reports whether any log has an entry that matches.
func anyLogEntry(r *kist.Repository, matches func(refs.LogEntry) bool) (bool, error) {
	names, err := r.Refs().Logs()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		log, err := r.Refs().Log(name)
		if err != nil {
			return false, RootError(err)
		}
		for _, e := range log {
			if matches(e) {
				return true, nil
			}
		}
	}

	return false, nil
}

// reachableCommits returns all commits reachable from HEAD, a branch, a tag or a
// remote-tracking branch.
func reachableCommits(ctx context.Context, r *kist.Repository) (map[object.ID]bool, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, RootError(err)
	}
	list, err := r.Refs().List("refs/")
	if err != nil {
		return nil, RootError(err)
	}
	var tips []object.ID
	if !head.Unborn() {
		tips = append(tips, head.ID)
	}
	for _, ref := range list {
		id, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if err != nil {
			return nil, &NeededError{Root: ref.Name, Err: err}
		}
		tips = append(tips, id)
	}

	reached, err := history.Ancestors(ctx, r.Objects(), tips)
	if err != nil {
		return nil, &NeededError{Err: err}
	}
	reached[object.ID{}] = true // the old or new value of a ref that did not exist
	return reached, nil
}
