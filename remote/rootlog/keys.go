package rootlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// Keys are the keys of an encrypted remote at a root. A remote that is not encrypted has the
// zero Keys. See docs/format/encrypted.md.
type Keys struct {
	Epoch  Epoch
	Keyset Keyset
}

// Epoch is the time in which all blobs are encrypted with one key.
type Epoch struct {
	Number uint32 // from 1
	Since  uint64 // number of the root that began it; the first begins with kist.json, 0
}

// Keyset is the file with the keys of all epochs, encrypted to each recipient. The store has two
// copies of it.
type Keyset struct {
	Serial uint64 // from 1, one more with each change
	Names  [2]pack.Name
	Size   int64    // bytes
	Sum    [32]byte // SHA-256
}

// KeysetName returns the name of a copy of a keyset on the remote.
func KeysetName(name pack.Name) string { return keysFolder + name.String() }

// Copies returns the full names of the copies.
func (k *Keyset) Copies() []string {
	return []string{KeysetName(k.Names[0]), KeysetName(k.Names[1])}
}

// HasContent reports whether data are the bytes of the keyset.
func (k *Keyset) HasContent(data []byte) bool {
	return int64(len(data)) == k.Size && sha256.Sum256(data) == k.Sum
}

// Ref returns the epoch and the keyset in the form of package remote.
func (k *Keys) Ref() remote.KeysetRef {
	return remote.KeysetRef{Epoch: k.Epoch.Number, Names: [2][16]byte{k.Keyset.Names[0], k.Keyset.Names[1]}}
}

// checkAfter returns an error if a later root cannot have the keys k after those of before, which
// the root numbered seq has. The epoch and the serial never fall.
func (k *Keys) checkAfter(before *Keys, seq uint64) error {
	switch {
	case k.Epoch.Number < before.Epoch.Number || k.Keyset.Serial < before.Keyset.Serial:
		return fmt.Errorf("its keys are older than those of %s", RootName(seq))
	case k.Epoch.Number == before.Epoch.Number && k.Epoch != before.Epoch,
		k.Epoch.Number > before.Epoch.Number && k.Epoch.Since <= seq,
		k.Keyset.Serial == before.Keyset.Serial && k.Keyset != before.Keyset:
		return fmt.Errorf("its keys contradict those of %s", RootName(seq))
	}
	return nil
}

type keysBody struct {
	Epoch  *epochBody        `cbor:"epoch,omitempty"`
	Keyset *keysetBody       `cbor:"keyset,omitempty"`
	Back   []cbor.ByteString `cbor:"back,omitempty"`
}

type epochBody struct {
	_      struct{} `cbor:",toarray"`
	Number uint32
	Since  uint64
}

type keysetBody struct {
	_             struct{} `cbor:",toarray"`
	Serial        uint64
	First, Second cbor.ByteString
	Size          uint64
	Sum           cbor.ByteString
}

// parseKeys decodes and checks the keys of root seq, and the hashes of earlier roots.
func (b *keysBody) parseKeys(seq uint64) (k Keys, err error) {
	if b.Epoch == nil && b.Keyset == nil && len(b.Back) == 0 {
		return k, nil
	}
	if b.Epoch == nil || b.Keyset == nil {
		return k, errors.New("an epoch without keyset, or the reverse")
	}

	k.Epoch = Epoch{b.Epoch.Number, b.Epoch.Since}
	if e := k.Epoch; e.Number == 0 || (e.Number == 1) != (e.Since == 0) || e.Since > seq {
		return k, fmt.Errorf("epoch %d since root %d", e.Number, e.Since)
	}
	s := b.Keyset
	if s.Serial == 0 || len(s.First) != len(k.Keyset.Names[0]) || len(s.Second) != len(s.First) || s.First == s.Second ||
		s.Size == 0 || s.Size > remote.MaxKeyset || len(s.Sum) != len(k.Keyset.Sum) {
		return k, errors.New("malformed keyset")
	}
	k.Keyset.Serial, k.Keyset.Size = s.Serial, int64(s.Size)
	copy(k.Keyset.Names[0][:], s.First)
	copy(k.Keyset.Names[1][:], s.Second)
	copy(k.Keyset.Sum[:], s.Sum)

	if len(b.Back) != backLen(seq) {
		return k, fmt.Errorf("%d hashes of earlier roots, want %d", len(b.Back), backLen(seq))
	}
	for _, text := range b.Back {
		if len(text) != len(Hash{}) {
			return k, errors.New("malformed hash of an earlier root")
		}
	}
	return k, nil
}

// hashes returns the hashes of earlier roots, whose lengths parseKeys has checked.
func (b *keysBody) hashes() (back []Hash) {
	for _, text := range b.Back {
		back = append(back, Hash([]byte(text)))
	}
	return back
}

// encodeKeys returns the keys of a root, and the hashes of earlier roots.
func encodeKeys(k Keys, back []Hash) (b keysBody) {
	if k == (Keys{}) {
		return b
	}
	b.Epoch = &epochBody{Number: k.Epoch.Number, Since: k.Epoch.Since}
	b.Keyset = &keysetBody{
		Serial: k.Keyset.Serial, First: cbor.ByteString(k.Keyset.Names[0][:]), Second: cbor.ByteString(k.Keyset.Names[1][:]),
		Size: uint64(k.Keyset.Size), Sum: cbor.ByteString(k.Keyset.Sum[:]),
	}
	for _, h := range back {
		b.Back = append(b.Back, cbor.ByteString(h[:]))
	}
	return b
}

// firstKeys returns the keys of a remote without a root. The size and the hash of the keyset are not
// set.
func (id *Identity) firstKeys() (k Keys) {
	if !id.IsEncrypted() {
		return k
	}
	k.Epoch.Number, k.Keyset.Serial = 1, 1
	for i, text := range id.Keysets {
		name, err := pack.ParseName(text)
		if err != nil {
			panic(err) // ParseIdentity has checked it
		}
		k.Keyset.Names[i] = name
	}
	return k
}

// prepareKeys makes the store use the keys of base, for the state files of next. It fills in the size and the
// hash of the first keyset, which kist.json does not have.
func (l *Log) prepareKeys(ctx context.Context, base, next *State) error {
	if err := l.useKeys(ctx, base.Keys); err != nil || base.Keys == (Keys{}) || next.Keys.Keyset.Size > 0 {
		return err
	}

	var copies [2][]byte
	g, gctx := errgroup.WithContext(ctx)
	for i, name := range next.Keys.Keyset.Copies() {
		g.Go(func() (err error) {
			copies[i], err = readTwice(func() ([]byte, error) { return readRecord(gctx, l.b, name, remote.MaxKeyset) }, func(data []byte) error {
				if len(data) == 0 || len(data) > remote.MaxKeyset {
					return errors.New("malformed length")
				}
				return nil
			})
			if errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) {
				err = damageError(name, err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if !bytes.Equal(copies[0], copies[1]) {
		return damageError(next.Keys.Keyset.Copies()[0], errors.New("the two copies of the keyset differ"))
	}
	next.Keys.Keyset.Size, next.Keys.Keyset.Sum = int64(len(copies[0])), sha256.Sum256(copies[0])
	return nil
}

// PutKeyset stores both copies of a new keyset, each under a new name. No root names them yet: see
// [Log.AppendKeyset].
func (l *Log) PutKeyset(ctx context.Context, serial uint64, data []byte) (Keyset, error) {
	names, err := putCopies(ctx, l.b, &l.o, data)
	return Keyset{Serial: serial, Names: names, Size: int64(len(data)), Sum: sha256.Sum256(data)}, err
}

// putCopies stores two copies of a keyset.
func putCopies(ctx context.Context, b remote.Backend, o *Options, data []byte) (names [2]pack.Name, err error) {
	if len(data) == 0 || len(data) > remote.MaxKeyset {
		return names, asInvalid(fmt.Errorf("a keyset of %d bytes, the limit is %d", len(data), remote.MaxKeyset))
	}
	for i := range names { // one after the other: a store that is full refuses the first
		if names[i], err = putNew(ctx, b, o, KeysetName, data); err != nil {
			return names, err
		}
	}
	return names, nil
}

// KeysetChange is a change that makes another keyset live, and condemns the one before.
type KeysetChange struct {
	Change

	// Keyset is stored already. Its serial is one more than that of the keyset from which it was
	// made.
	Keyset Keyset

	// NewEpoch begins an epoch with this root. The keyset has its key.
	NewEpoch bool

	// Start is the number of the head before the keyset was stored.
	Start uint64
}

// AppendKeyset is [Log.Append] for a change of keys. The error matches [ErrKeysetMoved] if base has another
// keyset than the one from which that of c was made: the caller makes it again. It matches
// [ErrReplan] or [ErrFloor] if the copies may be deleted, so that the caller stores them again.
//
// With a new epoch, AppendKeyset writes no state file: the key of an epoch is used only after a root
// has begun it (EPOCH_AFTER_ROOT), and a file with the key before would be readable to a removed
// recipient.
func (l *Log) AppendKeyset(ctx context.Context, base *State, c KeysetChange) (*State, error) {
	return l.appendChange(ctx, base, &c.Change, &c)
}

// changeKeys makes the keyset of k live, if k is not nil.
func (s *State) changeKeys(before *State, k *KeysetChange) error {
	s.Keys = before.Keys
	if k == nil {
		return nil
	}
	if before.Keys == (Keys{}) {
		return asInvalid(errors.New("the remote is not encrypted"))
	}

	// KEYSET_OF_HEAD: a change that another writer made meanwhile must not be lost.
	if k.Keyset.Serial != before.Keys.Keyset.Serial+1 {
		return ErrKeysetMoved
	}
	// A keyset follows the rules of all files (HEED_FLOOR, CONDEMNED_IS_FINAL).
	if k.Start < before.LeastStart() {
		return ErrFloor
	}
	for _, name := range k.Keyset.Copies() {
		if _, ok := before.Condemned[name]; ok {
			return ErrReplan
		}
		if slices.Contains(before.Keys.Keyset.Copies(), name) {
			return asInvalid(fmt.Errorf("%s is that of another keyset", name))
		}
	}

	for _, name := range before.Keys.Keyset.Copies() {
		s.condemned.entries[name] = encodeSeq(s.Seq)
	}
	s.Keys.Keyset = k.Keyset
	if k.NewEpoch {
		s.Keys.Epoch = Epoch{before.Keys.Epoch.Number + 1, s.Seq}
	}
	return nil
}

// LeastStart returns the least [Claim.Start] of files that a root after s may name: that of the floor
// (HEED_FLOOR), or the root that began the epoch (EPOCH_OF_HEAD).
func (s *State) LeastStart() uint64 { return max(s.Floor, s.Keys.Epoch.Since) }

// useKeys makes the store encrypt with the newest key of s.
func (l *Log) useKeys(ctx context.Context, k Keys) error {
	if k == (Keys{}) {
		return nil
	}
	return l.encrypter.UseKeyset(ctx, k.Ref())
}

// checkKeys checks that a root that was read has the keys of an encrypted remote, and was encrypted with
// them. On other remotes no root has keys.
func (l *Log) checkKeys(ctx context.Context, r *Root) error {
	if (r.Keys != Keys{}) != l.id.IsEncrypted() {
		return damageError(RootName(r.Seq), errors.New("it has keys, and kist.json has none, or the reverse"))
	}
	if !l.id.IsEncrypted() {
		return nil
	}
	used, err := l.encrypter.RootKeyset(ctx, RootName(r.Seq))
	if err != nil {
		return err
	}
	if used != r.Keys.Ref() {
		return damageError(RootName(r.Seq), errors.New("it was encrypted with other keys than it names"))
	}
	return nil
}

// The errors for a remote and a store that do not belong together.
var (
	// ErrNotEncrypted: the store encrypts, and kist.json is that of a remote in clear.
	ErrNotEncrypted = errors.New("the remote is not encrypted")

	// ErrEncrypted: the remote is encrypted, and was opened without keys.
	ErrEncrypted = errors.New("the remote is encrypted, and no key was given")
)

// fitting returns b, or a store that answers every call with an error if b encrypts and id is that of a
// remote in clear, or the reverse.
func fitting(b remote.Backend, id *Identity) remote.Backend {
	_, encrypts := remote.As[remote.Encrypter](b)
	switch {
	case encrypts && !id.IsEncrypted():
		return refusing{ErrNotEncrypted}
	case !encrypts && id.IsEncrypted():
		return refusing{ErrEncrypted}
	}
	return b
}
