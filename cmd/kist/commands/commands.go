// Package commands lists the commands of kist. They lie in packages below it. A command has a
// function NewX, which describes it to cobra, and a method run of its options, or a function runX.
// Its work is done by packages outside cmd: a command parses, calls and prints.
package commands

import (
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/about"
	"github.com/kist-vcs/kist/cmd/kist/commands/care"
	"github.com/kist-vcs/kist/cmd/kist/commands/convert"
	"github.com/kist-vcs/kist/cmd/kist/commands/look"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
)

// All has all commands, in the order of the help.
var All = []cli.Section{
	{ID: "start", Title: "BEGIN", Commands: []cli.ListedCommand{
		{Name: "init", Build: work.NewInit},
		{Name: "clone", Build: share.NewClone},
		{Name: "import", Build: convert.NewImport},
		{Name: "export", Build: convert.NewExport},
	}},
	{ID: "files", Title: "WORK ON FILES", Commands: []cli.ListedCommand{
		{Name: "add", Build: work.NewAdd},
		{Name: "attr", Build: work.NewAttr},
		{Name: "clean", Build: work.NewClean},
		{Name: "commit", Build: work.NewCommit},
		{Name: "mv", Build: work.NewMv},
		{Name: "restore", Build: work.NewRestore},
		{Name: "rm", Build: work.NewRm},
		{Name: "sparse", Build: work.NewSparse},
		{Name: "status", Build: work.NewStatus},
	}},
	{ID: "backups", Title: "BACK UP", Commands: []cli.ListedCommand{
		{Name: "backup", Build: care.NewBackup},
		{Name: "check-age", Build: care.NewCheckAge},
		{Name: "schedule", Build: care.NewSchedule},
	}},
	{ID: "branches", Title: "WORK ON BRANCHES", Commands: []cli.ListedCommand{
		{Name: "branch", Build: work.NewBranch},
		{Name: "checkout", Build: work.NewCheckout},
		{Name: "cherry-pick", Build: work.NewCherryPick},
		{Name: "merge", Build: work.NewMerge},
		{Name: "rebase", Build: work.NewRebase},
		{Name: "reset", Build: work.NewReset},
		{Name: "revert", Build: work.NewRevert},
		{Name: "stash", Build: work.NewStash},
		{Name: "switch", Build: work.NewSwitch},
		{Name: "tag", Build: work.NewTag},
	}},
	{ID: "look", Title: "LOOK AT HISTORY", Commands: []cli.ListedCommand{
		{Name: "archive", Build: convert.NewArchive},
		{Name: "bisect", Build: work.NewBisect},
		{Name: "blame", Build: look.NewBlame, Pages: true},
		{Name: "cat", Build: look.NewCat},
		{Name: "diff", Build: look.NewDiff, Pages: true},
		{Name: "difftool", Build: look.NewDifftool},
		{Name: "du", Build: look.NewDu},
		{Name: "find", Build: look.NewFind},
		{Name: "grep", Build: look.NewGrep, Pages: true},
		{Name: "history", Build: look.NewHistory, Pages: true},
		{Name: "log", Build: look.NewLog, Pages: true},
		{Name: "ls", Build: look.NewLs},
		{Name: "mount", Build: look.NewMount},
		{Name: "reflog", Build: look.NewReflog, Pages: true},
		{Name: "refs-of", Build: look.NewRefsOf},
		{Name: "shortlog", Build: look.NewShortlog, Pages: true},
		{Name: "serve", Build: look.NewServe},
		{Name: "show", Build: look.NewShow, Pages: true},
		{Name: "view", Build: look.NewView},
	}},
	{ID: "remotes", Title: "SHARE WITH OTHERS", Commands: []cli.ListedCommand{
		{Name: "fetch", Build: share.NewFetch},
		{Name: "ls-remote", Build: share.NewLsRemote},
		{Name: "pull", Build: share.NewPull},
		{Name: "push", Build: share.NewPush},
		{Name: "remote", Build: care.NewRemote},
	}},
	{ID: "care", Title: "LOOK AFTER THE REPOSITORY", Commands: []cli.ListedCommand{
		{Name: "config", Build: care.NewConfig, NeedsAll: true},
		{Name: "evict", Build: care.NewEvict},
		{Name: "expire", Build: care.NewExpire},
		{Name: "gc", Build: care.NewGC},
		{Name: "hold", Build: care.NewHold},
		{Name: "key", Build: care.NewKey},
		{Name: "purge", Build: care.NewPurge},
		{Name: "rewrite", Build: care.NewRewrite},
		{Name: "stats", Build: look.NewStats},
		{Name: "upgrade", Build: care.NewUpgrade},
		{Name: "verify", Build: care.NewVerify},
	}},
	{ID: "scripts", Title: "FOR SCRIPTS", Commands: []cli.ListedCommand{
		{Name: "describe", Build: look.NewDescribe},
		{Name: "merge-base", Build: look.NewMergeBase},
		{Name: "prompt", Build: work.NewPrompt},
		{Name: "rev-parse", Build: look.NewRevParse},
	}},
	{ID: "about", Title: "KIST ITSELF", Commands: []cli.ListedCommand{
		{Name: "completion", Build: about.NewCompletion},
		{Name: "docs", Build: about.NewDocs, NeedsAll: true},
		{Name: "help", Build: about.NewHelp, Pages: true, NeedsAll: true},
		{Name: "version", Build: about.NewVersion},
	}},
}
