package cli

// otherNames has advice for commands of git and restic that kist does not have, or has under
// another name.
var otherNames = map[string]string{
	"blame":       "'kist log --follow PATH' shows the commits that changed a file",
	"check":       "'kist verify' does",
	"cherry-pick": "'kist checkout REV -- PATH...' takes files as they are in another commit",
	"clean":       "'kist status' lists untracked files; removing them is left to you",
	"dump":        "'kist cat REV:PATH' does",
	"forget":      "'kist expire' gives up the content of old commits, and 'kist gc' then frees the space",
	"ls-files":    "'kist ls -r' lists the files of a commit",
	"prune":       "'kist gc' removes unreferenced data; 'kist expire' first drops the content of old commits",
	"rebase":      "'kist merge' brings branches together; commits stay as they are",
	"snapshots":   "'kist log' does",
	"stash":       "'kist checkout -b NEW' and 'kist commit -am MESSAGE' keep changes on a branch",
	"switch":      "'kist checkout BRANCH' does",
	"unlock":      "nothing has to be unlocked: locks end with the process that holds them",
}
