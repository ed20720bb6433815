// Package work has the commands that change files and branches.
package work

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

type addOptions struct {
	stage.AddOptions
	all, excludeCaches, patch bool
}

func NewAdd(env *cli.Env) *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] PATH...",
		Short: "stage files for the next commit",
		Long: `Stages changes at PATH and below it: new, changed and deleted files, symlinks
and empty folders. Their content is stored; data that any file of any version
has is not stored again. An interrupted add can be run again: it continues.

PATH may be a pattern, in quotes so that the shell leaves it alone: '*.mov' is
all such files in the current folder and below it. ':!drafts' leaves drafts out.
All commands with PATHs take these: see 'kist help paths'.

Files that the patterns in .kistignore files exclude are left out. A file that
cannot be read, or changes while it is read, is skipped, reported, and mentioned
by commits until it has been added; it is never taken for deleted. FIFOs,
sockets, devices and the .kist folders of other repositories are not stored.
git's own folder, .git, is left out unless it is tracked: 'kist backup' stores
it, and 'kist add -f .git'. The key core.ignore-files can add .gitignore to the
files with patterns. The first add that meets metadata that this repository does
not record says so (see --metadata in 'kist help init').

With --patch, kist shows each changed part of tracked text files, a hunk, and
asks whether to stage it: y stages it, n does not, s splits it, e edits it, and
? lists the other answers. Answers may come from a pipe. The index changes once,
at the end: Ctrl-C changes nothing, q stages the chosen hunks. Permission
bits and deletions are asked about, too. Folders, binary files, files of more
than 8 MiB and changes of the type are left out; 'kist add PATH' stages them.

With --intent-to-add, untracked files are only noted: 'kist diff' shows their
content as added, 'kist add -p' offers it, 'kist commit -a' takes it, and a
commit leaves them out. 'kist rm --cached PATH' removes the note.

With --dry-run nothing is stored or staged: 'add' and 'remove' lines name the
changes, and the last line shows how much would be read, and how much is new.`,
		Example: `  kist add .               all changes in the current folder
  kist add -A              all changes
  kist add -n photos       how much of photos is new?
  kist add -p notes.txt    choose the lines to stage`,
		ValidArgsFunction: env.Complete(cli.WorktreePaths),
	}
	env.Prints(cmd, "", AddJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.all, "all", "A", false, "everything, wherever the current folder is, unless a PATH is given")
	patchFlag(cmd, &o.patch, "choose which changed lines of tracked files to stage")
	flags.BoolVarP(&o.Intent, "intent-to-add", "N", false, "only note that files are to be added later")
	flags.BoolVarP(&o.Update, "update", "u", false, "only files that are tracked already")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be done")
	flags.BoolVarP(&o.Force, "force", "f", false, "ignored files, too")
	flags.BoolVar(&o.excludeCaches, "exclude-caches", false, "leave out folders tagged as caches by a CACHEDIR.TAG")
	cmd.MarkFlagsMutuallyExclusive("all", "update", "patch")
	cmd.MarkFlagsMutuallyExclusive("intent-to-add", "update", "patch")
	cmd.MarkFlagsMutuallyExclusive("patch", "dry-run")
	return cmd
}

// AddJSON is what add prints with --json.
type AddJSON struct {
	DryRun   bool               `json:"dry_run,omitempty" doc:"true with --dry-run"`
	Added    int                `json:"added" doc:"the number of new files"`
	Modified int                `json:"modified" doc:"the number of changed files"`
	Deleted  int                `json:"deleted" doc:"the number of deleted files"`
	Resolved int                `json:"resolved" doc:"the number of resolved conflicts"`
	Skipped  []jsonform.Skipped `json:"skipped" doc:"the paths that were left out"`
	Changes  []pathStatus       `json:"changes,omitempty" doc:"the changed paths, with --dry-run or --verbose"`
	show.Work
}

// pathStatus is a path and the letter for what happened to it.
type pathStatus struct {
	jsonform.AtPath
	Status string `json:"status" doc:"the letter or word for what happened to it"`
}

func (o *addOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.patch {
		specs, err := input.Pathspecs(env, r, args, false)
		if err != nil {
			return err
		}
		return stageHunks(ctx, env, r, specs)
	}
	if len(args) == 0 && !o.all && !o.Update {
		return cli.Hintf(cli.Usagef("nothing specified, nothing added"), "did you mean 'kist add .'?")
	}
	specs, err := input.Pathspecs(env, r, args, false)
	if err != nil {
		return err
	}
	if o.Paths, err = pathspec.Find(ctx, r, specs, pathspec.Places{Index: true, Worktree: !o.Update, Ignored: o.Force}); err != nil {
		return err
	}
	if o.excludeCaches {
		o.Exclude.Markers = []worktree.Marker{worktree.CacheTag}
	}

	if o.Intent {
		return o.noteIntents(ctx, env, r)
	}
	p := env.Progress("adding")
	o.Progress = p.Amounts()
	note := NoteUnrecorded(env, r, o.DryRun)
	result, err := stage.Add(ctx, r, o.AddOptions)
	p.Stop()
	if err != nil {
		return err
	}

	PrintAdded(env, r, o.DryRun, result)
	note()
	if !o.DryRun {
		env.Maintain(r)
	}
	return AddOutcome(env, r, result, o.Paths)
}

// noteIntents carries out --intent-to-add.
func (o *addOptions) noteIntents(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	result, err := stage.Add(ctx, r, o.AddOptions)
	if err != nil {
		return err
	}
	if env.Global.JSON {
		PrintAdded(env, r, o.DryRun, result)
	} else if o.DryRun || env.Global.Verbose {
		for path := range result.Added.All() {
			env.Printf("add %s\n", env.Shown(r, path))
		}
	}
	return AddOutcome(env, r, result, o.Paths)
}

func PrintAdded(env *cli.Env, r *kist.Repository, dryRun bool, result *stage.AddResult) {
	did := show.NewWork(result.Read, result.Stats)
	list := dryRun || env.Global.Verbose
	if env.Global.JSON {
		out := AddJSON{
			DryRun: dryRun, Added: result.Added.Len(), Modified: len(result.Modified), Deleted: len(result.Deleted),
			Resolved: len(result.Resolved), Skipped: jsonform.NewSkipped(result.Skipped), Work: did,
		}
		if list {
			out.Changes = slices.Concat(pathStatuses(result.Added.Paths(), "A"), pathStatuses(result.Modified, "M"), pathStatuses(result.Deleted, "D"))
		}
		env.JSON(out)
		return
	}
	if list {
		for _, path := range slices.SortedFunc(slices.Values(slices.Concat(result.Added.Paths(), result.Modified)), tree.ComparePaths) {
			env.Printf("add %s\n", env.Shown(r, path))
		}
		for _, path := range result.Deleted {
			env.Printf("remove %s\n", env.Shown(r, path))
		}
	}
	n := show.ChangeCounts{Added: result.Added.Len(), Modified: len(result.Modified), Deleted: len(result.Deleted)}
	parts := strings.Join(n.Parts(), ", ")
	if n := uint64(len(result.Resolved)); n > 0 {
		parts = strings.TrimPrefix(parts+", "+readable.Plural(n, "conflict", "conflicts")+" resolved", ", ")
	}

	switch {
	case parts == "":
		env.PrintOutcome("nothing changed\n")
	case dryRun:
		env.PrintOutcome("would be staged: %s; %s read, %s new\n", parts, readable.FormatSize(did.Read), readable.FormatSize(did.New))
	default:
		env.PrintOutcome("staged: %s; %s\n", parts, did)
	}
}

func pathStatuses(paths []string, status string) []pathStatus {
	list := make([]pathStatus, len(paths))
	for i, path := range paths {
		list[i] = pathStatus{jsonform.NewPath(path), status}
	}
	return list
}

// AddOutcome reports the paths that were not added. It returns the error that the
// command ends with.
func AddOutcome(env *cli.Env, r *kist.Repository, result *stage.AddResult, asked []string) error {
	var missed []object.Skipped
	for _, s := range result.NeverStored {
		if slices.Contains(asked, s.Path) {
			missed = append(missed, s)
			continue
		}
		env.Warn("not stored: %s", cli.ShownSkipped(env, r, s))
	}
	if err := cli.PartialError(env, r, append(missed, result.Skipped...)); err != nil {
		if slices.ContainsFunc(result.Skipped, func(s object.Skipped) bool { return strings.HasPrefix(s.Reason, object.ErrPurged.Error()) }) {
			err = cli.Hintf(err, "'kist purge --undo ID' undoes a purge while all its content is here; 'kist purge --list' lists the IDs")
		}
		return err
	}
	if len(result.Ignored) == 0 {
		return nil
	}
	text := "ignored, and not added:"
	for _, path := range result.Ignored {
		text += "\n" + env.Shown(r, path)
	}
	return cli.Hintf(cli.Failf(cli.ExitFailed, "ignored", "%s", text), "-f adds ignored files, too")
}

// UnrecordedText counts the metadata that is not recorded. It is "" if there is none.
func UnrecordedText(u *worktree.Unrecorded) string {
	return cli.JoinCounts([]cli.Count{
		{N: u.Owners.Load(), One: "owner", Many: "owners"},
		{N: u.HardLinks.Load(), One: "hard link", Many: "hard links"},
		{N: u.Xattrs.Load(), One: "file's extended attributes", Many: "files' extended attributes"},
	})
}

// NoteUnrecorded begins to count files with metadata that the repository does not record.
// The function that it returns mentions them, once in the life of a repository. Once, too,
// it mentions that folders of git were left out.
func NoteUnrecorded(env *cli.Env, r *kist.Repository, dryRun bool) func() {
	if dryRun || env.Global.Quiet {
		return func() {}
	}
	counted := func() string { return "" }
	if r.Config().Metadata != kist.MetadataFull && cli.ReadNote(noteFile(r, "unrecorded")) == "" {
		found := r.Worktree().CountUnrecorded()
		counted = func() string { return UnrecordedText(found) }
	}
	return func() {
		if text := counted(); text != "" {
			env.Warn("not recorded: %s; only a repository made with 'kist init --metadata full' records them", text)
			writeOnce(env, r, "unrecorded", text)
		}
		if left, _ := r.Worktree().LeftOutGit(); len(left) > 0 && cli.ReadNote(noteFile(r, "beside-git")) == "" {
			env.Info("left out: .git, the history that git keeps; 'kist add -f .git' versions it, too")
			writeOnce(env, r, "beside-git", "mentioned")
		}
	}
}

func noteFile(r *kist.Repository, name string) string { return filepath.Join(r.Dir(), name) }

// writeOnce notes that something was mentioned.
func writeOnce(env *cli.Env, r *kist.Repository, name, text string) {
	if err := cli.WriteNote(noteFile(r, name), text); err != nil {
		env.Verbose("%v", err)
	}
}
