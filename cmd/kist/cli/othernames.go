package cli

// otherNames has advice for commands of git and restic that kist does not have, or has under
// another name.
var otherNames = map[string]string{
	"am":           "'patch -p1' applies a patch; 'kist cherry-pick' repeats a commit",
	"apply":        "'patch -p1' applies a patch",
	"bundle":       "'kist push' to a folder makes a copy that travels; 'kist clone' reads it",
	"check":        "'kist verify' does",
	"cherry":       "'kist rebase' names the commits that the upstream has",
	"dump":         "'kist cat REV:PATH' does",
	"for-each-ref": "'kist branch -a' and 'kist tag' list refs, with --json for programs",
	"forget":       "'kist expire' gives up the content of old commits, and 'kist gc' then frees the space",
	"fsck":         "'kist verify' does",
	"ls-files":     "'kist ls -r :' lists the files of the index, 'kist ls -r' those of a commit",
	"ls-tree":      "'kist ls' does",
	"notes":        "a tag says something about a commit",
	"prune":        "'kist gc' removes unreferenced data; 'kist expire' first drops the content of old commits",
	"repack":       "'kist gc --repack' does",
	"rev-list":     "'kist log --format=%H' does",
	"show-branch":  "'kist log --oneline --graph A B' does",
	"show-ref":     "'kist branch -a' and 'kist tag' list refs, with --json for programs",
	"snapshots":    "'kist log' does",
	"stage":        "'kist add' does",
	"unlock":       "nothing has to be unlocked: locks end with the process that holds them",
	"whatchanged":  "'kist log --name-status' does",
	"worktree":     "a second clone has a worktree of its own: kist clone DIR NEW",
}
