package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func NewAttr(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attr COMMAND",
		Short: "set and read attributes of files and folders",
		Long: `An attribute is a key with a value that describes a tracked file or folder:
tags, description, project, or any other key. Attributes are staged, committed
and merged like content, and stay when the content changes or the path moves
with 'kist mv'. They are kist's own: no file in the worktree has them.

The keys acl and retention, and keys below them such as acl.read, are inherited
by everything in a folder, until a folder or file has a value of its own.

Keys have 1 to 255 bytes, values at most 4096. Both are UTF-8 without control
characters. A file or folder has at most 64 attributes, with 16 KiB together.`,
		Example: `  kist attr set film/scene1.mov tags=raw,day1 project=dunes
  kist attr get film/scene1.mov project
  kist attr list --inherited film/scene1.mov`,
	}
	cli.OpensRepository(cmd)
	cmd.AddCommand(newAttrGet(env), newAttrList(env), newAttrRemove(env), newAttrSet(env))
	return cmd
}

func newAttrSet(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set PATH KEY=VALUE...",
		Short: "stage attributes",
		Long: `Sets attributes of PATH, a tracked file or folder, in the index. 'kist commit'
records them. A pattern sets those of all files that it matches. Other
attributes stay. A value may be empty.`,
		Example: `  kist attr set notes.txt tags=todo 'description=what is left to do'
  kist attr set '*.mov' project=dunes
  kist attr set docs acl.read=everyone`,
		Args:              cli.Arguments(2, -1, "PATH", "KEY=VALUE"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.TrackedPaths), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "for each changed path", jsonform.AtPath{})
	env.InRepository(cmd, cli.NotBare(runAttrSet), cli.ExitBusy)
	return cmd
}

func runAttrSet(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	values := map[string]string{}
	for _, arg := range args[1:] {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return cli.Hintf(cli.Usagef("%s is not KEY=VALUE", cli.QuoteArg(arg)), "'kist attr remove' removes an attribute")
		}
		if err := tree.CheckAttr(key, value); err != nil {
			return err
		}
		if _, twice := values[key]; twice {
			return cli.Usagef("the key %s is given twice", cli.QuoteArg(key))
		}
		values[key] = value
	}
	return editAttrs(ctx, env, r, args[0], func(_ string, attrs map[string]string, _ bool) error {
		maps.Copy(attrs, values)
		return nil
	})
}

// editAttrs changes the attributes of the paths that arg selects, and prints the paths. If edit
// returns an error, nothing changes.
func editAttrs(ctx context.Context, env *cli.Env, r *kist.Repository, arg string, edit func(path string, attrs map[string]string, last bool) error) error {
	specs, err := input.Pathspecs(env, r, []string{arg}, false)
	if err != nil {
		return err
	}
	paths, err := pathspec.Find(ctx, r, specs, pathspec.Places{Index: true})
	if err != nil {
		return explainUntracked(env, r, arg, err)
	}
	if slices.Contains(paths, "") {
		return cli.Hintf(cli.Failf(cli.ExitFailed, "root", "the top folder of the worktree cannot have attributes"),
			"the key serve.acl has the rule of the top folder for 'kist serve': see 'kist help config'")
	}
	changed, err := stage.EditAttrs(ctx, r, paths, func(path string, attrs map[string]string) error {
		return edit(path, attrs, path == paths[len(paths)-1])
	})
	if err != nil {
		return explainUntracked(env, r, arg, err)
	}
	for _, path := range changed {
		env.JSON(jsonform.NewPath(path))
		if env.Global.Verbose {
			env.PrintOutcome("%s\n", env.Shown(r, path))
		}
	}
	return nil
}

// explainUntracked returns err. If nothing tracked matches arg, and it is an untracked path,
// the error says so.
func explainUntracked(env *cli.Env, r *kist.Repository, arg string, err error) error {
	path, perr := env.RepoPath(r, arg)
	if !errors.Is(err, kist.ErrNoMatch) || perr != nil || !r.Worktree().Exists(path) {
		return err
	}
	return cli.Hintf(cli.Failf(cli.ExitFailed, "untracked", "path %s is untracked", cli.QuoteArg(arg)), "'kist add %s' makes it tracked", cli.Printable(arg))
}

func newAttrRemove(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove PATH KEY...",
		Aliases: []string{"rm"},
		Short:   "stage the removal of attributes",
		Long: `Removes attributes of PATH, a tracked file or folder, from the index. A pattern
removes those of all files that it matches. If no path has one of the KEYs
itself, that is an error, and nothing changes. An inherited attribute can only
be removed from its folder.`,
		Example: `  kist attr remove notes.txt tags
  kist attr remove '*.mov' project tags`,
		Args:              cli.Arguments(2, -1, "PATH", "KEY"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.TrackedPaths), completeKeys(env)),
	}
	env.Prints(cmd, "for each changed path", jsonform.AtPath{})
	env.InRepository(cmd, cli.NotBare(runAttrRemove), cli.ExitBusy)
	return cmd
}

func runAttrRemove(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	found := map[string]bool{}
	var missing error
	err := editAttrs(ctx, env, r, args[0], func(_ string, attrs map[string]string, last bool) error {
		for _, key := range args[1:] {
			if _, ok := attrs[key]; ok {
				found[key] = true
				delete(attrs, key)
			}
			if last && !found[key] {
				missing = noAttr(args[0], key)
			}
		}
		return missing
	})
	return cmp.Or(missing, err) // without the path that err names
}

func noAttr(path, key string) error {
	return cli.Hintf(cli.Failf(cli.ExitFailed, "not-found", "%s has no attribute %s", cli.QuoteArg(path), cli.QuoteArg(key)), "'kist attr list --inherited' lists them")
}

// attrJSON is an attribute as attr get and attr list print it with --json.
type attrJSON struct {
	jsonform.AtPath
	Key      string `json:"key" doc:"the attribute"`
	Value    string `json:"value" doc:"its value"`
	From     string `json:"from,omitempty" doc:"the folder that it is inherited from"`
	FromRaw  []byte `json:"from_raw,omitempty"`
	Detected bool   `json:"detected,omitempty" doc:"true for a type that is not set, but a guess from the content"`
}

func newAttrJSON(path, key string, attr tree.Attr) attrJSON {
	v := attrJSON{AtPath: jsonform.NewPath(path), Key: key, Value: attr.Value}
	if attr.From != path {
		v.From, v.FromRaw = attr.From, jsonform.Raw(attr.From)
	}
	return v
}

type attrOptions struct {
	source    string
	inherited bool
}

// register adds the options that attr get and attr list share.
func (o *attrOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.source, "source", "s", "", "look in the commit `REV` instead of the index")
}

// attributed is a file or folder with its effective attributes.
type attributed struct {
	path    string
	entry   object.Entry
	attrs   map[string]tree.Attr
	objects object.Reader
}

// findEntry returns the file or folder that arg names.
func (o *attrOptions) findEntry(ctx context.Context, env *cli.Env, r *kist.Repository, arg string) (at attributed, err error) {
	if at.path, err = env.RepoPath(r, arg); err != nil {
		return at, err
	}
	source, err := compare.Side{}, error(nil)
	if o.source != "" {
		source, err = compare.OfCommit(ctx, r, o.source)
	} else {
		source, err = compare.OfIndex(ctx, r)
	}
	if err != nil {
		return at, err
	}
	at.objects = source.Objects
	var in tree.Inheritance
	at.entry, at.attrs, err = in.Find(ctx, source.Objects, source.Tree, at.path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		err = pathspec.NoMatch(arg)
	}
	return at, err
}

func newAttrGet(env *cli.Env) *cobra.Command {
	var o attrOptions
	cmd := &cobra.Command{
		Use:   "get [OPTIONS] PATH KEY",
		Short: "print the value of an attribute",
		Long: `Prints the value of an attribute of PATH, a tracked file or folder: its own, or
the inherited one. For the key content-type, if it is not set, prints the type
that the first bytes of the file show, such as image/png.`,
		Example: `  kist attr get film/scene1.mov project
  kist attr get -s v1 notes.txt tags
  kist attr get photo.jpg content-type`,
		Args:              cli.Arguments(2, 2, "PATH", "KEY"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.TrackedPaths), completeKeys(env)),
	}
	env.Prints(cmd, "", attrJSON{})
	env.InRepository(cmd, o.runGet)
	o.register(cmd)
	return cmd
}

func (o *attrOptions) runGet(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	key := args[1]
	at, err := o.findEntry(ctx, env, r, args[0])
	if err != nil {
		return err
	}
	attr, ok := at.attrs[key]
	v := newAttrJSON(at.path, key, attr)
	switch {
	case ok:
	case key != tree.ContentType:
		return noAttr(args[0], key)
	default:
		if v.Value, err = tree.DetectType(ctx, at.objects, at.entry); err != nil {
			return fmt.Errorf("%s: %w", cli.QuoteArg(args[0]), err)
		}
		v.From, v.Detected = "", true
	}
	if env.Global.JSON {
		env.JSON(v)
	} else {
		env.Printf("%s\n", show.ShownValue(v.Value))
	}
	return nil
}

func newAttrList(env *cli.Env) *cobra.Command {
	var o attrOptions
	cmd := &cobra.Command{
		Use:     "list [OPTIONS] PATH",
		Aliases: []string{"ls"},
		Short:   "list the attributes of a file or folder",
		Long: `Lists the attributes of PATH, a tracked file or folder, sorted by key, each as
KEY=VALUE. With --inherited, also inherited attributes, with their folder.`,
		Example: `  kist attr list film
  kist attr list --inherited film/scene1.mov
  kist attr list -s v1 notes.txt`,
		Args:              cli.Arguments(1, 1, "PATH"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.TrackedPaths)),
	}
	env.Prints(cmd, "for each attribute", attrJSON{})
	env.InRepository(cmd, o.runList)
	o.register(cmd)
	cmd.Flags().BoolVarP(&o.inherited, "inherited", "i", false, "also list inherited attributes")
	return cmd
}

func (o *attrOptions) runList(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	at, err := o.findEntry(ctx, env, r, args[0])
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(at.attrs)) {
		attr, from := at.attrs[key], ""
		if attr.From != at.path {
			if !o.inherited {
				continue
			}
			from = "  (from " + env.Shown(r, attr.From) + ")"
		}
		if env.Global.JSON {
			env.JSON(newAttrJSON(at.path, key, attr))
		} else {
			env.Printf("%s%s\n", show.AttrText(key, attr.Value), from)
		}
	}
	return nil
}

// completeKeys completes the keys that the path, the first argument, has.
func completeKeys(env *cli.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return env.Complete(func(ctx context.Context, env *cli.Env, r *kist.Repository, _ string) []string {
			at, err := new(attrOptions).findEntry(ctx, env, r, args[0])
			if err != nil {
				return nil
			}
			return slices.Sorted(maps.Keys(at.attrs))
		})(cmd, args, prefix)
	}
}
