package share

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

func NewLsRemote(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls-remote [REMOTE|URL]",
		Short: "list the branches and tags of a remote",
		Long: `Lists the ID and the full name of each branch and tag of REMOTE, by default the
remote that 'kist fetch' uses. Nothing is downloaded. With a URL, no repository
is needed.`,
		Example: `  kist ls-remote
  kist ls-remote s3://bucket/prefix`,
		Args:              cli.Arguments(0, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return runLsRemote(cmd.Context(), env, args) },
		ValidArgsFunction: env.Complete(Remotes),
	}
	env.Prints(cmd, "for each ref", remoteRefJSON{})
	cli.OpensRepository(cmd)
	env.Transfer.Register(cmd)
	return cmd
}

// remoteRefJSON is a ref as ls-remote prints it with --json.
type remoteRefJSON struct {
	Name   string     `json:"name" doc:"the full name"`
	ID     *object.ID `json:"id" doc:"the commit or tag; null: the branch has no commit"`
	Target string     `json:"target,omitempty" doc:"the default branch that HEAD stands for"`
}

func runLsRemote(ctx context.Context, env *cli.Env, args []string) error {
	opened, r, _, err := OpenFrom(ctx, env, args)
	if err != nil {
		return err
	}
	defer opened.Close()
	if r != nil {
		defer r.Close()
	}

	head, err := opened.Head(ctx)
	if err != nil {
		return err
	}

	show := func(name string, id object.ID, target string) {
		if env.Global.JSON {
			env.JSON(remoteRefJSON{name, &id, target})
		} else {
			env.Printf("%s\t%s\n", id, cli.Printable(name))
		}
	}
	if at, ok := head.Refs[head.DefaultBranch]; ok {
		show("HEAD", at.ID, head.DefaultBranch)
	}

	for _, name := range slices.Sorted(maps.Keys(head.Refs)) {
		if refs.CheckName(name) != nil {
			env.Warn("skipped a ref with a bad name: %s", cli.QuoteArg(name))
			continue
		}
		show(name, head.Refs[name].ID, "")
	}
	return nil
}

// OpenFrom opens a remote to read from, and returns its name. args has its name or URL, or
// nothing: then it is the remote that fetch would use. The repository is nil if a URL was
// given. The caller closes both.
func OpenFrom(ctx context.Context, env *cli.Env, args []string) (opened transfer.Source, r *kist.Repository, name string, err error) {
	atURL := len(args) > 0 && IsPlace(env, args[0])
	if !atURL || !strings.ContainsAny(args[0], "/:") {
		r, err = env.Open()
	}
	if atURL && r != nil {
		_, ferr := registry.Find(r, args[0])
		atURL = errors.Is(ferr, kist.ErrNoRemote)
	}
	if atURL {
		if r != nil {
			r.Close()
		}
		opened, err = openURL(ctx, env, args[0])
		return opened, nil, remote.Redact(args[0]), err
	}
	if err != nil {
		return nil, nil, "", err
	}
	if name, err = FetchRemote(env, r, args); err == nil {
		opened, err = registry.OpenNamedSource(ctx, r, name)
	}
	if err != nil {
		r.Close()
		return nil, nil, "", err
	}
	return opened, r, name, nil
}

// openURL opens a remote without a repository.
func openURL(ctx context.Context, env *cli.Env, text string) (transfer.Source, error) {
	url, err := env.RemoteURL(text)
	if err != nil {
		return nil, err
	}
	opt, err := env.Options()
	if err != nil {
		return nil, err
	}
	return registry.OpenURL(ctx, opt, registry.Remote{URL: url})
}

// Remotes proposes the names of remotes.
func Remotes(_ context.Context, _ *cli.Env, r *kist.Repository, _ string) []string {
	var names []string
	for _, m := range registry.All(r) {
		names = append(names, m.Name)
	}
	return names
}
