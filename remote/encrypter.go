package remote

import (
	"context"
	"errors"
)

// Encrypter is a store that encrypts packs, index files, roots and state files before it keeps them.
// See docs/format/encrypted.md. Get it with [As]: no caller may write such a blob around it.
type Encrypter interface {
	// CreateRoot creates a root as Creator.Create does. The root is encrypted with the key of
	// k.Epoch, and the names of the keyset's copies stand before it in clear.
	// Create refuses roots.
	CreateRoot(ctx context.Context, name string, data []byte, k KeysetRef) error

	// ReplaceRoot replaces a root as Replacer.Replace does. K is the keyset that the root names.
	// Replace refuses roots.
	ReplaceRoot(ctx context.Context, name string, data []byte, k KeysetRef) error

	// UseKeyset makes Put encrypt with the key of k.Epoch from now on. It reads the keyset if
	// the store does not know that key. An earlier epoch than that of a former call is ignored.
	UseKeyset(ctx context.Context, k KeysetRef) error

	// RootKeyset returns the epoch with whose key a root was encrypted, and the names before it in clear. Both
	// are authentic. After Get of the root it makes no request.
	RootKeyset(ctx context.Context, name string) (KeysetRef, error)

	// StoredSize returns the size of a blob or record that has so many bytes before it is encrypted.
	StoredSize(name string, plain int64) int64

	// PlainSize reads the size of a blob before it was encrypted.
	PlainSize(ctx context.Context, name string) (int64, error)
}

// ErrNoKey is matched by the error for a blob or keyset whose key an [Encrypter] does not have, and cannot get:
// the keyset is missing, or this client is no recipient. That is no damage.
var ErrNoKey = errors.New("the key of its epoch is missing")

// MaxKeyset is the most bytes of a keyset; see docs/format/keysets.md.
const MaxKeyset = 1 << 20

// KeysetRef names an epoch of an encrypted remote, and the two copies of the keyset that has its key.
type KeysetRef struct {
	Epoch uint32      // from 1
	Names [2][16]byte // the copies are keys/<32 hexadecimal digits>
}

// StoredSize returns the size that a store has for a blob or record of plain bytes: the Size of its [Info].
func StoredSize(b Backend, name string, plain int64) int64 {
	if e, ok := As[Encrypter](b); ok {
		return e.StoredSize(name, plain)
	}
	return plain
}

// PlainSize returns the number of bytes that Get can read of a listed blob. For a store that does not
// encrypt it makes no request.
func PlainSize(ctx context.Context, b Backend, info Info) (int64, error) {
	if e, ok := As[Encrypter](b); ok {
		return e.PlainSize(ctx, info.Name)
	}
	return info.Size, nil
}
