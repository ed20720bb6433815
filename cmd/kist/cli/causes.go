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
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/mirror"
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

// OwnKinds has the kinds of error that only commands decide, with their exit status.
var OwnKinds = []struct {
	Kind string
	Exit int
}{
	{"alias", ExitFailed},
	{"ambiguous", ExitFailed},
	{"exec", ExitFailed},
	{"different", ExitRemote},
	{"expression", ExitUsage},
	{"future", ExitFailed},
	{"ignored", ExitFailed},
	{"in-use", ExitFailed},
	{"inline", ExitPartial},
	{"max-deleted", ExitFailed},
	{"no-backup", ExitFailed},
	{"no-name", ExitFailed},
	{"no-schedule", ExitFailed},
	{"no-scheduler", ExitFailed},
	{"no-tool", ExitFailed},
	{"not-a-branch", ExitFailed},
	{"not-set", ExitFailed},
	{"not-sparse", ExitFailed},
	{"nothing-to-push", ExitFailed},
	{"old", ExitFailed},
	{"owner", ExitFailed},
	{"program", ExitFailed},
	{"refused", ExitFailed},
	{"root", ExitFailed},
	{"signature", ExitFailed},
	{"untracked", ExitFailed},
	{"untrusted", ExitFailed},
}

// Causes has the exit status, kind and hint of the errors of other packages. An empty kind
// means the default kind of the status. The first match counts, so specific causes come
// first.
var Causes = []struct {
	is   func(error) bool
	Exit int
	Kind string
	hint string
}{
	// The user.
	{matches(context.Canceled), ExitInterrupted, "", "everything stored so far is kept; run the same command again to continue"},

	// A disk that went away, before its effects.
	{matchesAll(IsA[*remote.Error], IsA[*disk.AwayError]), ExitRemote, "no-store", hintAway},
	{IsA[*disk.AwayError], ExitFailed, "away", hintAway},

	// Formats, before damage: a newer format looks damaged to older code.
	{matches(kist.ErrUnsupportedFormat), ExitFormat, "", hintNewer},
	{matches(object.ErrNewerFormat), ExitFormat, "", hintNewer},

	// Package kist.
	{matches(kist.ErrSetting), ExitUsage, "config", "'kist help config' lists the keys and their values"},
	{matches(kist.ErrNoRepository), ExitNoRepository, "", "'kist init' creates a repository in the current folder"},
	{matches(kist.ErrBare), ExitFailed, "bare", hintBare},
	{matches(worktree.ErrReadOnly), ExitFailed, "bare", hintBare},
	{matches(worktree.ErrGit), ExitFailed, "git-folder", "'kist config core.git write' permits it in this repository"},
	{matches(worktree.ErrNoRoots), ExitFailed, "no-paths", "'kist config --add backup.paths /etc' adds a path to back up"},
	{matches(kist.ErrEmbedded), ExitFailed, "embedded", "somebody may have put it there to be used by mistake; if it is yours, name it with --repo"},
	{matches(kist.ErrExists), ExitFailed, "exists", ""},
	{IsA[*stage.GiveUpError], ExitFailed, "only-copy", "nothing was done; try again when the remote answers; if it has lost the content, 'kist verify --repair' stores it here"},
	{matches(stage.ErrLocalChanges), ExitFailed, "local-changes", "commit these changes first, or overwrite them with --force"},
	{matches(index.ErrLeftOut), ExitFailed, "left-out", "'kist sparse add DIR' brings the folder into the worktree"},
	{matches(stage.ErrChanged), ExitMoved, "moved", "nothing was done; run the command again"},
	{matches(commits.ErrNothingToCommit), ExitFailed, "nothing-to-commit", ""},
	{matches(index.ErrConflict), ExitFailed, "conflicts", HintDecide},
	{matches(operation.ErrInProgress), ExitFailed, "in-progress", "'kist status' shows how to finish or undo it"},
	{matches(stash.ErrNone), ExitFailed, "no-stash", "'kist stash list' lists the stashes"},
	{matches(stash.ErrNotStash), ExitFailed, "not-a-stash", "'kist stash list' lists the stashes"},
	{matches(stash.ErrStaged), ExitFailed, "staged-conflicts", "without --index, nothing is staged except new files"},
	{matches(log.ErrSortKey), ExitUsage, "", ""},
	{matches(bisect.ErrNone), ExitFailed, "not-in-progress", "'kist bisect start' begins one"},
	{matches(bisect.ErrTerms), ExitFailed, "terms", ""},
	{matches(bisect.ErrContradiction), ExitFailed, "contradiction", "'kist bisect log' shows the marks; if one is wrong, start again"},
	{matches(bisect.ErrNothingToTest), ExitFailed, "nothing-to-test", "check the paths of 'kist bisect start'"},
	{matches(operation.ErrNotInProgress), ExitFailed, "not-in-progress", ""},
	{matches(kist.ErrNameTaken), ExitFailed, "exists", ""},
	{matches(commits.ErrCheckedOut), ExitFailed, "checked-out", "switch to another branch first: 'kist checkout BRANCH'"},
	{matches(commits.ErrNotMerged), ExitFailed, "not-merged", ""},
	{matches(commits.ErrWhichParent), ExitFailed, "which-parent", "-m 1 goes back to the first parent: the branch before the merge"},
	{matches(checkout.ErrInsideRepository), ExitFailed, "path", ""},
	{IsA[*rebase.TodoError], ExitFailed, "bad-list", "nothing was done; your list is in .kist/REBASE_TODO"},
	{matches(rebase.ErrNothingToDo), ExitFailed, "nothing-to-do", "'drop' lines leave out commits one by one"},
	{matches(commits.ErrNotFastForward), ExitMoved, "not-fast-forward", ""},
	{matches(commits.ErrNoCommonHistory), ExitFailed, "unrelated", "--allow-unrelated-histories merges them anyway"},
	{matches(commits.ErrTooManyBases), ExitFailed, "too-many-bases", "'kist log --graph' shows the merges; a person does not make thousands of them"},
	{IsA[*convert.NotDeletedError], ExitPartial, "not-deleted", "everything else was done; the folder still has its files, unless an interrupted import deleted them"},
	{IsA[*convert.TooLargeError], ExitFailed, "too-large", "if you trust the archive, --max-size allows more"},
	{matches(convert.ErrHalfDeleted), ExitFailed, "half-deleted", "'kist import --delete-source' of the folder continues"},
	{matches(mount.ErrDead), ExitFailed, "mounted", "unmount it first: '" + mount.Command + " DIR'"},
	{matches(mount.ErrNotEmpty), ExitFailed, "path", "make a new folder for the mount"},
	{matches(mount.ErrNotFolder), ExitFailed, "path", "make a new folder for the mount"},
	{matches(mount.ErrNoFUSE), ExitFailed, "no-fuse", "on Linux, install the package fuse3"},
	{matches(views.ErrNoView), ExitFailed, "no-view", "'kist view list' lists the views"},
	{matches(views.ErrName), ExitUsage, "bad-name", ""},
	{matches(views.ErrTemplate), ExitUsage, "template", "'kist help view add' lists the facts"},
	{matches(views.ErrFolder), ExitFailed, "folder", ""},
	{matches(views.ErrState), ExitFailed, "view", "'kist view rebuild' makes it again"},
	{IsA[*views.CollisionError], ExitFailed, "collision", "add {path}, {dir} or {id} to the template"},
	{IsA[*views.ForeignError], ExitFailed, "foreign", "move these files away, or choose another folder"},
	{matches(kist.ErrExpiredHead), ExitFailed, "expired", "HEAD is at this commit: 'kist checkout --force' or 'kist reset --hard' leaves it, and discards local changes"},
	{matches(kist.ErrExpiredBase), ExitFailed, "expired", "both sides part there. " + HintGone + "; or --allow-unrelated-histories merges without it: where the sides differ is a conflict"},
	{matches(kist.ErrExpiredGone), ExitFailed, "expired", HintGone},
	{matches(object.ErrExpired), ExitFailed, "expired", ""}, // see expiredHint
	{matches(kist.ErrGone), ExitFailed, "gone", HintGone},
	{matches(exchange.ErrNoKeep), ExitRemote, "no-keep", "content is given away only if the remote keeps it; ask its owner for permission to push"},
	{matches(retain.ErrNotHeld), ExitFailed, "not-held", "'kist hold list' lists the holds"},
	{matches(retain.ErrNotExpired), ExitFailed, "not-expired", "'kist expire --list' lists the expired commits"},
	{IsA[*retain.HeldError], ExitFailed, "held", "'kist hold remove' removes a hold; ask its owner first"},
	{matches(retain.ErrProtected), ExitFailed, "protected", ""},
	{matches(retain.ErrValue), ExitUsage, "", ""},
	{matches(kist.ErrNoUpstream), ExitFailed, "no-upstream", ""},
	{matches(kist.ErrUnborn), ExitFailed, "unborn", "'kist commit' makes the first one"},
	{IsA[*pathspec.Error], ExitUsage, "", ""}, // see magicHint
	{matches(kist.ErrNoMatch), ExitFailed, "not-found", "paths count from the current folder; 'kist status' and 'kist ls -r' list files"},
	{matches(tree.ErrAttrs), ExitUsage, "", ""},
	{matches(checkout.ErrIsDirectory), ExitFailed, "is-directory", "-r means folders, too"},
	{matches(tree.ErrTooMany), ExitFailed, "too-many-paths", "somebody built this tree to fill memory or disk; 'kist log' shows who committed it"},
	{matches(kist.ErrUserConfig), ExitUsage, "config", "it is your own configuration: correct the file"},
	{IsA[*kist.ConfigError], ExitDamaged, "config", "the configuration is the text file .kist/config"},
	{IsA[*registry.LazyError], ExitFailed, "lazy", ""}, // see lazyHint
	{IsA[*object.BudgetError], ExitPartial, "budget", ""},
	{IsA[*transfer.ThawingError], ExitRemote, "thawing", "nothing was changed; run the command again then, or 'kist fetch --data PATH --thaw', which counts the packs that are ready"},
	{matches(remote.ErrArchived), ExitRemote, "archived", hintThaw},
	{IsA[*object.AwayError], ExitRemote, "not-here", "nothing was changed; 'kist fetch --data PATH' brings content here while the remote answers"},
	{matches(object.ErrEvicted), ExitFailed, "evicted", "that repository keeps content only on its remote, which 'kist remote -v' names there: clone or fetch from the remote"},
	{matches(object.ErrPurged), ExitFailed, "purged", "'kist purge --list' lists the purged content"},

	// Signatures, before the errors of files, which may be their causes.
	{matches(sshsig.ErrNoKey), ExitFailed, "sign", "'ssh-keygen -t ed25519' makes a key; 'kist config --global sign.key FILE' names one"},
	{matches(sshsig.ErrLocked), ExitFailed, "sign", "'ssh-add FILE' gives the key to your agent"},
	{matches(sshsig.ErrOpen), ExitFailed, "sign", "'chmod 600 FILE' makes it your own"},
	{matches(sshsig.ErrSecurityKey), ExitFailed, "sign", "'ssh-add FILE' gives the key to your agent"},
	{matches(sshsig.ErrAgent), ExitFailed, "sign", "'ssh-add -l' lists the keys of your agent, 'ssh-add FILE' adds one"},
	{IsA[*rootlog.SignError], ExitFailed, "sign", "nothing was sent; 'kist help sign' shows how to set up a key"},
	{matches(rootlog.ErrNoSigner), ExitFailed, "sign", "nothing was sent; 'kist help sign' shows how to set up a key"},
	{IsA[*sshsig.KeyError], ExitFailed, "sign", "'kist help sign' shows how to set up a key; --no-sign does without"},

	// Damage, before names and paths: a damaged file may hold a bad name.
	{matches(index.ErrDamaged), ExitDamaged, "index", HintIndex},
	{IsLogDamage, ExitDamaged, "reflog", HintLog},
	{matches(refs.ErrDamaged), ExitDamaged, "ref", HintRef},
	{matches(record.ErrDamaged), ExitDamaged, "records", HintRecords},
	{matches(transfer.ErrCopyRemoved), ExitDamaged, "remote-state", "run the command again: it reads the file from the remote"},
	{matches(transfer.ErrState), ExitDamaged, "remote-state", HintRemoteState},
	{matches(transfer.ErrNeededAgain), ExitFailed, "needed-again", "whoever undid the purge or expiration has to push the content; nothing is damaged here"},
	{IsA[*collect.NeededError], ExitDamaged, "remote-damaged", ""}, // each command has its own hint
	{matches(rootlog.ErrNoRoots), ExitDamaged, "remote-damaged", hintNoRoots},
	{isDamagedRoot, ExitDamaged, "remote-damaged", hintDamagedRoot},
	{matches(remote.ErrDamaged), ExitDamaged, "remote-damaged", hintRemoteDamage},
	{matches(pack.ErrDamaged), ExitDamaged, "remote-damaged", hintRemoteDamage},
	{matches(object.ErrCorrupt), ExitDamaged, "", "'kist verify' shows the affected files"},
	{IsLost, ExitDamaged, "lost", HintLost},
	{matches(object.ErrNotFound), ExitDamaged, "missing", "'kist verify' shows the affected files"},

	// Names and paths.
	{IsA[*refs.AmbiguousError], ExitFailed, "ambiguous-revision", "give more digits"},
	{IsA[*refs.UnknownRevisionError], ExitFailed, "unknown-revision", "'kist branch', 'kist tag' and 'kist log' list branches, tags and commits"},
	{matches(refs.ErrNotFound), ExitFailed, "unknown-ref", ""},
	{IsA[*refs.NameError], ExitFailed, "bad-name", ""},
	{IsA[*object.NameError], ExitFailed, "bad-name", ""},
	{matches(refs.ErrTime), ExitUsage, "", "write it as in 2026-01-31, 2026-01-31T12:00:00Z, yesterday, or 2.weeks.ago"},
	{matches(log.ErrManyStarts), ExitUsage, "", "name one REV, or none for HEAD"},
	{matches(log.ErrNoMoves), ExitUsage, "", "with -g, name HEAD or branches; 'kist reflog' shows the moves of one"},
	{matches(refs.ErrMoved), ExitMoved, "", "another kist process changed it: look at 'kist log', then run the command again"},
	{matches(refs.ErrConflict), ExitFailed, "exists", ""},

	// Remotes.
	{matches(kist.ErrNoRemote), ExitFailed, "no-remote", "'kist remote' lists them, 'kist remote add NAME URL' adds one"},
	{matches(registry.ErrNone), ExitFailed, "no-remote", "'kist remote add origin URL' adds one; URL may be a folder, USER@HOST:PATH, s3://BUCKET/PREFIX, or mongodb://HOST/DATABASE"},
	{matches(registry.ErrWhich), ExitUsage, "", "name one of them; 'kist remote' lists them"},
	{matches(registry.ErrDetached), ExitFailed, "detached", "name a branch; a push takes HEAD:BRANCH"},
	{IsA[*registry.OtherNameError], ExitFailed, "upstream", ""}, // see upstreamHint
	{matches(registry.ErrNested), ExitFailed, "nested", "name a folder or prefix outside the other remote"},
	{matches(rootlog.ErrSingleWriter), ExitRemote, "single-writer", "if nobody else writes to it: 'kist config remote.NAME.single-writer true'"},
	{matches(collect.ErrNoDelete), ExitCredentials, "permission", "nothing was changed; run it with credentials that may delete: see 'Permissions' in 'kist help s3'"},
	{matches(transfer.ErrUnfit), ExitRemote, "unfit", "'kist remote check' shows why; kist writes nothing there until a check passes"},
	{matches(kist.ErrSecret), ExitUsage, "secret", "leave it out: see 'kist help remote' for where kist looks for keys and passwords"},
	{matches(transfer.ErrExpiredThere), ExitMoved, "expired-meanwhile", "'kist fetch', then 'kist expire --undo' brings it back, and the same push sends it; if the expiration waits, 'kist fetch --records refuse' brings it back"},
	{matches(transfer.ErrNotFastForward), ExitMoved, "not-fast-forward", ""},
	// Encrypted remotes.
	{matches(keyset.ErrNoCopy), ExitDamaged, "keyset", "without a keyset nobody can read this remote, not even its owner; other clones and exports have copies: 'kist verify --remote NAME --repair'"},
	{matches(transfer.ErrOtherKeyset), ExitDamaged, "keyset", "another clone may have the copy: 'kist verify --remote NAME --repair' there; nothing was changed"},
	{IsA[*keyset.KnownError], ExitDamaged, "keyset", "if you trust the store, delete this file: kist then remembers the keys of the store"},
	{matches(keyset.ErrKeyChanged), ExitRemote, "not-encrypted", "somebody without the keys has replaced them; nothing was sent"},
	{matches(keyset.ErrOlder), ExitRemote, "rollback", "nothing was written; ask the owner of the remote whether it was restored from a copy"},
	{matches(keyset.ErrOtherRemote), ExitRemote, "not-encrypted", "nothing was sent"},
	{matches(transfer.ErrOtherRemote), ExitRemote, "not-encrypted", "nothing was sent; if it was replaced on purpose, remove the remote and add it again"},
	{matches(rootlog.ErrNotEncrypted), ExitRemote, "not-encrypted", "nothing was sent; 'kist remote add --encrypted NAME URL' makes an encrypted remote in an empty place"},
	{matches(keyset.ErrPassphrase), ExitCredentials, "passphrase", ""},
	{IsA[*keyset.PluginError], ExitCredentials, "plugin", "install the program that it names, or use another identity"},
	{needsPassphrase, ExitCredentials, "passphrase", hintPassphrase},
	{matches(keyset.ErrNoIdentity), ExitCredentials, "no-identity", "'kist key new' makes an identity; somebody who can read the remote adds it: 'kist key add REMOTE KEY'"},
	{matches(rootlog.ErrEncrypted), ExitCredentials, "no-identity", ""},
	{IsA[*keyset.ModeError], ExitCredentials, "identity", "chmod 600 makes it yours alone"},
	{IsA[*keyset.IdentityFileError], ExitCredentials, "identity", ""},
	{matches(exchange.ErrWouldDecrypt), ExitRemote, "would-decrypt", ""},
	{matches(exchange.ErrSameRemote), ExitRemote, "same-remote", "name two different remotes"},
	{matches(mirror.ErrNoRef), ExitFailed, "unknown-ref", "'kist ls-remote' lists the branches and tags"},
	{matches(rootlog.ErrUnsigned), ExitRemote, "unsigned", "'kist verify --signatures --remote NAME' shows who signed each change of the remote"},
	{IsA[*exchange.CopiesError], ExitRemote, "copies", "nothing was given away"},
	{matches(remote.ErrNoKey), ExitCredentials, "no-identity", ""},
	{matches(rootlog.ErrUnknown), ExitRemote, "unknown", "'kist fetch', or the same push again, shows whether it did"},
	{isEmptied, ExitRemote, "rollback", hintEmptied},
	{matches(rootlog.ErrRollback), ExitRemote, "rollback", "nothing was written; ask the owner of the remote whether it was restored from a copy"},
	{matches(rootlog.ErrEmpty), ExitRemote, "empty", "check the path or URL; the first 'kist push' makes it a remote"},
	{matches(transfer.ErrRepository), ExitRemote, "repository", "kist only reads the repositories of others: pull there instead, or share a store: 'kist remote add NAME URL'"},
	{matches(remote.ErrNewerFormat), ExitFormat, "", "a newer kist is needed for this remote"},
	{IsA[*remote.EnvError], ExitCredentials, "", ""}, // see envHint
	{IsA[*remote.ForeignError], ExitRemote, "unsupported", "name a new or empty folder, such as one inside it"},
	{matches(remote.ErrURL), ExitRemote, "", "'kist help remote' lists the URLs that kist knows"},
	{matches(remote.ErrClock), ExitCredentials, "clock", "set the clock of this machine, with NTP for example"},
	{matches(remote.ErrProgram), ExitRemote, "ssh", "install OpenSSH's client, or name another program: 'kist config --global core.ssh-command COMMAND'"},
	{matches(remote.ErrHostKey), ExitRemote, "host-key", "connect once with ssh itself, and compare the key that it shows with that of the server"},
	{matches(remote.ErrClass), ExitRemote, "class", "name another one with class= in the URL, or none: see 'kist help thaw'"},
	{matches(remote.ErrCredentials), ExitCredentials, "", "see 'kist help remote' for where kist looks for keys and passwords"},
	{matches(remote.ErrCertificate), ExitRemote, "certificate", "to trust it: AWS_CA_BUNDLE=FILE for S3, KIST_HTTP_CA=FILE for a web server, or &tlsCAFile=FILE in a MongoDB URL, with the certificate that signed it"},
	{matches(remote.ErrServer), ExitRemote, "unsupported", "'kist help publish' says what a web server has to do"},
	{matches(remote.ErrReadOnly), ExitRemote, "published", "push to the folder or bucket that it publishes: its owner knows the URL for 'kist remote add NAME URL'"},
	{matches(remote.ErrPermission), ExitCredentials, "permission", "ask the owner of the folder, bucket, database or web server for access"},
	{matches(remote.ErrNoStore), ExitRemote, "no-store", "check the URL; a disk has to be mounted, and a bucket created, before kist can use it"},
	{matches(remote.ErrFull), ExitRemote, "full", "free some space there, or raise the quota; everything stored before is intact"},
	{matches(remote.ErrUnsupported), ExitRemote, "unsupported", "'kist remote check' shows what the store can do"},
	{matches(remote.ErrTemporary), ExitRemote, "", "check the network and the URL, then run the command again"},
	{IsA[*remote.Error], ExitRemote, "", ""},

	// Another process was quicker.
	{IsA[*volume.StaleError], ExitMoved, "collected", "another kist process removed it as garbage; run the command again"},
	{matches(disk.ErrBusy), ExitBusy, "", "run the command again when that process has ended; --verbose names the lock"},

	// The operating system.
	{matches(disk.ErrSymlink), ExitFailed, "symlink", "replace the symlink by the folder or file itself"},
	{matches(syscall.ENOSPC), ExitFailed, "disk-full", "free some space and run the command again; everything stored before is intact"},
	{matches(syscall.EDQUOT), ExitFailed, "disk-full", "your quota is used up; everything stored before is intact"},
	{matches(syscall.EROFS), ExitFailed, "read-only", "mount the file system for writing, or work on a copy elsewhere"},
	{matches(fs.ErrPermission), ExitFailed, "permission", "'ls -ld' shows its owner and who may change it"},
	{matches(syscall.ENOTDIR), ExitFailed, "not-a-folder", "there is a file where a folder has to be"},
	{noCurrentFolder, ExitFailed, "not-found", "'cd' to a folder that exists"},
	{matches(fs.ErrNotExist), ExitFailed, "not-found", ""},
	{matches(fs.ErrExist), ExitFailed, "exists", ""},
}

// Hints on damaged files that are no objects, and on a lost commit.
const (
	HintLost         = "go on from a commit that 'kist reflog' lists: 'kist reset --soft COMMIT' keeps all files and staged changes, 'kist checkout BRANCH' switches"
	HintIndex        = "no commit is affected: 'kist verify --repair' rebuilds it from HEAD"
	HintRef          = "'kist verify --repair' restores it from its log or another branch, if it can"
	HintRecords      = "'kist verify --repair' rebuilds the records; until then, expired and purged content seems to be missing"
	hintDamagedRoot  = "the clone that wrote it restores it: 'kist verify --remote NAME --repair' there; if none did, somebody put it there who can write to the store"
	hintRemoteDamage = "'kist verify --remote NAME' lists the damage there"
	hintNewer        = "a newer kist is needed for this repository"
	hintThaw         = "'kist fetch --thaw' with --data PATH or --full has the store thaw it, in hours: see 'kist help thaw'"
	hintAway         = "mount the disk, then run the command again: it does only the rest"
	hintNoRoots      = "lost roots: restore the folder root/ from a copy before anybody pushes; a first push: wait for it, or run it again"
	hintEmptied      = "nothing was written; if its disk is not mounted, mount it; to begin again in an empty place, remove the remote and add it again"
	hintPassphrase   = "KIST_PASSWORD_FILE or KIST_PASSWORD_COMMAND gives the passphrase without a terminal"
	HintRemoteState  = "no stored content is affected: 'kist verify --repair' restores it, or asks the remote"
	HintLog          = "no branch is affected, only its log: 'kist verify --repair' restores the lines that it can"
)

// IsLost matches a missing commit whose loss was accepted.
func IsLost(err error) bool {
	key, lost := object.AbsentKey(err, object.ErrLost)
	return lost && key.Kind == object.KindCommit
}

// isEmptied matches a known remote that has nothing left.
func isEmptied(err error) bool {
	var e *rootlog.RollbackError
	return errors.As(err, &e) && e.Emptied
}

// isDamagedRoot reports whether err is damage of a root.
func isDamagedRoot(err error) bool {
	var e *object.DamageError
	return errors.As(err, &e) && e.Kind == remote.ErrDamaged && strings.HasPrefix(e.Name, rootlog.RootFolder)
}

// needsPassphrase reports whether err is the lack of a passphrase that nobody could be asked for.
func needsPassphrase(err error) bool {
	var e *keyset.NoIdentityError
	return errors.As(err, &e) && e.Unasked > 0
}

// upstreamHint returns advice on an upstream with another name than its branch, or "".
func upstreamHint(err error) string {
	var e *registry.OtherNameError
	if !errors.As(err, &e) {
		return ""
	}
	branch, _ := refs.BranchOf(e.Upstream.Ref)
	return fmt.Sprintf("'kist push %[1]s HEAD:%[2]s' pushes to it; 'kist push -u %[1]s %[3]s' to a branch of the same name",
		QuoteArg(e.Upstream.Remote), QuoteArg(branch), QuoteArg(e.Branch))
}

// lazyHint returns advice on the folder of a lazy clone, or "".
func lazyHint(err error) string {
	var e *registry.LazyError
	if !errors.As(err, &e) || len(e.URLs) == 0 {
		return ""
	}
	return "if you trust it, clone what it was cloned from: " + Printable(e.URLs[0])
}

// magicHint returns advice on a pathspec with an unknown word, or "".
func magicHint(err error) string {
	var e *pathspec.Error
	if !errors.As(err, &e) || !e.IsUnknown {
		return ""
	}
	return fmt.Sprintf("top, glob, literal, icase and exclude are known; './%s' is the path of this name", Printable(e.Arg))
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
	return fmt.Sprintf("if you trust this host: export %s=%s", e.Variable, ShellWord(e.Value))
}

// IsLogDamage matches damage of a log of refs.
func IsLogDamage(err error) bool {
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

// IsA matches errors of type T.
func IsA[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// DetailLines is the most paths that an error lists.
const DetailLines = 20

// pathsOfError returns the paths that an error is about, on lines of their own, unless its
// message has them.
func pathsOfError(err error) string {
	var lines []string
	var local *stage.LocalChangesError
	var conflict *index.ConflictError
	var foreign *views.ForeignError
	var kept *convert.NotDeletedError
	switch {
	case errors.As(err, &local) && len(local.Obstacles) > 1:
		lines = FirstOf(local.Obstacles, DetailLines, "", func(o stage.Obstacle) string { return QuotePath(o.Path) + ": " + o.Reason })
	case errors.As(err, &conflict):
		lines = FirstOf(conflict.Paths, DetailLines, "", QuotePath)
	case errors.As(err, &kept):
		lines = FirstOf(kept.Files, DetailLines, "", QuotePath)
	case errors.As(err, &foreign):
		lines = FirstOf(foreign.Paths, DetailLines, "", QuotePath)
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
}

// expiredHint returns advice if err is about expired content that may still be here, and
// otherwise "".
func expiredHint(err error) string {
	expired, ok := errors.AsType[*object.AbsentError](err)
	if !ok || expired.Reason != object.ErrExpired {
		return ""
	}
	return "if all of it is still here, 'kist expire --undo " + expired.Key.ID.Short() + "' brings it back"
}

// HintGone is the advice for content that was removed here.
const HintGone = "if another clone still has it, 'kist expire --undo' and 'kist push' there, then 'kist fetch' here bring it back; if a fetch was stopped, the next one brings the rest"

// HintDecide is the advice for conflicts.
const HintDecide = "'kist status' lists them; 'kist add' each one to keep, and 'kist rm' each one to drop"
