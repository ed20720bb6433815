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

// gc removes the content of an expired commit but keeps the commit. A hold keeps
// the content too.
func TestExpired(t *testing.T) {
	w := newWorld(t, 6)
	first := w.commit()
	second := w.commit(first.ID)
	third := w.commit(second.ID)
	w.roots["main"] = third
	trees := map[object.Key]bool{w.tree(first): true, w.tree(second): false, w.tree(third): true}
	w.records.Switch(record.Record{Kind: record.Expire, Key: first, On: true, Time: w.now})
	w.records.Switch(record.Record{Kind: record.Expire, Key: second, On: true, Time: w.now})
	w.records.Switch(record.Record{Kind: record.Hold, Key: first, On: true, Time: w.now})
	w.collect(gc.PlanOptions{})
	w.wantIntact()
	kept := w.kept()
	for tree, want := range trees {
		if kept[tree] != want {
			t.Errorf("%s is kept: %t, want %t", tree, kept[tree], want)
		}
	}
	for _, commit := range []object.Key{first, second, third} {
		if !kept[commit] {
			t.Errorf("%s is missing", commit)
		}
	}
}

// If records are switched off between plan and Apply, their content stays.
func TestUndone(t *testing.T) {
	w := newWorld(t, 7)
	first := w.commit()
	w.roots["main"] = w.commit(first.ID)
	chunk := w.commitOf("a text that is purged, and then is not")
	w.roots["other"] = chunk.commit
	w.records.Switch(record.Record{Kind: record.Expire, Key: first, On: true, Time: w.now})
	w.records.Switch(record.Record{Kind: record.Purge, Key: chunk.content, On: true, Time: w.now})
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	if p.Stats().Removed == 0 {
		t.Fatalf("plan %+v, want garbage", p.Stats())
	}
	w.records.Switch(record.Record{Kind: record.Expire, Key: first, Time: w.now})
	w.records.Switch(record.Record{Kind: record.Purge, Key: chunk.content, Time: w.now})
	w.check(p.Apply(context.Background()))
	p.Close()
	w.wantIntact()
	if st := p.Stats(); st.Removed != 0 {
		t.Errorf("Apply: %+v, want nothing removed", st)
	}
}

// gc removes a purged content, and nothing else of the commits that have it.
func TestPurged(t *testing.T) {
	w := newWorld(t, 8)
	secret := w.commitOf("a secret that was committed by mistake, and is purged")
	w.roots["main"] = w.commit(secret.commit.ID)
	before := w.kept()
	w.records.Switch(record.Record{Kind: record.Purge, Key: secret.content, On: true, Time: w.now})
	if st := w.collect(gc.PlanOptions{}); st.Removed != 1 {
		t.Errorf("%+v, want one object removed", st)
	}
	w.wantIntact()
	kept := w.kept()
	delete(before, secret.content)
	if len(kept) != len(before) || kept[secret.content] {
		t.Errorf("%d objects left, want %d without the content", len(kept), len(before))
	}
}

// stored has the keys of a commit with one file.
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
