package transfer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// A push confirms a ref if nothing recent proves that it was up to date. Another writer may
// be first: then the push looks at the ref again.
func TestConfirmRefs(t *testing.T) {
	for _, test := range []struct {
		name      string
		meanwhile func(other *transfertest.Pusher, at object.ID)
		want      bool
	}{
		{"alone", nil, true},
		{"another branch moved", func(other *transfertest.Pusher, at object.ID) { other.MustPush("other", at) }, true},
		{"the branch moved", func(other *transfertest.Pusher, at object.ID) { other.MustPush("main", other.MakeGrown(2, at)) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := transfertest.NewRemote(t)
			faulty := remotetest.NewFaulty(b)
			p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
			one := p.MakeGrown(1)
			p.MustPush("main", one)
			other.MakeGrown(1)

			o := transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: object.Key{Kind: object.KindCommit, ID: one}}}, ConfirmAfter: time.Hour}
			if test.meanwhile != nil {
				faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { test.meanwhile(other, one) }})
			}
			result, err := p.Remote.Push(t.Context(), p.Local, o)
			if err != nil || result.Confirmed != test.want {
				t.Errorf("confirmed %v, error %v; want %v", result.Confirmed, err, test.want)
			}
			if age := time.Since(headOf(t, b).Confirmed(transfertest.MainRef)); (age < time.Hour) != test.want {
				t.Errorf("the confirmation is %v old, want one: %v", age, test.want)
			}

			transfertest.WantIntact(t, b, nil)
			if !test.want {
				return
			}

			seq := headOf(t, b).Seq
			if result, err := p.Remote.Push(t.Context(), p.Local, o); err != nil || result.Confirmed || headOf(t, b).Seq != seq {
				t.Errorf("confirmed again: %v, error %v", result.Confirmed, err)
			}
		})
	}
}

// A push confirms nothing on a store that is not fit for roots.
func TestConfirmUnfit(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	seq := headOf(t, b).Seq
	if err := transfer.NoteCheck(p.Dir, false); err != nil {
		t.Fatal(err)
	}

	o := transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: object.Key{Kind: object.KindCommit, ID: one}}}, ConfirmAfter: time.Hour}
	result, err := p.Remote.Push(t.Context(), p.Local, o)
	if !errors.Is(err, transfer.ErrUnfit) || result.Confirmed || headOf(t, b).Seq != seq {
		t.Errorf("confirmed %v, error %v, want ErrUnfit", result.Confirmed, err)
	}
	transfertest.WantIntact(t, b, nil)
}

// headOf returns the head of a remote.
func headOf(t *testing.T, b *remotetest.Memory) *rootlog.State {
	t.Helper()
	head, err := transfertest.NewPusher(t, b).Remote.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}
