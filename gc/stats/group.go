package stats

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// Group counts the files that have one value.
type Group struct {
	GroupKey
	Files, Bytes uint64
}

// GroupKey is the value of a [Group].
type GroupKey struct {
	Value string
	Unset bool // the files have no value
}

// Groups counts files by value.
type Groups map[GroupKey]Group

func (g Groups) addGroup(key GroupKey, files, bytes uint64) {
	sum := g[key]
	g[key] = Group{key, sum.Files + files, sum.Bytes + bytes}
}

// Sorted returns the groups: those with the most bytes first, then by value.
func (g Groups) Sorted() []Group {
	var list []Group
	for _, group := range g {
		list = append(list, group)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Value, b.Value), cmp.Compare(b.Files, a.Files))
	})
	return list
}

// Grouper returns the value of a file. Attrs are its effective attributes. It may read the
// content from r.
type Grouper func(ctx context.Context, r object.Reader, path string, e object.Entry, attrs map[string]tree.Attr) (GroupKey, error)

// ByAttr groups files by the effective value of an attribute.
func ByAttr(key string) Grouper {
	return func(_ context.Context, _ object.Reader, _ string, _ object.Entry, attrs map[string]tree.Attr) (GroupKey, error) {
		attr, ok := attrs[key]
		return GroupKey{attr.Value, !ok}, nil
	}
}

// ByType groups files by media type, without parameters: the attribute content-type, or the
// type that the first bytes show. Purged and lost content has no type.
func ByType(ctx context.Context, r object.Reader, _ string, e object.Entry, attrs map[string]tree.Attr) (GroupKey, error) {
	found := attrs[tree.ContentType].Value
	if found == "" {
		var err error
		found, err = tree.DetectType(ctx, r, e)
		if errors.Is(err, object.ErrPurged) || object.IsUnreadable(err) {
			return GroupKey{Unset: true}, nil
		}
		if err != nil {
			return GroupKey{}, err
		}
	}
	media, _, _ := strings.Cut(found, ";")
	return GroupKey{Value: strings.TrimSpace(media)}, nil
}

// ByDir groups files by folder: by the first depth names of its path. "" is the root.
func ByDir(depth int) Grouper {
	return func(_ context.Context, _ object.Reader, path string, _ object.Entry, _ map[string]tree.Attr) (GroupKey, error) {
		names := strings.Split(path, "/")
		return GroupKey{Value: strings.Join(names[:min(depth, len(names)-1)], "/")}, nil
	}
}

// AddFiles adds the files at a path in the tree root, and below it.
func (g Groups) AddFiles(ctx context.Context, r object.Reader, root object.ID, path string, by Grouper) error {
	var in tree.Inheritance
	e, attrs, err := in.Find(ctx, r, root, path)
	if err != nil {
		return err
	}
	count := func(path string, e object.Entry, attrs map[string]tree.Attr) error {
		if e.Type == object.TypeDir {
			return nil
		}
		key, err := by(ctx, r, path, e, attrs)
		if err == nil {
			g.addGroup(key, 1, e.Size)
		}
		return err
	}
	if e.Type != object.TypeDir {
		return count(path, e, attrs)
	}
	return tree.Walk(ctx, r, e.Content.ID, func(below string, e object.Entry) error {
		at := tree.Join(path, below)
		return count(at, e, in.At(at, &e))
	})
}

// Branches counts the files of the newest commit of each branch.
func Branches(ctx context.Context, r *kist.Repository) (Groups, error) {
	list, err := r.Refs().List(refs.Heads)
	if err != nil {
		return nil, err
	}
	groups := Groups{}
	for _, ref := range list {
		c, err := object.ReadCommit(ctx, r.Objects(), ref.ID)
		if err != nil {
			return nil, err
		}
		name, _ := refs.BranchOf(ref.Name)
		groups.addGroup(GroupKey{Value: name}, c.Files, c.Bytes)
	}
	return groups, nil
}
