package transfer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

const day = 24 * time.Hour

// vault is a remote in a store with locks, and the clock of both.
type vault struct {
	*remotetest.Vault
	t   *testing.T
	now time.Time
}

func newVault(t *testing.T) *vault {
	v := &vault{t: t, now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	v.Vault = remotetest.NewVault(func() time.Time { return v.now })
	v.Memory = transfertest.NewRemote(t)
	return v
}

// pusher returns a pusher that locks for an age.
func (v *vault) pusher(age time.Duration) *transfertest.Pusher {
	p := transfertest.NewPusher(v.t, v)
	p.Remote.Options().Lock.Age = age
	p.Remote.Options().Now = func() time.Time { return v.now }
	return p
}

// wantLocked checks that all files in use are locked for at least an age.
func (v *vault) wantLocked(age time.Duration) {
	v.t.Helper()
	head := transfertest.NewCollector(v.t, v.Memory).Head()
	for _, name := range v.Names("") {
		_, condemned := head.Condemned[name]
		r, err := v.Retention(v.t.Context(), name)
		if err != nil || !condemned && r.Until.Before(v.now.Add(age)) {
			v.t.Errorf("%s is locked until %v, %v", name, r.Until, err)
		}
	}
	v.Asked()
}

// TestLocks checks that a push locks each new file, and renews a lock after half of its time.
// It looks up only unknown and expiring locks.
func TestLocks(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	p := v.pusher(30 * day)
	one := p.MakeGrown(1)
	push := func(p *transfertest.Pusher, id object.ID) transfer.LockResult {
		t.Helper()
		result := p.MustPush("main", id)
		if result.LockErr != nil {
			t.Fatal(result.LockErr)
		}
		return result.Locks
	}
	if got := push(p, one); got.Renewed != 1 || got.Files != len(v.Names("")) || !got.Until.Equal(v.now.Add(30*day)) {
		t.Errorf("first push: %+v for the files %q", got, v.Names(""))
	}
	v.wantLocked(30 * day)

	push(p, one)
	if asked, renewed := v.Asked(); asked+len(renewed) > 0 {
		t.Errorf("without a change: %d looked up, %q renewed", asked, renewed)
	}

	v.now = v.now.Add(10 * day)
	before := len(v.Names(""))
	two := p.MakeGrown(2, one)
	push(p, two)
	if asked, renewed := v.Asked(); asked != len(v.Names(""))-before || len(renewed) > 0 {
		t.Errorf("after 10 days: %d of %q looked up, %q renewed", asked, v.Names(""), renewed)
	}
	v.wantLocked(20 * day)

	v.now = v.now.Add(6 * day)
	if got := push(p, two); got.Renewed < before || !got.Until.Equal(v.now.Add(24*day)) {
		t.Errorf("after half of the time: %+v", got)
	}
	v.wantLocked(15 * day)

	// Another clone locks as the remote requires, and looks up all locks itself.
	q := v.pusher(0)
	q.Local, q.ReadWriter = p.Local, p.Local
	three := q.MakeGrown(3, two)
	push(q, three)
	if asked, renewed := v.Asked(); asked != len(v.Names("")) || len(renewed) > 0 {
		t.Errorf("another clone: %d of %d looked up, %q renewed", asked, len(v.Names("")), renewed)
	}
	v.wantLocked(15 * day)

	// A longer age applies at once. Without locks, nothing is looked up.
	q.Remote.Options().Lock.Age = 90 * day
	four := q.MakeGrown(4, three)
	push(q, four)
	v.wantLocked(90 * day)
	q.Remote.Options().Lock.Age = -1
	push(q, q.MakeGrown(5, four))
	if asked, _ := v.Asked(); asked > 0 || transfertest.NewCollector(t, v.Memory).Head().Lock.Age != 0 {
		t.Errorf("after locks were switched off: %d looked up", asked)
	}
}

// TestLocksFail checks that a push succeeds if a file in use cannot be locked. It reports the
// file and renews all other locks.
func TestLocksFail(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	p := v.pusher(30 * day)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	v.now = v.now.Add(20 * day)
	v.Remove(v.Names("packs/")[0])
	if got := p.MustPush("main", one); !errors.Is(got.LockErr, remote.ErrNotFound) || got.Locks.Renewed != len(v.Names("")) {
		t.Errorf("locks %+v, %v, want ErrNotFound", got.Locks, got.LockErr)
	}
	v.wantLocked(30 * day)
	if got := p.MustPush("main", one); got.LockErr == nil {
		t.Error("the next push does not report the file")
	}

	// The store cannot lock.
	q := transfertest.NewPusher(t, transfertest.NewRemote(t))
	q.Remote.Options().Lock.Age = 30 * day
	if _, err := q.PushBranch("main", q.MakeGrown(1)); !errors.Is(err, remote.ErrUnsupported) {
		t.Errorf("push to a store without locks: %v, want ErrUnsupported", err)
	}
}

// TestCollectLocked checks that a collection keeps locked files, and deletes them after the
// locks have ended.
func TestCollectLocked(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	p := v.pusher(30 * day)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	p.MustPush("other", p.MakeGrown(2))
	transfertest.NewCollector(t, v.Memory).DeleteBranch("other")

	collect := func(dryRun bool) collect.Stats {
		t.Helper()
		c, err := collect.PlanGarbage(t.Context(), p.Remote, p.Local, collect.Options{DryRun: dryRun})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !dryRun {
			if err := c.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return c.Stats()
	}
	v.now = v.now.Add(day)
	for _, dryRun := range []bool{true, false, false} {
		st := collect(dryRun)
		until := v.now.Add(29 * day)
		if st.Locked < 2 || st.LockedBytes == 0 || !st.LockedUntil.Equal(until) || st.Deleted+st.Forgotten > 0 || st.After < st.Before {
			t.Errorf("dry run %v: %+v; want files that are locked until %v", dryRun, st, until)
		}
	}
	locked := len(transfertest.NewCollector(t, v.Memory).Head().Condemned)

	v.now = v.now.Add(29 * day)
	if got := p.MustPush("main", p.MakeGrown(3, one)); got.LockErr != nil {
		t.Fatal(got.LockErr)
	}
	if st := collect(false); st.Deleted != locked || st.Locked > 0 || st.Forgotten != locked {
		t.Errorf("after the locks: %+v, want %d deleted", st, locked)
	}
	if found := transfertest.CheckProblems(t, v.Memory, true); len(found) > 0 {
		t.Errorf("problems %q, want none", found)
	}
	if i := slices.IndexFunc(v.Names(""), func(name string) bool { return strings.HasPrefix(name, "probe/") }); i >= 0 {
		t.Errorf("the probe %s is left", v.Names("")[i])
	}
}
