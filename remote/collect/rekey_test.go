package collect_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestRekey checks that a collection replaces all files that are encrypted with an older key. State files have the
// names of branches. The remote has the same content afterwards.
func TestRekey(t *testing.T) {
	b := transfertest.NewEncrypted(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	transfertest.NewCollector(t, b).AppendRoot(func(head *rootlog.State) rootlog.Change {
		var c rootlog.Change
		for i := range 400 { // enough refs for a state file
			c.Refs = append(c.Refs, rootlog.RefChange{Name: fmt.Sprintf("refs/heads/%0100d", i), New: head.Refs["refs/heads/main"]})
		}
		return c
	})
	old := transfertest.Files(b)
	if len(b.Names("state/")) == 0 {
		t.Fatal("no state files")
	}
	if _, err := transfer.ChangeKeyset(t.Context(), p.Remote, keyset.Plugins{}, (*keyset.Keyset).Rotate); err != nil {
		t.Fatal(err)
	}
	countUses(t, p, map[uint32]int{1: len(old)})

	rekey := collect.Options{Rekey: true}
	planned := rekey
	planned.DryRun = true
	if st := transfertest.MustCollect(t, b, planned); st.Condemned != len(old) {
		t.Errorf("planned: %+v, want %d files", st, len(old))
	}
	transfertest.MustCollect(t, b, rekey)
	for _, name := range transfertest.Files(b) {
		if slices.Contains(old, name) {
			t.Errorf("%s is still there", name)
		}
	}
	countUses(t, p, map[uint32]int{2: len(transfertest.Files(b))})
	head, err := p.Remote.Head(t.Context())
	if err != nil || len(head.Refs) != 401 || head.Refs["refs/heads/main"].ID != one {
		t.Fatalf("head %+v, %v", head, err)
	}
	for _, problem := range transfertest.CheckProblems(t, b, true) {
		t.Error(problem)
	}

	transfertest.MustCollect(t, b, rekey)
	if again := transfertest.NewCollector(t, b).Head(); again.Seq != head.Seq {
		t.Errorf("a second collection appended root %d", again.Seq)
	}
}

// countUses checks the numbers of files that are encrypted with the key of each epoch.
func countUses(t *testing.T, p *transfertest.Pusher, want map[uint32]int) {
	t.Helper()
	uses, err := transfer.KeyUses(t.Context(), p.Remote)
	if err != nil {
		t.Fatal(err)
	}
	for i, use := range uses {
		if use.Files != want[uint32(i+1)] {
			t.Errorf("epoch %d: %+v, want %d files", i+1, use, want[uint32(i+1)])
		}
	}
}
