package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
)

type initOptions struct {
	kist.InitOptions
	metadata, shared string
}

func newInit(env *Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [OPTIONS] [DIR]",
		Short: "create a repository in a folder",
		Long: `Makes DIR, by default the current folder, a repository: kist keeps all its data
in the folder .kist in it. DIR is created if it is absent. Its files stay as
they are, and are not versioned before 'kist add'. An existing repository stays
as it is.

Only you can look into .kist, since it holds the content of files that only you
can read. With --shared, its group can use the repository, too; each member has
to trust it once, see safe.directory in 'kist help config'.

Content is cut into chunks. Their average size is 256 KiB by default, and fixed
when the repository is created. Smaller chunks find more equal data, and cost
more memory and time.

With --bare, DIR itself is the repository, and has to be empty. It records files
of the whole machine: those at the paths in backup.paths, under their absolute
paths. 'kist config --add backup.paths /etc' adds a path, and 'kist -C DIR
backup' makes a backup. No command writes to these paths; 'kist restore --to'
writes elsewhere.

With --json: path, branch and chunk_size.`,
		Example: `  kist init                       the current folder
  kist init photos                a folder of its own, made if it is absent
  kist init --chunk-size 1MiB     for few, large files`,
		Args:              arguments(0, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, args) },
		ValidArgsFunction: folders,
	}
	mayExit(cmd, exitFormat)
	flags := cmd.Flags()
	flags.StringVarP(&o.Branch, "initial-branch", "b", kist.DefaultBranch, "call the first branch `BRANCH`")
	flags.Var(newParsed(&o.ChunkSize, "256KiB", parseChunkSize), "chunk-size", "cut content into chunks of about `SIZE`, a power of two from 64KiB to 4MiB")
	flags.Var(newChoice(&o.metadata, kist.MetadataPortable, kist.MetadataFull), "metadata", "the metadata to record: portable, or full; `MODE` cannot be changed later")
	flags.BoolVar(&o.Bare, "bare", false, "make DIR itself the repository, for backups of the paths in backup.paths")
	flags.Var(&choice{&o.shared, []string{"group"}}, "shared", "let the group of the folder .kist use the repository, too; `WHO` is group")
	flags.Lookup("shared").NoOptDefVal = "group"
	return cmd
}

// initJSON is what init prints with --json.
type initJSON struct {
	pathJSON
	Branch    string `json:"branch"`
	ChunkSize int    `json:"chunk_size"`
}

func (o *initOptions) run(ctx context.Context, env *Env, args []string) error {
	dir := env.repoDir()
	switch {
	case len(args) > 0 && dir != "":
		return usagef("--repo and a folder cannot be given both")
	case len(args) > 0:
		if err := wantFolder("init", args[0]); err != nil {
			return hintf(err, "'kist remote add NAME URL' adds a remote to a repository")
		}
		dir = env.path(args[0])
	case dir == "":
		dir = env.path(".")
	}
	if filepath.Base(dir) == kist.Dir && !o.Bare {
		dir = filepath.Dir(dir)
	}
	if err := checkOwner(env, dir); err != nil {
		return err
	}
	if isRemote(ctx, env, dir) {
		return hintf(failf(exitFailed, "exists", "%s is the folder of a remote", quotePath(dir)), "'kist clone %s DIR' makes a repository from it", shellWord(dir))
	}
	opt, err := env.options()
	if err != nil {
		return err
	}

	o.Full, o.Shared = o.metadata == kist.MetadataFull, o.shared != ""
	r, err := kist.Init(ctx, dir, opt, o.InitOptions)
	if errors.Is(err, kist.ErrExists) {
		return alreadyThere(env, dir, opt)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	env.show(initJSON{newPathJSON(r.Home()), o.Branch, o.ChunkSize}, "Initialized empty repository in %s\n", quotePath(r.Dir()))
	return nil
}

// parseChunkSize parses the average size of a chunk, in bytes.
func parseChunkSize(text string) (int, error) {
	size, err := kist.ParseSize(text)
	if err == nil && (size < kist.MinChunkSize || size > kist.MaxChunkSize || size&(size-1) != 0) {
		err = errors.New("not a power of two from 64KiB to 4MiB")
	}
	return int(size), err
}

// isRemote reports whether a folder has a remote.
func isRemote(ctx context.Context, env *Env, dir string) bool {
	b, err := openStore(ctx, env, dir)
	if err != nil {
		return false
	}
	defer b.Close()
	_, err = rootlog.ReadIdentity(ctx, b)
	return err == nil
}

// alreadyThere reports that dir has a repository, which stays unchanged.
func alreadyThere(env *Env, dir string, opt kist.Options) error {
	r, err := kist.Open(dir, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	env.show(initJSON{newPathJSON(r.Home()), head.Branch, r.Config().Chunker.Average}, "Repository already exists in %s; nothing changed\n", quotePath(r.Dir()))
	return nil
}

type configOptions struct {
	list  bool
	get   bool
	unset bool

	global bool // the user's own configuration, not the repository's
	add    bool
}

func newConfig(env *Env) *cobra.Command {
	var o configOptions
	cmd := &cobra.Command{
		Use:   "config [KEY [VALUE]] | list | get KEY | set KEY VALUE | --unset KEY",
		Short: "show and change the configuration",
		Long: `Prints the value of KEY, or sets it to VALUE. Without a KEY, or with list,
prints all keys that are set as KEY=VALUE. The exit status is 1 if KEY is not
set.

The configuration is the file .kist/config. Keys that were fixed when the
repository was created (version, metadata, chunker…) can be read, but not
changed.

` + configKeyHelp() + `
NAME stands for the name of a branch or remote. An AGE
is written as 90d, '90 days', 2w, 2.weeks.ago, now or never; see docs/ages.md.
Other keys are refused. A file that has some is still read, as a newer kist may
have written them. A list is set to one VALUE; --add adds another.

With --global, it is your own configuration, the file ~/.config/kist/config. It
has two keys, both lists of folders; * stands for all. safe.directory has
repositories that you trust though somebody else owns them; kist refuses others.
safe.hooks has repositories whose configuration may run commands
(backup.before and others), write backup.metrics and send to backup.ping.

With --json: key and value, and with list one such line for each key.`,
		Example: `  kist config user.name 'Anna Chest'
  kist config user.name
  kist config --unset gc.auto
  kist config --add backup.paths photos
  kist config --global --add safe.directory /srv/photos`,
		Args: arguments(0, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return runConfig(cmd.Context(), env, o, args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return env.completion.offer(configCompletions(env, args)), cobra.ShellCompDirectiveNoFileComp
		},
	}
	opensRepository(cmd, exitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.list, "list", "l", false, "print all keys that are set")
	flags.BoolVar(&o.get, "get", false, "print the value of KEY")
	flags.BoolVar(&o.unset, "unset", false, "remove KEY")
	flags.BoolVar(&o.global, "global", false, "use your own configuration instead of the repository's")
	flags.BoolVar(&o.add, "add", false, "add VALUE to the list of KEY")
	cmd.MarkFlagsMutuallyExclusive("list", "get", "unset", "add")
	return cmd
}

// configKeyHelp lists the keys that can be set.
func configKeyHelp() string {
	var b strings.Builder
	for _, k := range kist.ConfigKeys() {
		form := k.Form
		if k.Default != "" {
			form += ", by default " + k.Default
		}
		fmt.Fprintf(&b, "  %s  (%s)\n      %s.\n", strings.Replace(k.Name, "*", "NAME", 1), form, k.Help)
	}
	return b.String()
}

// settle returns the action that options and arguments select: list, get, set, add or
// unset. It also returns the other arguments: the key, and for set and add the value.
func (o configOptions) settle(args []string) (action string, rest []string, err error) {
	switch {
	case o.add:
		action = "add"
	case o.list:
		action = "list"
	case o.get:
		action = "get"
	case o.unset:
		action = "unset"
	case len(args) == 0:
		action = "list"
	case slices.Contains([]string{"list", "get", "set", "unset"}, args[0]):
		action, args = args[0], args[1:]
	case len(args) == 1:
		action = "get"
	default:
		action = "set"
	}
	want := map[string]int{"list": 0, "get": 1, "set": 2, "add": 2, "unset": 1}[action]
	switch {
	case len(args) > want:
		return "", nil, usagef("one argument too many: %s", quoteArg(args[want]))
	case len(args) < want && len(args) == 1:
		return "", nil, usagef("the value of %s is missing", quoteArg(args[0]))
	case len(args) < want:
		return "", nil, usagef("the key is missing")
	}
	return action, args, nil
}

// settingJSON is a setting as config prints it with --json.
type settingJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func runConfig(ctx context.Context, env *Env, o configOptions, args []string) error {
	if o.global {
		return runGlobalConfig(env, o, args)
	}
	action, args, err := o.settle(args)
	if err != nil {
		return err
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	switch action {
	case "list":
		for _, key := range r.Config().Keys() {
			printSetting(env, r, key, printable(key)+"=")
		}
		return nil
	case "add":
		return r.AddConfig(ctx, args[0], args[1])
	case "set":
		err := r.SetConfig(ctx, args[0], kist.ParseSetting(args[0], args[1]))
		var bad *kist.SettingError
		if errors.As(err, &bad) && bad.Near != "" {
			return hintf(err, "did you mean %s?", quoteArg(bad.Near))
		}
		return err
	}
	if _, ok := r.Config().Get(args[0]); !ok {
		return failf(exitFailed, "not-set", "%s is not set", quoteArg(args[0]))
	}
	if action == "unset" {
		return r.SetConfig(ctx, args[0], nil)
	}
	printSetting(env, r, args[0], "")
	return nil
}

// printSetting prints each value of a key.
func printSetting(env *Env, r *kist.Repository, key, label string) {
	for _, value := range r.Config().Values(key) {
		printValue(env, key, value, label)
	}
}

// printValue prints a value of a key, after a label or as JSON.
func printValue(env *Env, key, value, label string) {
	if strings.HasPrefix(key, "remote.") {
		value = remote.Redact(value)
	}
	if env.global.json {
		env.json(settingJSON{key, value})
		return
	}
	env.printf("%s%s\n", label, printable(value))
}

// configCompletions returns the words that can follow args.
func configCompletions(env *Env, args []string) []cobra.Completion {
	var words []cobra.Completion
	switch {
	case len(args) == 0:
		words = []cobra.Completion{"list", "get", "set", "unset"}
	case len(args) > 1 || !slices.Contains([]string{"get", "set", "unset"}, args[0]):
		return nil
	}

	for _, k := range kist.ConfigKeys() {
		if !strings.Contains(k.Name, "*") {
			words = append(words, k.Name)
		}
	}
	if r, err := env.open(); err == nil {
		defer r.Close()
		words = append(words, r.Config().Keys()...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}
