package find

import (
	"context"
	"errors"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
)

// attrTest returns the test attr.KEY=: whether the file has the attribute, or inherits it,
// with a value that matches a pattern.
func (q *Query) attrTest(key, value string) test {
	match := pattern(value, false)
	return test{fromTree, func(ctx context.Context, f *File) (bool, error) {
		_, attrs, err := q.whole(ctx, f)
		attr, there := attrs[key]
		return there && match(attr.Value), err
	}}
}

// typeTest returns the test content-type=: whether the attribute content-type, or else the
// type that the first bytes show, matches a pattern. Parameters such as "; charset=utf-8" may
// be left out. Only files have a content type.
func (q *Query) typeTest(value string) test {
	match := pattern(value, true)
	return test{fromContent, func(ctx context.Context, f *File) (bool, error) {
		e, attrs, err := q.whole(ctx, f)
		if err != nil || e == nil || e.Type != object.TypeFile {
			return false, err
		}
		found := attrs[tree.ContentType].Value
		if found == "" {
			if found, err = tree.DetectType(ctx, q.at.Objects, *e); err != nil {
				return false, q.unread(f, err)
			}
		}
		media, _, _ := strings.Cut(found, ";")
		return match(found) || match(strings.TrimSpace(media)), nil
	}}
}

// whole returns the complete entry of f, and its effective attributes. For a version in the
// index, it reads the tree of the commit. The entry is nil if that has expired.
func (q *Query) whole(ctx context.Context, f *File) (*object.Entry, map[string]tree.Attr, error) {
	if f.commit.IsZero() {
		return &f.Entry, f.attrs, nil
	}
	root, known := q.roots[f.commit]
	if !known {
		var err error
		root, err = intact.CommitTree(ctx, q.r, f.commit)
		if err != nil && !errors.Is(err, intact.ErrExpired) {
			return nil, nil, err
		}
		q.roots[f.commit] = root
	}
	if root.IsZero() {
		return nil, nil, nil
	}
	var in tree.Inheritance
	e, attrs, err := in.Find(ctx, q.at.Objects, root, f.Path)
	if err != nil {
		return nil, nil, q.unread(f, err)
	}
	return &e, attrs, nil
}
