package exchange

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Secured counts the objects that [SecureAway] found.
type Secured struct {
	Fetched int // no remote keeps them: they are here now
	Gone    int // no remote has them: the next command that has the bytes stores them
}

// SecureAway renews the keep refs on the named remotes; without names, on all that had one, or else the default remote. Then it brings the content here that names of r need, that a remote has, and that none
// keeps: the next collection of the remote may delete it. An error of a keep ref is one of SecureAway only if content
// could not be brought here.
func SecureAway(ctx context.Context, r *kist.Repository, names ...string) (result Secured, err error) {
	if len(names) == 0 {
		names = keepRemotes(r)
	}
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, RenewKeep(ctx, r, name, nil))
	}
	needed, err := neededAway(ctx, r)
	if err != nil || len(needed) == 0 {
		return result, err
	}
	report, err := volume.CheckAway(ctx, r.Objects(), needed)
	if err != nil {
		return result, err
	}
	left, err := volume.FetchAway(ctx, r.Objects(), report.Unkept)
	result = Secured{Fetched: len(report.Unkept) - len(left), Gone: len(report.Gone)}
	if err == nil && len(left) > 0 {
		err = &object.AbsentError{Key: left[0]}
	}
	if err == nil {
		err = report.Why
	}
	if err != nil {
		err = errors.Join(err, failed)
	}
	return result, err
}

// keepRemotes returns the remotes that have a keep ref of r by its notes, or else the default remote.
func keepRemotes(r *kist.Repository) (names []string) {
	for _, m := range registry.All(r) {
		if transfer.ReadKeep(registry.Dir(r, m.Name)).ID != "" {
			names = append(names, m.Name)
		}
	}
	if name, err := registry.Default(r); len(names) == 0 && err == nil {
		names = append(names, name)
	}
	return names
}

// neededAway returns the objects that are away and that names of r need.
func neededAway(ctx context.Context, r *kist.Repository) ([]object.Key, error) {
	away, err := volume.EvictedKeys(ctx, r.Objects())
	if err != nil || len(away) == 0 {
		return nil, err
	}
	records, err := r.RecordView()
	if err != nil {
		return nil, err
	}
	needs, err := gc.FindNeeds(ctx, r, records, nil)
	if err != nil {
		return nil, err
	}
	var roots []object.Key
	for _, root := range needs.Roots {
		roots = append(roots, root.Key)
	}
	reach, err := gc.NewReach(ctx, r.Objects(), records, roots...)
	if err != nil {
		return nil, err
	}
	return filterReached(away, reach, true)
}

// secureAfterFetch calls SecureAway if the remote kept all content that is away, and does not at head. An error is a
// warning: the fetch has succeeded.
func secureAfterFetch(ctx context.Context, r *kist.Repository, name string, head *rootlog.State) {
	note := transfer.ReadKeep(registry.Dir(r, name))
	if n := len(note.Commits); n == 0 || !note.Commits[n-1].All {
		return
	}
	lacks, err := lacksKeep(ctx, r, name, head)
	if !lacks && err == nil {
		return
	}
	var result Secured
	if err == nil {
		result, err = SecureAway(ctx, r, name)
	}
	if err != nil {
		r.Options().Warn(fmt.Sprintf("fetched, but the remote does not keep the content that was given away: %v", err))
	}
	if result.Fetched > 0 {
		r.Options().Warn(fmt.Sprintf("the keep ref is gone, and could not be made again: content that was given away is here again (%d objects)", result.Fetched))
	}
	warnGone(r, result.Gone)
}

// warnGone warns that no remote has n objects that were given away.
func warnGone(r *kist.Repository, n int) {
	if n > 0 {
		r.Options().Warn(fmt.Sprintf("no remote has content any more that was given away (%d objects); 'kist verify' names the files", n))
	}
}
