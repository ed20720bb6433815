package crypt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/kist-vcs/kist/remote"
)

// Options configure a [Store].
type Options struct {
	Keys *Keys // the keys that are known; Put uses the newest until UseKeyset names an epoch

	// Load returns the keyset that lies in one of two copies, keys/<name>. It is called for an
	// epoch whose key is not known, perhaps with names that a store made up. Nil: there are no
	// other keysets.
	Load func(ctx context.Context, names [2][16]byte) (*Keys, error)
}

// Store is a [remote.Backend] that encrypts packs, index files, roots and state files of the store
// below. It stores kist.json, keysets and the probes of package check as they are. It refuses
// all other names. It is also a [remote.Replacer] and a [remote.Encrypter], and safe for concurrent
// use.
//
// Sizes of [remote.Store.Stat] and List are those of the encrypted blobs: see [remote.StoredSize].
//
// If a blob is not authentic, the error matches [remote.ErrDamaged]. If the key of its epoch is
// missing, it matches [ErrNoKey]; that is no damage, and other clients can read the blob.
type Store struct {
	b       remote.Backend
	load    func(ctx context.Context, names [2][16]byte) (*Keys, error)
	headers headers

	loading sync.Mutex // held while load is called
	loaded  loaded     // the last keyset that was loaded, guarded by loading

	mu    sync.Mutex // guards the following
	keys  *Keys      // replaced, never changed
	epoch uint32     // of new blobs
}

// loaded is a keyset with the names of its copies.
type loaded struct {
	names [2][nameSize]byte
	keys  *Keys
}

// New returns b, encrypted. The caller closes the result and not b.
func New(b remote.Backend, o Options) *Store {
	return &Store{b: b, load: o.Load, keys: o.Keys, epoch: o.Keys.Newest()}
}

// Unwrap returns the store below. Only [remote.As] calls it: a caller that writes a blob there would
// write it in clear.
func (s *Store) Unwrap() remote.Backend { return s.b }

// Close implements [remote.Backend].
func (s *Store) Close() error { return s.b.Close() }

var (
	// ErrNoKey means that no keyset has the key of a blob's epoch.
	ErrNoKey = remote.ErrNoKey

	// ErrOtherKeys means that a keyset has other keys than a client knows from before: somebody
	// without these keys made it.
	ErrOtherKeys = errors.New("the keyset has other keys than those known from before")
)

// keyError is the error for a key that cannot be had. It hides causes that are about the keyset and
// that a caller would take for the state of the blob: a missing root ends the log.
type keyError struct {
	epoch uint32
	cause error // or nil
}

func (e *keyError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("no key of epoch %d: %v", e.epoch, e.cause)
	}
	return fmt.Sprintf("%v: %d", ErrNoKey, e.epoch)
}

func (e *keyError) Unwrap() []error {
	switch {
	case e.cause == nil, errors.Is(e.cause, remote.ErrNotFound), errors.Is(e.cause, remote.ErrDamaged):
		return []error{ErrNoKey}
	case errors.Is(e.cause, remote.ErrTemporary), errors.Is(e.cause, ErrOtherKeys), errors.Is(e.cause, context.Canceled), errors.Is(e.cause, context.DeadlineExceeded):
		return []error{e.cause}
	}
	return []error{ErrNoKey, e.cause}
}

// known returns the keys that are known, and the epoch of new blobs.
func (s *Store) known() (*Keys, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys, s.epoch
}

// keysOf returns keys with the key of an epoch. If it is not known, keysOf reads the keyset, if k has
// names. The result is then only a candidate: nothing has shown that the keyset is that of a root.
func (s *Store) keysOf(ctx context.Context, k remote.KeysetRef) (*Keys, error) {
	keys, _ := s.known()
	if !keys.Of(k.Epoch).IsZero() {
		return keys, nil
	}
	if s.load == nil || k.Names == [2][nameSize]byte{} {
		return nil, &keyError{epoch: k.Epoch}
	}

	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loaded.names != k.Names {
		read, err := s.load(ctx, k.Names)
		if err != nil {
			return nil, &keyError{k.Epoch, err}
		}
		s.loaded = loaded{k.Names, read}
	}
	if !s.loaded.keys.continues(keys) && !keys.continues(s.loaded.keys) {
		return nil, &keyError{k.Epoch, ErrOtherKeys}
	}
	if s.loaded.keys.Of(k.Epoch).IsZero() {
		return nil, &keyError{epoch: k.Epoch}
	}
	return s.loaded.keys, nil
}

// continues reports whether k has all keys of an earlier keyset.
func (k *Keys) continues(earlier *Keys) bool {
	if k.Remote != earlier.Remote || len(k.Epochs) < len(earlier.Epochs) {
		return false
	}
	same := true
	for i, key := range earlier.Epochs {
		same = key.Equal(k.Epochs[i]) && same
	}
	return same
}

// learn makes keys the known ones, unless more are known.
func (s *Store) learn(keys *Keys) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case keys == s.keys || s.keys.continues(keys):
		return nil
	case !keys.continues(s.keys):
		return ErrOtherKeys
	}
	s.keys = keys
	return nil
}

// UseKeyset implements [remote.Encrypter].
func (s *Store) UseKeyset(ctx context.Context, k remote.KeysetRef) error {
	keys, err := s.keysOf(ctx, k)
	if err == nil {
		err = s.learn(keys)
	}
	if err != nil {
		return &remote.Error{Op: "open", Err: err}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = max(s.epoch, k.Epoch)
	return nil
}

// Put implements [remote.Blobs]. Each call has a salt of its own.
func (s *Store) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	switch err := remote.CheckBlob(name); {
	case err != nil:
		return err
	case isClear(name):
		return s.b.Put(ctx, name, body, size)
	case typeOf(name) == 0:
		return unknownName("put", name)
	}

	keys, epoch := s.known()
	if keys.Of(epoch).IsZero() {
		return &remote.Error{Op: "put", Name: name, Err: &keyError{epoch: epoch}}
	}
	b, err := newBlob(keys, name, size, remote.KeysetRef{Epoch: epoch})
	if err != nil {
		return &remote.Error{Op: "put", Name: name, Err: err}
	}
	return s.b.Put(ctx, name, newSealed(b, body), b.end(b.last()))
}

// unknownName returns the error for a name that no blob of an encrypted remote has.
func unknownName(op, name string) error {
	return &remote.Error{Op: op, Name: name, Kind: remote.ErrName, Err: errors.New("an encrypted remote has no such names")}
}

// rootName returns the error for a root that comes without its keyset.
func rootName(op, name string) error {
	return &remote.Error{Op: op, Name: name, Kind: remote.ErrName, Err: errors.New("a root of an encrypted remote needs its keyset")}
}

// Create implements [remote.Creator] for kist.json and probes.
func (s *Store) Create(ctx context.Context, name string, data []byte) error {
	switch err := remote.CheckRecord(name, len(data)); {
	case err != nil:
		return err
	case typeOf(name) != 0:
		return rootName("create", name)
	case !isClear(name):
		return unknownName("create", name)
	}
	return s.b.Create(ctx, name, data)
}

// Replace implements [remote.Replacer] for kist.json and probes. Without it, [remote.As] would find that
// of the store below.
func (s *Store) Replace(ctx context.Context, name string, data []byte) error {
	switch err := remote.CheckRecord(name, len(data)); {
	case err != nil:
		return err
	case typeOf(name) != 0:
		return rootName("replace", name)
	case !isClear(name):
		return unknownName("replace", name)
	}
	return s.replace(ctx, name, data)
}

func (s *Store) replace(ctx context.Context, name string, data []byte) error {
	r, ok := remote.As[remote.Replacer](s.b)
	if !ok {
		return &remote.Error{Op: "replace", Name: name, Kind: remote.ErrUnsupported}
	}
	return r.Replace(ctx, name, data)
}

// CreateRoot implements [remote.Encrypter]. It does not make the keys of k known: if another root is
// created first, these are of no use.
func (s *Store) CreateRoot(ctx context.Context, name string, data []byte, k remote.KeysetRef) error {
	stored, err := s.sealRoot(ctx, "create", name, data, k)
	if err != nil {
		return err
	}
	return s.b.Create(ctx, name, stored)
}

// ReplaceRoot implements [remote.Encrypter].
func (s *Store) ReplaceRoot(ctx context.Context, name string, data []byte, k remote.KeysetRef) error {
	stored, err := s.sealRoot(ctx, "replace", name, data, k)
	if err != nil {
		return err
	}
	s.headers.drop(name)
	return s.replace(ctx, name, stored)
}

// sealRoot returns the stored bytes of a root.
func (s *Store) sealRoot(ctx context.Context, op, name string, data []byte, k remote.KeysetRef) ([]byte, error) {
	if err := remote.CheckRecord(name, len(data)); err != nil {
		return nil, err
	}
	if typeOf(name) != remote.TypeRoot {
		return nil, unknownName(op, name)
	}
	if err := remote.CheckRecord(name, int(storedSize(remote.TypeRoot, int64(len(data))))); err != nil {
		return nil, err
	}

	keys, err := s.keysOf(ctx, k)
	var stored []byte
	if err == nil {
		var b *blob
		if b, err = newBlob(keys, name, int64(len(data)), k); err == nil {
			stored, err = sealAll(b, data)
		}
	}
	if err != nil {
		return nil, &remote.Error{Op: op, Name: name, Err: err}
	}
	return stored, nil
}

// Stat implements [remote.Blobs]. The size is that of the encrypted blob.
func (s *Store) Stat(ctx context.Context, name string) (remote.Info, error) {
	return s.b.Stat(ctx, name)
}

// List implements [remote.Blobs]. Sizes are those of the encrypted blobs.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return s.b.List(ctx, prefix)
}

// Delete implements [remote.Blobs].
func (s *Store) Delete(ctx context.Context, name string) error {
	s.headers.drop(name)
	return s.b.Delete(ctx, name)
}

// StoredSize implements [remote.Encrypter].
func (s *Store) StoredSize(name string, plain int64) int64 {
	t := typeOf(name)
	if t == 0 || isClear(name) || plain < 0 || plain > maxPlain {
		return plain
	}
	return storedSize(t, plain)
}
