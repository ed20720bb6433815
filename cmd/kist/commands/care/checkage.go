package care

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

type checkAgeOptions struct {
	max    *cli.Parsed[time.Duration]
	branch string
}

func NewCheckAge(env *cli.Env) *cobra.Command {
	var o checkAgeOptions
	cmd := &cobra.Command{
		Use:   "check-age [OPTIONS] [REMOTE|URL]",
		Short: "check that the last backup on a remote is recent",
		Long: `Reads which commit a branch of REMOTE has now, and exits with 1 if it is older
than AGE. Monitors can run it. With a URL, no repository is needed, so that
another machine can check.

A backup that found no changes makes no commit. It confirms the branch on the
remote, unless the commit or the last confirmation is younger than 20 hours. The
age counts from that, so with a URL, let --max be a day or more. In the
repository that was backed up, the age counts from each complete backup, if the
branch still is where that left it.

A commit whose time lies in the future is an error.`,
		Example: `  kist check-age --max 26h
  kist check-age --max 2d --branch web1 s3://bucket/prefix`,
		Args:              cli.Arguments(0, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, args) },
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", backupAgeJSON{})
	cli.OpensRepository(cmd, cli.ExitRemote, cli.ExitCredentials)
	env.Transfer.Register(cmd)
	flags := cmd.Flags()
	o.max = cli.NewParsed(new(time.Duration), "26h", refs.ParseAge)
	flags.Var(o.max, "max", "the last backup must not be older than `AGE`")
	flags.StringVar(&o.branch, "branch", "", "check `BRANCH`, instead of the current one, or with a URL the remote's default one")
	return cmd
}

// backupAgeJSON is what check-age prints with --json.
type backupAgeJSON struct {
	Remote string    `json:"remote" doc:"the remote"`
	Branch string    `json:"branch" doc:"the branch"`
	Commit object.ID `json:"commit" doc:"its newest commit there"`
	Time   time.Time `json:"time" doc:"when the last backup was made or confirmed"`
	Age    int64     `json:"age_seconds" doc:"the age of that backup, in seconds"`
	Max    int64     `json:"max_seconds" doc:"the allowed age in seconds"`
}

// clockSkew is how far the time of a commit may lie in the future, since the clocks of two
// machines differ.
const clockSkew = 10 * time.Minute

// ageTime is the layout of a time in messages about an age.
const ageTime = "2006-01-02 15:04"

func (o *checkAgeOptions) run(ctx context.Context, env *cli.Env, args []string) error {
	opened, r, name, err := share.OpenFrom(ctx, env, args)
	if err != nil {
		return err
	}
	defer opened.Close()
	if r != nil {
		defer r.Close()
	}
	branch := ""
	if o.branch != "" {
		branch = refs.Heads + o.branch
	}
	last, err := backup.FindLast(ctx, opened, r, name, branch)
	short := strings.TrimPrefix(last.Branch, refs.Heads)
	if errors.Is(err, backup.ErrNoBackup) {
		return cli.Failf(cli.ExitFailed, "no-backup", "%s has no branch %s", cli.Printable(name), cli.QuoteArg(short))
	}
	if err != nil {
		return err
	}
	when := last.Time
	age := env.Now().Sub(when)
	if age < -clockSkew {
		return cli.Failf(cli.ExitFailed, "future", "the last backup of %s on %s is of %s, in the future: a clock is wrong", cli.Printable(short), cli.Printable(name), when.Local().Format(ageTime))
	}
	age = max(0, age).Truncate(time.Second)
	env.JSON(backupAgeJSON{name, short, last.Commit, when.UTC(), int64(age.Seconds()), int64(o.max.Value.Seconds())})
	text := fmt.Sprintf("the last backup of %s on %s is %s old (%s, %s)", cli.Printable(short), cli.Printable(name), age, when.Local().Format(ageTime), last.Commit.Short())
	if age > *o.max.Value {
		return cli.Failf(cli.ExitFailed, "old", "%s, more than %s", text, o.max.Text)
	}
	env.PrintOutcome("%s\n", text)
	return nil
}
