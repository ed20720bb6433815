package kist_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// putOn stores a commit with a tree of its own over another commit.
func putOn(ctx context.Context, tx *kist.Tx, message string, parent object.ID) (object.ID, error) {
	e := object.Entry{Name: message, Type: object.TypeFile, Mode: 0o644, Size: uint64(len(message)), Inline: []byte(message)}
	w := object.NewTreeWriter(tx)
	if err := w.Add(ctx, e); err != nil {
		return object.ID{}, err
	}
	root, err := w.Finish(ctx)
	if err != nil {
		return object.ID{}, err
	}
	return tx.PutCommit(ctx, kist.NewCommit(tx.Repository(), tree.Info{ID: root, Files: 1, Bytes: e.Size}, message, parent))
}

// A transaction that stops after any number of its steps leaves the index and the names before it
// new, and those after it old. Every state passes verify, and the transaction can be repeated.
func TestTxStops(t *testing.T) {
	stopped := errors.New("stopped")
	for stop := range 5 {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			ctx := t.Context()
			s := kisttest.New(t)
			s.Write("file", "one")
			s.Add(stage.AddOptions{})
			first := s.Commit("first").ID
			head, err := s.Repo.Refs().Head()
			s.Check(err)

			var id object.ID
			change := func(stop int) error {
				return s.Repo.Update(ctx, func(tx *kist.Tx) (err error) {
					if id, err = putOn(ctx, tx, "second", first); err != nil {
						return err
					}
					n := 0
					mayStop := func() {
						n++
						if n == stop {
							tx.NoteStep(func(context.Context) error { return stopped })
						}
					}
					tx.Move(refs.Change{Name: "refs/heads/topic", New: id})
					mayStop()
					tx.MoveHead(head, id, "test")
					mayStop()
					tx.SetSpecial(refs.OrigHead, first)
					mayStop()
					tx.EditIndex(nil, func(idx *index.Index) error { // first, though it is noted last
						idx.Remove("file")
						if stop == 4 {
							return stopped
						}
						return nil
					})
					return nil
				})
			}
			if err := change(stop); (stop > 0) != errors.Is(err, stopped) {
				t.Fatalf("error %v", err)
			}

			var got []string
			if idx, err := s.Repo.Index(); err != nil || idx.Entry("file") == nil {
				got = append(got, "index")
			}
			if _, err := s.Repo.Refs().Get("refs/heads/topic"); err == nil {
				got = append(got, "topic")
			}
			if now, err := s.Repo.Refs().Head(); err == nil && now.ID == id {
				got = append(got, "HEAD")
			}
			if _, err := s.Repo.Refs().Special(refs.OrigHead); err == nil {
				got = append(got, "ORIG_HEAD")
			}
			all := []string{"index", "topic", "HEAD", "ORIG_HEAD"}
			want := map[int][]string{0: all, 1: all[:2], 2: all[:3], 3: all, 4: nil}[stop]
			if !slices.Equal(got, want) {
				t.Errorf("changed: %q, want %q", got, want)
			}
		})
	}
}

// A gc that removes an object which the transaction found makes Update repeat it. If that
// happens every time, Update gives up.
func TestTxRepeats(t *testing.T) {
	for _, attempts := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			ctx := t.Context()
			s := kisttest.New(t)
			s.Write("file", "one")
			s.Add(stage.AddOptions{})
			first := s.Commit("first").ID

			tries := 0
			err := s.Repo.Update(ctx, func(tx *kist.Tx) error {
				tries++
				if tries < attempts { // this transaction only finds the objects
					other := s.Repo.Begin(volume.SessionOptions{})
					_, err := putOn(ctx, other, "unreachable", first)
					s.Check(errors.Join(err, other.Close()))
				}
				id, err := putOn(ctx, tx, "unreachable", first)
				if tries < attempts {
					s.Collect(s.Repo, gc.PlanOptions{})
				}
				tx.Move(refs.Change{Name: "refs/heads/topic", New: id})
				return err
			})

			if attempts < 1000 {
				s.Check(err)
			} else if !errors.Is(err, disk.ErrBusy) {
				t.Errorf("error %v, want ErrBusy", err)
			}
			if want := min(attempts, 10); tries != want {
				t.Errorf("%d attempts, want %d", tries, want)
			}
		})
	}
}

// The error for a missing object is the result of Update, unless another process removed objects
// before the function published: not even an interrupt replaces it, and no change is made twice.
func TestTxMissingObject(t *testing.T) {
	missing := &object.AbsentError{Key: object.Key{Kind: object.KindChunk, ID: object.Sum([]byte("none"))}}
	for _, test := range []struct {
		name                string
		publish, interrupts bool
		tries               int
	}{
		{"nothing published", false, false, 10},
		{"published", true, false, 1},
		{"interrupted", false, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := kisttest.New(t)
			s.Write("file", "one")
			s.Add(stage.AddOptions{})
			first := s.Commit("first").ID

			tries := 0
			err := s.Repo.Update(ctx, func(tx *kist.Tx) error {
				tries++
				other := s.Repo.Begin(volume.SessionOptions{})
				_, err := other.Put(ctx, object.KindChunk, []byte("unreachable"))
				s.Check(errors.Join(err, other.Close()))
				_, err = tx.Put(ctx, object.KindChunk, []byte("unreachable")) // only finds the object
				s.Check(err)
				if test.publish {
					tx.SetSpecial(refs.OrigHead, first)
					s.Check(tx.Publish(ctx))
				}

				s.Collect(s.Repo, gc.PlanOptions{})
				if test.interrupts {
					cancel()
				}
				return missing
			})

			want := error(missing)
			if test.tries > 1 {
				want = disk.ErrBusy
			}
			if !errors.Is(err, want) || tries != test.tries {
				t.Errorf("error %v after %d attempts, want %v after %d", err, tries, want, test.tries)
			}
		})
	}
}

// A commit that is incomplete gets no name, except as HEAD's commit has one.
func TestTxChecksMoves(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	s.Write("file", strings.Repeat("long ", 100))
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID

	tx := s.Repo.Begin(volume.SessionOptions{})
	defer tx.Close()
	c := kist.NewCommit(s.Repo, tree.Info{ID: object.Sum([]byte("no tree"))}, "incomplete", first)
	data, err := c.Encode()
	s.Check(err)
	id, err := tx.Put(ctx, object.KindCommit, data) // not by PutCommit, which relies on the tree
	s.Check(err)
	tx.Move(refs.Change{Name: "refs/heads/topic", New: id})
	if err := tx.Publish(ctx); !errors.Is(err, kist.ErrGone) {
		t.Errorf("a branch at an incomplete commit: error %v, want ErrGone", err)
	}
	if _, err := s.Repo.Refs().Get("refs/heads/topic"); !errors.Is(err, refs.ErrNotFound) {
		t.Errorf("the branch: error %v, want ErrNotFound", err)
	}

	tx.Move(refs.Change{Name: "refs/heads/topic", New: first})
	s.Check(tx.Publish(ctx))
}

// A dry run changes nothing, though it notes changes.
func TestTxDryRun(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	err := s.Repo.UpdateWith(ctx, volume.SessionOptions{DryRun: true}, func(tx *kist.Tx) error {
		id, err := putOn(ctx, tx, "first", object.ID{})
		tx.Move(refs.Change{Name: "refs/heads/topic", New: id})
		return err
	})
	s.Check(err)
	if _, err := s.Repo.Refs().Get("refs/heads/topic"); !errors.Is(err, refs.ErrNotFound) {
		t.Errorf("the branch: error %v, want ErrNotFound", err)
	}
}

// alone lists ends of expressions that begin a session, take that of a transaction, or change the
// index.
var alone = []string{"Objects().Begin", "objects.Begin", "tx.Session", "index.Update", "index.UpdateWith", "index.UpdateIfFree", "index.Replace"}

// outside lists the files that use a session, or change the index, outside of a transaction, with
// the reason.
var outside = map[string]string{
	"transaction.go":              "the transaction",
	"gc/repair/objects.go":        "stores copies of objects that names lead to",
	"gc/repair/refs.go":           "replaces a damaged index",
	"gc/rewrite/rewrite.go":       "changes all refs and the index in a step of its own",
	"remote/exchange/fetch.go":    "gives the session to the reader of the remote",
	"tree/work/commits/commit.go": "a hint in the index, which may be left out",
	"tree/work/stage/scan.go":     "a hint in the index, which may be left out",
}

// Product code stores objects and changes names in a [kist.Tx]. Everything else is listed.
func TestTransactions(t *testing.T) {
	met := map[string]bool{}
	for _, file := range goFiles(t) {
		dir := path.Dir(file.path)
		if file.test || strings.HasSuffix(dir, "test") || strings.HasPrefix(dir, "object") || dir == "tree/index" || dir == "remote/transfer" {
			continue
		}
		set, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			e, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.ContainsFunc(alone, func(end string) bool { return strings.HasSuffix(types.ExprString(e), end) }) {
				return true
			}
			if met[file.path] = true; outside[file.path] == "" {
				t.Errorf("%s uses %s: use a transaction, or give the file a row in outside", set.Position(e.Pos()), e.Sel.Name)
			}
			return true
		})
	}

	for file := range outside {
		if !met[file] {
			t.Errorf("outside has %s, which has no need for it", file)
		}
	}
}
