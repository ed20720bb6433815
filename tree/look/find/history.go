package find

import (
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// All returns the selected files of all commits that HEAD, branches and tags reach, in the
// order of [Query.In]. A file with the same content at the same path comes once, with the commits
// that gave the path this content. Its entry has no more than the index: type, mode, size,
// mtime, and the ID as its content.
func (q *Query) All(ctx context.Context) iter.Seq2[File, error] {
	return q.sortSimilar(func(yield func(File, error) bool) {
		files, err := q.findInHistory(ctx)
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(File{}, err)
		}
	})
}

// resultKey identifies a result.
type resultKey struct {
	path string
	kind object.EntryType
	id   object.ID
}

func (q *Query) findInHistory(ctx context.Context) ([]File, error) {
	x, err := q.openVersions()
	if err != nil {
		return nil, err
	}
	defer q.saveSums(ctx)
	q.at = SearchStart{Objects: q.r.Contents()}
	for _, c := range q.changed {
		if err := c.findBefore(ctx, q.r); err != nil {
			return nil, err
		}
	}

	var files []File
	number := map[resultKey]int{}
	versions := func(yield func(File, error) bool) {
		for v := range x.All() {
			f := File{Path: v.Path, Entry: v.Entry(), commit: v.Commit, seconds: v.Time}
			if v.Path != "" && !yield(f, nil) { // the root is no result
				return
			}
		}
	}
	var f File // one for all: it escapes
	for version, err := range q.bringNear(ctx, q.at.Objects, versions) {
		f = version
		key, ok := resultKey{f.Path, f.Entry.Type, f.Entry.Content.ID}, err == nil
		if ok {
			ok, err = q.matchFile(ctx, f.commit, &f)
		}
		if err != nil {
			return files, err
		}
		if !ok {
			continue
		}
		at, found := number[key]
		if !found {
			at = len(files)
			number[key] = at
			files = append(files, f)
		}
		files[at].Commits = append(files[at].Commits, f.commit)
	}

	slices.SortStableFunc(files, func(a, b File) int { return tree.ComparePaths(a.Path, b.Path) })
	return files, nil
}
