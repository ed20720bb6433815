package transfer_test

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestSingleWriter checks a remote whose first writer requires SingleWriter. Every process
// can read it. A process without this setting cannot write to it.
func TestSingleWriter(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p, q := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	q.Local, q.ReadWriter = p.Local, p.Local
	p.Remote.Options().SingleWriter = true
	one := p.MakeGrown(1)
	p.MustPush("main", one)

	before := len(b.Names(""))
	two := q.MakeGrown(2, one)
	for name, err := range map[string]error{
		"push":    func() error { _, err := q.PushBranch("main", two); return err }(),
		"collect": func() error { _, err := transfertest.CollectIn(t, b, nil, transfertest.AtOnce); return err }(),
		"repair": func() error {
			_, err := collect.Repair(t.Context(), q.Remote, q.Local, collect.RepairOptions{})
			return err
		}(),
	} {
		if !errors.Is(err, rootlog.ErrSingleWriter) {
			t.Errorf("%s: %v, want ErrSingleWriter", name, err)
		}
	}
	if len(b.Names("")) != before {
		t.Error("a refused operation wrote to the remote")
	}
	if found := transfertest.CheckProblems(t, b, true); len(found) > 0 {
		t.Errorf("problems %q, want none", found)
	}

	q.Remote.Options().SingleWriter = true
	q.MustPush("main", two)
	if head := transfertest.NewCollector(t, b).Head(); !head.SingleWriter {
		t.Error("the next root does not require SingleWriter")
	}
	if q.Remote.IsEncrypted() {
		if err := changeKeys(t, q.Remote, nil); err != nil {
			t.Errorf("change keys: %v", err)
		}
	}
}

// TestUnfit checks that nothing is written to a store after a failed check, until a check
// passes.
func TestUnfit(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	if err := transfer.NoteCheck(p.Dir, false); err != nil {
		t.Fatal(err)
	}
	one := p.MakeGrown(1)
	if _, err := p.PushBranch("main", one); !errors.Is(err, transfer.ErrUnfit) || len(b.Names("packs/")) > 0 {
		t.Errorf("push: %v, want ErrUnfit and no packs", err)
	}
	for range 2 {
		if err := transfer.NoteCheck(p.Dir, true); err != nil {
			t.Fatal(err)
		}
	}
	p.MustPush("main", one)
}
