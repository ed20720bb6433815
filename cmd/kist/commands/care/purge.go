package care

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/gc/rewrite"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type purgeOptions struct {
	dryRun     bool
	allHistory bool
	reason     string
	noPath     bool
	yes        bool
	list       bool
	undo       bool
	rewrite    bool
}

func NewPurge(env *cli.Env) *cobra.Command {
	var o purgeOptions
	cmd := &cobra.Command{
		Use:   "purge [OPTIONS] PATH|REV:PATH|ID...",
		Short: "permanently delete file content",
		Long: `Permanently deletes content that should never have been stored: a secret, or a
file that is far too large. PATH is a file, a folder with everything in it, or a
pattern, as it is in HEAD; REV:PATH is the file or folder of this name in REV.
With --all-history, every version of it in any commit is purged. ID is the ID of
a content, as shown by 'kist ls --json', or its first digits.

Content is purged under every path and in every commit that has it. You see the
effect first, and confirm it. Commits stay as they are, but their purged content
can no longer be read: checkout and restore write everything else, and name the
files they left out. Files in the worktree stay.

'kist gc --prune now' then deletes the content here. 'kist push' sends the purge
to a remote, and 'kist remote gc NAME' deletes the content there; other clones
get the purge with 'kist fetch'. The purge stays recorded, with time, author,
reason and paths (unless --no-path). Chunks that other content uses stay.
Content of a held commit, or of a commit before it, cannot be purged. Change a
secret nevertheless: others may have a copy.

Files of at most 32 bytes are part of their folder's object, and cannot be
purged: use 'kist rewrite'.

--list shows the purged content. --undo reverts a purge, as long as all of the
content is still here.`,
		Example: `  kist purge -n secrets.env                 show the effect
  kist purge --all-history secrets.env      all versions of it
  kist purge --all-history '*.env'          and of all files like it
  kist purge v1:film/raw.mov --reason 'far too large'
  kist purge --list`,
	}
	env.Prints(cmd, "", purgeJSON{})
	env.Prints(cmd, "with --list, for each content", purgedJSON{})
	env.Prints(cmd, "with --undo", purgedJSON{})
	o.register(env, cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.list, "list", false, "list purged content")
	flags.BoolVar(&o.undo, "undo", false, "revert the purge of content ID")
	cmd.MarkFlagsMutuallyExclusive("list", "undo", "dry-run")
	return cmd
}

func NewRewrite(env *cli.Env) *cobra.Command {
	o := purgeOptions{rewrite: true}
	cmd := &cobra.Command{
		Use:   "rewrite [OPTIONS] PATH|REV:PATH|ID...",
		Short: "rewrite commits without some of their files",
		Long: `Purges content as 'kist purge' does, and also rewrites the commits that have it
and all commits after them: the new commits lack the files, and have other IDs.
This removes files too short to be purged, and paths that must not be seen. With
--all-history, the new commits have nothing at PATH, whatever it held.

Branches and tags move to the new commits, and reflog entries of old ones are
removed. .kist/rewritten has a file with the old and new IDs. Files in the
worktree stay, untracked. The command refuses if changes are staged, or if a
held commit would be rewritten.

Remotes then need 'kist push --force'. Other clones are best replaced by new
ones: whoever merges an old branch brings the content back.`,
		Example: `  kist rewrite -n --all-history password.txt     show the effect
  kist rewrite --all-history password.txt`,
		Args: cli.Arguments(1, -1, "PATH"),
	}
	env.Prints(cmd, "", purgeJSON{})
	o.register(env, cmd)
	return cmd
}

// register adds the options that purge and rewrite share.
func (o *purgeOptions) register(env *cli.Env, cmd *cobra.Command) {
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	cmd.ValidArgsFunction = env.Complete(cli.TrackedPaths, input.TreePaths)
	flags := cmd.Flags()
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show the effect")
	flags.BoolVar(&o.allHistory, "all-history", false, "every version of each PATH in any commit")
	flags.StringVar(&o.reason, "reason", "", "record `TEXT` as the reason")
	flags.BoolVar(&o.noPath, "no-path", false, "do not record the paths")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

// checkOptions returns an error for options and arguments that exclude each other.
func (o *purgeOptions) checkOptions(env *cli.Env, args []string) error {
	switch {
	case o.list && len(args) > 0:
		return cli.Usagef("--list goes without arguments")
	case !o.list && len(args) == 0:
		return cli.Usagef("PATH is missing")
	case !o.list && !o.undo && !o.dryRun && !o.yes && !env.Terminal.Stdin:
		return cli.Hintf(cli.Usagef("no terminal to confirm on; use --yes"), "-n shows the effect")
	}
	return nil
}

func (o *purgeOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.checkOptions(env, args); err != nil {
		return err
	}

	switch {
	case o.list:
		return listPurged(ctx, env, r)
	case o.undo:
		return undoPurge(ctx, env, r, args)
	}
	var plan *purge.Plan
	var rewritten *rewrite.Result
	err := gc.WithReserve(ctx, r, func() (err error) {
		plan, rewritten, err = o.planPurge(ctx, env, r, args)
		return err
	})
	if err != nil {
		return err
	}
	if len(plan.Contents)+len(rewritten.Commits) == 0 {
		return inlineError(env, r, plan)
	}
	if asks := !o.dryRun && !o.yes; asks || !env.Global.JSON {
		shown := *env
		shown.Global.JSON = false
		printPurge(ctx, &shown, r, plan)
		printRewrite(&shown, r, plan, *o, rewritten)
	}
	if !o.dryRun {
		if len(plan.Holds) > 0 {
			return &retain.HeldError{Holds: plan.Holds}
		}
		if !o.yes && !cli.Confirm(env, "Purge it for good?") {
			return cli.Quiet(cli.ExitFailed)
		}
		if rewritten, err = applyPurge(ctx, env, r, plan, *o); err != nil {
			return err
		}
	}
	env.JSON(newPurgeJSON(r, plan, rewritten, o.dryRun))
	if len(plan.Inline) > 0 && !o.rewrite {
		return inlineError(env, r, plan)
	}
	return nil
}

// planPurge returns the contents to purge, and the effect of a rewrite. It changes nothing.
func (o *purgeOptions) planPurge(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (*purge.Plan, *rewrite.Result, error) {
	var plan *purge.Plan
	what, err := purgeTargets(ctx, env, r, *o, args)
	if err == nil {
		plan, err = purge.NewPlan(ctx, r, what)
	}
	if errors.Is(err, kist.ErrNoMatch) && !o.allHistory {
		err = cli.Hintf(cli.Failf(cli.ExitFailed, "not-found", "%w", err), "--all-history finds what only other commits have")
	}
	if err != nil || !o.rewrite {
		return plan, &rewrite.Result{}, err
	}
	rewritten, err := rewrite.Run(ctx, r, plan, true)
	if err == nil && len(plan.Contents)+len(rewritten.Commits) == 0 {
		err = cli.Failf(cli.ExitFailed, "not-found", "neither a branch, a tag nor a hold has a commit with it: only logs or remote-tracking branches do")
	}
	return plan, rewritten, err
}

// applyPurge carries out the plan. It records the purge first, so an interrupted rewrite can
// be repeated.
func applyPurge(ctx context.Context, env *cli.Env, r *kist.Repository, plan *purge.Plan, o purgeOptions) (*rewrite.Result, error) {
	var purged []purge.Content
	err := gc.WithReserve(ctx, r, func() (err error) {
		purged, err = purge.Apply(ctx, r, plan, o.reason, !o.noPath)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(plan.Contents) > 0 {
		env.PrintOutcome("purged %s\n", readable.Plural(uint64(len(purged)), "content", "contents"))
	}
	rewritten := &rewrite.Result{}
	if o.rewrite {
		err = gc.WithReserve(ctx, r, func() (err error) {
			rewritten, err = rewrite.Run(ctx, r, plan, false)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if rewritten.File != "" {
		env.PrintOutcome("rewritten: %s; %s has the old and new IDs\n", readable.Plural(uint64(len(rewritten.Commits)), "commit", "commits"),
			cli.QuotePath(cli.RepositoryFile(r, rewritten.File)))
	}
	if n := rewritten.Signed; n > 0 {
		env.PrintOutcome("dropped: %s of rewritten commits and tags\n", readable.Plural(uint64(n), "signature", "signatures"))
	}
	tellAfterPurge(env, r, rewritten)
	return rewritten, nil
}

// printRewrite prints the effect of a rewrite.
func printRewrite(env *cli.Env, r *kist.Repository, plan *purge.Plan, o purgeOptions, rewritten *rewrite.Result) {
	if !o.rewrite {
		return
	}
	lines := cli.FirstOf(plan.Inline, shownPurges, ", kept inline", func(use purge.Use) string {
		return env.Shown(r, use.Path) + ", kept inline"
	})

	text := readable.Plural(uint64(len(rewritten.Commits)), "commit", "commits") + " would be rewritten"
	sep := "; moved: "
	for _, change := range rewritten.Refs {
		text += sep + cli.Printable(cli.ShortRef(change.Name))
		sep = ", "
	}
	lines = append(lines, text)
	if n := rewritten.Signed; n > 0 {
		lines = append(lines, readable.Plural(uint64(n), "signature", "signatures")+" of rewritten commits and tags would be dropped")
	}
	cli.TellLines(env, lines)
}

// purgeTargets separates paths from IDs. An argument is a path if HEAD or a commit has that
// path.
func purgeTargets(ctx context.Context, env *cli.Env, r *kist.Repository, o purgeOptions, args []string) (purge.Options, error) {
	what := purge.Options{AllHistory: o.allHistory}
	var named []string
	for _, arg := range args {
		if rev, _, has := refs.SplitPath(arg); has && rev != "" {
			if _, err := r.Resolve(ctx, rev); err == nil {
				at, err := input.Locate(ctx, env, r, arg)
				if err != nil {
					return what, err
				}
				what.Paths = append(what.Paths, purge.Path{Rev: rev, Path: at.Path})
				continue
			}
		}
		path, err := env.RepoPath(r, arg)
		if err == nil && isDigits(arg) {
			if _, missing := input.Locate(ctx, env, r, "HEAD:"+path); missing != nil {
				what.IDs = append(what.IDs, arg)
				continue
			}
		}
		named = append(named, arg)
	}
	specs, err := input.Pathspecs(env, r, named, false)
	if err != nil || len(specs) == 0 {
		return what, err
	}
	var in pathspec.Places
	if o.allHistory {
		in.History = purge.HistoryFiles
	} else {
		head, err := compare.OfHead(ctx, r)
		if err != nil {
			return what, err
		}
		in.Views = []compare.Side{head}
	}
	paths, err := pathspec.Find(ctx, r, specs, in)
	for _, path := range paths {
		what.Paths = append(what.Paths, purge.Path{Path: path})
	}
	return what, err
}

// isDigits reports whether text may be an ID, or the first digits of one.
func isDigits(text string) bool {
	return len(text) >= 4 && len(text) <= 64 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// inlineError returns the error that some files cannot be purged.
func inlineError(env *cli.Env, r *kist.Repository, plan *purge.Plan) error {
	if len(plan.Inline) == 0 {
		return cli.Failf(cli.ExitFailed, "not-found", "there is no content to be purged")
	}
	exit := cli.ExitPartial
	if len(plan.Contents) == 0 {
		exit = cli.ExitFailed
	}
	err := cli.LinesError(exit, "inline",
		readable.Plural(uint64(len(plan.Inline)), "path", "paths")+" cannot be purged, because files this short are part of their folder's object:",
		cli.FirstOf(plan.Inline, cli.DetailLines, "", func(use purge.Use) string { return env.Shown(r, use.Path) }))
	return cli.Hintf(err, "'kist rewrite' rewrites the commits without them")
}

// The most contents, and paths of a content, that are printed; --json has all.
const (
	shownPurges     = 20
	shownPurgePaths = 5
)

// printPurge prints the effect of a purge.
func printPurge(ctx context.Context, env *cli.Env, r *kist.Repository, plan *purge.Plan) {
	cli.TellLines(env, cli.FirstOf(plan.Contents, shownPurges, "; --json shows all", func(c purge.Content) string {
		return contentText(ctx, env, r, &c)
	}))
	for _, hold := range plan.Holds {
		env.PrintOutcome("not before a hold is lifted: %s, held %s\n", show.DescribeHeld(ctx, env, r, hold.Key.ID), show.HeldText(env, hold))
	}
	env.PrintOutcome("%s would be freed here", readable.FormatSize(uint64(plan.Freed)))
	if plan.Shared > 0 {
		env.PrintOutcome("; %s stay, since other contents have the same chunks", readable.FormatSize(uint64(plan.Shared)))
	}
	env.PrintOutcome("\n")
}

// contentText describes a content, and on further lines its uses.
func contentText(ctx context.Context, env *cli.Env, r *kist.Repository, c *purge.Content) string {
	note := ""
	switch {
	case c.Already && c.Here:
		note = ", purged before"
	case c.Already:
		note = ", purged before, and gone"
	case !c.Here:
		note = ", not here"
	}
	lines := []string{fmt.Sprintf("%s %s, %s%s", c.Key.Kind, env.Paint(cli.Yellow, c.Key.ID.Short()), readable.FormatSize(c.Size), note)}

	uses := func(what string, uses []purge.Use) {
		lines = append(lines, cli.FirstOf(uses, shownPurgePaths, "", func(use purge.Use) string {
			in := readable.Plural(uint64(use.Count), "commit", "commits")
			if c, err := object.ReadCommit(ctx, r.Objects(), use.Commits[0]); err == nil {
				in += ", the last one " + use.Commits[0].Short() + " " + cli.Printable(cli.Subject(c.Message))
			}
			return what + env.Shown(r, use.Path) + " in " + in
		})...)
	}
	uses("", c.Uses)
	for _, path := range c.Staged {
		lines = append(lines, env.Shown(r, path)+", staged")
	}
	uses("a part of ", c.PartOf)
	return strings.Join(lines, "\n  ")
}

// tellAfterPurge prints the next steps.
func tellAfterPurge(env *cli.Env, r *kist.Repository, rewritten *rewrite.Result) {
	name := ""
	if remotes := registry.All(r); len(remotes) > 0 {
		name = remotes[0].Name
	}
	if len(rewritten.Commits) > 0 {
		env.Info("the files in the worktree stay, untracked")
	}

	switch {
	case name == "":
		env.Info("'kist gc --prune now' removes it from this repository")
	case len(rewritten.Commits) > 0:
		env.Info("'kist push --force %s' has to replace each branch and tag that was moved: remotes, and remote-tracking branches here, have the old commits\n"+
			"then 'kist gc --prune now' removes them here, and 'kist remote gc %s' there\n"+
			"other clones have them, too: replace them by new ones", name, name)
	default:
		env.Info("'kist gc --prune now' removes it from this repository\n"+
			"'kist push %s' sends the purge to the remote, and 'kist remote gc %s' removes the content there\n"+
			"other clones: 'kist fetch --records accept', then 'kist gc --prune now'", name, name)
	}
	env.Info("a secret has to be changed nevertheless: whoever had it may still have it")
}

// purgeJSON is what purge prints with --json.
type purgeJSON struct {
	DryRun   bool               `json:"dry_run" doc:"true with --dry-run"`
	Contents []purgeContentJSON `json:"contents" doc:"the contents"`
	Inline   []jsonform.AtPath  `json:"inline" doc:"the paths that cannot be purged, since their content is part of a tree"`
	Freed    int64              `json:"bytes_freed" doc:"the bytes that gc can free then"`
	Shared   int64              `json:"bytes_shared" doc:"the bytes that stay, since other contents have them too"`

	Rewritten []rewrite.Replaced `json:"rewritten,omitempty" doc:"the rewritten commits"`
	Refs      []movedRefJSON     `json:"refs,omitempty" doc:"the refs that moved"`
	Signed    int                `json:"signatures,omitempty" doc:"the number of signatures of rewritten commits and tags, which are dropped"`
	Map       string             `json:"map,omitempty" doc:"the file with the old and new IDs, below the worktree"`
}

type movedRefJSON struct {
	Name string `json:"name" doc:"the full name"`
	rewrite.Replaced
}

type purgeContentJSON struct {
	ID      object.ID      `json:"id" doc:"the content"`
	Kind    string         `json:"kind" doc:"the kind of the object"`
	Size    uint64         `json:"size" doc:"its size in bytes"`
	Here    bool           `json:"here" doc:"true if the object is here"`
	Already bool           `json:"already" doc:"true if it was purged before"`
	Paths   []purgeUseJSON `json:"paths" doc:"the paths with this content"`
	PartOf  []purgeUseJSON `json:"part_of" doc:"the paths of files that contain it"`
	Staged  []string       `json:"staged" doc:"the paths in the index"`
}

type purgeUseJSON struct {
	jsonform.AtPath
	Count   int         `json:"count" doc:"the number of commits that have it"`
	Commits []object.ID `json:"commits" doc:"the first 100 of them"`
}

func newPurgeJSON(r *kist.Repository, plan *purge.Plan, rewritten *rewrite.Result, dryRun bool) purgeJSON {
	out := purgeJSON{DryRun: dryRun, Contents: []purgeContentJSON{}, Inline: []jsonform.AtPath{}, Freed: plan.Freed, Shared: plan.Shared}
	uses := func(list []purge.Use) []purgeUseJSON {
		out := []purgeUseJSON{}
		for _, u := range list {
			out = append(out, purgeUseJSON{jsonform.NewPath(u.Path), u.Count, u.Commits})
		}
		return out
	}

	for _, c := range plan.Contents {
		out.Contents = append(out.Contents, purgeContentJSON{
			ID: c.Key.ID, Kind: c.Key.Kind.String(), Size: c.Size, Here: c.Here, Already: c.Already,
			Paths: uses(c.Uses), PartOf: uses(c.PartOf), Staged: append([]string{}, c.Staged...),
		})
	}
	out.Rewritten, out.Signed = rewritten.Commits, rewritten.Signed
	for _, c := range rewritten.Refs {
		out.Refs = append(out.Refs, movedRefJSON{c.Name, rewrite.Replaced{Old: c.Old, New: c.New}})
	}
	if rewritten.File != "" {
		out.Map = cli.RepositoryFile(r, rewritten.File)
	}

	for _, u := range plan.Inline {
		out.Inline = append(out.Inline, jsonform.NewPath(u.Path))
	}
	return out
}
