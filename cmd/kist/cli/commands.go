package cli

import "github.com/spf13/cobra"

// section is a part of the list of commands in kist's help.
type section struct {
	id, title string
	commands  []entry
}

// entry is a command in the list, before it is built.
type entry struct {
	name  string
	build func(*Env) *cobra.Command
	pages bool // it shows its results in a pager
	whole bool // it looks at the other commands, so it needs all of them
}

// sections has all commands, in the order of the help.
var sections = []section{
	{"start", "BEGIN", []entry{
		{name: "init", build: newInit},
		{name: "clone", build: newClone},
		{name: "import", build: newImport},
		{name: "export", build: newExport},
	}},
	{"files", "WORK ON FILES", []entry{
		{name: "add", build: newAdd},
		{name: "attr", build: newAttr},
		{name: "clean", build: newClean},
		{name: "commit", build: newCommit},
		{name: "mv", build: newMv},
		{name: "restore", build: newRestore},
		{name: "rm", build: newRm},
		{name: "status", build: newStatus},
	}},
	{"backups", "BACK UP", []entry{
		{name: "backup", build: newBackup},
		{name: "check-age", build: newCheckAge},
		{name: "schedule", build: newSchedule},
	}},
	{"branches", "WORK ON BRANCHES", []entry{
		{name: "branch", build: newBranch},
		{name: "checkout", build: newCheckout},
		{name: "cherry-pick", build: newCherryPick},
		{name: "merge", build: newMerge},
		{name: "rebase", build: newRebase},
		{name: "reset", build: newReset},
		{name: "revert", build: newRevert},
		{name: "stash", build: newStash},
		{name: "switch", build: newSwitch},
		{name: "tag", build: newTag},
	}},
	{"look", "LOOK AT HISTORY", []entry{
		{name: "archive", build: newArchive},
		{name: "bisect", build: newBisect},
		{name: "blame", build: newBlame, pages: true},
		{name: "cat", build: newCat},
		{name: "diff", build: newDiff, pages: true},
		{name: "difftool", build: newDifftool},
		{name: "du", build: newDu},
		{name: "find", build: newFind},
		{name: "grep", build: newGrep, pages: true},
		{name: "history", build: newHistory, pages: true},
		{name: "log", build: newLog, pages: true},
		{name: "ls", build: newLs},
		{name: "mount", build: newMount},
		{name: "reflog", build: newReflog, pages: true},
		{name: "refs-of", build: newRefsOf},
		{name: "shortlog", build: newShortlog, pages: true},
		{name: "serve", build: newServe},
		{name: "show", build: newShow, pages: true},
		{name: "view", build: newView},
	}},
	{"remotes", "SHARE WITH OTHERS", []entry{
		{name: "fetch", build: newFetch},
		{name: "ls-remote", build: newLsRemote},
		{name: "pull", build: newPull},
		{name: "push", build: newPush},
		{name: "remote", build: newRemote},
	}},
	{"care", "LOOK AFTER THE REPOSITORY", []entry{
		{name: "config", build: newConfig, whole: true},
		{name: "expire", build: newExpire},
		{name: "gc", build: newGC},
		{name: "hold", build: newHold},
		{name: "purge", build: newPurge},
		{name: "rewrite", build: newRewrite},
		{name: "stats", build: newStats},
		{name: "upgrade", build: newUpgrade},
		{name: "verify", build: newVerify},
	}},
	{"scripts", "FOR SCRIPTS", []entry{
		{name: "describe", build: newDescribe},
		{name: "merge-base", build: newMergeBase},
		{name: "prompt", build: newPrompt},
		{name: "rev-parse", build: newRevParse},
	}},
	{"about", "KIST ITSELF", []entry{
		{name: "completion", build: newCompletion},
		{name: "docs", build: newDocs, whole: true},
		{name: "help", build: newHelp, pages: true, whole: true},
		{name: "version", build: newVersion},
	}},
}

// addCommands adds commands to root, each in its section of the help. If name is that of a command
// which needs no other, it adds only this one: building all takes longer than many commands run.
// Otherwise it adds all.
func addCommands(root *cobra.Command, env *Env, name string) {
	all := sections
	for _, s := range all {
		for _, e := range s.commands {
			if e.name == name && !e.whole {
				all = []section{{s.id, s.title, []entry{e}}}
			}
		}
	}

	for _, s := range all {
		root.AddGroup(&cobra.Group{ID: s.id, Title: s.title})
		for _, e := range s.commands {
			cmd := e.build(env)
			if e.pages {
				cmd = pages(env, cmd)
			}
			cmd.GroupID = s.id
			if e.name == "help" {
				root.SetHelpCommand(cmd)
			}
			root.AddCommand(cmd)
		}
	}
}
