package versions

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Stored returns the entry of a version with its content. The tree of the commit is read only
// for a file of at most [object.MaxInline] bytes, whose content is there.
func (v *Version) Stored(ctx context.Context, r *kist.Repository) (object.Entry, error) {
	if v.Type != object.TypeFile || v.Size > object.MaxInline {
		return v.Entry(), nil
	}
	c, err := object.ReadCommit(ctx, r.Objects(), v.Commit)
	if err != nil {
		return object.Entry{}, err
	}
	return tree.Find(ctx, r.Contents(), c.Tree, v.Path)
}

// At returns the version of the file that a commit has at a path. ok is false if the index
// lacks the commit, or if the commit has no file there.
func (x *Index) At(commit object.ID, path string) (v Version, ok bool) {
	number, known := x.commitNumbers[commit]
	at, had := x.paths.number(path)
	if !known || !had {
		return v, false
	}
	i := x.changeAt(number, at)
	if i < 0 || x.changes.at(i).isRemoval() || x.changes.at(i).isDir() {
		return v, false
	}
	return x.versionOf(x.changes.at(i)), true
}

// Parents returns the parents of a commit that the index has.
func (x *Index) Parents(commit object.ID) (list []object.ID) {
	if number, known := x.commitNumbers[commit]; known {
		for _, p := range x.commits[number].parents {
			list = append(list, x.commits[p].id)
		}
	}
	return list
}

// Number returns the place of a commit in an order with parents before children, or -1 if
// the index lacks it.
func (x *Index) Number(commit object.ID) int {
	if number, known := x.commitNumbers[commit]; known {
		return int(number)
	}
	return -1
}
