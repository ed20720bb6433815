package rootlog

import (
	"maps"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// The list of lost objects keeps the first user who accepted a loss. While the list has
// entries, programs that do not know the feature may only read.
func TestLostList(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)
	chunk, tree := purge(1).Key, object.Key{Kind: object.KindTree, ID: purge(2).Key.ID}
	s = mustAppend(t, l, s, Change{Time: noon, Who: "Ann", Lost: []object.Key{chunk, commit(1)}})
	s = mustAppend(t, l, s, Change{Time: noon, Who: "Bob", Lost: []object.Key{chunk, tree}, Found: []object.Key{commit(1)}})
	s = mustAppend(t, l, s, Change{Time: noon, Condemn: []string{name(1).Path()}})

	read := mustHead(t, newLog(t, m), nil)
	if want := map[object.Key]string{chunk: "Ann", tree: "Bob"}; !maps.Equal(read.Lost, want) || !maps.Equal(s.Lost, want) {
		t.Errorf("read %v, appended %v, want %v", read.Lost, s.Lost, want)
	}
	if only := []string{featureLost}; !slices.Equal(read.Write, only) || !slices.Equal(read.GC, only) || len(read.Read) > 0 {
		t.Errorf("features: %q, %q, %q", read.Read, read.Write, read.GC)
	}

	// A long list is in a state file.
	var c Change
	for i := range 5000 {
		c.Lost = append(c.Lost, purge(i).Key)
	}
	c.Time = noon
	s = mustAppend(t, l, s, c)

	read = mustHead(t, newLog(t, m), nil)
	if len(read.Lost) != 5001 || len(read.NamedFiles()) != 1 || len(m.Data(RootName(s.Seq))) > 1000 {
		t.Errorf("%d lost, state files %q", len(read.Lost), read.NamedFiles())
	}
	if problems, err := newLog(t, m).Stored(ctx, read); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}

	s = mustAppend(t, l, s, Change{Time: noon, Found: slices.Collect(maps.Keys(s.Lost))})
	read = mustHead(t, newLog(t, m), nil)
	if len(read.Lost)+len(read.Write)+len(read.GC) > 0 {
		t.Errorf("lost %v, features %q, %q", read.Lost, read.Write, read.GC)
	}
	mustAppend(t, l, s, Change{Time: noon})
}

func TestLostNames(t *testing.T) {
	for kind := object.KindChunk; kind.Valid(); kind++ {
		key := object.Key{Kind: kind, ID: purge(1).Key.ID}
		if got, err := parseLostName(lostName(key)); err != nil || got != key {
			t.Errorf("%v, %v", got, err)
		}
	}
	id := purge(1).Key.ID.String()
	for _, name := range []string{"", "/", id, "/" + id, "chunk", "chunk/", "chunk/" + id[1:], "Chunk/" + id, "invalid/" + id, "chunk/" + id + "/"} {
		if key, err := parseLostName(name); err == nil {
			t.Errorf("parseLostName(%q) = %v, want an error", name, key)
		}
	}
}
