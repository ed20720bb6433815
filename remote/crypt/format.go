package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/kist-vcs/kist/remote"
)

// The layout of an encrypted blob, see docs/format/encrypted.md. Offsets and sizes are in bytes.
const (
	layoutVersion = 1
	scheme        = 1

	epochAt    = 12
	saltAt     = 16
	commitAt   = 32
	lengthAt   = 64
	keysetAt   = 88
	saltSize   = 16
	commitSize = 32
	nameSize   = 16
	tagSize    = 16

	headerSize     = keysetAt                  // of all types but roots
	rootHeaderSize = keysetAt + 2*nameSize     // of roots
	segmentSize    = 16 << 10                  // of the plain blob
	storedSegment  = segmentSize + tagSize     // the same, encrypted
	maxPlain       = 1 << 40                   // longest blob
	blobKeySize    = 32                        // AES-256
	keyInfo        = "kist blob 1"             // the purpose of derived keys
	keysetRefSize  = rootHeaderSize - keysetAt // the names of both copies
)

// The last byte of a nonce.
const (
	nonceMiddle = 0 // a segment
	nonceLast   = 1 // the last segment
	nonceLength = 2 // the length
)

// folders has the type of the blobs in each folder. All other names are clear, or belong to nothing.
var folders = map[string]remote.Type{"packs": remote.TypePack, "index": remote.TypeIndex, "root": remote.TypeRoot, "state": remote.TypeState}

// typeOf returns the type of an encrypted blob by its name, 0 if such a name is not encrypted.
func typeOf(name string) remote.Type {
	folder, _, _ := strings.Cut(name, "/")
	if folder == name {
		return 0
	}
	return folders[folder]
}

// isClear reports whether a blob or record of this name is stored as it is: everything begins with
// kist.json, keysets are encrypted by themselves, and a check of the store compares bytes.
func isClear(name string) bool {
	return name == "kist.json" || strings.HasPrefix(name, "keys/") || strings.HasPrefix(name, "probe/")
}

// headerSizeOf returns the number of bytes before the segments.
func headerSizeOf(t remote.Type) int64 {
	if t == remote.TypeRoot {
		return rootHeaderSize
	}
	return headerSize
}

const (
	leastPadded = 4 << 10
	smallPack   = 8 << 20  // the least size of a pack that can be full
	fullPack    = 32 << 20 // the largest
	packWindow  = 2 << 20  // a full pack may lack an object of so many bytes
)

// Pad returns the size to which a plain blob of n bytes is padded. The size classes are those of
// Padmé. In addition, all packs that are full look alike: see docs/format/encrypted.md.
func Pad(n int64) int64 {
	for full := int64(smallPack); full <= fullPack; full *= 2 {
		if full-packWindow < n && n <= full {
			return full
		}
	}
	if n <= leastPadded {
		return leastPadded
	}
	e := bits.Len64(uint64(n)) - 1
	class := int64(1) << (e - bits.Len(uint(e)))
	return (n + class - 1) / class * class
}

// segments returns the number of segments of a padded blob.
func segments(padded int64) int64 { return (padded + segmentSize - 1) / segmentSize }

// storedSize returns the size of a blob of plain bytes, as it is stored.
func storedSize(t remote.Type, plain int64) int64 {
	padded := Pad(plain)
	return headerSizeOf(t) + padded + segments(padded)*tagSize
}

// blob is a blob whose header was made or authenticated here.
type blob struct {
	header []byte // as stored
	size   int64  // of the header
	plain  int64
	padded int64
	aead   cipher.AEAD
}

// last returns the number of the last segment.
func (b *blob) last() int64 { return segments(b.padded) - 1 }

// end returns the offset in the stored blob at which a segment ends.
func (b *blob) end(segment int64) int64 {
	return b.size + min((segment+1)*segmentSize, b.padded) + (segment+1)*tagSize
}

// nonce returns the nonce of a segment.
func (b *blob) nonce(segment int64) []byte {
	if segment == b.last() {
		return nonceOf(segment, nonceLast)
	}
	return nonceOf(segment, nonceMiddle)
}

func nonceOf(number int64, kind byte) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[3:], uint64(number))
	nonce[11] = kind
	return nonce
}

// newBlob makes the header of a new blob, with a new salt.
func newBlob(keys *Keys, name string, plain int64, k remote.KeysetRef) (*blob, error) {
	return newSalted(keys, name, plain, k, newSalt())
}

// newSalt returns a random salt.
func newSalt() (salt [saltSize]byte) {
	rand.Read(salt[:]) // never fails
	return salt
}

// newSalted is newBlob with a given salt, for vectors.
func newSalted(keys *Keys, name string, plain int64, k remote.KeysetRef, salt [saltSize]byte) (*blob, error) {
	t := typeOf(name)
	if plain < 0 || plain > maxPlain {
		return nil, fmt.Errorf("%d bytes are too many", plain)
	}

	header := append(make([]byte, 0, rootHeaderSize), remote.HeaderMagic...)
	header = append(header, byte(t), layoutVersion, scheme, 0)
	header = binary.BigEndian.AppendUint32(header, k.Epoch)
	header = append(header, salt[:]...)
	header = header[:keysetAt]
	if t == remote.TypeRoot {
		for _, n := range k.Names {
			header = append(header, n[:]...)
		}
	}

	b := &blob{header: header, size: int64(len(header)), plain: plain, padded: Pad(plain)}
	commitment, err := b.derive(keys.Remote, keys.Of(k.Epoch), name)
	if err != nil {
		return nil, err
	}
	copy(header[commitAt:], commitment)
	b.aead.Seal(header[:lengthAt], nonceOf(0, nonceLength), binary.BigEndian.AppendUint64(nil, uint64(plain)), nil)
	return b, nil
}

// derive makes the key of a blob from its header and its name. It returns the commitment.
func (b *blob) derive(remoteID [16]byte, key Key, name string) (commitment []byte, err error) {
	info := keyInfo + string(remoteID[:]) + string(b.header[:commitAt]) + string(b.header[keysetAt:]) + name
	derived, err := hkdf.Key(sha256.New, key.secret()[:], b.header[saltAt:commitAt], info, blobKeySize+commitSize)
	if err != nil {
		return nil, err
	}
	cipherOf, err := aes.NewCipher(derived[:blobKeySize])
	clear(derived[:blobKeySize])
	if err != nil {
		return nil, err
	}
	b.aead, err = cipher.NewGCM(cipherOf)
	return derived[blobKeySize:], err
}

var (
	errTooShort   = errors.New("it ends within its header")
	errCommitment = errors.New("its header is not authentic")
	errLength     = errors.New("its length is not authentic")
	errClear      = errors.New("it is not encrypted")
)

// parseHeader returns the epoch of a blob, and in a root the names of the keyset. Nothing of that is
// authentic yet. An error that does not match [remote.ErrNewerFormat] means damage.
func parseHeader(t remote.Type, header []byte) (k remote.KeysetRef, err error) {
	rest := header[len(remote.HeaderMagic):]
	switch {
	case string(header[:len(remote.HeaderMagic)]) != remote.HeaderMagic:
		return k, fmt.Errorf("not a %s", t)
	case remote.Type(rest[0]) != t:
		return k, fmt.Errorf("a %s, not a %s", remote.Type(rest[0]), t)
	case rest[2] == 0:
		return k, errClear
	case rest[2] > scheme:
		return k, fmt.Errorf("%w: %s of scheme %d", remote.ErrNewerFormat, t, rest[2])
	case rest[1] > layoutVersion:
		return k, fmt.Errorf("%w: encrypted %s of version %d", remote.ErrNewerFormat, t, rest[1])
	case rest[1] < layoutVersion:
		return k, fmt.Errorf("encrypted %s of unknown version %d", t, rest[1])
	case rest[3] != 0:
		return k, errors.New("a reserved byte of the header is not zero")
	}

	k.Epoch = binary.BigEndian.Uint32(header[epochAt:])
	if k.Epoch == 0 {
		return k, errors.New("epoch 0")
	}
	if t == remote.TypeRoot {
		copy(k.Names[0][:], header[keysetAt:])
		copy(k.Names[1][:], header[keysetAt+nameSize:])
	}
	return k, nil
}

// openBlob authenticates a header with the key of its epoch.
func openBlob(remoteID [16]byte, key Key, name string, header []byte) (*blob, error) {
	b := &blob{header: header, size: int64(len(header))}
	commitment, err := b.derive(remoteID, key, name)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(commitment, header[commitAt:lengthAt]) != 1 {
		return nil, errCommitment
	}

	length, err := b.aead.Open(nil, nonceOf(0, nonceLength), header[lengthAt:keysetAt], nil)
	if err != nil {
		return nil, errLength
	}
	plain := binary.BigEndian.Uint64(length)
	if plain > maxPlain {
		return nil, errLength
	}
	b.plain, b.padded = int64(plain), Pad(int64(plain))
	return b, nil
}

// commits reports whether a header was made with a key, in another epoch than the header has.
func commits(remoteID [16]byte, key Key, name string, header []byte, epoch uint32) bool {
	header = append([]byte{}, header...)
	binary.BigEndian.PutUint32(header[epochAt:], epoch)
	_, err := openBlob(remoteID, key, name, header)
	return !errors.Is(err, errCommitment)
}
