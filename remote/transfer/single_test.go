package transfer

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/remote/rootlog"
)

// TestSingleWriter checks a remote whose first writer requires SingleWriter. Every process
// can read it. A process without this setting cannot write to it.
func TestSingleWriter(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p, q := newPusher(t, b), newPusher(t, b)
	q.local, q.ReadWriter = p.local, p.local
	p.remote.o.SingleWriter = true
	one := p.grow(1)
	p.mustPush("main", one)

	before := len(b.Names(""))
	two := q.grow(2, one)
	for name, err := range map[string]error{
		"push":    func() error { _, err := q.push("main", two); return err }(),
		"collect": func() error { _, err := collectIn(t, b, nil, atOnce); return err }(),
		"repair":  func() error { _, err := q.remote.Repair(t.Context(), q.local, RepairOptions{}); return err }(),
	} {
		if !errors.Is(err, rootlog.ErrSingleWriter) {
			t.Errorf("%s: %v, want ErrSingleWriter", name, err)
		}
	}
	if len(b.Names("")) != before {
		t.Error("a refused operation wrote to the remote")
	}
	if found := problems(t, b, true); len(found) > 0 {
		t.Errorf("problems %q, want none", found)
	}

	q.remote.o.SingleWriter = true
	q.mustPush("main", two)
	if head := newCollector(t, b).head(); !head.SingleWriter {
		t.Error("the next root does not require SingleWriter")
	}
}

// TestUnfit checks that nothing is written to a store after a failed check, until a check
// passes.
func TestUnfit(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p := newPusher(t, b)
	if err := NoteCheck(p.dir, false); err != nil {
		t.Fatal(err)
	}
	one := p.grow(1)
	if _, err := p.push("main", one); !errors.Is(err, ErrUnfit) || len(b.Names("packs/")) > 0 {
		t.Errorf("push: %v, want ErrUnfit and no packs", err)
	}
	for range 2 {
		if err := NoteCheck(p.dir, true); err != nil {
			t.Fatal(err)
		}
	}
	p.mustPush("main", one)
}
