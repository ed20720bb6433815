package rootlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// Chunker has the parameters by which the repository of a remote cuts files into chunks.
type Chunker struct {
	Polynomial string `json:"polynomial"` // hexadecimal, with 0x
	Min        int    `json:"min"`        // bytes
	Average    int    `json:"average"`    // bytes
	Max        int    `json:"max"`        // bytes
}

// Identity is the content of kist.json. It is created once and never changed.
type Identity struct {
	Format     string   `json:"format"`
	Version    int      `json:"version"`
	Repository string   `json:"repository"` // id of the repository: 32 hexadecimal digits; zeros if it is encrypted
	Remote     string   `json:"remote"`     // id of the remote: 32 random hexadecimal digits
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	GC         []string `json:"gc"`
	Chunker    Chunker  `json:"chunker,omitzero"`
	Keysets    []string `json:"keysets,omitempty"` // if it is encrypted: the names of the copies of the first keyset

	Hash Hash `json:"-"` // of the stored bytes

	stored []byte
}

const (
	identityFormat  = "kist remote"
	identityVersion = 1
	maxIdentity     = 64 << 10
)

// Stored returns the bytes of kist.json, with all unknown fields. The caller must not
// change them.
func (id *Identity) Stored() []byte { return id.stored }

// noRepository stands for the ID of the repository of an encrypted remote: programs that do not know
// encrypted remotes check IDs before features.
const noRepository = "00000000000000000000000000000000"

// IsEncrypted reports whether the remote is encrypted. Then its keyset has Repository and Chunker, and kist.json
// does not: see [Identity.WithKeyset].
func (id *Identity) IsEncrypted() bool { return slices.Contains(id.Read, featureEncrypted) }

// WithKeyset returns a copy of the identity of an encrypted remote with values from its keyset, so that callers
// find them where those of other remotes are.
func (id *Identity) WithKeyset(repository string, c Chunker) *Identity {
	opened := *id
	opened.Repository, opened.Chunker = repository, c
	return &opened
}

// checkEncrypted checks the fields that differ between encrypted remotes and others.
func (id *Identity) checkEncrypted() error {
	if !slices.Contains(slices.Concat(id.Read, id.Write, id.GC), featureEncrypted) {
		if len(id.Keysets) > 0 {
			return errors.New("keysets of a remote that is not encrypted")
		}
		return nil
	}
	for _, features := range [][]string{id.Read, id.Write, id.GC} {
		if !slices.Contains(features, featureEncrypted) {
			return errors.New("not all features have encryption")
		}
	}
	if id.Repository != noRepository || id.Chunker != (Chunker{}) {
		return errors.New("an encrypted remote that shows its repository")
	}
	if len(id.Keysets) != 2 || id.Keysets[0] == id.Keysets[1] || !isHexID(id.Keysets[0]) || !isHexID(id.Keysets[1]) {
		return errors.New("malformed names of keysets")
	}
	return nil
}

// ParseIdentity decodes kist.json and keeps a copy of its bytes. The error is a
// [*object.DamageError], or matches [ErrFormat] if reading from the remote needs a newer
// program.
func ParseIdentity(data []byte) (*Identity, error) {
	id := &Identity{Hash: sha256.Sum256(data), stored: slices.Clone(data)}
	err := json.Unmarshal(data, id)
	switch {
	case err != nil:
	case len(data) > maxIdentity:
		err = fmt.Errorf("longer than %d bytes", maxIdentity)
	case id.Format != identityFormat || id.Version < 1:
		err = errors.New("not that of a kist remote")
	case id.Version > identityVersion:
		return nil, fmt.Errorf("%s: %w: version %d", IdentityName, ErrFormat, id.Version)
	case !isHexID(id.Repository) || !isHexID(id.Remote):
		err = errors.New("malformed id")
	default:
		err = checkFeatures(id.Read, id.Write, id.GC)
	}
	if err != nil {
		return nil, damageError(IdentityName, err)
	}
	if err := unknownFeatures(IdentityName, ActRead, id.Read); err != nil {
		return nil, err
	}
	if err := id.checkEncrypted(); err != nil {
		return nil, damageError(IdentityName, err)
	}
	return id, nil
}

func isHexID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16 && hex.EncodeToString(b) == s
}

// ReadIdentity reads kist.json. It returns [ErrEmpty] if the store is no kist remote,
// and the errors of [ParseIdentity] and of the store.
//
// The file has no checksum, so ReadIdentity reads it twice at once. If the answers
// differ, it reads a third time.
func ReadIdentity(ctx context.Context, b remote.Backend) (*Identity, error) {
	var data [2][]byte
	group, gctx := errgroup.WithContext(ctx)
	for i := range data {
		group.Go(func() (err error) {
			data[i], err = readRecord(gctx, b, IdentityName, maxIdentity)
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, remote.ErrNotFound) {
		return lateIdentity(ctx, b)
	}
	if errors.Is(err, remote.ErrDamaged) || err == nil && !bytes.Equal(data[0], data[1]) {
		data[0], err = readRecord(ctx, b, IdentityName, maxIdentity)
	}
	if err != nil {
		return nil, err
	}
	return ParseIdentity(data[0])
}

// lateIdentity reads kist.json, which was missing. It returns [ErrEmpty] for an empty store,
// and a [*object.DamageError] for a remote without kist.json. If another process has made the
// remote meanwhile, it reads again.
func lateIdentity(ctx context.Context, b remote.Backend) (*Identity, error) {
	what, err := describeTraces(ctx, b)
	if err != nil {
		return nil, err
	}
	if what == "" {
		return nil, ErrEmpty
	}

	// kist.json comes before everything else, so that it is there by now.
	switch _, err := b.Stat(ctx, IdentityName); {
	case errors.Is(err, remote.ErrNotFound):
		return nil, damageError(IdentityName, fmt.Errorf("it is gone, and there %s", what))
	case err != nil:
		return nil, err
	}
	return ReadIdentity(ctx, b)
}

// describeTraces describes the content of a store without kist.json, or returns "".
func describeTraces(ctx context.Context, b remote.Backend) (string, error) {
	_, err := b.Stat(ctx, RootName(1))
	if err == nil {
		return "is " + RootName(1), nil
	}
	if !errors.Is(err, remote.ErrNotFound) {
		return "", err
	}

	there, err := hasPacks(ctx, b)
	if err != nil || !there {
		return "", err
	}
	return "are packs", nil
}

// CheckNoPacks returns a [*object.DamageError] that matches [ErrNoRoots] if a store without
// roots has packs.
func CheckNoPacks(ctx context.Context, b remote.Backend) error {
	there, err := hasPacks(ctx, b)
	if err != nil || !there {
		return err
	}
	return damageError(RootName(1), ErrNoRoots)
}

// hasPacks reports whether a store has a pack. It reads the first names of a listing.
func hasPacks(ctx context.Context, b remote.Backend) (bool, error) {
	n := 0
	for info, err := range b.List(ctx, packFolder) {
		if err != nil {
			return false, err
		}
		if _, ok := pack.ParsePath(info.Name); ok {
			return true, nil
		}
		if n++; n == listed {
			break
		}
	}
	return false, nil
}

// Init makes a store a remote of a repository, whose id has 32 hexadecimal digits. If
// the store is a remote already, of any repository, Init returns its identity and
// changes nothing. Rand must be unpredictable. The errors are those of [ReadIdentity]
// and [*UnknownError].
func Init(ctx context.Context, b remote.Backend, repository string, c Chunker, rand io.Reader) (*Identity, error) {
	if id, err := ReadIdentity(ctx, b); !errors.Is(err, ErrEmpty) {
		return id, err
	}
	remoteID, err := newRemoteID(rand)
	if err != nil {
		return nil, err
	}
	return createIdentity(ctx, b, rand, &Identity{
		Repository: repository, Remote: remoteID, Read: []string{}, Write: []string{}, GC: []string{}, Chunker: c,
	})
}

// InitEncrypted makes a store an encrypted remote. Keyset returns the first keyset of the remote with an ID. If the
// store is a remote already, InitEncrypted returns its identity and changes nothing. If another process makes it a
// remote at the same time, it returns the identity of that; its own keyset is then of no use. The
// errors are those of [Init].
func InitEncrypted(ctx context.Context, b remote.Backend, keyset func(remoteID string) ([]byte, error), rand io.Reader) (*Identity, error) {
	if id, err := ReadIdentity(ctx, b); !errors.Is(err, ErrEmpty) {
		return id, err
	}
	remoteID, err := newRemoteID(rand)
	if err != nil {
		return nil, err
	}
	data, err := keyset(remoteID)
	if err != nil {
		return nil, err
	}

	// Whoever reads kist.json finds the keyset. Until then, nothing names it.
	o := Options{Rand: rand}.withDefaults()
	names, err := putCopies(ctx, b, &o, data)
	if err != nil {
		return nil, err
	}
	features := []string{featureEncrypted}
	return createIdentity(ctx, b, rand, &Identity{
		Repository: noRepository, Remote: remoteID, Read: features, Write: features, GC: features,
		Keysets: []string{names[0].String(), names[1].String()},
	})
}

func newRemoteID(rand io.Reader) (string, error) {
	var random [16]byte
	_, err := io.ReadFull(rand, random[:])
	return hex.EncodeToString(random[:]), err
}

// createIdentity creates kist.json if it is absent, and returns the stored one.
func createIdentity(ctx context.Context, b remote.Backend, rand io.Reader, id *Identity) (*Identity, error) {
	id.Format, id.Version = identityFormat, identityVersion
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if _, err := ParseIdentity(data); err != nil {
		return nil, err
	}

	r := creation{b: b, o: Options{Rand: rand}.withDefaults(), name: IdentityName, data: data, limit: maxIdentity, readable: func(data []byte) bool {
		_, err := ParseIdentity(data)
		return err == nil || errors.Is(err, ErrFormat)
	}}
	stored, err := r.createRecord(ctx)
	if err != nil {
		return nil, err
	}
	return ParseIdentity(stored)
}
