package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
)

type gcOptions struct {
	auto       bool
	singleHost bool
}

func newGC(env *Env) *cobra.Command {
	var o gcOptions
	cmd := &cobra.Command{
		Use:   "gc [OPTIONS]",
		Short: "tidy up the object store",
		Long: `Merges small volumes of the object store if there are many, takes over what
commands that were killed had stored, and deletes the files of volumes that were
merged more than an hour ago. Other commands can run meanwhile.

Commands that write start 'kist gc --auto' in the background when there is
something to do. 'kist config gc.auto false' stops that, and so does
KIST_GC_AUTO=0 in the environment.

With --json: salvaged, merged, written and deleted (volumes), bytes_freed.`,
		Example:           `  kist gc`,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runGC(cmd.Context(), env, o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	inRepository(cmd)
	mayExit(cmd, exitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.auto, "auto", false, "only if there is much to do, and nobody else is at it; say nothing")
	flags.BoolVar(&o.singleHost, "single-host", false, "work on a network file system, which no other machine uses now")
	return cmd
}

// gcJSON is what gc prints with --json.
type gcJSON struct {
	Salvaged int   `json:"salvaged"`
	Merged   int   `json:"merged"`
	Written  int   `json:"written"`
	Deleted  int   `json:"deleted"`
	Freed    int64 `json:"bytes_freed"`
}

func runGC(ctx context.Context, env *Env, o gcOptions) error {
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if o.auto && !r.Objects().NeedsMaintenance() {
		return nil
	}
	p := env.progress("tidying up")
	defer p.Stop()
	did, err := r.Objects().Maintain(ctx, volume.MaintainOptions{SingleHost: o.singleHost})
	p.Stop()
	switch {
	case o.auto && (errors.Is(err, disk.ErrBusy) || errors.Is(err, errors.ErrUnsupported)):
		return nil
	case errors.Is(err, errors.ErrUnsupported):
		return hintf(err, "--single-host does it, if no other machine uses the repository now")
	case err != nil:
		return err
	case env.global.json:
		return env.json(gcJSON{did.Salvaged, did.Merged, did.Written, did.Deleted, did.Freed})
	case o.auto:
		return nil
	}
	env.printGC(did)
	return nil
}

func (e *Env) printGC(did volume.MaintainStats) {
	if did == (volume.MaintainStats{}) {
		e.tell("nothing to do\n")
	}
	if did.Salvaged > 0 {
		e.tell("took over %s\n", plural(uint64(did.Salvaged), "interrupted write", "interrupted writes"))
	}
	if did.Merged > 0 {
		e.tell("merged %s into %d\n", plural(uint64(did.Merged), "volume", "volumes"), did.Written)
	}
	if did.Deleted > 0 {
		e.tell("deleted %s, %s\n", plural(uint64(did.Deleted), "old volume", "old volumes"), formatSize(uint64(did.Freed)))
	}
}
