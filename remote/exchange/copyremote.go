package exchange

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/mirror"
	"github.com/kist-vcs/kist/remote/transfer"
)

// CopyOptions say what [CopyRemote] copies, and between which remotes: names, URLs or absolute paths.
type CopyOptions struct {
	From, To string
	mirror.Options

	// Clear permits a copy of an encrypted remote to one in clear.
	Clear bool
}

// ErrWouldDecrypt is the error for a copy of an encrypted remote to one in clear that was not permitted.
var ErrWouldDecrypt = errors.New("the source is encrypted, and the copy would not be")

// CopyRemote copies branches, tags and records from one remote to another. It makes the remote in an empty store that has a name. The
// errors are those of [registry.Open] and [mirror.Copy], or match [ErrSameRemote] or [ErrWouldDecrypt].
func CopyRemote(ctx context.Context, r *kist.Repository, o CopyOptions) (result *mirror.Result, err error) {
	err = withBoth(ctx, r, o, func(from, to *transfer.Remote) error {
		if err := remote.CheckWritable(to.Backend()); err != nil {
			return err
		}
		if from.IsEncrypted() && !to.IsEncrypted() && !o.Clear {
			return ErrWouldDecrypt
		}
		result, err = mirror.Copy(ctx, from, to, o.Options)
		return err
	})
	return result, err
}

// CompareRemotes compares two remotes. It changes nothing. The errors are those of [registry.Open] and [mirror.Compare], or
// match [ErrSameRemote].
func CompareRemotes(ctx context.Context, r *kist.Repository, o CopyOptions) (result *mirror.Comparison, err error) {
	o.DryRun = true
	err = withBoth(ctx, r, o, func(from, to *transfer.Remote) error {
		result, err = mirror.Compare(ctx, from, to, o.Options)
		return err
	})
	return result, err
}

// withBoth calls do with the opened remotes. Unless o.DryRun, it makes the remote in an empty target.
func withBoth(ctx context.Context, r *kist.Repository, o CopyOptions, do func(from, to *transfer.Remote) error) error {
	source, err := registry.Resolve(r, o.From)
	if err != nil {
		return err
	}
	target, err := registry.Resolve(r, o.To)
	if err != nil {
		return err
	}
	from, err := registry.Open(ctx, r, source, false)
	if err != nil {
		return err
	}
	defer from.Close()
	like := from.Identity()
	if o.DryRun || from.IsEncrypted() && !o.Clear {
		like = nil
	}
	to, err := registry.OpenLike(ctx, r, target, like)
	if err != nil {
		return err
	}
	defer to.Close()
	if from.Identity().Remote == to.Identity().Remote {
		return fmt.Errorf("%q: %w", remote.Redact(target.URL), ErrSameRemote)
	}
	return do(from, to)
}
