package gc

import (
	"context"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// DefaultKeepAge is the age at which a collection of a remote deletes a keep ref. Repositories in use renew theirs monthly.
const DefaultKeepAge = 365 * 24 * time.Hour

// DefaultRemoteOptions are the options of a collection of a remote that nobody configured.
var DefaultRemoteOptions = collect.Options{
	Grace: collect.DefaultGrace, MaxWaste: DefaultMaxWaste, ForgetAfter: collect.DefaultForgetAfter, PruneAge: collect.DefaultPruneAge,
}

// CollectRemote collects the garbage of the remote with a name. First, it deletes the keep refs that are older than
// keepAge; a dry run does not. The errors are those of
// [registry.OpenNamed] and [collect.PlanGarbage].
func CollectRemote(ctx context.Context, r *kist.Repository, name string, keepAge time.Duration, o collect.Options) (collect.Stats, error) {
	opened, err := registry.OpenNamed(ctx, r, name)
	if err != nil {
		return collect.Stats{}, err
	}
	defer opened.Close()

	if !o.DryRun {
		if err := remote.CheckWritable(opened.Backend()); err != nil {
			return collect.Stats{}, err
		}
		if err := transfer.DropKeeps(ctx, opened, r.Objects(), keepAge); err != nil {
			return collect.Stats{}, err
		}
	}
	plan, err := collect.PlanGarbage(ctx, opened, r.Objects(), o)
	if err != nil {
		return collect.Stats{}, err
	}
	defer plan.Close()
	if !o.DryRun {
		if err := plan.Apply(ctx); err != nil {
			return collect.Stats{}, err
		}
	}
	return plan.Stats(), nil
}
