package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
)

// wantedNode implements [ends].
func (f *fetch) wantedNode(ctx context.Context, key object.Key) ([]byte, error) {
	absent, err := f.absentHere(ctx, []object.Key{key})
	if err != nil {
		return nil, err
	}
	return f.nodeIf(ctx, key, len(absent) == 0)
}

// nodeIf returns a node: from the repository if here is set, or else from the giver. A
// node that turns out to be damaged or missing here comes from the giver.
func (f *fetch) nodeIf(ctx context.Context, key object.Key, here bool) ([]byte, error) {
	if here {
		data, err := f.session.Get(ctx, key)
		if !object.IsUnreadable(err) {
			return data, err
		}
	}
	return f.giveNode(ctx, key)
}

// certainNode implements [ends].
func (f *fetch) certainNode(ctx context.Context, key object.Key) ([]byte, error) {
	if f.session.IsAbsent(key) {
		return nil, &object.AwayError{Key: key}
	}
	return f.session.Get(ctx, key)
}

// linksOf implements [ends].
func (f *fetch) linksOf(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	absent, err := f.absentHere(ctx, nodes)
	if err == nil {
		err = f.prepareNodes(ctx, absent)
	}
	if err != nil {
		return nil, err
	}
	away := make(map[object.Key]bool, len(absent))
	for _, key := range absent {
		away[key] = true
	}
	return readLinks(ctx, f.jobs, nodes, func(ctx context.Context, key object.Key) ([]byte, error) {
		return f.nodeIf(ctx, key, !away[key])
	})
}

// takeChunks implements [ends].
func (f *fetch) takeChunks(ctx context.Context, keys []object.Key) error {
	return f.giveChunks(ctx, keys)
}

// absentHere returns the keys that are not here, or cannot be searched for. The session
// checks the others when it publishes.
func (f *fetch) absentHere(ctx context.Context, keys []object.Key) ([]object.Key, error) {
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
