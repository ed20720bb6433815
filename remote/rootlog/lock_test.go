package rootlog

import (
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// The required lock of a root holds for later roots, until a root changes or ends it.
func TestLockIsRecorded(t *testing.T) {
	b := remotetest.NewMemory()
	const day = 24 * time.Hour
	l := newLog(t, b)
	head, err := l.Head(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	month, year := remote.Lock{Age: 30 * day}, remote.Lock{Age: 365 * day, Governance: true}
	for i, step := range []struct{ change, want remote.Lock }{
		{remote.Lock{}, remote.Lock{}}, {month, month}, {remote.Lock{}, month}, {year, year}, {remote.Lock{Age: -1}, remote.Lock{}}, {remote.Lock{}, remote.Lock{}},
	} {
		appended, err := l.Append(t.Context(), head, Change{Policy: Policy{Lock: step.change}, Time: time.Unix(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		read, err := newLog(t, b).Head(t.Context(), nil)
		if err != nil || read.Lock != step.want || appended.Lock != step.want {
			t.Errorf("step %d: %+v, read as %+v, %v; want %+v", i, appended.Lock, read.Lock, err, step.want)
		}
		head = read
	}
	if _, err := l.Append(t.Context(), head, Change{Policy: Policy{Lock: remote.Lock{Age: MaxLock + time.Second}}, Time: time.Unix(1, 0)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a lock longer than MaxLock: error %v, want ErrInvalid", err)
	}
}
