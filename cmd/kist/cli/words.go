package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// words returns text, which repeats err, with err in the user's words. With
// --verbose it returns text unchanged.
func (e *Env) words(text string, err error) string {
	if err == nil || e.global.verbose {
		return text
	}
	return strings.Replace(text, err.Error(), inWords(err), 1)
}

// inWords returns the message for err in the user's words. The text of err may
// name internals, such as a lock file or a blob; --verbose shows it.
func inWords(err error) string {
	var unknown *rootlog.UnknownError
	var remoteError *remote.Error
	var busy *disk.BusyError
	var moved *refs.MovedError
	switch {
	case errors.As(err, &unknown):
		return "the connection failed, and it is not known whether the remote changed: " + inWords(unknown.Err)
	case errors.As(err, &remoteError):
		return strings.Replace(err.Error(), remoteError.Error(), remoteWords(remoteError), 1)
	case errors.As(err, &busy):
		return busyWords(busy)
	case errors.As(err, &moved):
		return movedWords(moved)
	}
	if dir := deniedRepository(err); dir != "" {
		if errors.Is(err, syscall.EROFS) {
			return fmt.Sprintf("the repository %s is on a read-only file system", quotePath(dir))
		}
		return fmt.Sprintf("no permission to change the repository %s", quotePath(dir))
	}
	return err.Error()
}

// remoteWords returns the text of e without the operation and the blob's name.
// It keeps them for a blob that is damaged, absent or in the way.
func remoteWords(e *remote.Error) string {
	refused := e.Op == "open" && e.Kind == remote.ErrCredentials // before anything was sent
	var file *fs.PathError
	own := refused || e.Kind == nil || e.Kind == remote.ErrNoStore || e.Kind == remote.ErrCertificate || isA[*remote.ForeignError](e.Err)
	switch {
	case e.Kind == remote.ErrPermission && errors.As(e.Err, &file):
		return fmt.Sprintf("no permission to %s the folder of the remote: %v", map[bool]string{true: "read", false: "change"}[isRead(e.Op)], file.Err)
	case own && e.Err != nil:
		return inWords(e.Err)
	case slices.Contains([]error{nil, remote.ErrNotFound, remote.ErrExists, remote.ErrName, remote.ErrDamaged}, e.Kind):
		return e.Error()
	case e.Err == nil:
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + inWords(e.Err)
}

// isRead reports whether an operation on a remote changes nothing.
func isRead(op string) bool { return op == "get" || op == "stat" || op == "list" || op == "open" }

func busyWords(e *disk.BusyError) string {
	if e.PID == 0 {
		return "another kist process holds the lock"
	}
	return fmt.Sprintf("another kist process holds the lock: process %d, since %s", e.PID, e.Since.Format(time.DateTime))
}

func movedWords(e *refs.MovedError) string {
	name := quoteArg(shortRef(e.Name))
	if kind := refKind(e.Name); kind != "ref" {
		name = kind + " " + name
	}
	switch {
	case e.Want.IsZero():
		return fmt.Sprintf("%s exists already, at %s", name, e.Have.Short())
	case e.Have.IsZero():
		return fmt.Sprintf("%s was deleted during this command; it was at %s", name, e.Want.Short())
	}
	return fmt.Sprintf("%s moved during this command, from %s to %s", name, e.Want.Short(), e.Have.Short())
}

// deniedRepository returns the worktree of the repository that the file system
// does not let this process change, or "" if err does not say that.
func deniedRepository(err error) string {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return ""
	}
	var file *fs.PathError
	var link *os.LinkError
	path := ""
	switch {
	case errors.As(err, &file):
		path = file.Path
	case errors.As(err, &link):
		path = link.New
	}
	dir, _, found := strings.Cut(path+"/", "/"+kist.Dir+"/")
	if !found || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// sshLike reports whether a person means a folder on another machine, as git
// writes it: host:path, user@host:path, ssh://host/path. There is no file of
// that name.
func (e *Env) sshLike(text string) bool {
	scheme, _, isURL := strings.Cut(text, "://")
	if isURL {
		return slices.Contains([]string{"ssh", "sftp", "scp", "rsync", "git", "git+ssh", "ssh+git"}, strings.ToLower(scheme))
	}
	host, rest, found := strings.Cut(text, ":")
	first, _, _ := strings.Cut(rest, "/")
	if !found || host == "" || strings.Contains(host, "/") || strings.Contains(first, "@") || backends[strings.ToLower(host)] != nil {
		return false
	}
	_, err := os.Lstat(e.path(text))
	return err != nil
}

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// formatSize returns a number of bytes for a person to read: "512 B",
// "1.5 KiB", "23 GiB", never more than four digits.
func formatSize(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 1023.5 && unit < len(sizeUnits)-1 {
		value /= 1024
		unit++
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %s", value, sizeUnits[unit])
	}
	return fmt.Sprintf("%.0f %s", value, sizeUnits[unit])
}

// plural returns a number and a noun in the number it takes: "1 file",
// "2 files". Thousands are set apart: "12,345 files".
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// formatCount returns n with its thousands set apart by commas.
func formatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// quotePath returns a path as it is printed: as it is if that can be shown and
// read back, and otherwise in double quotes with C's escapes, as git prints it.
// Letters beyond ASCII are left alone (git's core.quotePath=false); quotes,
// backslashes, control characters, what reorders text, and bytes that are not
// UTF-8 are escaped. Where a command has -z, it prints paths as they are.
func quotePath(path string) string {
	if !needsQuotes(path) {
		return path
	}
	return quoted(path)
}

// quoteSpaced is quotePath, but paths with spaces in them are in quotes, too,
// so that they end where they seem to. Git does so in short statuses.
func quoteSpaced(path string) string {
	if strings.Contains(path, " ") {
		return quoted(path)
	}
	return quotePath(path)
}

// quoteArg returns text in double quotes, escaped as [quotePath] does, for the
// subject of a message.
func quoteArg(text string) string { return quoted(text) }

func needsQuotes(s string) bool {
	for i, r := range s {
		if r == '"' || r == '\\' || invisible(r) || badByte(s, i, r) {
			return true
		}
	}
	return false
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case badByte(s, i, r):
			octal(&b, s[i:i+1])
		case invisible(r):
			if letter, ok := cEscapes[r]; ok {
				b.WriteByte('\\')
				b.WriteByte(letter)
			} else {
				octal(&b, string(r))
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var cEscapes = map[rune]byte{'\a': 'a', '\b': 'b', '\t': 't', '\n': 'n', '\v': 'v', '\f': 'f', '\r': 'r'}

func octal(b *strings.Builder, s string) {
	for i := range len(s) {
		fmt.Fprintf(b, `\%03o`, s[i])
	}
}

// badByte reports whether r, found at s[i], stands for a byte that is not UTF-8.
func badByte(s string, i int, r rune) bool {
	if r != utf8.RuneError {
		return false
	}
	_, size := utf8.DecodeRuneInString(s[i:])
	return size == 1
}

// invisible reports whether a name with r looks like another one: r is
// deceptive, or a character without a width.
func invisible(r rune) bool { return deceptive(r) || unicode.Is(unicode.Cf, r) }

// deceptive reports whether printing r does something to a terminal other than
// showing a letter: control characters, line separators, and the marks that
// change the direction of text.
func deceptive(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	case r == 0x2028, r == 0x2029: // line and paragraph separators
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // direction
		return true
	}
	return false
}

// printable returns text that somebody else wrote, such as a commit message,
// so that it can do nothing to a terminal: newlines and tabs stay, other
// control characters become the pictures of them (ESC becomes ␛), and invalid bytes
// become U+FFFD.
func printable(text string) string {
	clean := true
	for i, r := range text {
		if r != '\n' && r != '\t' && (deceptive(r) || badByte(text, i, r)) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case deceptive(r):
			return utf8.RuneError
		}
		return r
	}, text)
}
