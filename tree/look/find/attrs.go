package find

import (
	"context"
	"errors"
	"github.com/kist-vcs/kist"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// attrTest returns the test attr.KEY=: whether the file has the attribute, or inherits it,
// with a value that matches a pattern.
func (q *Query) attrTest(key, value string) test {
	match := textMatcher(value, false)
	return ofEntry(func(f *File) bool {
		attr, there := q.attrsOf(f)[key]
		return there && match(attr.Value)
	})
}

// attrsOf returns the effective attributes of f.
func (q *Query) attrsOf(f *File) map[string]tree.Attr {
	if f.commit.IsZero() {
		return f.attrs
	}
	return q.index.Attrs(f.commit, f.Path)
}

// typeTest returns the test content-type=: whether the attribute content-type, or else the
// type that the first bytes show, matches a pattern. Parameters such as "; charset=utf-8" may
// be left out. Only files have a content type.
func (q *Query) typeTest(value string) test {
	matches := textMatcher(value, true)
	reads := func(ctx context.Context, f *File) []object.Entry {
		if f.Entry.Type != object.TypeFile || q.attrsOf(f)[tree.ContentType].Value != "" {
			return nil
		}
		for c := range object.Chunks(ctx, q.at.Objects, f.Entry.Content, f.Entry.Size, 0) {
			return []object.Entry{{Type: object.TypeFile, Size: uint64(c.Size), Content: object.Key{Kind: object.KindChunk, ID: c.ID}}}
		}
		return nil
	}
	match := func(ctx context.Context, f *File) (bool, error) {
		if f.Entry.Type != object.TypeFile {
			return false, nil
		}
		found := q.attrsOf(f)[tree.ContentType].Value
		if found == "" {
			e, err := q.withContent(ctx, f)
			if err == nil && e != nil {
				found, err = tree.DetectType(ctx, q.at.Objects, *e)
			}
			if err != nil {
				return false, q.readError(f, err)
			}
		}
		media, _, _ := strings.Cut(found, ";")
		return matches(found) || matches(strings.TrimSpace(media)), nil
	}
	return test{fromContent, match, reads}
}

// withContent returns an entry with the content of f. For a small file of the history, it reads
// the tree of the commit, because the index has only a hash of inline content. The entry is
// nil if the commit has expired.
func (q *Query) withContent(ctx context.Context, f *File) (*object.Entry, error) {
	if f.commit.IsZero() || f.Entry.Size > object.MaxInline {
		return &f.Entry, nil
	}
	root, known := q.roots[f.commit]
	if !known {
		var err error
		if root, err = kist.CommitTree(ctx, q.r, f.commit); err != nil && !errors.Is(err, object.ErrExpired) {
			return nil, err
		}
		q.roots[f.commit] = root
	}
	if root.IsZero() {
		return nil, nil
	}
	e, err := tree.Find(ctx, q.at.Objects, root, f.Path)
	return &e, err
}
