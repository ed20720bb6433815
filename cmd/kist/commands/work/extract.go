package work

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// extractOptions are the options of restore --to.
type extractOptions struct {
	to                     string
	patterns               input.PathPatterns
	overwrite, metadata    string
	remove, verify, dryRun bool
	git                    bool
	numericIDs             bool
	userMap, groupMap      []string // FROM:TO
	xattrs                 cli.XattrOptions
	flags                  *pflag.FlagSet
}

// overwrites are the values of --overwrite.
var overwrites = map[string]worktree.Overwrite{
	"always": worktree.OverwriteAlways, "if-changed": worktree.OverwriteIfChanged,
	"if-newer": worktree.OverwriteIfNewer, "never": worktree.OverwriteNever,
}

func (o *extractOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.flags = flags
	flags.StringVar(&o.to, "to", "", "write the files below `DIR`")
	o.patterns.Register(flags)
	flags.Var(&cli.Choice{Value: &o.overwrite, Choices: []string{"always", "if-changed", "if-newer", "never"}}, "overwrite", "with --to: replace different files always, if-changed (equal size and time count as the same), if-newer or never, as `WHEN` says")
	flags.Var(&cli.Choice{Value: &o.metadata, Choices: []string{kist.MetadataFull}}, "metadata", "with --to: `full` also restores owners, devices, all permission bits and all extended attributes, if they are recorded")
	flags.BoolVar(&o.numericIDs, "numeric-ids", false, "with --metadata full: restore the recorded IDs of owners and groups, even if their names have other IDs here")
	flags.StringSliceVar(&o.userMap, "usermap", nil, "with --metadata full: give the files of user FROM to user TO, as `FROM:TO`; names or IDs, and FROM may be *")
	flags.StringSliceVar(&o.groupMap, "groupmap", nil, "the same for groups, as `FROM:TO`")
	o.xattrs.Register(flags, "with --to: write")
	flags.BoolVar(&o.git, "git", false, "with --to: also write .git folders, from which git runs commands; only if you trust the commit")
	flags.BoolVar(&o.remove, "delete", false, "with --to: remove what the commit does not have below DIR, or below PATHs in it")
	flags.BoolVar(&o.verify, "verify", false, "with --to: read the written files back, and compare them")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "with --to: change nothing, list what would be written and removed")
}

// usedOption returns the name of an option that was given and needs --to, or "".
func (o *extractOptions) usedOption() string {
	for _, name := range []string{"include", "exclude", "iinclude", "iexclude", "overwrite", "metadata", "numeric-ids", "usermap", "groupmap", "no-xattrs", "include-xattr", "exclude-xattr", "git", "delete", "verify", "dry-run"} {
		if o.flags.Changed(name) {
			return name
		}
	}
	return ""
}

// ExtractedJSON is the result of archive and restore --to in JSON.
type ExtractedJSON struct {
	Files   uint64 `json:"files" doc:"the number of files that were written"`
	Bytes   uint64 `json:"bytes" doc:"their size"`
	Removed int    `json:"removed,omitempty" doc:"the number of files that were removed"`
}

// extractPaths writes paths of a commit elsewhere.
func (o *restoreOptions) extractPaths(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	full, err := o.fullMetadata()
	if err != nil {
		return err
	}
	selected, err := o.patterns.Selected()
	if err != nil {
		return err
	}
	xattrs, err := o.xattrs.Selected()
	if err != nil {
		return err
	}
	from, err := o.findExtracted(ctx, env, r, args)
	if err != nil {
		return err
	}
	p := env.Progress("restoring")
	result, err := checkout.Extract(ctx, r, from.view, checkout.ExtractOptions{
		Paths: from.paths, Root: from.root, To: env.Path(o.to), Select: selected, Xattrs: xattrs, Metadata: full, Git: o.git, Refuse: o.overwrite == "" && !o.force, Overwrite: overwrites[o.overwrite],
		Delete: o.remove, Verify: o.verify, DryRun: o.dryRun, Progress: p.Amounts(),
	})
	p.Stop()
	if cli.IsA[*stage.LocalChangesError](err) {
		return &cli.Failure{Err: err, Exit: cli.ExitFailed, Kind: "local-changes", Hints: []string{"--overwrite if-changed replaces different files below DIR; --overwrite never keeps them"}}
	}
	if err != nil && !stage.IsPartial(err) {
		return err
	}
	o.printExtracted(env, result)
	if full == nil && !o.dryRun && slices.ContainsFunc(result.Ops, func(op worktree.Op) bool { return op.New != nil && op.New.Meta != nil }) {
		env.Info("recorded owners, devices and rights were not restored: --metadata full restores them")
	}
	warnDenied(env, full)
	return cli.UnwrittenBelow(o.to, err)
}

// extracted is what restore --to writes: paths of a view, and the folder in whose place DIR
// comes, or nil.
type extracted struct {
	view  compare.Side
	paths []string
	root  *object.Entry
}

// findExtracted finds the files for arguments. REV:FOLDER as the only one stands for the content of
// the folder, and REV:FILE or FILE@N for the file alone, all without the path above.
func (o *restoreOptions) findExtracted(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (extracted, error) {
	entry := len(args) == 1 && o.source == "" && !pathspec.IsPattern(args[0]) && input.NamesEntry(ctx, env, r, args[0])
	if entry && input.NamesPath(args[0]) {
		rev, _, _ := refs.SplitPath(args[0])
		_, err := r.Resolve(ctx, rev)
		entry = rev == "" || !errors.Is(err, refs.ErrNotFound) // otherwise a path with a colon
	}
	if !entry {
		specs, err := input.Pathspecs(env, r, args, false)
		if err != nil {
			return extracted{}, err
		}
		source, paths, err := input.PathsOf(ctx, env, r, cmp.Or(o.source, "HEAD"), specs)
		return extracted{view: source, paths: paths}, err
	}

	at, err := input.Locate(ctx, env, r, args[0])
	if err != nil {
		return extracted{}, err
	}
	from := extracted{view: at.View(), paths: []string{""}}
	switch {
	case at.Path == "":
	case at.Entry.Type == object.TypeDir:
		from.view.Tree, from.root = at.Entry.Content.ID, &at.Entry
	default:
		_, name := tree.Split(at.Path)
		from.view, err = compare.Moved(ctx, at.View(), at.Path, name)
	}
	return from, err
}

// fullMetadata returns the options for all metadata, or nil for what a checkout writes.
func (o *extractOptions) fullMetadata() (*worktree.FullMetadata, error) {
	if o.metadata == "" {
		if o.numericIDs || o.userMap != nil || o.groupMap != nil {
			return nil, cli.Usagef("--numeric-ids, --usermap and --groupmap are only for --metadata full")
		}
		return nil, nil
	}
	users, err := idMaps("--usermap", o.userMap, worktree.UserID)
	if err != nil {
		return nil, err
	}
	groups, err := idMaps("--groupmap", o.groupMap, worktree.GroupID)
	return &worktree.FullMetadata{NumericIDs: o.numericIDs, Users: users, Groups: groups}, err
}

// idMaps parses the values of --usermap or --groupmap. The function id returns the number
// of a name.
func idMaps(option string, values []string, id func(string) (uint32, error)) ([]worktree.IDMap, error) {
	var maps []worktree.IDMap
	for _, value := range values {
		from, to, ok := strings.Cut(value, ":")
		if !ok || from == "" {
			return nil, cli.Usagef("%s %s: want FROM:TO", option, cli.QuoteArg(value))
		}
		number, err := id(to)
		if err != nil {
			return nil, cli.Usagef("%s %s: %s: %w", option, cli.QuoteArg(value), cli.QuoteArg(to), err)
		}
		maps = append(maps, worktree.IDMap{From: from, To: number})
	}
	return maps, nil
}

// warnDenied prints one line with the numbers of items that the user may not restore.
func warnDenied(env *cli.Env, full *worktree.FullMetadata) {
	if full == nil {
		return
	}
	denied := full.Denied()
	text := cli.JoinCounts([]cli.Count{
		{N: int64(denied.Owners), One: "owner", Many: "owners"},
		{N: int64(denied.Xattrs), One: "path with extended attributes", Many: "paths with extended attributes"},
		{N: int64(denied.Specials), One: "special file", Many: "special files"},
	})
	if text != "" {
		env.Warn("not permitted here, so not restored: %s", text)
	}
}

// printExtracted prints the result of extract.
func (o *extractOptions) printExtracted(env *cli.Env, result *checkout.Extracted) {
	removed := 0
	for _, op := range result.Ops {
		status := "write"
		if op.New == nil {
			status = "remove"
			removed++
		}
		switch {
		case !o.dryRun || op.New != nil && op.New.Type == object.TypeDir:
		case env.Global.JSON:
			env.JSON(pathStatus{jsonform.NewPath(op.Path), status})
		default:
			env.Printf("would %s %s\n", status, cli.QuotePath(op.Path))
		}
	}
	switch {
	case o.dryRun:
	case env.Global.JSON:
		env.JSON(ExtractedJSON{uint64(result.Files), uint64(result.Bytes), removed})
	default:
		text := ""
		if o.verify {
			text = " and verified"
		}
		if removed > 0 {
			text += ", " + readable.Plural(uint64(removed), "path", "paths") + " removed"
		}
		env.Info("%s, %s, written below %s%s", readable.Plural(uint64(result.Files), "file", "files"), readable.FormatSize(uint64(result.Bytes)), cli.QuotePath(o.to), text)
	}
}
