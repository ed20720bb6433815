package grep

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/worktree"
)

// InWorktree yields the tracked files as they are in the worktree. [Search] leaves out
// missing ones. InWorktree opens them with files, which the caller closes after the search.
func InWorktree(r *kist.Repository, files *worktree.Opener, selected func(path string) bool) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		idx, err := r.Index()
		if err != nil {
			yield(nil, err)
			return
		}
		var paths []string
		for _, c := range idx.Conflicts() {
			paths = append(paths, c.Path)
		}
		for path, e := range idx.Dir("").All() {
			if e.Type == object.TypeFile {
				paths = append(paths, path)
			}
		}
		slices.SortFunc(paths, tree.ComparePaths)
		for _, path := range slices.Compact(paths) {
			open := func() (io.ReadCloser, error) {
				f, err := files.Open(path)
				if errors.Is(err, worktree.ErrSpecial) {
					err = fs.ErrNotExist
				}
				return f, err
			}
			if selected(path) && !yield(&File{Found{Path: path}, open}, nil) {
				return
			}
		}
	}
}

// InView yields the files of a commit or of the index. Content that is purged or lost counts
// as empty.
func InView(ctx context.Context, v compare.Side, selected func(path string) bool) iter.Seq2[*File, error] {
	stored := storedIn(ctx, v, selected)
	return func(yield func(*File, error) bool) {
		for f, err := range openAhead(ctx, v.Objects, stored) {
			err = object.NotePlaces(err, func() []object.Place {
				var paths []string
				for f := range stored { // the trees are here by now
					paths = append(paths, f.Path)
				}
				return []object.Place{{Commit: v.Commit, Path: tree.CommonFolder(paths)}}
			})
			if !yield(f, err) {
				return
			}
		}
	}
}

// storedIn yields the selected files of a view.
func storedIn(ctx context.Context, v compare.Side, selected func(path string) bool) iter.Seq2[storedAt, error] {
	return func(yield func(storedAt, error) bool) {
		if v.Tree.IsZero() {
			return
		}
		err := tree.Walk(ctx, v.Objects, v.Tree, func(path string, e object.Entry) error {
			if e.Type == object.TypeFile && selected(path) && !yield(storedAt{Found{path, v.Commit}, e}, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(storedAt{}, err)
		}
	}
}

// storedAt is a file of the store.
type storedAt struct {
	Found
	entry object.Entry
}

// openAhead yields files of the store, whose content it brings near.
func openAhead(ctx context.Context, r object.Reader, files iter.Seq2[storedAt, error]) iter.Seq2[*File, error] {
	files = object.Ahead(ctx, r, files, func(f storedAt) ([]object.Entry, error) { return []object.Entry{f.entry}, nil })
	return func(yield func(*File, error) bool) {
		for f, err := range files {
			if !yield(storedFile(ctx, r, f.Found, f.entry), err) {
				return
			}
		}
	}
}

var errStop = errors.New("stop")

// InHistory yields each content of each file in the history of HEAD, branches and tags, with
// the first selected commit that has it, in the order of paths.
func InHistory(ctx context.Context, r *kist.Repository, x *versions.Index, selected func(commit object.ID, path string) bool) iter.Seq2[*File, error] {
	return openAhead(ctx, r.Contents(), func(yield func(storedAt, error) bool) {
		type key struct {
			path string
			id   object.ID
		}
		seen := map[key]bool{}
		var list []versions.Version
		for v := range x.All() {
			if k := (key{v.Path, v.ID}); v.Type == object.TypeFile && !seen[k] && selected(v.Commit, v.Path) {
				seen[k] = true
				list = append(list, v)
			}
		}
		slices.SortStableFunc(list, func(a, b versions.Version) int { return tree.ComparePaths(a.Path, b.Path) })
		for i := range list {
			v := &list[i]
			e, err := v.Stored(ctx, r)
			if object.PassOver(r.Contents(), v.Path, e.Content, err) {
				continue
			}
			if !yield(storedAt{Found{v.Path, v.Commit}, e}, err) || err != nil {
				return
			}
		}
	})
}

// storedFile returns a file of the store.
func storedFile(ctx context.Context, r object.Reader, at Found, e object.Entry) *File {
	return &File{at, func() (io.ReadCloser, error) {
		return io.NopCloser(&contentReader{object.NewContentReader(ctx, r, e), r, at.Path, e.Content}), nil
	}}
}

// contentReader reads a stored file. It ends where content is purged, or lost and passed over.
type contentReader struct {
	io.Reader
	r    object.Reader
	path string
	key  object.Key
}

func (c *contentReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if object.PassOverContent(c.r, c.path, c.key, err) {
		err = io.EOF
	}
	return n, err
}
