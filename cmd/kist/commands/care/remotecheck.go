package care

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

func newRemoteCheck(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [NAME]",
		Short: "check that a store is fit for a remote",
		Long: `Checks the store of a remote again, as 'kist remote add' does, and prints the
result of each check. The exit status is 15 if the store is not fit for use as
configured. After that, kist writes nothing to it until a check passes. The
check removes its files, if the store permits it.`,
		Example:           `  kist remote check origin`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", remoteCheckedJSON{})
	env.InRepository(cmd, runRemoteCheck, cli.ExitRemote, cli.ExitCredentials)
	return cmd
}

func runRemoteCheck(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	name, err := share.FetchRemote(env, r, args)
	if err != nil {
		return err
	}
	m, err := registry.Find(r, name)
	if err != nil {
		return err
	}
	report, err := checkStore(ctx, env, m)
	if report == nil {
		return err
	}
	if f := new(cli.Failure); err == nil || errors.As(err, &f) && f.Kind == "unfit" {
		if nerr := registry.NoteCheck(r, m, err == nil); nerr != nil {
			return nerr
		}
	}
	if !env.Global.JSON {
		env.Printf("%s", report)
	} else if err == nil {
		env.JSON(newRemoteCheckedJSON(m, report))
	}
	return err
}

// remoteCheckedJSON is what remote add and remote check print with --json.
type remoteCheckedJSON struct {
	registry.Remote
	Checks []check.Result `json:"checks" doc:"the checks"`
}

// newRemoteCheckedJSON returns the JSON of m and its report, which may be nil.
func newRemoteCheckedJSON(m registry.Remote, report *check.Report) remoteCheckedJSON {
	out := remoteCheckedJSON{Remote: redacted(m), Checks: []check.Result{}}
	if report != nil {
		out.Checks = report.Checks
	}
	return out
}

// checkStore checks the store of m. The error means that the store is not fit for use as m
// is configured, or that the check failed.
func checkStore(ctx context.Context, env *cli.Env, m registry.Remote) (*check.Report, error) {
	if m.IsRepository() {
		return nil, fmt.Errorf("%q: %w", m.URL, transfer.ErrRepository)
	}
	b, err := cli.OpenStore(ctx, env, m.URL)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := remote.CheckWritable(b); err != nil {
		return nil, err
	}

	p := env.Progress("checking the store")
	defer p.Stop()
	o := check.Options{
		Now: env.Now, Rand: env.Random, ExclusivePut: !strings.HasPrefix(m.URL, "mongodb"), Retry: cli.RetryOptions(env),
		Progress: func(done check.Result) { p.Add(1, 0) },
	}
	report, err := check.Run(ctx, b, o)
	if lock, _ := kist.ParseLock(m.ObjectLock); err == nil && lock.Age > 0 {
		check.RunLock(ctx, b, report, lock, o)
	}
	if err == nil {
		check.RunClass(ctx, b, report, o)
	}
	p.Stop()
	if report == nil {
		return nil, err
	}

	for i := range report.Checks {
		c := &report.Checks[i]
		c.Detail = cli.WordsFor(env, c.Detail, c.Err)
	}

	switch {
	case err != nil:
		return report, err
	case report.Shared(), m.SingleWriter && report.Usable():
		return report, nil
	}
	failed := ""
	refuses := false // conditional requests
	for _, c := range report.Checks {
		if c.Status != check.Failed {
			continue
		}
		if errors.Is(c.Err, remote.ErrPermission) {
			return report, c.Err
		}
		failed += "\n" + c.What + ": " + c.Detail
		refuses = refuses || errors.Is(c.Err, remote.ErrUnsupported) && c.Name != check.Class && strings.HasPrefix(m.URL, "s3:")
	}
	err = cli.Failf(cli.ExitRemote, "unfit", "the store is not fit for a remote%s", failed)
	if report.Usable() {
		err = cli.Hintf(err, "if nobody else ever pushes to it, add it with --single-writer")
	} else if refuses {
		err = cli.Hintf(err, "if nobody else ever pushes to it, add it with conditional=false in the URL and --single-writer")
	}
	return report, err
}
