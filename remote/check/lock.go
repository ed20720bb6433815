package check

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// lockProbe is the age of the lock of a probe. The clock of the store may be wrong by
// a quarter of an hour.
const lockProbe = time.Hour

// lockStep is the check of [RunLock]. It is no part of [Run].
var lockStep = step{name: "lock", what: "a stored blob stays locked"}

// RunLock checks that a store locks blobs, and that the credentials permit that. It adds
// the result to the report of [Run]. The probe is locked, so it stays for an hour.
func RunLock(ctx context.Context, b remote.Backend, r *Report, lock remote.Lock, o Options) {
	r.runExtra(&lockStep, o, func() error { return tryLock(ctx, b, r.Prefix+"packs/lock", lock, o) })
}

// runExtra runs a check that is no part of [Run], and adds its result.
func (r *Report) runExtra(s *step, o Options, run func() error) {
	result := Result{Name: s.name, What: s.what, Status: OK}
	start := o.Now()
	if err := run(); err != nil {
		result.Status, result.Detail, result.Err = Failed, err.Error(), err
	}
	result.Took = max(0, o.Now().Sub(start))
	r.addResult(o, result)
}

func tryLock(ctx context.Context, b remote.Backend, name string, lock remote.Lock, o Options) error {
	store, ok := remote.As[remote.Locker](b)
	if !ok {
		return &remote.Error{Op: "lock", Kind: remote.ErrUnsupported, Err: errors.New("only a bucket of S3 can lock files")}
	}
	o.Retry.Now = o.Now
	lock.Age = lockProbe
	store.SetLock(lock)
	until := o.Now().Add(lockProbe)
	if err := b.Put(ctx, name, strings.NewReader("probe"), 5); err != nil {
		return err
	}
	return retry.Do(ctx, o.Retry, "lock", func(ctx context.Context) error {
		have, err := store.Retention(ctx, name)
		if err != nil {
			return err
		}
		if have.Until.Before(until.Add(-time.Minute)) || have.Governance != lock.Governance {
			return failed("%q is not locked although the store accepted the lock", name)
		}
		return store.Retain(ctx, name, remote.Retention{Until: have.Until.Add(time.Minute), Governance: lock.Governance})
	})
}
