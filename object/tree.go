package object

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Encode returns the node's canonical encoding (docs/format/objects.md). A
// node that decoders would reject gives an [*InvalidError].
func (t *Tree) Encode() ([]byte, error) {
	n := getListNode(KindTree, t.Level)
	defer n.free()
	if err := t.encode(n); err != nil {
		return nil, encodeError(KindTree, err)
	}
	return n.append(make([]byte, 0, n.size())), nil
}

func (t *Tree) encode(n *listNode) error {
	switch {
	case t.Level >= MaxLevel:
		return faultf(ReasonLevel, "level %d", t.Level)
	case t.Level == 0 && len(t.Children) > 0, t.Level > 0 && len(t.Entries) > 0:
		return faultf(ReasonLevel, "entries in an inner node, or children in a leaf")
	case t.Level > 0 && len(t.Children) == 0:
		return faultf(ReasonItems, "inner node without children")
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if err := n.mustAdd(listItem{name: e.Name, link: e.Content, entry: e}); err != nil {
			return err
		}
	}
	for _, c := range t.Children {
		if err := n.mustAdd(listItem{name: c.Last, link: Key{KindTree, c.ID}}); err != nil {
			return err
		}
	}
	return nil
}

// DecodeTree decodes a tree node. It accepts exactly what [Tree.Encode]
// returns; errors are [*FormatError]. The node does not refer to data.
func DecodeTree(data []byte) (*Tree, error) {
	t, err := decodeTree(data)
	if err != nil {
		return nil, decodeError(KindTree, err)
	}
	return t, nil
}

var entryBodies = sync.Pool{New: func() any { return new([]entryBody) }}

func decodeTree(data []byte) (*Tree, error) {
	h, err := parseListHeader(KindTree, data)
	if err != nil {
		return nil, err
	}
	t := new(Tree)
	level, items, err := listLevel(h)
	if err != nil {
		return nil, err
	}
	if t.Level = level; level == 0 {
		t.Entries, err = decodeEntries(h, items)
	} else {
		t.Children, err = decodeTreeChildren(h, items)
	}
	if err != nil {
		return nil, err
	}
	return t, recode(h, KindTree, level, t.encode)
}

func decodeEntries(h *header, items []byte) ([]Entry, error) {
	pooled := entryBodies.Get().(*[]entryBody)
	defer func() {
		clear(*pooled)
		*pooled = (*pooled)[:0]
		entryBodies.Put(pooled)
	}()
	if err := listCodec.unmarshal(items, pooled); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(*pooled))
	for i := range *pooled {
		b, e := &(*pooled)[i], &entries[i]
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		*e = Entry{
			Name: b.Name, Type: EntryType(b.Type), Mode: b.Mode,
			Size: b.Size, Files: b.Files, MTime: Time{b.Sec, b.Nsec},
			Inline: b.Inline, Content: link, Target: b.Target, Meta: (*Metadata)(b.Meta),
		}
	}
	return entries, nil
}

func decodeTreeChildren(h *header, items []byte) ([]TreeChild, error) {
	var bodies []treeChildBody
	if err := listCodec.unmarshal(items, &bodies); err != nil {
		return nil, err
	}
	children := make([]TreeChild, len(bodies))
	for i, b := range bodies {
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		if link.Kind != KindTree {
			return nil, faultf(ReasonLinkKind, "child %q is a %s", b.Last, link.Kind)
		}
		children[i] = TreeChild{Last: b.Last, ID: link.ID}
	}
	return children, nil
}

// parseListHeader is parseHeader with the size limit of list nodes.
func parseListHeader(kind Kind, data []byte) (*header, error) {
	if len(data) > MaxListSize {
		return nil, faultf(ReasonTooBig, "%d bytes", len(data))
	}
	return parseHeader(kind, data)
}

// recode checks that all links are used, and that encoding a decoded list node
// again gives the same bytes; encoding checks all the other rules.
func recode(h *header, kind Kind, level uint8, encode func(*listNode) error) error {
	n := getListNode(kind, level)
	defer n.free()
	if err := encode(n); err != nil {
		return err
	}
	if err := h.done(); err != nil {
		return err
	}
	// What else there is in front of the items was checked before.
	head := appendHead(make([]byte, 0, 9), cborArray, uint64(n.count))
	items, ok := bytes.CutPrefix(h.body[2:], head)
	if !ok || !bytes.Equal(items, n.items) || !bytes.Equal(h.links, n.links.raw) {
		return &fault{reason: ReasonCanonical}
	}
	return nil
}

// EmptyTree returns the node of an empty directory and its ID.
func EmptyTree() (ID, []byte) {
	data, err := new(Tree).Encode()
	if err != nil {
		panic(err) // cannot be: it breaks no rule
	}
	return Sum(data), data
}

// NameError says why a name cannot be the name of a directory entry.
type NameError struct {
	Name   string
	Reason string // for people
}

func (e *NameError) Error() string { return fmt.Sprintf("name %q %s", e.Name, e.Reason) }

// CheckName checks the name of a directory entry. A name is 1 to 255 bytes, of
// any value but '/' and NUL; it is not "." or ".."; and it is no form of
// ".kist" under which some file system would find the repository's own folder
// (see docs/format/names.md). The error is a [*NameError].
func CheckName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty"}
	case len(name) > MaxNameSize:
		return &NameError{name, fmt.Sprintf("has %d bytes, more than %d", len(name), MaxNameSize)}
	case name == "." || name == "..":
		return &NameError{name, "means a folder itself or its parent"}
	case strings.IndexByte(name, '/') >= 0:
		return &NameError{name, "has a slash"}
	case strings.IndexByte(name, 0) >= 0:
		return &NameError{name, "has a NUL byte"}
	case isRepositoryName(name):
		return &NameError{name, "is a form of .kist, the repository's own folder"}
	}
	return nil
}

// isRepositoryName reports whether a file system may take name for ".kist".
func isRepositoryName(name string) bool {
	// The first byte rules out nearly all names: in any form it is '.', 'k' or
	// a code point beyond ASCII that is ignored or folds to 'k'.
	if c := name[0]; c != '.' && c|0x20 != 'k' && c < utf8.RuneSelf {
		return false
	}
	folded := fold(name)
	folded, _, _ = strings.Cut(folded, ":") // NTFS streams, as in ".kist::$INDEX_ALLOCATION"
	folded = strings.TrimRight(folded, ". ")
	if folded == ".kist" {
		return true
	}
	return isShortName(folded)
}

// shortNameHash is what an NTFS short name of ".kist" begins with once KIST~1
// to KIST~4 are taken: two letters, and a hash of the long name.
const shortNameHash = "ki4178"

// isShortName reports whether a folded name can be an NTFS short name of
// ".kist": "kist~" or a beginning of shortNameHash and "~", and a number; the
// latter has eight bytes.
func isShortName(folded string) bool {
	base, number, ok := strings.Cut(folded, "~")
	if !ok || number == "" || number[0] == '0' || strings.Trim(number, "0123456789") != "" {
		return false
	}
	return base == "kist" || len(folded) == 8 && strings.HasPrefix(shortNameHash, base)
}

// fold returns name without the code points that file systems ignore, in lower
// case as far as it matters for comparing it with ".kist".
func fold(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(name[i:], string(utf8.RuneError)):
			b.WriteByte(name[i]) // not UTF-8
		case ignorable(r):
		case 'A' <= r && r <= 'Z':
			b.WriteByte(byte(r) | 0x20)
		case r == '\u212a': // Kelvin sign
			b.WriteByte('k')
		case r == '\u017f': // long s
			b.WriteByte('s')
		case r == '\ufb05' || r == '\ufb06': // ligatures
			b.WriteString("st")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ignorable reports whether some file system ignores r in names: the code
// points HFS+ does, and all others that Unicode calls default ignorable.
func ignorable(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x3164, r == 0xfeff, r == 0xffa0,
		0x115f <= r && r <= 0x1160,
		0x17b4 <= r && r <= 0x17b5,
		0x180b <= r && r <= 0x180f,
		0x200b <= r && r <= 0x200f,
		0x202a <= r && r <= 0x202e,
		0x2060 <= r && r <= 0x206f,
		0xfe00 <= r && r <= 0xfe0f,
		0xfff0 <= r && r <= 0xfff8,
		0x1bca0 <= r && r <= 0x1bca3,
		0x1d173 <= r && r <= 0x1d17a,
		0xe0000 <= r && r <= 0xe0fff:
		return true
	}
	return false
}
