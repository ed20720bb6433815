package tree

import (
	"bytes"
	"maps"

	"github.com/kist-vcs/kist/object"
)

// ContentEqual reports whether two entries are equal for comparing versions:
// in type, mode, content, target, and, if both have it, full metadata. Name,
// mtime and hard-link group do not count. A nil entry equals only nil.
func ContentEqual(a, b *object.Entry) bool {
	return sameContent(a, b) && (a == nil || a.Mode == b.Mode && sameMetadata(a.Meta, b.Meta))
}

// sameContent is ContentEqual without mode and metadata.
func sameContent(a, b *object.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Size == b.Size && a.Content == b.Content && a.Target == b.Target && bytes.Equal(a.Inline, b.Inline)
}

func sameMetadata(a, b *object.Metadata) bool {
	if a == nil || b == nil {
		return true
	}
	return a.UID == b.UID && a.GID == b.GID && a.Owner == b.Owner && a.Group == b.Group && a.Device == b.Device &&
		maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal) && maps.Equal(a.Attrs, b.Attrs)
}

// sameAttributes reports whether two entries are equal in everything except
// content: mode, mtime and all metadata.
func sameAttributes(a, b *object.Entry) bool {
	return a.Mode == b.Mode && a.MTime == b.MTime && (a.Meta == nil) == (b.Meta == nil) &&
		(a.Meta == nil || a.Meta.HardLink == b.Meta.HardLink && sameMetadata(a.Meta, b.Meta))
}

// identical reports whether two entries of one name are the same in every
// field.
func identical(a, b *object.Entry) bool {
	return sameContent(a, b) && a.Files == b.Files && sameAttributes(a, b)
}
