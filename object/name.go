package object

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// NameError is the error for a name that no directory entry can have.
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

// ownFolder is the name of a folder that a program keeps beside the user's files.
type ownFolder struct {
	name      string // with the dot
	shortHash string // the beginning of its NTFS short name if NAME~1 to NAME~4 are taken: two letters, and a hash of the long name
}

var (
	kistFolder = ownFolder{".kist", "ki4178"}
	gitFolder  = ownFolder{".git", "gi2837"}
)

// isRepositoryName reports whether a file system may take name for ".kist".
func isRepositoryName(name string) bool { return kistFolder.hasForm(name) }

// IsGitName reports whether a file system may take name for ".git", the folder of git. Git runs
// commands that the files in it name. Such a name is valid all the same. Some file servers take
// a backslash for a slash, so its parts count as well.
func IsGitName(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		if part != "" && gitFolder.hasForm(part) {
			return true
		}
	}
	return false
}

// hasForm reports whether a file system may take name for the folder's.
func (o ownFolder) hasForm(name string) bool {
	// The first byte rules out nearly all names: in any form it is '.', the first letter or
	// a code point beyond ASCII that is ignored or folds to that letter.
	if c := name[0]; c != '.' && c|0x20 != o.name[1] && c < utf8.RuneSelf {
		return false
	}
	folded := fold(name)
	folded, _, _ = strings.Cut(folded, ":") // NTFS streams, as in ".kist::$INDEX_ALLOCATION"
	folded = strings.TrimRight(folded, ". ")
	return folded == o.name || o.isShortName(folded)
}

// isShortName reports whether a folded name can be an NTFS short name of the folder. That is,
// for .kist, "kist~" and a number, or eight bytes: a beginning of shortHash, "~" and a number.
func (o ownFolder) isShortName(folded string) bool {
	base, number, ok := strings.Cut(folded, "~")
	if !ok || number == "" || number[0] == '0' || strings.Trim(number, "0123456789") != "" {
		return false
	}
	return base == o.name[1:] || len(folded) == 8 && strings.HasPrefix(o.shortHash, base)
}

// fold returns name without the code points that file systems ignore. Letters that may be
// equal to those of ".kist" or ".git" become lower case.
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

// ignorable reports whether some file system ignores r in names. These are the code points
// that HFS+ ignores, and all others that Unicode calls default ignorable.
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
