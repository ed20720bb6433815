package refs

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Folders of refs.
const (
	Heads   = "refs/heads/"   // branches
	Tags    = "refs/tags/"    // tags
	Remotes = "refs/remotes/" // the last known places of remotes' branches
)

// Limits of names, in bytes.
const (
	MaxNameSize      = 1024
	MaxComponentSize = 255
)

// CheckName returns a [*NameError] if name cannot be the full name of a ref,
// such as "refs/heads/main". The rules are those of git check-ref-format, and
// some more: a name begins with "refs/", has at least three components, is
// valid UTF-8 without control characters, and has at most 1,024 bytes, 255 in
// each component.
func CheckName(name string) error {
	if reason := badName(name); reason != "" {
		return &NameError{Name: name, Reason: reason}
	}
	return nil
}

func badName(name string) string {
	switch {
	case len(name) > MaxNameSize:
		return "longer than 1,024 bytes"
	case !strings.HasPrefix(name, "refs/"):
		return `does not begin with "refs/"`
	case strings.Count(name, "/") < 2:
		return "has no folder below refs/"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.Contains(name, ".."):
		return `has ".." in it`
	case strings.Contains(name, "@{"):
		return `has "@{" in it`
	case strings.HasSuffix(name, "."):
		return "ends in a dot"
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return "has a control character in it"
		}
		if strings.ContainsRune(" ~^:?*[\\", r) {
			return "has " + string([]rune{'"', r, '"'}) + " in it"
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "has an empty component"
		case len(part) > MaxComponentSize:
			return "has a component longer than 255 bytes"
		case part[0] == '.':
			return "has a component that begins with a dot"
		case strings.HasSuffix(part, ".lock"):
			return `has a component that ends in ".lock"`
		}
	}
	return ""
}

// CheckShort returns a [*NameError] if users may not give this name to a
// branch or tag. Beyond CheckName's rules, it refuses names that revisions
// read differently ("HEAD", "@", 64 hexadecimal digits) or that look like an
// option.
func CheckShort(name string) error {
	reason := badName(Heads + name)
	switch {
	case reason != "":
	case name == "HEAD" || name == "@":
		reason = "means the current commit"
	case name[0] == '-':
		reason = "begins with a dash"
	case len(name) == 64 && isHex(name):
		reason = "looks like an ID"
	default:
		return nil
	}

	return &NameError{Name: name, Reason: reason}
}

// isRemoteHead reports whether name is a remote's HEAD, "refs/remotes/X/HEAD".
// Only these refs may name another ref.
func isRemoteHead(name string) bool {
	rest, ok := strings.CutPrefix(name, Remotes)
	remote, found := strings.CutSuffix(rest, "/HEAD")
	return ok && found && remote != "" && !strings.Contains(remote, "/")
}

// isSpecial reports whether name is a file in .kist with one ID: MERGE_HEAD,
// ORIG_HEAD, FETCH_HEAD, …
func isSpecial(name string) bool { return isUpper(name) && strings.HasSuffix(name, "_HEAD") }

// isMessage reports whether name is a file in .kist with a text: MERGE_MSG, …
func isMessage(name string) bool { return isUpper(name) && strings.HasSuffix(name, "_MSG") }

func isUpper(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'A' || c > 'Z') && c != '_' {
			return false
		}
	}
	return len(name) <= MaxComponentSize && name != "" && name[0] != '_'
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return s != ""
}
