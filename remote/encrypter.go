package remote

import "context"

// Encrypter is a store that encrypts packs, index files, roots and state files before it keeps them.
// See docs/format/encrypted.md. Get it with As: no caller may write such a blob around it.
type Encrypter interface {
	// CreateRoot creates a root as Creator.Create does. The root is encrypted with the key of
	// k.Epoch, and the names of the keyset's copies stand before it in clear.
	// Create refuses roots.
	CreateRoot(ctx context.Context, name string, data []byte, k KeysetRef) error

	// UseKeyset makes Put encrypt with the key of k.Epoch from now on. It reads the keyset if
	// the store does not know that key. An earlier epoch than that of a former call is ignored.
	UseKeyset(ctx context.Context, k KeysetRef) error

	// MayHaveSize reports whether a blob of plain bytes can be stored as a blob of stored bytes.
	MayHaveSize(plain, stored int64) bool
}

// KeysetRef names an epoch of an encrypted remote, and the two copies of the keyset that has its key.
type KeysetRef struct {
	Epoch uint32      // from 1
	Names [2][16]byte // the copies are keys/<32 hexadecimal digits>
}
