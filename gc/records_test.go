package gc_test

import (
	"context"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// tree returns the tree of a commit.
func (w *world) tree(commit object.Key) object.Key {
	w.Helper()
	c, err := object.ReadCommit(context.Background(), w.store, commit.ID)
	w.check(err)
	return object.Key{Kind: object.KindTree, ID: c.Tree}
}

// TestExpired checks that the content of a commit that has expired goes, and the
// commit stays; and that a hold prevents it.
func TestExpired(t *testing.T) {
	w := newWorld(t, 6)
	first := w.commit()
	second := w.commit(first.ID)
	third := w.commit(second.ID)
	w.roots["main"] = third
	trees := map[object.Key]bool{w.tree(first): true, w.tree(second): false, w.tree(third): true}
	w.said.Switch(record.Record{Kind: record.Expire, Key: first, On: true, Time: w.now})
	w.said.Switch(record.Record{Kind: record.Expire, Key: second, On: true, Time: w.now})
	w.said.Switch(record.Record{Kind: record.Hold, Key: first, On: true, Time: w.now})
	w.collect(gc.PlanOptions{})
	w.wantWhole()
	kept := w.kept()
	for tree, want := range trees {
		if kept[tree] != want {
			t.Errorf("%s is kept: %v", tree, kept[tree])
		}
	}
	for _, commit := range []object.Key{first, second, third} {
		if !kept[commit] {
			t.Errorf("%s has gone", commit)
		}
	}
}

// TestUndone checks that what was to go because of a record stays if that is
// taken back before it goes.
func TestUndone(t *testing.T) {
	w := newWorld(t, 7)
	first := w.commit()
	w.roots["main"] = w.commit(first.ID)
	chunk := w.commitOf("a text that is purged, and then is not")
	w.roots["other"] = chunk.commit
	w.said.Switch(record.Record{Kind: record.Expire, Key: first, On: true, Time: w.now})
	w.said.Switch(record.Record{Kind: record.Purge, Key: chunk.content, On: true, Time: w.now})
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	if p.Stats().Removed == 0 {
		t.Fatalf("%+v", p.Stats())
	}
	w.said.Switch(record.Record{Kind: record.Expire, Key: first, Time: w.now})
	w.said.Switch(record.Record{Kind: record.Purge, Key: chunk.content, Time: w.now})
	w.check(p.Apply(context.Background()))
	p.Close()
	w.wantWhole()
	if st := p.Stats(); st.Removed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPurged checks that a content that was purged goes, and nothing else of
// the commits that have it.
func TestPurged(t *testing.T) {
	w := newWorld(t, 8)
	secret := w.commitOf("a secret that was committed by mistake, and is purged")
	w.roots["main"] = w.commit(secret.commit.ID)
	before := w.kept()
	w.said.Switch(record.Record{Kind: record.Purge, Key: secret.content, On: true, Time: w.now})
	if st := w.collect(gc.PlanOptions{}); st.Removed != 1 {
		t.Errorf("%+v", st)
	}
	w.wantWhole()
	kept := w.kept()
	delete(before, secret.content)
	if len(kept) != len(before) || kept[secret.content] {
		t.Errorf("%d objects are left of %d", len(kept), len(before))
	}
}

// stored is a commit with one file.
type stored struct{ commit, content object.Key }

func (w *world) commitOf(text string) stored {
	w.Helper()
	ctx := context.Background()
	session := w.begin()
	defer session.Close()
	id, err := session.Put(ctx, object.KindChunk, []byte(text))
	w.check(err)
	tree := object.NewTreeWriter(session)
	content := object.Key{Kind: object.KindChunk, ID: id}
	w.check(tree.Add(ctx, object.Entry{Name: "file", Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)), Content: content}))
	return stored{w.finish(session, tree), content}
}
