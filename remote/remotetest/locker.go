package remotetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// Vault is a Memory that can lock blobs and records. It refuses to delete locked
// ones.
type Vault struct {
	*Memory
	Clock func() time.Time // must be set

	mu       sync.Mutex
	lock     remote.Lock
	locks    map[string]remote.Retention
	asked    int
	retained []string
}

// NewVault returns an empty store with a clock.
func NewVault(clock func() time.Time) *Vault {
	return &Vault{Memory: NewMemory(), Clock: clock, locks: map[string]remote.Retention{}}
}

// Asked returns how often Retention was called, and the names that were given to
// Retain, since the last call of Asked.
func (v *Vault) Asked() (asked int, retained []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	asked, retained = v.asked, v.retained
	v.asked, v.retained = 0, nil
	return asked, retained
}

// SetLock implements [remote.Locker].
func (v *Vault) SetLock(lock remote.Lock) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lock = lock
}

// stored locks a blob or record that was stored without an error.
func (v *Vault) stored(name string, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil && v.lock.Age > 0 {
		v.locks[name] = remote.Retention{Until: v.Clock().Add(v.lock.Age), Governance: v.lock.Governance}
	}
	return err
}

// Put implements [remote.Blobs].
func (v *Vault) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return v.stored(name, v.Memory.Put(ctx, name, body, size))
}

// Create implements [remote.Creator].
func (v *Vault) Create(ctx context.Context, name string, data []byte) error {
	return v.stored(name, v.Memory.Create(ctx, name, data))
}

// Delete implements [remote.Blobs].
func (v *Vault) Delete(ctx context.Context, name string) error {
	v.mu.Lock()
	until := v.locks[name].Until
	v.mu.Unlock()
	if until.After(v.Clock()) {
		return &remote.Error{Op: "delete", Name: name, Kind: remote.ErrPermission, Err: errors.New("locked")}
	}
	return v.Memory.Delete(ctx, name)
}

// Retention implements [remote.Locker].
func (v *Vault) Retention(ctx context.Context, name string) (remote.Retention, error) {
	if v.Data(name) == nil {
		return remote.Retention{}, &remote.Error{Op: "stat", Name: name, Kind: remote.ErrNotFound}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	return v.locks[name], ctx.Err()
}

// Retain implements [remote.Locker].
func (v *Vault) Retain(ctx context.Context, name string, r remote.Retention) error {
	if v.Data(name) == nil {
		return &remote.Error{Op: "lock", Name: name, Kind: remote.ErrNotFound}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	have := v.locks[name]
	if r.Until.Before(have.Until) || r.Governance && !have.Governance && have.Until.After(v.Clock()) {
		return &remote.Error{Op: "lock", Name: name, Kind: remote.ErrPermission}
	}
	v.retained = append(v.retained, name)
	v.locks[name] = r
	return ctx.Err()
}

// RunLocker checks that a backend keeps the promises of [remote.Locker]. Open
// returns an empty store. What the checks store stays locked for an hour or two.
func RunLocker(t *testing.T, open func(t *testing.T) remote.Backend) {
	b := open(t)
	l, ok := remote.As[remote.Locker](b)
	if !ok {
		t.Fatal("the backend is no Locker")
	}
	// A server may close the connection after it has refused a request.
	again := func(call func() error) (err error) {
		for range 10 {
			if err = call(); !errors.Is(err, remote.ErrTemporary) {
				break
			}
		}
		return err
	}
	put := func(name string) {
		t.Helper()
		err := again(func() error { return b.Put(t.Context(), name, strings.NewReader("data"), 4) })
		if err != nil {
			t.Fatal(err)
		}
	}
	retain := func(name string, r remote.Retention) error {
		return again(func() error { return l.Retain(t.Context(), name, r) })
	}
	create := func() error {
		return again(func() error { return b.Create(t.Context(), "root/1", []byte("root")) })
	}
	want := func(name string, governance bool, from, to time.Time) {
		t.Helper()
		var r remote.Retention
		err := again(func() (err error) { r, err = l.Retention(t.Context(), name); return err })
		// Stores cut times to a second or less.
		if err != nil || r.Until.Before(from.Add(-time.Second)) || r.Until.After(to) || r.Governance != governance {
			t.Errorf("%s: locked: %+v, %v; want until %v to %v", name, r, err, from, to)
		}
	}

	put("packs/free")
	want("packs/free", false, time.Time{}, time.Time{})
	for _, governance := range []bool{true, false} {
		name := map[bool]string{true: "packs/governance", false: "packs/compliance"}[governance]
		l.SetLock(remote.Lock{Age: time.Hour, Governance: governance})
		before := time.Now()
		put(name)
		want(name, governance, before.Add(time.Hour), time.Now().Add(time.Hour))
		longer := remote.Retention{Until: before.Add(2 * time.Hour), Governance: governance}
		if err := retain(name, longer); err != nil {
			t.Fatal(err)
		}
		want(name, governance, longer.Until, longer.Until)
		shorter := remote.Retention{Until: before.Add(90 * time.Minute), Governance: governance}
		if err := retain(name, shorter); err == nil && !governance {
			t.Error("a lock was made shorter")
		}
	}
	if err := retain("packs/compliance", remote.Retention{Until: time.Now().Add(3 * time.Hour), Governance: true}); err == nil {
		t.Error("a strict lock became one with governance")
	}

	if err := create(); err != nil {
		t.Fatal(err)
	}
	want("root/1", false, time.Now().Add(59*time.Minute), time.Now().Add(time.Hour))
	if err := create(); !errors.Is(err, remote.ErrExists) {
		t.Errorf("a second create: %v", err)
	}
	free := time.Now().Add(time.Hour)
	if err := retain("packs/free", remote.Retention{Until: free}); err != nil {
		t.Error(err)
	}
	want("packs/free", false, free, free)
	if _, err := l.Retention(t.Context(), "packs/none"); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("a missing blob: %v", err)
	}
	l.SetLock(remote.Lock{})
	put("packs/later")
	want("packs/later", false, time.Time{}, time.Time{})
}
