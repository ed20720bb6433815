// Package graph follows links: from objects to the objects below them, and from
// commits to their parents. It uses no recursion, so that a history may have any
// length.
package graph

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Links returns the links of an object; a chunk has none. It returns the errors of
// Get. The error for a malformed node is an [*object.CorruptError], unless it
// matches [object.ErrNewerFormat].
func Links(ctx context.Context, r object.Reader, key object.Key) (links []object.Key, err error) {
	if !key.Kind.IsNode() {
		return nil, nil
	}
	err = object.GetBriefly(ctx, r, key, func(data []byte) error {
		links, err = object.Links(key.Kind, data)
		if err != nil && !errors.Is(err, object.ErrNewerFormat) {
			return &object.CorruptError{Key: key, Err: err}
		}
		return err
	})
	return links, err
}

// Walk visits starts and all keys that visit returns, each once, depth first. It
// skips the keys in seen and adds the visited ones. An error of visit ends the walk.
func Walk[K comparable](ctx context.Context, seen map[K]bool, starts []K, visit func(K) (next []K, err error)) error {
	return Follow(ctx, starts, func(key K) ([]K, error) {
		if seen[key] {
			return nil, nil
		}
		seen[key] = true
		return visit(key)
	})
}

// Follow is [Walk] for callers that know which keys they visited: it visits a key
// each time that visit returns it.
func Follow[K any](ctx context.Context, starts []K, visit func(K) (next []K, err error)) error {
	return Batches(ctx, starts, 1, func(keys []K) ([]K, error) { return visit(keys[0]) })
}

// Batches is [Follow] with up to size keys in one call of visit. It visits the newest keys
// first, so that few keys wait. Visit must not keep the slice.
func Batches[K any](ctx context.Context, starts []K, size int, visit func([]K) (next []K, err error)) error {
	for stack := slices.Clone(starts); len(stack) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := max(0, len(stack)-size)
		next, err := visit(stack[from:])
		if err != nil {
			return err
		}
		stack = append(stack[:from], next...)
	}
	return nil
}

// CheckPresent returns an error that matches [object.ErrNotFound] if an object or one
// below it is missing. It reads no chunks.
func CheckPresent(ctx context.Context, r object.Reader, key object.Key) error {
	return Walk(ctx, map[object.Key]bool{}, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		missing, err := r.Missing(ctx, []object.Key{key})
		if err == nil && len(missing) > 0 {
			err = &object.AbsentError{Key: key}
		}
		if err != nil {
			return nil, err
		}
		return Links(ctx, r, key)
	})
}

// Fold returns the value of key, which it computes from the values of its links.
// Read returns a key's node and the links whose values are needed. Value is called
// after done has these values. Fold skips the keys in done and adds the computed ones.
// An error of read or value ends it.
func Fold[K comparable, N, V any](
	ctx context.Context, done map[K]V, key K,
	read func(K) (node N, links []K, err error), value func(K, N) (V, error),
) (V, error) {
	type open struct {
		key  K
		node *N // nil: not read yet
	}
	for stack := []open{{key: key}}; len(stack) > 0; {
		if err := ctx.Err(); err != nil {
			return done[key], err
		}
		last := len(stack) - 1
		top := stack[last]
		if _, known := done[top.key]; known {
			stack = stack[:last]
			continue
		}
		if top.node != nil {
			v, err := value(top.key, *top.node)
			if err != nil {
				return done[key], err
			}
			done[top.key] = v
			continue
		}

		node, links, err := read(top.key)
		if err != nil {
			return done[key], err
		}
		stack[last].node = &node
		for _, link := range links {
			if _, known := done[link]; !known {
				stack = append(stack, open{key: link})
			}
		}
	}
	return done[key], nil
}
