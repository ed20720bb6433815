package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// A fetch is the [ends] of its walk: nodes are read here if they are here, and
// received if not.

// node implements [ends].
func (f *fetch) node(ctx context.Context, key object.Key) ([]byte, error) {
	absent, err := f.absent(ctx, []object.Key{key})
	if err != nil {
		return nil, err
	}
	return f.nodeIf(ctx, key, len(absent) == 0)
}

// nodeIf returns a node that is here, as it seems, or is not. One that is
// damaged here is received again.
func (f *fetch) nodeIf(ctx context.Context, key object.Key, here bool) ([]byte, error) {
	if here {
		data, err := f.session.Get(ctx, key)
		if !errors.Is(err, object.ErrNotFound) && !errors.Is(err, object.ErrCorrupt) {
			return data, err
		}
	}
	e, err := f.entry(key)
	if err != nil {
		return nil, err
	}
	entries := []pack.Entry{e}
	if key.Kind == object.KindCommit { // which the walk asks for one by one
		if entries, err = f.aheadOf(ctx, e); err != nil {
			return nil, err
		}
	}
	f.nodes.take(ctx, entries)
	return f.receive(ctx, e)
}

// certain implements [ends].
func (f *fetch) certain(ctx context.Context, key object.Key) ([]byte, error) {
	return f.session.Get(ctx, key)
}

// links implements [ends].
func (f *fetch) links(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	absent, err := f.absent(ctx, nodes)
	if err != nil {
		return nil, err
	}
	away := make(map[object.Key]bool, len(absent))
	entries := make([]pack.Entry, len(absent))
	for i, key := range absent {
		away[key] = true
		if entries[i], err = f.entry(key); err != nil {
			return nil, err
		}
	}
	f.nodes.take(ctx, entries)
	lists := make([][]object.Key, len(nodes))
	return lists, parallel(ctx, f.jobs, len(nodes), func(ctx context.Context, i int) error {
		key := nodes[i]
		data, err := f.nodeIf(ctx, key, !away[key])
		if err == nil {
			lists[i], err = object.Links(key.Kind, data)
		}
		return err
	})
}

// chunks implements [ends].
func (f *fetch) chunks(ctx context.Context, keys []object.Key) error {
	keys = slices.DeleteFunc(keys, func(key object.Key) bool { return f.plan.has(key.ID) })
	absent, err := f.absent(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range absent {
		e, err := f.entry(key)
		if err != nil {
			return err
		}
		f.plan.add(e)
	}
	return nil
}

// absent returns those of keys that are not here, or cannot be searched for. Of
// the others the session makes sure when it publishes.
func (f *fetch) absent(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	absent, err := f.session.Missing(ctx, keys)
	if !errors.Is(err, object.ErrCorrupt) {
		return absent, err
	}
	absent = nil
	for _, key := range keys {
		missing, err := f.session.Missing(ctx, []object.Key{key})
		if errors.Is(err, object.ErrCorrupt) {
			missing, err = []object.Key{key}, nil
		}
		if err != nil {
			return nil, err
		}
		absent = append(absent, missing...)
	}
	return absent, nil
}

// entry returns where an object lies on the remote.
func (f *fetch) entry(key object.Key) (pack.Entry, error) {
	e, ok, err := f.snap.find(key)
	if err == nil && !ok {
		err = &object.NotFoundError{Key: key}
	}
	return e, err
}

// receive stores a node whose pack was taken, and returns it.
func (f *fetch) receive(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, err := f.nodes.value(e)
	if err == nil {
		var data []byte
		if data, err = f.store(ctx, f.nodes.values, e, value); err == nil {
			return data, nil
		}
	}
	if !isBad(err) {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	return f.readAgain(ctx, e.Key)
}
