package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// WordsFor returns text, which repeats err, with err in the user's words. With
// --verbose it returns text unchanged.
func WordsFor(env *Env, text string, err error) string {
	if err == nil || env.Global.Verbose {
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
	var lastCopy *stage.GiveUpError
	var away *object.AwayError
	var budget *object.BudgetError
	var thawing *transfer.ThawingError
	switch {
	case errors.As(err, &unknown):
		return "the connection failed, and it is not known whether the remote changed: " + inWords(unknown.Err)
	case errors.As(err, &lastCopy):
		return lastCopyWords(lastCopy)
	case errors.As(err, &thawing):
		return "the content lies in an archive of the remote, and thaws until about " + thawing.Ready.Local().Format("2006-01-02 15:04")
	case errors.Is(err, remote.ErrArchived):
		return "the content lies in an archive of the remote, and cannot be read before a thaw"
	case errors.As(err, &budget):
		return budgetText(budget)
	case errors.As(err, &away):
		return awayWords(away)
	case errors.As(err, &remoteError):
		return strings.Replace(err.Error(), remoteError.Error(), remoteWords(remoteError), 1)
	case errors.As(err, &busy):
		return busyWords(busy)
	case errors.As(err, &moved):
		return movedWords(moved)
	}

	if dir := deniedRepository(err); dir != "" {
		if errors.Is(err, syscall.EROFS) {
			return fmt.Sprintf("the repository %s is on a read-only file system", QuotePath(dir))
		}
		return fmt.Sprintf("no permission to change the repository %s", QuotePath(dir))
	}
	return fileWords(err)
}

// lastCopyWords returns the words for a file that must not go, because no remote is known to have its content.
func lastCopyWords(e *stage.GiveUpError) string {
	path, size := QuotePath(e.Path), readable.FormatSize(uint64(e.Bytes))
	if e.Err == nil {
		return fmt.Sprintf("%s has the only copy: no remote keeps %s of its content", path, size)
	}
	return fmt.Sprintf("%s has the only copy here of %s of content, and the remote cannot be asked whether it keeps that", path, size)
}

// awayWords returns the words for content that cannot be fetched.
func awayWords(e *object.AwayError) string {
	from := "a remote"
	if e.Remote != "" {
		from = Printable(e.Remote)
	}
	text := "this needs content that only " + from + " has"
	switch {
	case e.Files == 1:
		text = "1 file needs content that only " + from + " has"
	case e.Files > 1:
		text = fmt.Sprintf("%d files need content that only %s has", e.Files, from)
	}
	switch {
	case e.Err == nil:
		return text
	case errors.Is(e.Err, remote.ErrTemporary), errors.Is(e.Err, remote.ErrNoStore), e.Remote == "":
		return text + ", and " + from + " does not answer"
	}
	return text + ", and " + from + " does not give it: " + inWords(e.Err)
}

// fileWords returns the text of err. For a failed look at a file or at the current folder, and for a new
// file that exists, the text has no name of a system call.
func fileWords(err error) string {
	text := err.Error()
	var file *fs.PathError
	switch {
	case noCurrentFolder(err):
		return "the current folder was deleted"
	case errors.As(err, &file) && file.Op == "create" && errors.Is(file.Err, fs.ErrExist) && strings.HasSuffix(text, file.Error()):
		return strings.TrimSuffix(text, file.Error()) + QuotePath(file.Path) + " exists already"
	case !errors.As(err, &file) || !errors.Is(file.Err, fs.ErrNotExist) || !slices.Contains([]string{"open", "stat", "lstat"}, file.Op):
		return text
	}
	if before, ok := strings.CutSuffix(text, file.Error()); ok {
		return before + QuotePath(file.Path) + " does not exist"
	}
	return text
}

// noCurrentFolder matches the error for a current folder that was deleted.
func noCurrentFolder(err error) bool {
	var call *os.SyscallError
	return errors.As(err, &call) && call.Syscall == "getwd" && errors.Is(err, fs.ErrNotExist)
}

// remoteWords returns the text of e without the operation and the blob's name.
// It keeps them for a blob that is damaged, absent or in the way.
func remoteWords(e *remote.Error) string {
	refused := e.Op == "open" && e.Kind == remote.ErrCredentials // before anything was sent
	var file *fs.PathError
	own := refused || errors.Is(e.Err, remote.ErrReadOnly) || errors.Is(e.Err, remote.ErrServer) || e.Kind == nil || e.Kind == remote.ErrNoStore || e.Kind == remote.ErrCertificate || IsA[*remote.ForeignError](e.Err)
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
	name := QuoteArg(ShortRef(e.Name))
	if kind := RefKind(e.Name); kind != "ref" {
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

// deniedRepository returns the worktree of a repository if err means that this process may
// not change a file in it, and else "".
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

// ShortRef returns the name of a ref without the folder of its kind.
func ShortRef(name string) string {
	for _, prefix := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			return short
		}
	}
	return name
}

// RefKind returns the kind of a ref: branch, tag or ref.
func RefKind(name string) string {
	switch {
	case strings.HasPrefix(name, refs.Heads), strings.HasPrefix(name, refs.Remotes):
		return "branch"
	case strings.HasPrefix(name, refs.Tags):
		return "tag"
	}
	return "ref"
}
