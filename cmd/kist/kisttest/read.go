package kisttest

import (
	"context"
	"io"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// ReadFile returns the content of a file of a commit. The error matches
// [object.ErrExpired] if the content of the commit has expired.
func ReadFile(ctx context.Context, r *kist.Repository, commit object.ID, path string) ([]byte, error) {
	if err := kist.CheckUsable(ctx, r, commit); err != nil {
		return nil, err
	}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return nil, err
	}
	e, err := tree.Find(ctx, r.Contents(), c.Tree, path)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(object.NewContentReader(ctx, r.Contents(), e))
}

// ReadFiles returns the contents of all files of a commit, by path, as
// [ReadFile] does.
func ReadFiles(ctx context.Context, r *kist.Repository, commit object.ID) (map[string]string, error) {
	if err := kist.CheckUsable(ctx, r, commit); err != nil {
		return nil, err
	}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	return files, tree.Walk(ctx, r.Contents(), c.Tree, func(path string, e object.Entry) error {
		if e.Type != object.TypeFile {
			return nil
		}
		data, err := io.ReadAll(object.NewContentReader(ctx, r.Contents(), e))
		files[path] = string(data)
		return err
	})
}
