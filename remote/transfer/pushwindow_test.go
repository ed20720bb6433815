package transfer_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestSendsWhileWalking checks that a large push sends packs before it has looked for all objects: it fails at the last one, and the
// next push sends only the rest. A dry run counts what the push sends, each object once.
func TestSendsWhileWalking(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.KeepSmall = true
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("a%02d", i)] = objecttest.Noise(i, 4<<20)
		files[fmt.Sprintf("b%02d", i)] = objecttest.Noise(i, 4<<20) // the same again
	}
	last := objecttest.Noise(100, 1<<20)
	files["z"] = last
	one := p.MakeCommit(p.MakeTree(files, nil))
	push := func(dry bool) (*transfer.PushResult, error) {
		return p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{
			Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: objecttest.CommitKeys(one)[0]}}, Jobs: 1, DryRun: dry,
		})
	}
	planned, err := push(true)
	if err != nil || planned.Objects != 13 || planned.Packs != 3 {
		t.Errorf("dry run: %+v, %v", planned, err)
	}

	key := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(last))}
	p.Local.Delete(key)
	_, err = push(false)
	if missing, ok := errors.AsType[*object.AbsentError](err); !ok || missing.Key != key {
		t.Fatalf("push: %v, want that %s is missing", err, key)
	}
	if sent := len(journaled(t, p.Dir)); sent != 1 {
		t.Fatalf("%d packs in the journal, want 1", sent)
	}

	p.MakeTree(map[string]string{"z": last}, nil)
	p.Reopen(b)
	if planned, err = push(true); err != nil || planned.Packs != 2 {
		t.Errorf("dry run after an interruption: %+v, %v", planned, err)
	}
	if result, err := push(false); err != nil || result.Packs != 2 || result.Objects != planned.Objects {
		t.Errorf("push after an interruption: %+v, %v; want %d objects in 2 packs", result, err, planned.Objects)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
	if left := journaled(t, p.Dir); len(left) > 0 {
		t.Errorf("left in the journal: %q", left)
	}
}
