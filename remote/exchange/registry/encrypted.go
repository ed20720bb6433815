package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// ErrMade means that a store, which was to become an encrypted remote, is a remote already.
var ErrMade = errors.New("it is a remote already")

// MakeEncrypted makes an empty store an encrypted remote of r, which recipients can read. It returns m with the pin. For a
// store that is a remote already, the error matches ErrMade. The errors of keysets are those of
// [keyset.New] and [keyset.Keyset.Seal].
func MakeEncrypted(ctx context.Context, r *kist.Repository, m Remote, recipients []keyset.Recipient, plugins keyset.Plugins) (Remote, error) {
	backend, err := openBackend(ctx, r.Options(), m)
	if err != nil {
		return m, err
	}
	defer backend.Close()

	var made *keyset.Keyset
	// Not the repository's source of randomness, which a program can replace: the ID of the remote is part of all keys.
	id, err := rootlog.InitEncrypted(ctx, backend, func(remoteID string) ([]byte, error) {
		made, err = newKeyset(r, remoteID, recipients)
		if err != nil {
			return nil, err
		}
		file, err := made.Seal(plugins)
		if err != nil {
			return nil, err
		}
		return file.Bytes(), nil
	}, rand.Reader)
	if err != nil {
		return m, err
	}
	if made == nil || id.Remote != hex.EncodeToString(made.Remote[:]) {
		return m, fmt.Errorf("%q: %w", m.URL, ErrMade)
	}
	m.Encrypted = transfer.PinTo(made).String()
	return m, nil
}

// newKeyset returns the first keyset of a remote of r.
func newKeyset(r *kist.Repository, remoteID string, recipients []keyset.Recipient) (*keyset.Keyset, error) {
	var remote, repository [16]byte
	for _, id := range []struct {
		text string
		to   *[16]byte
	}{{remoteID, &remote}, {r.ID(), &repository}} {
		if n, err := hex.Decode(id.to[:], []byte(id.text)); err != nil || n != len(id.to) {
			return nil, fmt.Errorf("malformed ID %q", id.text)
		}
	}
	return keyset.New(remote, repository, r.Chunker().Params(), recipients...)
}

// notePin writes the pin of an encrypted remote to the configuration, unless it has one: from then on, no store can
// answer with a remote in clear. So it does not matter how the remote got its name and its URL.
func notePin(ctx context.Context, r *kist.Repository, m Remote, opened *transfer.Remote) error {
	if !opened.IsEncrypted() || m.Name == "" || m.Encrypted != "" {
		return nil
	}
	pin, err := opened.PinOf(ctx)
	if err != nil {
		return err
	}
	return r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(pin.String(), "remote", m.Name, "encrypted") })
}

// FindPin opens a remote that may be encrypted, and returns m with the pin of an encrypted one. For an empty store it returns m.
func FindPin(ctx context.Context, r *kist.Repository, m Remote) (Remote, error) {
	o, err := readOptions(r.Options(), m)
	if err != nil {
		return m, err
	}
	backend, err := openBackend(ctx, r.Options(), m)
	if err != nil {
		return m, err
	}
	opened, err := transfer.Open(ctx, backend, o)
	if err != nil {
		backend.Close()
		if errors.Is(err, rootlog.ErrEmpty) {
			err = nil
		}
		return m, err
	}
	defer opened.Close()
	if !opened.IsEncrypted() {
		return m, nil
	}
	pin, err := opened.PinOf(ctx)
	if err != nil {
		return m, err
	}
	m.Encrypted = pin.String()
	return m, nil
}
