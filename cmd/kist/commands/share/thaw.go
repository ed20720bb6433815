package share

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/transfer"
)

// thawJSON says which packs have to be thawed before a fetch.
type thawJSON struct {
	Asked   exchange.Packs `json:"asked" doc:"the packs that this command asked for"`
	Thawing exchange.Packs `json:"thawing" doc:"the packs that cannot be read yet, with those"`
	Thawed  exchange.Packs `json:"thawed" doc:"the archived packs that can be read"`
	Ready   time.Time      `json:"ready" doc:"when all can usually be read"`
}

// thawFirst has the packs thawed that top needs, or the complete repository if top is nil. It reports whether everything can be
// fetched now. Otherwise the error is quiet: the command has printed the reason.
func (o *fetchOptions) thawFirst(ctx context.Context, env *cli.Env, r *kist.Repository, top []object.Key) (ready bool, err error) {
	p := env.Progress("looking for archived packs")
	defer p.Stop()
	frozen, err := exchange.FindFrozen(ctx, r, top)
	p.Stop()
	if err != nil {
		return false, err
	}
	defer frozen.Close()
	asked := frozen.Archived
	if asked.Packs > 0 {
		if err := o.confirmThaw(env, frozen); err != nil {
			return false, err
		}
		if err := frozen.Thaw(ctx); err != nil {
			return false, err
		}
	}
	if frozen.Thawing.Packs == 0 {
		return true, nil
	}
	env.JSON(broughtJSON{Thaw: &thawJSON{asked, frozen.Thawing, frozen.Thawed, object.Writable(frozen.Ready.UTC())}})
	if asked.Packs > 0 {
		env.PrintOutcome("asked for %s; run the same command again then\n", packsText(asked))
	}
	env.PrintOutcome("still thawing, %d of %s; usually ready at %s\n", frozen.Thawing.Packs,
		readable.Plural(uint64(frozen.Thawing.Packs+frozen.Thawed.Packs), "pack", "packs"), frozen.Ready.Local().Format("2006-01-02 15:04"))
	return false, cli.Quiet(cli.ExitPartial)
}

// confirmThaw shows the packs that nobody has asked for, and asks whether they are to be thawed.
func (o *fetchOptions) confirmThaw(env *cli.Env, frozen *exchange.Frozen) error {
	switch {
	case o.yes:
		return nil
	case !env.Terminal.Stdin:
		return cli.Hintf(cli.Usagef("%s in an archive, and no terminal to confirm on; use --yes", packsText(frozen.Archived)), "the store charges for the thaw, and for %d days of copies", transfer.ThawDays)
	}
	for _, class := range slices.Sorted(maps.Keys(frozen.Classes)) {
		fmt.Fprintf(env.Stderr, "class %s: a thaw usually takes up to %d hours\n", cli.Printable(class), frozen.Classes[class]/time.Hour)
	}
	if !cli.Confirm(env, fmt.Sprintf("Thaw %s? The store charges for it, and for %d days of copies.", packsText(frozen.Archived), transfer.ThawDays)) {
		return cli.Quiet(cli.ExitFailed)
	}
	return nil
}

func packsText(p exchange.Packs) string {
	return readable.Plural(uint64(p.Packs), "pack", "packs") + " with " + readable.FormatSize(uint64(p.Bytes))
}
