package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/mount"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/views"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/convert"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
	"github.com/kist-vcs/kist/tree/worktree"
)

const hintBare = "it never writes to the backed up paths; 'kist restore --source REV --to DIR PATH...' writes elsewhere"

// ownKinds has the kinds of error that only commands decide, with their exit status.
var ownKinds = []struct {
	kind string
	exit int
}{
	{"alias", exitFailed},
	{"ambiguous", exitFailed},
	{"exec", exitFailed},
	{"expression", exitUsage},
	{"future", exitFailed},
	{"ignored", exitFailed},
	{"in-use", exitFailed},
	{"inline", exitPartial},
	{"max-deleted", exitFailed},
	{"no-backup", exitFailed},
	{"no-name", exitFailed},
	{"no-schedule", exitFailed},
	{"no-scheduler", exitFailed},
	{"no-tool", exitFailed},
	{"not-a-branch", exitFailed},
	{"not-set", exitFailed},
	{"nothing-to-push", exitFailed},
	{"old", exitFailed},
	{"only-copy", exitFailed},
	{"owner", exitFailed},
	{"program", exitFailed},
	{"refused", exitFailed},
	{"root", exitFailed},
	{"untracked", exitFailed},
	{"untrusted", exitFailed},
}

// causes has the exit status, kind and hint of the errors of other packages. An empty kind
// means the default kind of the status. The first match counts, so specific causes come
// first.
var causes = []struct {
	is   func(error) bool
	exit int
	kind string
	hint string
}{
	// The user.
	{matches(context.Canceled), exitInterrupted, "", "everything stored so far is kept; run the same command again to continue"},

	// A disk that went away, before its effects.
	{matchesAll(isA[*remote.Error], isA[*disk.AwayError]), exitRemote, "no-store", hintAway},
	{isA[*disk.AwayError], exitFailed, "away", hintAway},

	// Formats, before damage: a newer format looks damaged to older code.
	{matches(kist.ErrUnsupportedFormat), exitFormat, "", hintNewer},
	{matches(object.ErrNewerFormat), exitFormat, "", hintNewer},

	// Package kist.
	{matches(kist.ErrSetting), exitUsage, "config", "'kist help config' lists the keys and their values"},
	{matches(kist.ErrNoRepository), exitNoRepository, "", "'kist init' creates a repository in the current folder"},
	{matches(kist.ErrBare), exitFailed, "bare", hintBare},
	{matches(worktree.ErrReadOnly), exitFailed, "bare", hintBare},
	{matches(worktree.ErrGit), exitFailed, "git-folder", "'kist config core.git write' permits it in this repository"},
	{matches(worktree.ErrNoRoots), exitFailed, "no-paths", "'kist config --add backup.paths /etc' adds a path to back up"},
	{matches(kist.ErrEmbedded), exitFailed, "embedded", "somebody may have put it there to be used by mistake; if it is yours, name it with --repo"},
	{matches(kist.ErrExists), exitFailed, "exists", ""},
	{matches(stage.ErrLocalChanges), exitFailed, "local-changes", "commit these changes first, or overwrite them with --force"},
	{matches(stage.ErrChanged), exitMoved, "moved", "nothing was done; run the command again"},
	{matches(commits.ErrNothingToCommit), exitFailed, "nothing-to-commit", ""},
	{matches(index.ErrConflict), exitFailed, "conflicts", hintDecide},
	{matches(operation.ErrInProgress), exitFailed, "in-progress", "'kist status' shows how to finish or undo it"},
	{matches(stash.ErrNone), exitFailed, "no-stash", "'kist stash list' lists the stashes"},
	{matches(stash.ErrNotStash), exitFailed, "not-a-stash", "'kist stash list' lists the stashes"},
	{matches(stash.ErrStaged), exitFailed, "staged-conflicts", "without --index, nothing is staged except new files"},
	{matches(log.ErrSortKey), exitUsage, "", ""},
	{matches(bisect.ErrNone), exitFailed, "not-in-progress", "'kist bisect start' begins one"},
	{matches(bisect.ErrTerms), exitFailed, "terms", ""},
	{matches(bisect.ErrContradiction), exitFailed, "contradiction", "'kist bisect log' shows the marks; if one is wrong, start again"},
	{matches(bisect.ErrNothingToTest), exitFailed, "nothing-to-test", "check the paths of 'kist bisect start'"},
	{matches(operation.ErrNotInProgress), exitFailed, "not-in-progress", ""},
	{matches(kist.ErrNameTaken), exitFailed, "exists", ""},
	{matches(commits.ErrCheckedOut), exitFailed, "checked-out", "switch to another branch first: 'kist checkout BRANCH'"},
	{matches(commits.ErrNotMerged), exitFailed, "not-merged", ""},
	{matches(commits.ErrWhichParent), exitFailed, "which-parent", "-m 1 goes back to the first parent: the branch before the merge"},
	{matches(checkout.ErrInsideRepository), exitFailed, "path", ""},
	{isA[*rebase.TodoError], exitFailed, "bad-list", "nothing was done; your list is in .kist/REBASE_TODO"},
	{matches(rebase.ErrNothingToDo), exitFailed, "nothing-to-do", "'drop' lines leave out commits one by one"},
	{matches(commits.ErrNotFastForward), exitMoved, "not-fast-forward", ""},
	{matches(commits.ErrNoCommonHistory), exitFailed, "unrelated", "--allow-unrelated-histories merges them anyway"},
	{matches(commits.ErrTooManyBases), exitFailed, "too-many-bases", "'kist log --graph' shows the merges; a person does not make thousands of them"},
	{isA[*convert.NotDeletedError], exitPartial, "not-deleted", "everything else was done; the folder still has its files, unless an interrupted import deleted them"},
	{isA[*convert.TooLargeError], exitFailed, "too-large", "if you trust the archive, --max-size allows more"},
	{matches(convert.ErrHalfDeleted), exitFailed, "half-deleted", "'kist import --delete-source' of the folders beside it continues"},
	{matches(mount.ErrDead), exitFailed, "mounted", "unmount it first: '" + mount.Command + " DIR'"},
	{matches(mount.ErrNotEmpty), exitFailed, "path", "make a new folder for the mount"},
	{matches(mount.ErrNotFolder), exitFailed, "path", "make a new folder for the mount"},
	{matches(mount.ErrNoFUSE), exitFailed, "no-fuse", "on Linux, install the package fuse3"},
	{matches(views.ErrNoView), exitFailed, "no-view", "'kist view list' lists the views"},
	{matches(views.ErrName), exitUsage, "bad-name", ""},
	{matches(views.ErrTemplate), exitUsage, "template", "'kist help view add' lists the facts"},
	{matches(views.ErrFolder), exitFailed, "folder", ""},
	{matches(views.ErrState), exitFailed, "view", "'kist view rebuild' makes it again"},
	{isA[*views.CollisionError], exitFailed, "collision", "add {path}, {dir} or {id} to the template"},
	{isA[*views.ForeignError], exitFailed, "foreign", "move these files away, or choose another folder"},
	{matches(kist.ErrExpired), exitFailed, "expired", ""}, // see expiredHint
	{matches(kist.ErrGone), exitFailed, "gone", hintGone},
	{matches(retain.ErrNotHeld), exitFailed, "not-held", "'kist hold list' lists the holds"},
	{matches(retain.ErrNotExpired), exitFailed, "not-expired", "'kist expire --list' lists the expired commits"},
	{isA[*retain.HeldError], exitFailed, "held", "'kist hold remove' removes a hold; ask its owner first"},
	{matches(retain.ErrProtected), exitFailed, "protected", ""},
	{matches(retain.ErrValue), exitUsage, "", ""},
	{matches(kist.ErrNoUpstream), exitFailed, "no-upstream", ""},
	{matches(kist.ErrUnborn), exitFailed, "unborn", "'kist commit' makes the first one"},
	{isA[*pathspec.Error], exitUsage, "", ""}, // see magicHint
	{matches(kist.ErrNoMatch), exitFailed, "not-found", "paths count from the current folder; 'kist status' and 'kist ls -r' list files"},
	{matches(tree.ErrAttrs), exitUsage, "", ""},
	{matches(checkout.ErrIsDirectory), exitFailed, "is-directory", "-r means folders, too"},
	{matches(tree.ErrTooMany), exitFailed, "too-many-paths", "somebody built this tree to fill memory or disk; 'kist log' shows who committed it"},
	{matches(kist.ErrUserConfig), exitUsage, "config", "it is your own configuration: correct the file"},
	{isA[*kist.ConfigError], exitDamaged, "config", "the configuration is the text file .kist/config"},
	{isA[*volume.EvictedError], exitFailed, "evicted", "that repository keeps content only on its remote, which 'kist remote -v' names there: clone or fetch from the remote"},
	{matches(object.ErrPurged), exitFailed, "purged", "'kist purge --list' lists the purged content"},

	// Damage, before names and paths: a damaged file may hold a bad name.
	{matches(index.ErrDamaged), exitDamaged, "index", hintIndex},
	{isLogDamage, exitDamaged, "reflog", hintLog},
	{matches(refs.ErrDamaged), exitDamaged, "ref", hintRef},
	{matches(record.ErrDamaged), exitDamaged, "records", hintRecords},
	{matches(transfer.ErrCopyRemoved), exitDamaged, "remote-state", "run the command again: it reads the file from the remote"},
	{matches(transfer.ErrState), exitDamaged, "remote-state", hintRemoteState},
	{matches(transfer.ErrNeededAgain), exitFailed, "needed-again", "whoever undid the purge or expiration has to push the content; nothing is damaged here"},
	{isA[*collect.NeededError], exitDamaged, "remote-damaged", ""}, // each command has its own hint
	{matches(rootlog.ErrNoRoots), exitDamaged, "remote-damaged", hintNoRoots},
	{matches(remote.ErrDamaged), exitDamaged, "remote-damaged", hintRemoteDamage},
	{matches(pack.ErrDamaged), exitDamaged, "remote-damaged", hintRemoteDamage},
	{matches(object.ErrCorrupt), exitDamaged, "", "'kist verify' shows the affected files"},
	{isLost, exitDamaged, "lost", hintLost},
	{matches(object.ErrNotFound), exitDamaged, "missing", "'kist verify' shows the affected files"},

	// Names and paths.
	{isA[*refs.AmbiguousError], exitFailed, "ambiguous-revision", "give more digits"},
	{isA[*refs.UnknownRevisionError], exitFailed, "unknown-revision", "'kist branch', 'kist tag' and 'kist log' list branches, tags and commits"},
	{matches(refs.ErrNotFound), exitFailed, "unknown-ref", ""},
	{isA[*refs.NameError], exitFailed, "bad-name", ""},
	{isA[*object.NameError], exitFailed, "bad-name", ""},
	{matches(refs.ErrTime), exitUsage, "", "write it as in 2026-01-31, 2026-01-31T12:00:00Z, yesterday, or 2.weeks.ago"},
	{matches(log.ErrManyStarts), exitUsage, "", "name one REV, or none for HEAD"},
	{matches(log.ErrNoMoves), exitUsage, "", "with -g, name HEAD or branches; 'kist reflog' shows the moves of one"},
	{matches(refs.ErrMoved), exitMoved, "", "another kist process changed it: look at 'kist log', then run the command again"},
	{matches(refs.ErrConflict), exitFailed, "exists", ""},

	// Remotes.
	{matches(kist.ErrNoRemote), exitFailed, "no-remote", "'kist remote' lists them, 'kist remote add NAME URL' adds one"},
	{matches(registry.ErrNone), exitFailed, "no-remote", "'kist remote add origin URL' adds one; URL may be a folder, s3://BUCKET/PREFIX, or mongodb://HOST/DATABASE"},
	{matches(registry.ErrWhich), exitUsage, "", "name one of them; 'kist remote' lists them"},
	{matches(registry.ErrDetached), exitFailed, "detached", "name a branch; a push takes HEAD:BRANCH"},
	{isA[*registry.OtherNameError], exitFailed, "upstream", ""}, // see upstreamHint
	{matches(registry.ErrNested), exitFailed, "nested", "name a folder or prefix outside the other remote"},
	{matches(rootlog.ErrSingleWriter), exitRemote, "single-writer", "if nobody else writes to it: 'kist config remote.NAME.single-writer true'"},
	{matches(collect.ErrNoDelete), exitCredentials, "permission", "nothing was changed; run it with credentials that may delete: see 'Permissions' in 'kist help s3'"},
	{matches(transfer.ErrUnfit), exitRemote, "unfit", "'kist remote check' shows why; kist writes nothing there until a check passes"},
	{matches(kist.ErrSecret), exitUsage, "secret", "leave it out: see 'kist help remote' for where kist looks for keys and passwords"},
	{matches(transfer.ErrExpiredThere), exitMoved, "expired-meanwhile", "'kist fetch', then 'kist expire --undo' brings it back, and the same push sends it; if the expiration waits, 'kist fetch --records refuse' brings it back"},
	{matches(transfer.ErrNotFastForward), exitMoved, "not-fast-forward", ""},
	{matches(rootlog.ErrUnknown), exitRemote, "unknown", "'kist fetch', or the same push again, shows whether it did"},
	{isEmptied, exitRemote, "rollback", hintEmptied},
	{matches(rootlog.ErrRollback), exitRemote, "rollback", "nothing was written; ask the owner of the remote whether it was restored from a copy"},
	{matches(rootlog.ErrEmpty), exitRemote, "empty", "check the path or URL; the first 'kist push' makes it a remote"},
	{matches(transfer.ErrRepository), exitRemote, "repository", "kist only reads the repositories of others: pull there instead, or share a store: 'kist remote add NAME URL'"},
	{matches(remote.ErrNewerFormat), exitFormat, "", "a newer kist is needed for this remote"},
	{isA[*remote.EnvError], exitCredentials, "", ""}, // see envHint
	{isA[*remote.ForeignError], exitRemote, "unsupported", "name a new or empty folder, such as one inside it"},
	{matches(remote.ErrURL), exitRemote, "", "'kist help remote' lists the URLs that kist knows"},
	{matches(remote.ErrClock), exitCredentials, "clock", "set the clock of this machine, with NTP for example"},
	{matches(remote.ErrArchived), exitRemote, "archived", "bring it back to a class of storage that can be read at once; end the rule of the bucket that archives files"},
	{matches(remote.ErrCredentials), exitCredentials, "", "see 'kist help remote' for where kist looks for keys and passwords"},
	{matches(remote.ErrCertificate), exitRemote, "certificate", "to trust it: AWS_CA_BUNDLE=FILE for S3, or &tlsCAFile=FILE in a MongoDB URL, with the certificate that signed it"},
	{matches(remote.ErrPermission), exitCredentials, "permission", "ask the owner of the folder, bucket or database for access"},
	{matches(remote.ErrNoStore), exitRemote, "no-store", "check the URL; a disk has to be mounted, and a bucket created, before kist can use it"},
	{matches(remote.ErrFull), exitRemote, "full", "free some space there, or raise the quota; everything stored before is intact"},
	{matches(remote.ErrUnsupported), exitRemote, "unsupported", "'kist remote check' shows what the store can do"},
	{matches(remote.ErrTemporary), exitRemote, "", "check the network and the URL, then run the command again"},
	{isA[*remote.Error], exitRemote, "", ""},

	// Another process was quicker.
	{isA[*volume.StaleError], exitMoved, "collected", "another kist process removed it as garbage; run the command again"},
	{matches(disk.ErrBusy), exitBusy, "", "run the command again when that process has ended; --verbose names the lock"},

	// The operating system.
	{matches(disk.ErrSymlink), exitFailed, "symlink", "replace the symlink by the folder or file itself"},
	{matches(syscall.ENOSPC), exitFailed, "disk-full", "free some space and run the command again; everything stored before is intact"},
	{matches(syscall.EDQUOT), exitFailed, "disk-full", "your quota is used up; everything stored before is intact"},
	{matches(syscall.EROFS), exitFailed, "read-only", "mount the file system for writing, or work on a copy elsewhere"},
	{matches(fs.ErrPermission), exitFailed, "permission", "'ls -ld' shows its owner and who may change it"},
	{matches(syscall.ENOTDIR), exitFailed, "not-a-folder", "there is a file where a folder has to be"},
	{noCurrentFolder, exitFailed, "not-found", "'cd' to a folder that exists"},
	{matches(fs.ErrNotExist), exitFailed, "not-found", ""},
	{matches(fs.ErrExist), exitFailed, "exists", ""},
}

// Hints on damaged files that are no objects, and on a lost commit.
const (
	hintLost         = "go on from a commit that 'kist reflog' lists: 'kist reset --soft COMMIT' keeps all files and staged changes, 'kist checkout BRANCH' switches"
	hintIndex        = "no commit is affected: 'kist verify --repair' rebuilds it from HEAD"
	hintRef          = "'kist verify --repair' restores it from its log or another branch, if it can"
	hintRecords      = "'kist verify --repair' rebuilds the records; until then, expired and purged content seems to be missing"
	hintRemoteDamage = "'kist verify --remote NAME' lists the damage there"
	hintNewer        = "a newer kist is needed for this repository"
	hintAway         = "mount the disk, then run the command again: it does only the rest"
	hintNoRoots      = "lost roots: restore the folder root/ from a copy before anybody pushes; a first push: wait for it, or run it again"
	hintEmptied      = "nothing was written; if its disk is not mounted, mount it; to begin again in an empty place, remove the remote and add it again"
	hintRemoteState  = "no stored content is affected: 'kist verify --repair' restores it, or asks the remote"
	hintLog          = "no branch is affected, only its log: 'kist verify --repair' restores the lines that it can"
)

// isLost matches a missing commit whose loss was accepted.
func isLost(err error) bool {
	var e *object.NotFoundError
	return errors.As(err, &e) && e.Lost && e.Key.Kind == object.KindCommit
}

// isEmptied matches a known remote that has nothing left.
func isEmptied(err error) bool {
	var e *rootlog.RollbackError
	return errors.As(err, &e) && e.Emptied
}

// upstreamHint returns advice on an upstream with another name than its branch, or "".
func upstreamHint(err error) string {
	var e *registry.OtherNameError
	if !errors.As(err, &e) {
		return ""
	}
	branch, _ := refs.BranchOf(e.Upstream.Ref)
	return fmt.Sprintf("'kist push %[1]s HEAD:%[2]s' pushes to it; 'kist push -u %[1]s %[3]s' to a branch of the same name",
		quoteArg(e.Upstream.Remote), quoteArg(branch), quoteArg(e.Branch))
}

// magicHint returns advice on a pathspec with an unknown word, or "".
func magicHint(err error) string {
	var e *pathspec.Error
	if !errors.As(err, &e) || !e.IsUnknown {
		return ""
	}
	return fmt.Sprintf("top, glob, literal, icase and exclude are known; './%s' is the path of this name", printable(e.Arg))
}

// envHint returns advice on the environment variable that err is about, or "".
func envHint(err error) string {
	var e *remote.EnvError
	switch {
	case !errors.As(err, &e):
		return ""
	case e.Value == "":
		return "set " + e.Variable + ", too; 'kist help remote' lists where kist looks for keys"
	}
	return fmt.Sprintf("if you trust this host: export %s=%s", e.Variable, shellWord(e.Value))
}

// isLogDamage matches damage of a log of refs.
func isLogDamage(err error) bool {
	var e *object.DamageError
	return errors.As(err, &e) && errors.Is(e, refs.ErrDamaged) && strings.HasPrefix(e.Name, "logs/")
}

func matches(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// matchesAll matches errors that all of the given functions match.
func matchesAll(all ...func(error) bool) func(error) bool {
	return func(err error) bool {
		return !slices.ContainsFunc(all, func(is func(error) bool) bool { return !is(err) })
	}
}

// isA matches errors of type T.
func isA[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// detailLines is the most paths that an error lists.
const detailLines = 20

// details returns the paths that an error is about, on lines of their own, unless its
// message has them.
func details(err error) string {
	var lines []string
	var local *stage.LocalChangesError
	var conflict *index.ConflictError
	var foreign *views.ForeignError
	var kept *convert.NotDeletedError
	switch {
	case errors.As(err, &local) && len(local.Obstacles) > 1:
		lines = firstOf(local.Obstacles, detailLines, "", func(o stage.Obstacle) string { return quotePath(o.Path) + ": " + o.Reason })
	case errors.As(err, &conflict):
		lines = firstOf(conflict.Paths, detailLines, "", quotePath)
	case errors.As(err, &kept):
		lines = firstOf(kept.Files, detailLines, "", quotePath)
	case errors.As(err, &foreign):
		lines = firstOf(foreign.Paths, detailLines, "", quotePath)
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
}

// expiredHint returns advice if err is about expired content, and otherwise "".
func expiredHint(err error) string {
	var expired *kist.ExpiredError
	switch {
	case !errors.As(err, &expired):
		return ""
	case expired.Head:
		return "HEAD is at this commit: 'kist checkout --force' or 'kist reset --hard' leaves it, and discards local changes"
	case expired.Base:
		return "both sides part there. " + hintGone + "; or --allow-unrelated-histories merges without it: where the sides differ is a conflict"
	case expired.Gone:
		return hintGone
	}
	return "if all of it is still here, 'kist expire --undo " + expired.Commit.Short() + "' brings it back"
}

// hintGone is the advice for content that was removed here.
const hintGone = "if another clone still has it, 'kist expire --undo' and 'kist push' there, then 'kist fetch' here bring it back; if a fetch was stopped, the next one brings the rest"

// hintDecide is the advice for conflicts.
const hintDecide = "'kist status' lists them; 'kist add' each one to keep, and 'kist rm' each one to drop"
