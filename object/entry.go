package object

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"
)

// MaxFileSize is the largest size of a file: offsets are int64.
const MaxFileSize = math.MaxInt64

// checkEntry checks the rules about a single entry, except the one about its encoded
// size.
func checkEntry(e *Entry) error {
	if err := CheckName(e.Name); err != nil {
		return &fault{ReasonName, err}
	}

	var wrong string
	switch e.Type {
	case TypeFile:
		wrong = checkFile(e)
	case TypeDir:
		switch {
		case e.Content.Kind != KindTree || e.Content.ID.IsZero():
			wrong = "directory without a tree"
		case len(e.Inline) > 0 || e.Target != "":
			wrong = "directory with content or a target"
		}
	case TypeSymlink:
		switch {
		case e.Target == "" || len(e.Target) > MaxTargetSize || strings.IndexByte(e.Target, 0) >= 0:
			wrong = "symlink with a target that is empty, too long or has a NUL byte"
		case hasContent(e):
			wrong = "symlink with content"
		}
	case TypeFIFO, TypeCharDevice, TypeBlockDevice, TypeSocket:
		if hasContent(e) || e.Target != "" {
			wrong = "special file with content or a target"
		}
	default:
		wrong = "unknown type"
	}

	switch {
	case wrong != "":
	case e.Mode > 0o7777:
		wrong = "mode with more than permission bits"
	case e.MTime.Nsec >= 1e9:
		wrong = "more than 999999999 nanoseconds"
	default:
		return e.CheckMetadata()
	}
	return faultf(ReasonEntry, "%q: %s", e.Name, wrong)
}

func checkFile(e *Entry) string {
	switch {
	case e.Target != "" || e.Files != 0:
		return "file with a target or a count of files"
	case e.Size > MaxFileSize:
		return "file too large"
	case e.Size <= MaxInline:
		if uint64(len(e.Inline)) != e.Size || !e.Content.IsZero() {
			return "small file without its bytes"
		}
	case len(e.Inline) > 0 || e.Content.ID.IsZero():
		return "file without content"
	case e.Content.Kind == KindChunk:
		if e.Size > MaxChunkSize {
			return "file too large for one chunk"
		}
	case e.Content.Kind != KindManifest:
		return "content that is neither chunk nor manifest"
	}
	return ""
}

func hasContent(e *Entry) bool {
	return e.Size != 0 || e.Files != 0 || len(e.Inline) > 0 || !e.Content.IsZero()
}

// CheckMetadata returns an error if an entry of e's type cannot have its metadata and
// attributes.
func (e *Entry) CheckMetadata() error {
	wrong := ""
	if e.Meta != nil {
		wrong = e.Meta.brokenRule(e.Type)
		if e.Meta.isEmpty() && len(e.Attrs) > 0 {
			wrong = "attributes beside empty metadata, see SetAttrs"
		}
	}

	if len(e.Attrs) > MaxListItems {
		wrong = "too many attributes"
	}
	for key, value := range e.Attrs {
		if key == "" || len(key) > MaxNameSize || !utf8.ValidString(key) || !utf8.ValidString(value) {
			wrong = "attribute with an empty or too long key, or not UTF-8"
		}
	}

	if wrong != "" {
		return faultf(ReasonMetadata, "%q: %s", e.Name, wrong)
	}
	return nil
}

// brokenRule returns the rule that the metadata of an entry of type t breaks, or "".
func (m *Metadata) brokenRule(t EntryType) (wrong string) {
	switch {
	case len(m.Owner) > MaxNameSize || len(m.Group) > MaxNameSize:
		wrong = "name of owner or group too long"
	case len(m.Xattrs) > MaxListItems:
		wrong = "too many extended attributes"
	case m.Device != 0 && t != TypeCharDevice && t != TypeBlockDevice:
		wrong = "device number, but no device"
	case m.HardLink != 0 && t == TypeDir:
		wrong = "directory in a hard-link group"
	}
	for name := range m.Xattrs {
		if name == "" || len(name) > MaxNameSize || strings.IndexByte(name, 0) >= 0 {
			wrong = "extended attribute with a name that is empty, too long or has a NUL byte"
		}
	}
	return wrong
}

// noOwner is the owner that an entry of user 0 gets if it has attributes and no other
// metadata. Otherwise its encoding would be that of an entry without metadata.
const noOwner = "0"

// SetAttrs replaces the attributes of e. The caller sets the metadata of e first.
func (e *Entry) SetAttrs(attrs map[string]string) {
	e.Attrs = attrs
	if m := e.Meta; m != nil && len(attrs) > 0 && m.isEmpty() {
		e.Meta = &Metadata{Owner: noOwner}
	} else if m != nil && len(attrs) == 0 && m.Owner == noOwner {
		bare := *m
		if bare.Owner = ""; bare.isEmpty() {
			e.Meta = &bare
		}
	}
}

// isEmpty reports whether all fields are zero.
func (m *Metadata) isEmpty() bool {
	return m.UID == 0 && m.GID == 0 && m.Owner == "" && m.Group == "" && len(m.Xattrs) == 0 && m.Device == 0 && m.HardLink == 0
}

// EncodeMetadata returns the canonical encoding of e's metadata and attributes, as in a
// tree, or "" for none.
func (e *Entry) EncodeMetadata() (string, error) {
	body := newMetaBody(e)
	if body == nil {
		return "", nil
	}
	var buf bytes.Buffer
	err := listCodec.marshal(&buf, body)
	return buf.String(), err
}

// OnlyAttrs reports whether data, a result of [Entry.EncodeMetadata], has attributes and no
// metadata.
func OnlyAttrs(data string) bool {
	return strings.HasPrefix(data, "\xa1\x08") // a map of one pair, whose key is 8
}

// DecodeMetadata sets e's metadata and attributes. It accepts exactly the
// results of [Entry.EncodeMetadata], except "". [Entry.CheckMetadata] checks the values.
func (e *Entry) DecodeMetadata(data string) error {
	var body metaBody
	if err := listCodec.unmarshal([]byte(data), &body); err != nil {
		return err
	}
	e.Meta, e.Attrs = nil, nil
	body.copyTo(e)
	if again, err := e.EncodeMetadata(); err != nil || again != data {
		return &fault{reason: ReasonCanonical}
	}
	return nil
}
