package transfer

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// maxKeyChanges is the number of times that a change of keys is made again.
const maxKeyChanges = 20

// ChangeKeyset makes a change of the keyset part of the remote, and returns the new keyset. Change returns the new keyset;
// root is the number of the root that will name it. Plugins may run to encrypt to recipients.
//
// If another process changes the remote meanwhile, ChangeKeyset calls change again with the keyset of the new
// head (KEYSET_OF_HEAD). The two copies that nothing names then are deleted by a collection. An error of change ends
// it. If no copy of the head's keyset is intact, the error matches [ErrOtherKeyset]. The other errors are those of
// [rootlog.Log.AppendKeyset]; after ErrUnknown the change may have been made.
func ChangeKeyset(ctx context.Context, r *Remote, plugins keyset.Plugins, change func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error)) (*keyset.Opened, error) {
	for try := 1; ; try++ {
		opened, err := tryChange(ctx, r, plugins, change)
		if err == nil || try == maxKeyChanges || !isOvertaken(err) {
			return opened, err
		}
	}
}

// ErrOtherKeyset means that the only intact copy of the keyset is older than the one that the head names: it may have
// removed recipients.
var ErrOtherKeyset = errors.New("the intact copy of the keyset is not that of the head")

// keysetToChange returns the keyset of the head, and the head. It checks the bytes: with damaged copies on the store,
// [Remote.Keyset] returns an older one, which can still read the remote.
func keysetToChange(ctx context.Context, r *Remote) (*keyset.Opened, *rootlog.State, error) {
	opened, head, err := r.Keyset(ctx)
	if err == nil && head.Seq > 0 && !head.Keys.Keyset.HasContent(opened.File.Bytes()) {
		err = ErrOtherKeyset
	}
	return opened, head, err
}

// RenewKeyset replaces both copies of the keyset by new ones with the same keys and recipients. It is for a remote
// with a damaged copy. The source is an intact copy: of the store, of this clone, or the export in [Keys]. The
// errors are those of [ChangeKeyset]. With dryRun, it only checks that there is such a copy.
//
// It puts nothing under the names of the old copies, and deletes nothing. So it needs no permission to delete, and
// disturbs neither changes of keys nor collections.
func RenewKeyset(ctx context.Context, r *Remote, plugins keyset.Plugins, dryRun bool) error {
	if dryRun {
		_, _, err := keysetToChange(ctx, r)
		return err
	}
	_, err := ChangeKeyset(ctx, r, plugins, func(k *keyset.Keyset, _ uint64) (*keyset.Keyset, error) { return k.Renew() })
	return err
}

// isOvertaken reports whether a change of keys failed because another process was first.
func isOvertaken(err error) bool {
	reasons := []error{rootlog.ErrLost, rootlog.ErrKeysetMoved, rootlog.ErrReplan, rootlog.ErrFloor}
	return slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) })
}

// tryChange makes a change at the present head.
func tryChange(ctx context.Context, r *Remote, plugins keyset.Plugins, change func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error)) (*keyset.Opened, error) {
	before, head, err := keysetToChange(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := r.CheckWritable(ctx, head); err != nil {
		return nil, err
	}
	next, err := change(before.Keyset, head.Seq+1)
	if err != nil {
		return nil, err
	}
	file, err := next.Seal(plugins)
	if err != nil {
		return nil, err
	}
	stored, err := r.log.PutKeyset(ctx, next.Serial, file.Bytes())
	if err != nil {
		return nil, err
	}
	after, err := r.log.AppendKeyset(ctx, head, rootlog.KeysetChange{
		Change:   *r.NewChange(),
		Keyset:   stored,
		NewEpoch: len(next.Epochs) > len(before.Epochs),
		Start:    head.Seq,
	})
	if err != nil {
		return nil, err
	}
	opened, err := r.encrypted.source.Open(ctx, after.Keys.Ref().Names)
	if err != nil {
		return nil, err
	}
	return opened, r.RememberHead(ctx, after)
}
