package crypt

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
)

// KeySize is the number of bytes of a key.
const KeySize = 32

// hidden replaces a key in all output.
const hidden = "[secret]"

// Key is the key of an epoch. The zero Key is none. No way of printing or encoding a Key shows
// its bytes, except [Key.Secret].
type Key struct {
	// A function, so that not even the printing of an unexported field shows the bytes: package
	// fmt calls no methods of unexported fields, and follows pointers.
	secret func() *[KeySize]byte
}

// NewKey returns a random key.
func NewKey() Key {
	var secret [KeySize]byte
	rand.Read(secret[:]) // never fails
	return keyOf(&secret)
}

// ParseKey returns the key with these bytes, which it copies.
func ParseKey(secret []byte) (Key, error) {
	if len(secret) != KeySize {
		return Key{}, fmt.Errorf("a key of %d bytes, want %d", len(secret), KeySize)
	}
	own := [KeySize]byte(secret)
	return keyOf(&own), nil
}

func keyOf(secret *[KeySize]byte) Key { return Key{func() *[KeySize]byte { return secret }} }

// Secret returns a copy of the bytes, nil for the zero Key. Only the encoder of a keyset needs them.
func (k Key) Secret() []byte {
	if k.IsZero() {
		return nil
	}
	return slices.Clone(k.secret()[:])
}

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.secret == nil }

// Equal reports whether two keys have the same bytes, in constant time.
func (k Key) Equal(other Key) bool {
	if k.IsZero() || other.IsZero() {
		return k.IsZero() && other.IsZero()
	}
	return subtle.ConstantTimeCompare(k.secret()[:], other.secret()[:]) == 1
}

// String returns "[secret]".
func (k Key) String() string { return hidden }

// GoString returns "[secret]".
func (k Key) GoString() string { return hidden }

// Format implements [fmt.Formatter]: every verb prints "[secret]".
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements [encoding.TextMarshaler]. It returns "[secret]".
func (k Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Fingerprint identifies the key of an epoch of a remote. It is public: nobody can compute the key from it.
type Fingerprint [16]byte

// String returns the fingerprint as 32 lower-case hexadecimal digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Fingerprint returns the fingerprint of the key on a remote. The key must not be zero.
func (k Key) Fingerprint(remoteID [16]byte) Fingerprint {
	sum, err := hkdf.Key(sha256.New, k.secret()[:], nil, "kist fingerprint 1"+string(remoteID[:]), len(Fingerprint{}))
	if err != nil {
		panic(err) // only for lengths that HKDF cannot make
	}
	return Fingerprint(sum)
}

// Keys are the epoch keys of a remote. Nobody changes a Keys that is in use.
type Keys struct {
	Remote [16]byte // ID of the remote
	Epochs []Key    // the key of epoch 1 comes first
}

// Of returns the key of an epoch, the zero Key if there is none.
func (k *Keys) Of(epoch uint32) Key {
	if epoch == 0 || uint64(epoch) > uint64(len(k.Epochs)) {
		return Key{}
	}
	return k.Epochs[epoch-1]
}

// Newest returns the number of the newest epoch, 0 if there is none.
func (k *Keys) Newest() uint32 { return uint32(len(k.Epochs)) }
