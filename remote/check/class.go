package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// Class is the name of the check of [RunClass]. It is no part of [Run].
const Class = "class"

// RunClass checks that a store keeps large packs of chunks in the class of storage that its URL names, if it names one. It adds the
// result to the report of [Run]. It sends [remote.MinClassed] bytes.
func RunClass(ctx context.Context, b remote.Backend, r *Report, o Options) {
	store, ok := remote.As[remote.Archiver](b)
	if !ok || store.Class() == "" {
		return
	}
	s := step{name: Class, what: "large packs of chunks get class " + store.Class()}
	r.runExtra(&s, o, func() error { return tryClass(ctx, b, store, r.Prefix+"packs/class", o) })
}

func tryClass(ctx context.Context, b remote.Backend, store remote.Archiver, name string, o Options) error {
	o.Retry.Now = o.Now
	data := make([]byte, remote.MinClassed)
	_, _ = rand.Read(data)
	if err := b.Put(remote.WithContent(ctx), name, bytes.NewReader(data), int64(len(data))); err != nil {
		return err
	}
	err := retry.Do(ctx, o.Retry, "stat", func(ctx context.Context) error {
		state, err := store.ArchiveState(ctx, name)
		if err == nil && state.Class != store.Class() {
			err = failed("the store accepted the class %s, and keeps the file in %q", store.Class(), state.Class)
		}
		return err
	})
	gone := retry.Do(ctx, o.Retry, "delete", func(ctx context.Context) error { return b.Delete(ctx, name) })
	if errors.Is(gone, remote.ErrPermission) {
		gone = nil // as all probes then
	}
	return errors.Join(err, gone)
}
