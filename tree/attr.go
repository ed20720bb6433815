package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"github.com/kist-vcs/kist/object"
)

// Limits of the attributes that a user can set. Entries of other programs may have more, see
// docs/format/objects.md.
const (
	MaxAttrValue = 4 << 10  // bytes of a value
	MaxAttrs     = 64       // attributes of an entry
	MaxAttrBytes = 16 << 10 // bytes of all keys and values of an entry
)

// ContentType is the key of the attribute with the media type of a file. If a file does not
// have it, [DetectType] finds the type.
const ContentType = "content-type"

// ErrAttrs is matched by the errors of [CheckAttr] and [CheckAttrs].
var ErrAttrs = errors.New("is not allowed")

// CheckAttr returns an error if a user cannot set key to value.
func CheckAttr(key, value string) error {
	wrong := func(text, what string, limit int) error {
		switch {
		case len(text) > limit:
			return fmt.Errorf("the %s has %d bytes, the limit is %d", what, len(text), limit)
		case !utf8.ValidString(text):
			return fmt.Errorf("the %s is not UTF-8", what)
		case strings.ContainsFunc(text, unicode.IsControl):
			return fmt.Errorf("the %s has a control character", what)
		}
		return nil
	}

	err := wrong(key, "key", object.MaxNameSize)
	switch {
	case key == "":
		err = errors.New("the key is empty")
	case strings.Contains(key, "="):
		err = errors.New("the key has an equals sign")
	case err == nil:
		err = wrong(value, "value", MaxAttrValue)
	}
	if err != nil {
		shown := key
		if len(shown) > 40 {
			shown = shown[:40] + "…"
		}
		return fmt.Errorf("attribute %q %w: %w", shown, ErrAttrs, err)
	}
	return nil
}

// CheckAttrs returns an error if a user cannot give an entry all of attrs together.
func CheckAttrs(attrs map[string]string) error {
	size := 0
	for key, value := range attrs {
		size += len(key) + len(value)
	}
	switch {
	case len(attrs) > MaxAttrs:
		return fmt.Errorf("one more attribute %w: there would be %d, the limit is %d", ErrAttrs, len(attrs), MaxAttrs)
	case size > MaxAttrBytes:
		return fmt.Errorf("a longer attribute %w: all keys and values would have %d bytes, the limit is %d", ErrAttrs, size, MaxAttrBytes)
	}
	return nil
}

// Inherits reports whether the files and folders in a folder inherit the attribute: acl,
// retention, and keys below them, such as acl.read.
func Inherits(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return first == "acl" || first == "retention"
}

// Attr is the effective value of an attribute.
type Attr struct {
	Value string
	From  string // the path that has it: the entry's own, or that of a folder above it
}

// Inheritance finds effective attributes during a walk. The zero value is ready for use.
type Inheritance struct{ above []inherited }

// inherited are the attributes that everything below a folder inherits.
type inherited struct {
	dir   string
	attrs map[string]Attr
}

// At returns the effective attributes, by key, of the entry at path: its own and the inherited
// ones. The caller must not change them. Calls come in the order of a walk: folders
// before their content. If the walk begins at a folder, call At for the folders above first.
func (in *Inheritance) At(path string, e *object.Entry) map[string]Attr {
	for n := len(in.above); n > 0 && !Below(path, in.above[n-1].dir); n-- {
		in.above = in.above[:n-1]
	}
	var attrs map[string]Attr
	if n := len(in.above); n > 0 {
		attrs = in.above[n-1].attrs
	}
	if len(e.Attrs) == 0 {
		return attrs
	}

	all := make(map[string]Attr, len(attrs)+len(e.Attrs))
	maps.Copy(all, attrs)
	for key, value := range e.Attrs {
		all[key] = Attr{value, path}
	}
	if IsDir(e) {
		below := maps.Clone(all)
		maps.DeleteFunc(below, func(key string, _ Attr) bool { return !Inherits(key) })
		in.above = append(in.above, inherited{path, below})
	}
	return all
}

// Find returns the entry at a path in the tree root, with its effective attributes by key.
// After that, At can go on below the path. Errors are those of [Find].
func (in *Inheritance) Find(ctx context.Context, r object.Reader, root object.ID, path string) (e object.Entry, attrs map[string]Attr, err error) {
	if path == "" {
		e, err = Find(ctx, r, root, path)
		return e, nil, err
	}
	for i, c := range path + "/" {
		if c == '/' {
			if e, err = Find(ctx, r, root, path[:i]); err != nil {
				return e, nil, err
			}
			attrs = in.At(path[:i], &e)
		}
	}
	return e, attrs, nil
}

// detectSize is the number of bytes that [DetectType] reads.
const detectSize = 3072

// DetectType returns the media type of an entry, such as "image/png", from the first bytes of
// its content. For other types it is "inode/" and the type, such as "inode/directory".
func DetectType(ctx context.Context, r object.Reader, e object.Entry) (string, error) {
	if e.Type != object.TypeFile {
		return "inode/" + map[object.EntryType]string{
			object.TypeDir: "directory", object.TypeSymlink: "symlink", object.TypeFIFO: "fifo",
			object.TypeCharDevice: "chardevice", object.TypeBlockDevice: "blockdevice", object.TypeSocket: "socket",
		}[e.Type], nil
	}
	start, err := io.ReadAll(io.LimitReader(object.NewContentReader(ctx, r, e), detectSize))
	if err != nil {
		return "", err
	}
	return mimetype.Detect(start).String(), nil
}
