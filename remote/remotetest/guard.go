package remotetest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// Guard passes calls on to the store of an encrypted remote. Every pack, index file, root and state
// file must arrive encrypted: anything else fails the test, and nothing is stored.
type Guard struct {
	remote.Backend
	t testing.TB
}

// NewGuard returns b with a guard.
func NewGuard(t testing.TB, b remote.Backend) *Guard { return &Guard{b, t} }

// Unwrap returns the backend without a guard. All methods that write are those of the guard.
func (g *Guard) Unwrap() remote.Backend { return g.Backend }

// encryptedHeader is the beginning of an encrypted blob, with 0 for its type.
const encryptedHeader = remote.HeaderMagic + "\x00\x01\x01\x00"

// check complains about the first bytes of a blob that is not encrypted.
func (g *Guard) check(op Op, name string, first []byte) error {
	folder, _, inFolder := strings.Cut(name, "/")
	t := map[string]remote.Type{"packs": remote.TypePack, "index": remote.TypeIndex, "root": remote.TypeRoot, "state": remote.TypeState}[folder]
	if t == 0 || !inFolder {
		return nil
	}
	want := []byte(encryptedHeader)
	want[len(remote.HeaderMagic)] = byte(t)
	if bytes.HasPrefix(first, want) {
		return nil
	}
	g.t.Errorf("%s %q: the blob comes in clear, or has another type: %q", op, name, first[:min(len(first), len(want))])
	return &remote.Error{Op: op.String(), Name: name, Kind: remote.ErrPermission}
}

// Put implements [remote.Blobs].
func (g *Guard) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	first := make([]byte, len(encryptedHeader))
	n, _ := body.ReadAt(first, 0)
	if err := g.check(Put, name, first[:n]); err != nil {
		return err
	}
	return g.Backend.Put(ctx, name, body, size)
}

// Create implements [remote.Creator].
func (g *Guard) Create(ctx context.Context, name string, data []byte) error {
	if err := g.check(Create, name, data); err != nil {
		return err
	}
	return g.Backend.Create(ctx, name, data)
}

// Replace implements [remote.Replacer].
func (g *Guard) Replace(ctx context.Context, name string, data []byte) error {
	if err := g.check(Create, name, data); err != nil {
		return err
	}
	r, ok := remote.As[remote.Replacer](g.Backend)
	if !ok {
		return &remote.Error{Op: "replace", Name: name, Kind: remote.ErrUnsupported}
	}
	return r.Replace(ctx, name, data)
}
