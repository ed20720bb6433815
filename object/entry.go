package object

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"unicode/utf8"
)

// MaxFileSize is the largest size of a file: offsets are int64.
const MaxFileSize = math.MaxInt64

// checkEntry checks everything about an entry by itself, except its encoded
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
		wrong = "more than permission bits"
	case e.MTime.Nsec >= 1e9:
		wrong = "more than 999999999 nanoseconds"
	case e.Meta != nil:
		return checkMetadata(e)
	default:
		return nil
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
			return "file larger than its one chunk can be"
		}
	case e.Content.Kind != KindManifest:
		return "content that is neither chunk nor manifest"
	}
	return ""
}

func hasContent(e *Entry) bool {
	return e.Size != 0 || e.Files != 0 || len(e.Inline) > 0 || !e.Content.IsZero()
}

func checkMetadata(e *Entry) error {
	if err := e.Meta.Check(e.Type); err != nil {
		return faultf(ReasonMetadata, "%q: %w", e.Name, err)
	}
	return nil
}

// Check returns an error if an entry of type t cannot have the metadata.
func (m *Metadata) Check(t EntryType) error {
	var wrong string
	switch {
	case len(m.Owner) > MaxNameSize || len(m.Group) > MaxNameSize:
		wrong = "name of owner or group too long"
	case len(m.Xattrs) > MaxListItems || len(m.Attrs) > MaxListItems:
		wrong = "too many attributes"
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
	for key, value := range m.Attrs {
		if key == "" || len(key) > MaxNameSize || !utf8.ValidString(key) || !utf8.ValidString(value) {
			wrong = "attribute with an empty or too long key, or not UTF-8"
		}
	}

	if wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// Encode returns the canonical encoding of m, as in an entry.
func (m *Metadata) Encode() (string, error) {
	var buf bytes.Buffer
	err := listCodec.marshal(&buf, (*metaBody)(m))
	return buf.String(), err
}

// DecodeMetadata accepts exactly what [Metadata.Encode] returns. Call [Metadata.Check]
// to check the result.
func DecodeMetadata(data string) (*Metadata, error) {
	m := new(Metadata)
	if err := listCodec.unmarshal([]byte(data), (*metaBody)(m)); err != nil {
		return nil, err
	}
	if again, err := m.Encode(); err != nil || again != data {
		return nil, &fault{reason: ReasonCanonical}
	}
	return m, nil
}
