package transfer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Keys say how a remote is opened that is encrypted, or has to be. The zero Keys open remotes in
// clear.
type Keys struct {
	Identities *keyset.Identities // nil: an encrypted remote cannot be read
	Pin        *crypt.Pin         // the encrypted remote that the configuration names; nil: it names none
	Required   bool               // a remote in clear is refused
	Export     *keyset.File       // used if both copies of the keyset are damaged; may be nil
}

// ErrOtherRemote means that a URL leads to another encrypted remote than the one that the configuration knows.
var ErrOtherRemote = errors.New("another remote is there than before")

// checkPin returns an error if the remote with an identity is not one that k permits. Id is nil for
// an empty store.
func (k *Keys) checkPin(id *rootlog.Identity) error {
	switch {
	case k.Pin == nil && !k.Required:
		return nil
	case id == nil && k.Pin == nil:
		return nil // whoever makes a remote there, encrypts it
	case id == nil, !id.IsEncrypted():
		return rootlog.ErrNotEncrypted
	case k.Pin != nil && hex.EncodeToString(k.Pin.Remote[:]) != id.Remote:
		return fmt.Errorf("%w: %s instead of %x", ErrOtherRemote, id.Remote, k.Pin.Remote)
	}
	return nil
}

// encrypted is the encrypted form of a remote's store.
type encrypted struct {
	store  *crypt.Store
	source *keyset.Source
}

// openEncrypted returns the store b as an encrypted one. It makes no request: the first root that is
// read names the keyset.
func openEncrypted(b remote.Backend, id *rootlog.Identity, o *Options) (*encrypted, error) {
	if o.Keys.Identities == nil {
		return nil, rootlog.ErrEncrypted
	}
	keys := &crypt.Keys{} // none yet
	if _, err := hex.Decode(keys.Remote[:], []byte(id.Remote)); err != nil {
		return nil, err // ParseIdentity has checked it
	}
	from := keyset.Options{Blobs: b, Remote: keys.Remote, Identities: o.Keys.Identities, Export: o.Keys.Export}
	if o.Keys.Pin != nil {
		from.Pin = &o.Keys.Pin.Key
	}
	if o.Dir != "" {
		from.Dir = filepath.Join(o.Dir, keysFolder)
	}
	source := keyset.NewSource(from)
	return &encrypted{crypt.New(b, crypt.Options{Keys: keys, Load: source.Load}), source}, nil
}

// IsEncrypted reports whether the remote is encrypted.
func (r *Remote) IsEncrypted() bool { return r.encrypted != nil }

// Keyset returns the keyset of the head, and the head. The error matches [rootlog.ErrNotEncrypted] for a remote in clear.
func (r *Remote) Keyset(ctx context.Context) (*keyset.Opened, *rootlog.State, error) {
	if r.encrypted == nil {
		return nil, nil, rootlog.ErrNotEncrypted
	}
	head, err := HeadToWrite(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	opened, err := r.encrypted.source.Open(ctx, head.Keys.Ref().Names) // read already
	return opened, head, err
}

// PinOf returns the pin of an encrypted remote.
func (r *Remote) PinOf(ctx context.Context) (crypt.Pin, error) {
	opened, _, err := r.Keyset(ctx)
	if err != nil {
		return crypt.Pin{}, err
	}
	return PinTo(opened.Keyset), nil
}

// PinTo returns the pin of the remote whose keyset is k.
func PinTo(k *keyset.Keyset) crypt.Pin {
	return crypt.Pin{Remote: k.Remote, Key: k.Epochs[0].Key.Fingerprint(k.Remote)}
}

// learnKeyset notes the values of the keyset of head that kist.json of an encrypted remote does not have.
func (r *Remote) learnKeyset(ctx context.Context, head *rootlog.State) error {
	if r.encrypted == nil {
		return nil
	}
	opened, err := r.encrypted.source.Open(ctx, head.Keys.Ref().Names)
	if err != nil {
		return err
	}
	p := opened.Chunker
	r.id = r.id.WithKeyset(hex.EncodeToString(opened.Repository[:]), rootlog.Chunker{
		Polynomial: fmt.Sprintf("%#x", p.Polynomial), Min: p.Min, Average: p.Avg, Max: p.Max,
	})
	return nil
}
