// Package find searches a tree, or the history, for files. An expression of tests, in words
// of the command line, selects them: docs/howto/find.md has it for users.
package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// File is a file, folder or other entry of a tree.
type File struct {
	Path   string // from the root of the worktree
	Entry  object.Entry
	Shared uint64 // bytes that this file shares with the file of the test like=
	Same   bool   // it has the content of the file of the test like=

	Commits []object.ID // from [Query.All]: all that gave the path this content, parents first

	attrs   map[string]tree.Attr // in a tree: the effective attributes
	commit  object.ID            // in a search of the history
	seconds int64                // its time, since 1970
}

// Options have the facts outside the repository that an expression refers to.
type Options struct {
	Now   time.Time
	Paths func(pattern string) (func(path string) bool, error) // compiles the pattern of a test path=
	Open  func(name string) (io.ReadCloser, error)             // opens the file of a test like=
	Also  []string                                             // further tests; a file must pass all of them
	Index func() (*versions.Index, error)                      // opens the index, called once

	// Show returns the entry at a path of a commit as the user may see it. If ok is false, the
	// search leaves it out. Nil shows everything.
	Show func(ctx context.Context, commit object.ID, path string, e object.Entry) (shown object.Entry, ok bool, err error)

	Resolve func(ctx context.Context, rev string) (object.ID, error) // finds the commit of a test changed=; nil: [kist.Repository.Resolve]

	Progress kist.Progress // counts the files or versions so far, and the bytes that were read; may be nil
}

// Query is a parsed expression. One goroutine at a time may use it.
type Query struct {
	r       *kist.Repository
	opt     Options
	test    test
	like    *likeTest // of the test like=, or nil
	changed []*changedTest
	at      SearchStart // the searched place

	index   *versions.Index         // nil until it is used
	roots   map[object.ID]object.ID // the trees of commits
	sums    map[object.ID]object.ID // SHA-256 by manifest; the index lacks them
	unsaved int64                   // bytes of their files
	done    kist.Amount             // for the progress
}

// matchFile reports whether f, a file of a commit, may be shown and passes the tests. The tests
// see only the parts of f that are shown.
func (q *Query) matchFile(ctx context.Context, commit object.ID, f *File) (ok bool, err error) {
	q.reportProgress(1, 0)
	if q.opt.Show != nil {
		if f.Entry, ok, err = q.opt.Show(ctx, commit, f.Path, f.Entry); !ok || err != nil {
			return false, err
		}
	}
	return q.test.match(ctx, f)
}

// reportProgress reports files and bytes.
func (q *Query) reportProgress(files, bytes int64) {
	q.done.Files += files
	q.done.Bytes += bytes
	if q.opt.Progress != nil {
		q.opt.Progress(q.done, kist.Amount{})
	}
}

// Parse reads an expression. Each word is an operator or a test. An empty expression selects
// everything. For an error in the expression, the error is a [*SyntaxError].
func Parse(ctx context.Context, r *kist.Repository, words []string, opt Options) (*Query, error) {
	q := &Query{r: r, opt: opt, roots: map[object.ID]object.ID{}, sums: map[object.ID]object.ID{}}
	newTest := func(word string) (test, error) { return q.newTest(ctx, word) }
	expression, err := parseExpr(words, newTest)
	if err != nil {
		return nil, err
	}

	list := []test{expression}
	for _, word := range opt.Also {
		also, err := newTest(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		list = append(list, also)
	}
	q.test = allOf(list)
	return q, nil
}

// Likeness returns the size of the file of the test like=, and whether there is one.
func (q *Query) Likeness() (size uint64, ok bool) {
	if q.like == nil {
		return 0, false
	}
	return q.like.size, true
}

// SearchStart is a folder or file of a tree.
type SearchStart struct {
	Path    string // "" for the root
	Entry   object.Entry
	Root    object.ID // the root of the tree
	Commit  object.ID // the commit of the tree, or HEAD's for the index
	Objects object.Reader
}

// In returns the selected entries below a folder in path order, or the file itself. With a
// test like=, files with the same content come first, and then the files that share most. An
// error is the last value. Entries that the reader passes over are left out.
func (q *Query) In(ctx context.Context, at SearchStart) iter.Seq2[File, error] {
	list := func(yield func(File, error) bool) {
		defer q.saveSums(ctx)
		var f File // one for all: it escapes
		for file, err := range q.bringNear(ctx, at.Objects, q.filesAt(ctx, at)) {
			f = file
			ok := err == nil
			if ok {
				ok, err = q.matchFile(ctx, at.Commit, &f)
			}
			if (ok || err != nil) && (!yield(f, err) || err != nil) {
				return
			}
		}
	}
	return q.sortSimilar(list)
}

// bringNear yields files, and brings the content near that the tests read.
func (q *Query) bringNear(ctx context.Context, r object.Reader, files iter.Seq2[File, error]) iter.Seq2[File, error] {
	if q.test.reads == nil || q.opt.Show != nil {
		return files
	}
	return object.Ahead(ctx, r, files, func(f File) ([]object.Entry, error) { return q.test.reads(ctx, &f), nil })
}

// filesAt yields all entries of a place.
func (q *Query) filesAt(ctx context.Context, at SearchStart) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		err := q.walkPlace(ctx, at, func(f File) error {
			if !yield(f, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(File{}, err)
		}
	}
}

var errStop = errors.New("stop")

// walkPlace calls fn with all entries of a place.
func (q *Query) walkPlace(ctx context.Context, at SearchStart, fn func(f File) error) error {
	q.at = at
	for _, c := range q.changed {
		if err := c.findPaths(ctx, q.r, at); err != nil {
			return err
		}
	}

	var in tree.Inheritance
	_, attrs, err := in.Find(ctx, at.Objects, at.Root, at.Path)
	if err != nil {
		return err
	}
	if at.Entry.Type != object.TypeDir {
		return fn(File{Path: at.Path, Entry: at.Entry, attrs: attrs})
	}
	return tree.Walk(ctx, at.Objects, at.Entry.Content.ID, func(below string, e object.Entry) error {
		path := tree.Join(at.Path, below)
		return fn(File{Path: path, Entry: e, attrs: in.At(path, &e)})
	})
}

// sortSimilar sorts files if there is a test like=: the same content first, then the
// files that share most.
func (q *Query) sortSimilar(list iter.Seq2[File, error]) iter.Seq2[File, error] {
	if q.like == nil {
		return list
	}
	return func(yield func(File, error) bool) {
		var files []File
		var failure error
		for f, err := range list {
			if failure = err; err == nil {
				files = append(files, f)
			}
		}
		slices.SortStableFunc(files, func(a, b File) int {
			if a.Shared == b.Shared && a.Same != b.Same {
				return map[bool]int{true: -1, false: 1}[a.Same]
			}
			return cmp.Compare(b.Shared, a.Shared)
		})
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
		if failure != nil {
			yield(File{}, failure)
		}
	}
}
