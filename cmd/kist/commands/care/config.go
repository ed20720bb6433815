package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/remote"
)

type configOptions struct {
	list, get, unset, add bool

	global bool // the user's own configuration
	local  bool // the repository's
	origin bool // print where a value is from
}

func NewConfig(env *cli.Env) *cobra.Command {
	var o configOptions
	cmd := &cobra.Command{
		Use:   "config [KEY [VALUE]] | list | get KEY | set KEY VALUE | --unset KEY",
		Short: "show and change the configuration",
		Long: `Prints the value of KEY, or sets it to VALUE. Without a KEY, or with list,
prints all keys that are set as KEY=VALUE. The exit status is 1 if KEY is not
set.

The first of these with the KEY counts: 'kist -c KEY=VALUE COMMAND', the file
.kist/config, and your own configuration for all repositories, which is the file
~/.config/kist/config. --global sets and prints only your own, and needs no
repository. --local prints only .kist/config, where VALUE is set without an
option. list prints all three; of several lines of a KEY, the last one counts.

Keys that were fixed when the repository was created (version, metadata,
chunker…) can be read, but not changed.

` + configKeyHelp() + `
NAME stands for the name of a branch, remote or alias. An AGE is written as 90d,
'90 days', 2w, 2.weeks.ago, now or never; see 'kist help ages'.
Other keys are refused. A file that has some is still read, as a newer kist may
have written them. A list is set to one VALUE; --add adds another.

core.*, color.* and safe.* count only in your own configuration and with -c,
because the repository of another user must not choose a command that you run.
branch.*, remote.* and backup.paths count only in a repository's.

'kist NAME ARGUMENT...' runs the command in alias.NAME, without "kist", with the
arguments behind it. Quotes and \ group words as in a shell. If it begins with
!, it is a command of the shell, and runs at the top of the worktree. A
repository's own aliases count only for commands that work in the repository,
and never for the shell. No alias replaces a command of kist.`,
		Example: `  kist config --global user.name 'Anna Chest'
  kist config --global alias.lg 'log --oneline --graph'
  kist config user.name
  kist config --list --show-origin
  kist config --unset gc.auto
  kist config --add backup.paths photos
  kist config --global --add safe.directory /srv/photos
  kist -c color.ui=never log`,
		Args: cli.Arguments(0, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, cmd, args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return env.Completion.Offer(o.completeArgs(env, args)), cobra.ShellCompDirectiveNoFileComp
		},
	}
	env.Prints(cmd, "for each value", settingJSON{})
	cli.OpensRepository(cmd, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.list, "list", "l", false, "print all keys that are set")
	flags.BoolVar(&o.get, "get", false, "print the value of KEY")
	flags.BoolVar(&o.unset, "unset", false, "remove KEY")
	flags.BoolVar(&o.global, "global", false, "use your own configuration, for all repositories")
	flags.BoolVar(&o.local, "local", false, "use the repository's configuration")
	flags.BoolVar(&o.add, "add", false, "add VALUE to the list of KEY")
	flags.BoolVar(&o.origin, "show-origin", false, "print where each value is from, before it")
	cmd.MarkFlagsMutuallyExclusive("list", "get", "unset", "add")
	cmd.MarkFlagsMutuallyExclusive("global", "local")
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

// chooseAction returns the action that options and arguments select: list, get, set, add or
// unset. It also returns the other arguments: the key, and for set and add the value.
func (o configOptions) chooseAction(args []string) (action string, rest []string, err error) {
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
		return "", nil, cli.Usagef("one argument too many: %s", cli.QuoteArg(args[want]))
	case len(args) < want && len(args) == 1:
		return "", nil, cli.Usagef("the value of %s is missing", cli.QuoteArg(args[0]))
	case len(args) < want:
		return "", nil, cli.Usagef("the key is missing")
	}
	return action, args, nil
}

// settingJSON is a setting as config prints it with --json.
type settingJSON struct {
	Key    string `json:"key" doc:"the key"`
	Value  string `json:"value" doc:"its value"`
	Origin string `json:"origin,omitempty" doc:"the file that sets it, with --show-origin"`
}

func (o configOptions) run(ctx context.Context, env *cli.Env, cmd *cobra.Command, args []string) error {
	action, args, err := o.chooseAction(args)
	if err != nil {
		return err
	}
	changes := action != "list" && action != "get"
	if o.global && changes {
		return o.changeUser(ctx, env, cmd, action, args)
	}
	if env.UserErr != nil {
		return env.UserErr
	}
	if o.global {
		return o.showSettings(env, nil, nil, action == "list", args)
	}
	r, err := env.Open()
	if errors.Is(err, kist.ErrNoRepository) && !o.local && !changes {
		return o.showSettings(env, nil, nil, action == "list", args)
	}
	if err != nil {
		return err
	}
	defer r.Close()

	config := r.Config()
	if changes {
		if err := checkAlias(cmd.Root(), args); err != nil {
			return err
		}
		return cli.NearKey(change(action, args,
			func(key string, value any) error { return r.SetConfig(ctx, key, value) },
			func(key, text string) error { return r.AddConfig(ctx, key, text) },
			isSet(kist.Settings(nil, config), args[0])))
	}
	return o.showSettings(env, r, config, action == "list", args)
}

// showSettings prints the settings of a user and of the repository r, which may be nil: all of them
// in a list, or the strongest one for the key in args.
func (o configOptions) showSettings(env *cli.Env, r *kist.Repository, config *kist.Config, list bool, args []string) error {
	settings := slices.DeleteFunc(kist.Settings(env.User, config), func(s kist.Setting) bool {
		return s.Ignored || o.global && s.Source != kist.FromUser || o.local && s.Source != kist.FromRepository ||
			!list && s.Key != args[0]
	})
	if !list {
		if len(settings) == 0 {
			return notSet(args[0])
		}
		settings = settings[len(settings)-1:]
	}
	for _, s := range settings {
		o.printSetting(env, r, s, list)
	}
	return nil
}

// change sets, adds or unsets a key with the functions set and add. isSet reports whether
// the key is set.
func change(action string, args []string, set func(string, any) error, add func(string, string) error, isSet bool) error {
	key := args[0]
	switch {
	case action == "add":
		return add(key, args[1])
	case action == "set":
		return set(key, kist.ParseSetting(key, args[1]))
	case !isSet:
		return notSet(key)
	}
	return set(key, nil)
}

// isSet reports whether one of the settings is for the key.
func isSet(settings []kist.Setting, key string) bool {
	return slices.ContainsFunc(settings, func(s kist.Setting) bool { return s.Key == key })
}

func notSet(key string) error {
	var names []string
	for _, known := range kist.ConfigKeys() {
		names = append(names, known.Name)
	}
	return cli.HintSimilar(cli.Failf(cli.ExitFailed, "not-set", "%s is not set", cli.QuoteArg(key)), key, names)
}

// changeUser sets, adds or unsets a key of the user's own configuration.
func (o configOptions) changeUser(ctx context.Context, env *cli.Env, cmd *cobra.Command, action string, args []string) error {
	if _, err := cli.ConfigHome(env); err != nil {
		return err
	}
	if env.User == nil {
		return env.UserErr
	}
	key := args[0]
	if trusted := key == kist.KeySafeDirectory || key == kist.KeySafeHooks; trusted && action == "set" {
		return cli.Usagef("want: kist config --global --add %s DIR", key)
	} else if trusted && action == "add" && args[1] != "*" {
		args = []string{key, cli.RealPath(env.Path(args[1]))}
	}
	if err := checkAlias(cmd.Root(), args); err != nil {
		return err
	}
	return cli.NearKey(change(action, args,
		func(key string, value any) error { return env.User.Set(ctx, key, value) },
		func(key, text string) error { return env.User.Add(ctx, key, text) },
		isSet(kist.Settings(env.User, nil), key)))
}

// checkAlias returns an error if args set an alias that cannot be used.
func checkAlias(root *cobra.Command, args []string) error {
	name, ok := strings.CutPrefix(args[0], kist.KeyAlias)
	if !ok || len(args) < 2 {
		return nil
	}
	if cli.Subcommand(root, name) != nil {
		return cli.Usagef("%s is a command of kist, which an alias does not replace", cli.QuoteArg(name))
	}
	if words, err := remote.SplitWords(args[1]); err != nil || len(words) == 0 {
		return cli.Usagef("alias %s: %w", cli.QuoteArg(name), cmp.Or(err, cli.ErrEmptyAlias))
	}
	return nil
}

// printSetting prints each value of a setting, after its key if named is set.
func (o configOptions) printSetting(env *cli.Env, r *kist.Repository, s kist.Setting, named bool) {
	label, origin := "", ""
	if named {
		label = cli.Printable(s.Key) + "="
	}
	if o.origin {
		origin = settingOrigin(env, r, s.Source)
		label = origin + "\t" + label
	}
	for _, value := range s.Values {
		if strings.HasPrefix(s.Key, "remote.") {
			value = remote.Redact(value)
		}
		if env.Global.JSON {
			env.JSON(settingJSON{s.Key, value, origin})
			continue
		}
		env.Printf("%s%s\n", label, cli.Printable(value))
	}
}

// settingOrigin names a source as git does: "file:.kist/config" or "command line:".
func settingOrigin(env *cli.Env, r *kist.Repository, source kist.SettingSource) string {
	switch source {
	case kist.FromUser:
		return "file:" + cli.QuotePath(env.User.File())
	case kist.FromCommandLine:
		return "command line:"
	}
	file := filepath.Join(r.Dir(), "config")
	if rel, ok := cli.Below(env.Dir, file); ok {
		file = rel
	}
	return "file:" + cli.QuotePath(file)
}

// completeArgs returns the words that can follow args.
func (o configOptions) completeArgs(env *cli.Env, args []string) []cobra.Completion {
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
	var config *kist.Config
	if r, err := env.Open(); err == nil {
		defer r.Close()
		config = r.Config()
	}
	for _, s := range kist.Settings(env.User, config) {
		words = append(words, s.Key)
	}
	slices.Sort(words)
	return slices.Compact(words)
}
