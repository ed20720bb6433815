package transfer

import (
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// A push confirms a ref if nothing recent proves that it was up to date. Another writer may
// be first: then the push looks at the ref again.
func TestConfirmRefs(t *testing.T) {
	for _, test := range []struct {
		name      string
		meanwhile func(other *pusher, at object.ID)
		want      bool
	}{
		{"alone", nil, true},
		{"another branch moved", func(other *pusher, at object.ID) { other.mustPush("other", at) }, true},
		{"the branch moved", func(other *pusher, at object.ID) { other.mustPush("main", other.grow(2, at)) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newRemote(t)
			faulty := remotetest.NewFaulty(b)
			p, other := newPusher(t, faulty), newPusher(t, b)
			one := p.grow(1)
			p.mustPush("main", one)
			other.grow(1)

			o := PushOptions{Updates: []RefUpdate{{Name: mainRef, New: object.Key{Kind: object.KindCommit, ID: one}}}, ConfirmAfter: time.Hour}
			if test.meanwhile != nil {
				faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { test.meanwhile(other, one) }})
			}
			result, err := p.remote.Push(t.Context(), p.local, o)
			if err != nil || result.Confirmed != test.want {
				t.Errorf("confirmed %v, error %v; want %v", result.Confirmed, err, test.want)
			}
			if age := time.Since(headOf(t, b).Confirmed(mainRef)); (age < time.Hour) != test.want {
				t.Errorf("the confirmation is %v old, want one: %v", age, test.want)
			}

			wantIntact(t, b, nil)
			if !test.want {
				return
			}

			seq := headOf(t, b).Seq
			if result, err := p.remote.Push(t.Context(), p.local, o); err != nil || result.Confirmed || headOf(t, b).Seq != seq {
				t.Errorf("confirmed again: %v, error %v", result.Confirmed, err)
			}
		})
	}
}

// headOf returns the head of a remote.
func headOf(t *testing.T, b *remotetest.Memory) *rootlog.State {
	t.Helper()
	head, err := newPusher(t, b).remote.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}
