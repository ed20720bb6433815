package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/work/convert"
)

func newImportRestic(env *cli.Env) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "restic REPO",
		Short: "import the snapshots of a restic repository",
		Long: `Makes a commit of each snapshot in the restic repository REPO, the oldest first,
with its time, host and files under their absolute paths. kist runs the program
restic, which finds the password as usual, in RESTIC_PASSWORD_FILE for example.
Snapshots that were imported before are not imported again.

With several hosts or sets of paths, import each to a branch of its own: --host
and --path select snapshots, as in restic.

The options are as for 'kist import'.`,
		Example: `  kist import restic -b alpha --host alpha /srv/restic
  kist import restic -n sftp:backup@example.org:/restic`,
		Args: cli.Arguments(1, 1, "REPO"),
	}
	env.Prints(cmd, "for each snapshot", importedJSON{})
	var hosts, paths []string
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		sources, err := resticSources(ctx, env, args[0], hosts, paths)
		if err != nil {
			return err
		}
		return o.importAll(ctx, env, r, sources)
	}, cli.ExitPartial)
	o.register(cmd)
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "only snapshots of the host `NAME`; may be repeated")
	cmd.Flags().StringArrayVar(&paths, "path", nil, "only snapshots of `PATH`; may be repeated")
	return cmd
}

// maxSnapshots bounds the list of snapshots, in bytes.
const maxSnapshots = 256 << 20

// resticSources returns a source for each snapshot of a restic repository.
func resticSources(ctx context.Context, env *cli.Env, repo string, hosts, paths []string) ([]convert.Source, error) {
	args := []string{"--repo", repo, "snapshots", "--json"}
	for _, host := range hosts {
		args = append(args, "--host", host)
	}
	for _, path := range paths {
		args = append(args, "--path", path)
	}
	list := cli.NewProgram(ctx, env, "restic", args...)
	out, err := cli.Start(list, list.StdoutPipe)
	if err != nil {
		return nil, err
	}
	var snapshots []struct {
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
		Host string    `json:"hostname"`
	}
	text, err := io.ReadAll(io.LimitReader(out, maxSnapshots))
	if err == nil {
		_, err = io.Copy(io.Discard, out)
	}
	if err = cmp.Or(list.WaitForEnd(), err); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &snapshots); err != nil || snapshots == nil {
		return nil, cli.Failf(cli.ExitFailed, "program", "restic did not print a list of snapshots")
	}

	var sources []convert.Source
	for _, s := range snapshots {
		if len(s.ID) < 8 || s.ID[0] == '-' || s.Time.IsZero() {
			return nil, cli.Failf(cli.ExitFailed, "program", "restic lists a snapshot with the ID %s and the time %s", cli.QuoteArg(s.ID), s.Time)
		}
		name := "restic snapshot " + s.ID[:8]
		sources = append(sources, convert.Tar(name, s.Host, s.Time, func(ctx context.Context) (io.ReadCloser, error) {
			dump := cli.NewProgram(ctx, env, "restic", "--repo", repo, "dump", "--archive", "tar", s.ID, "/")
			stream, err := cli.Start(dump, dump.StdoutPipe)
			return programOutput{stream, dump}, err
		}))
	}
	return sources, nil
}

// programOutput is the output of a program.
type programOutput struct {
	io.Reader
	program *cli.Program
}

// Close waits for the end of the program. Its error is that of the program.
func (p programOutput) Close() error {
	_, err := io.Copy(io.Discard, p.Reader)
	return errors.Join(err, p.program.WaitForEnd())
}
