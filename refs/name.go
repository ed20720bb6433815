package refs

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// Folders of refs.
const (
	Heads   = "refs/heads/"   // branches
	Tags    = "refs/tags/"    // tags
	Remotes = "refs/remotes/" // the last known places of remotes' branches
	Bisect  = "refs/bisect/"  // commits that a bisection has tested
	Keep    = "refs/keep/"    // on a remote: commits for repositories that lack their content

	// Pending has commits of changes that a server has taken, by branch. They will become
	// commits of the branch (package pending).
	Pending = "refs/pending/"
)

// Stash is the last stash. Its log is the list of all stashes. The name is no folder, so
// it breaks the rules of [CheckName]: no remote has it, and nothing is pushed to it.
const Stash = "refs/stash"

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

// checkLocal is [CheckName] for a ref of this repository: it also accepts [Stash].
func checkLocal(name string) error {
	if name == Stash {
		return nil
	}
	return CheckName(name)
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
	case len(name) == 64 && object.IsHex(name):
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

var (
	// ErrNotFound is matched by [*NotFoundError] and [*UnknownRevisionError].
	ErrNotFound = errors.New("ref not found")

	// ErrMoved is matched by every [*MovedError].
	ErrMoved = errors.New("ref moved meanwhile")

	// ErrConflict is matched by every [*ConflictError].
	ErrConflict = errors.New("ref name is taken")

	// ErrDamaged is the kind of [*object.DamageError] for a file of this package.
	ErrDamaged = errors.New("ref is damaged")

	// ErrTime is matched by the errors of [ParseTime].
	ErrTime = errors.New("not a time")
)

// NotFoundError means that a ref does not exist.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("no ref %q", e.Name) }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// Damaged returns the error for a damaged file of this package, which matches [ErrDamaged].
// File is its path below the .kist folder, with slashes.
func Damaged(file string, err error) error {
	return &object.DamageError{Name: file, Err: err, Kind: ErrDamaged}
}

// NameError means that a name is not allowed for a ref.
type NameError struct{ Name, Reason string }

func (e *NameError) Error() string { return fmt.Sprintf("bad ref name %q: %s", e.Name, e.Reason) }

// MovedError means that a ref does not have the value that an update expects.
// A zero ID means that the ref does not exist.
type MovedError struct {
	Name       string
	Want, Have object.ID
}

func (e *MovedError) Error() string {
	switch {
	case e.Want.IsZero():
		return fmt.Sprintf("%s already exists, at %s", e.Name, e.Have.Short())
	case e.Have.IsZero():
		return fmt.Sprintf("%s no longer exists, was to be at %s", e.Name, e.Want.Short())
	}
	return fmt.Sprintf("%s is at %s, was to be at %s", e.Name, e.Have.Short(), e.Want.Short())
}

// Is makes errors.Is(err, ErrMoved) true.
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// ConflictError means that two refs cannot both exist, because the name of one
// would be a folder in the name of the other.
type ConflictError struct {
	Name string // the new ref
	With string // the existing ref
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("cannot make %s: %s is in its way", e.Name, e.With)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnknownRevisionError means that a revision names no commit.
type UnknownRevisionError struct {
	Rev    string
	Reason string // empty: nothing has this name
}

func (e *UnknownRevisionError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("unknown revision %q", e.Rev)
	}
	return fmt.Sprintf("unknown revision %q: %s", e.Rev, e.Reason)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *UnknownRevisionError) Is(target error) bool { return target == ErrNotFound }

// AmbiguousError means that a hexadecimal prefix fits several objects.
type AmbiguousError struct {
	Rev        string
	Candidates []object.Key // some of them: commits, then tags
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, c := range e.Candidates {
		names[i] = c.Kind.String() + " " + c.ID.String()[:max(8, min(len(e.Rev)+4, 64))]
	}
	return fmt.Sprintf("revision %q is ambiguous: %s", e.Rev, strings.Join(names, ", "))
}
