package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// mayBeAway reports whether an object that no volume has is perhaps away: the store is lazy, and the object of a kind that
// can be. Whether a remote has promised it is known above the store.
func mayBeAway(s *Store, key object.Key) bool {
	return s.o.Lazy && key.Kind.CanBeAway() && !s.IsLost(key)
}

// fetchAway reads an object that no volume has in a file of the worktree, or else fetches and keeps it. The error is an [*object.AbsentError] if all remotes
// answered and none has the object. Otherwise it is an [*object.AwayError].
func fetchAway(ctx context.Context, s *Store, key object.Key) ([]byte, error) {
	if data := s.fetched.find(key); data != nil {
		return bytes.Clone(data), nil
	}
	if data := getLent(s, key); data != nil {
		return data, nil
	}
	if s.Elsewhere == nil {
		return nil, &object.AwayError{Key: key}
	}
	data, err := s.Elsewhere.Get(ctx, key)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*object.BudgetError)):
		return nil, err
	case errors.Is(err, object.ErrNotFound):
		return nil, &object.AbsentError{Key: key}
	case err != nil:
		return nil, object.NewAwayError(key, err)
	}
	if err := checkFetched(key, data); err != nil {
		return nil, &object.CorruptError{Key: key, Where: "a remote", Err: err}
	}
	s.fetched.add(ctx, s, key, bytes.Clone(data))
	return data, nil
}

// checkFetched returns an error if data is not the object with this key, or a malformed node.
func checkFetched(key object.Key, data []byte) error {
	if object.Sum(data) != key.ID {
		return errHash
	}
	if key.Kind.IsNode() {
		return object.Check(key.Kind, data)
	}
	return nil
}

// IsAway reports whether no volume has the bytes of an object, but a remote may: the object is evicted, or may have been promised.
func IsAway(s *Store, key object.Key) (bool, error) {
	v, _, evicted, err := findCopy(s, key)
	return err == nil && (evicted || v == nil && mayBeAway(s, key)), err
}

// isFar reports whether an object is away, and neither fetched nor lent.
func isFar(s *Store, key object.Key) bool {
	away, err := IsAway(s, key)
	return err == nil && away && s.fetched.find(key) == nil && !HasLent(s, key)
}

// Here reads the objects that a store has in its volumes or has fetched, and fetches nothing that may be away: the error for such an
// object is an [*object.AwayError]. Its Missing returns all objects that no volume has. It is an [object.BriefReader] and an [object.LossKeeper].
type Here struct{ store *Store }

// OnlyHere returns the Here of a store.
func OnlyHere(s *Store) Here { return Here{s} }

// Get implements [object.Reader].
func (h Here) Get(ctx context.Context, key object.Key) (data []byte, err error) {
	if err := h.find(key); err != nil {
		return nil, err
	}
	return h.store.Get(ctx, key)
}

// GetBriefly implements [object.BriefReader].
func (h Here) GetBriefly(ctx context.Context, key object.Key, use func(data []byte) error) error {
	if err := h.find(key); err != nil {
		return err
	}
	return h.store.GetBriefly(ctx, key, use)
}

// find returns an [*object.AwayError] if no volume has an object that may be away.
func (h Here) find(key object.Key) error {
	if !mayBeAway(h.store, key) {
		return nil
	}
	absent, err := Absent(h.store, []object.Key{key})
	if len(absent) > 0 && err == nil { // another process may have brought it
		if err = Relist(h.store); err == nil {
			absent, err = Absent(h.store, absent)
		}
	}
	if err == nil && len(absent) > 0 && h.store.fetched.find(key) == nil {
		err = &object.AwayError{Key: key}
	}
	return err
}

// Missing implements [object.Reader]. An evicted object counts as present.
func (h Here) Missing(ctx context.Context, wanted []object.Key) ([]object.Key, error) {
	missing, err := h.store.Missing(ctx, wanted)
	if err != nil || !h.store.o.Lazy {
		return missing, err
	}
	return Absent(h.store, wanted)
}

// IsLost implements [object.LossKeeper].
func (h Here) IsLost(key object.Key) bool { return h.store.IsLost(key) }

// IsAbsent reports whether an object is neither in a volume nor fetched, and may be away.
func IsAbsent(s *Store, key object.Key) bool { return object.IsAway(Here{s}.find(key)) }

// IsAbsent is [IsAbsent] for objects that the session does not have either.
func (s *Session) IsAbsent(key object.Key) bool {
	s.mu.Lock()
	has := s.hasUnsealed(key)
	s.mu.Unlock()
	return !has && IsAbsent(s.store, key)
}

// Reach asks the remotes for objects that are away, before a command changes anything. If a remote cannot be asked that may have
// them, the error is an [*object.AwayError]. If no remote has one, it is an [*object.AbsentError]. If an object cannot be read now,
// because it lies in an archive, the error is that of the remote.
func Reach(ctx context.Context, s *Store, away []object.Key) error {
	if len(away) == 0 {
		return nil
	}
	if s.Elsewhere == nil {
		return &object.AwayError{Key: away[0]}
	}
	gone, _, err := s.Elsewhere.FindUnkept(ctx, away)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return object.NewAwayError(away[0], err)
	case len(gone) > 0:
		return fmt.Errorf("no remote has %s: %w", gone[0], &object.AbsentError{Key: gone[0]})
	}
	if e, ok := s.Elsewhere.(interface {
		CheckReadable(context.Context, []object.Key) error
	}); ok {
		err = e.CheckReadable(ctx, away)
	}
	return err
}

// Far returns those of keys that are away or evicted, and were not fetched.
func Far(s *Store, keys []object.Key) (far []object.Key) {
	for _, key := range keys {
		if isFar(s, key) {
			far = append(far, key)
		}
	}
	return far
}

// Bring fetches those of keys that no volume has, and stores them in a volume, however little room there is. It calls got, if not nil, with
// the size of each, in several goroutines at once. If one cannot be fetched, the error is that of [Store.Get].
func Bring(ctx context.Context, s *Store, keys []object.Key, got func(n int)) error {
	absent, err := notHereOf(s, keys)
	if err != nil || len(absent) == 0 {
		return err
	}
	if s.Elsewhere == nil {
		return &object.AwayError{Key: absent[0]}
	}
	ss := s.Begin(SessionOptions{fetched: true})
	defer ss.Close()
	err = s.Elsewhere.GetAll(ctx, absent, func(key object.Key, data []byte) error {
		if checkFetched(key, data) != nil {
			return nil // the check below finds it
		}
		if _, err := ss.Put(ctx, key.Kind, data); err != nil {
			return err
		}
		if got != nil {
			got(len(data))
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cerr := ss.Close(); cerr != nil {
		return cerr
	}
	left, lerr := notHereOf(s, absent)
	if lerr != nil || len(left) == 0 {
		return lerr
	}
	if err != nil {
		return object.NewAwayError(left[0], err)
	}
	for _, key := range left {
		data, err := s.Get(ctx, key) // explains why
		if err != nil {
			return err
		}
		again := s.Begin(SessionOptions{fetched: true})
		_, err = again.Put(ctx, key.Kind, data)
		if err := errors.Join(err, again.Close()); err != nil {
			return err
		}
	}
	return nil
}

// notHereOf returns those of keys without a usable copy in a volume, each once. An evicted copy does not count.
func notHereOf(s *Store, keys []object.Key) (absent []object.Key, err error) {
	seen := make(map[object.Key]bool, len(keys))
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		v, _, err := findHere(s, key)
		if err != nil {
			return nil, err
		}
		if v == nil {
			absent = append(absent, key)
		}
	}
	return absent, nil
}
