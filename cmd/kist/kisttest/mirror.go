package kisttest

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// Version is a commit of a history that is made in kist and in git alike. Its
// number is its message, and its time in minutes.
type Version struct {
	Parents []int
	Files   map[string]string // contents by path
}

func (v Version) When(number int) time.Time {
	return time.Date(2026, 1, 1, 0, number, 0, 0, time.UTC)
}

// Mirror makes a history in a kist repository, with every commit tagged by its
// number.
func Mirror(t *testing.T, dir string, history []Version) *kist.Repository {
	t.Helper()
	ctx := t.Context()
	r, err := kist.Init(ctx, dir, kist.Options{}, kist.InitOptions{})
	Check(t, err)
	t.Cleanup(func() { r.Close() })
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	var ids []object.ID
	var changes []refs.Change
	for i, v := range history {
		c := &object.Commit{Tree: putFiles(t, tx, v.Files), Message: strconv.Itoa(i) + "\n"}
		c.Committer = object.Stamp{Name: "A", Email: "a@x", Time: object.TimeOf(v.When(i))}
		c.Author = c.Committer
		for _, p := range v.Parents {
			c.Parents = append(c.Parents, ids[p])
		}
		id, err := tx.PutCommit(ctx, c)
		Check(t, err)
		ids = append(ids, id)
		changes = append(changes, refs.Change{Name: refs.Tags + "t" + strconv.Itoa(i), New: id})
	}
	tx.Move(append(changes, refs.Change{Name: refs.Heads + "main", New: ids[len(ids)-1]})...)
	Check(t, tx.Publish(ctx))
	return r
}

func putFiles(t *testing.T, rw object.ReadWriter, files map[string]string) object.ID {
	t.Helper()
	e := tree.NewEditor(rw, tree.Info{})
	for _, name := range slices.SortedFunc(maps.Keys(files), tree.ComparePaths) {
		entry := object.Entry{Name: path.Base(name), Type: object.TypeFile, Mode: 0o644, Size: uint64(len(files[name]))}
		if entry.Size <= object.MaxInline {
			entry.Inline = []byte(files[name])
		} else {
			id, err := rw.Put(t.Context(), object.KindChunk, []byte(files[name]))
			Check(t, err)
			entry.Content = object.Key{Kind: object.KindChunk, ID: id}
		}
		Check(t, e.Set(t.Context(), name, entry))
	}
	info, err := e.Finish(t.Context())
	Check(t, err)
	return info.ID
}

func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
