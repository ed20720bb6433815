package transfertest

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// overCrypt is the test that runs others again, as its subtests.
const overCrypt = "TestOverCrypt/"

// IsOverCrypt reports whether the remotes of a test are encrypted. They are in the subtests of TestOverCrypt.
func IsOverCrypt(t testing.TB) bool { return strings.HasPrefix(t.Name(), overCrypt) }

// repositoryID is the ID of the repository that all tests push from.
const repositoryID = "00112233445566778899aabbccddeeff"

// Recipient is the name of the recipient of encrypted remotes of tests.
const Recipient = "tester"

// identity is that of the recipient of all encrypted remotes.
var identity = sync.OnceValues(keyset.NewIdentity)

// NewEncrypted returns a store in memory with an empty encrypted remote.
func NewEncrypted(t testing.TB) *remotetest.Memory {
	t.Helper()
	b := remotetest.NewMemory()
	initEncrypted(t, b)
	return b
}

// Init makes a store a remote: an encrypted one in the subtests of TestOverCrypt.
func Init(t testing.TB, b remote.Backend) {
	t.Helper()
	if IsOverCrypt(t) {
		initEncrypted(t, b)
		return
	}
	if _, err := rootlog.Init(t.Context(), b, repositoryID, rootlog.Chunker{}, testRand()); err != nil {
		t.Fatal(err)
	}
}

func initEncrypted(t testing.TB, b remote.Backend) {
	t.Helper()
	key, err := identity()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rootlog.InitEncrypted(t.Context(), b, func(remoteID string) ([]byte, error) {
		var id, repository [16]byte
		for text, to := range map[string]*[16]byte{remoteID: &id, repositoryID: &repository} {
			if _, err := hex.Decode(to[:], []byte(text)); err != nil {
				return nil, err
			}
		}
		made, err := keyset.New(id, repository, chunker.Params{Polynomial: 0x3da3358b4dc173, Min: 64 << 10, Avg: 256 << 10, Max: 2 << 20},
			keyset.Recipient{Name: Recipient, Key: key.Recipient(), Added: time.Unix(1_700_000_000, 0).UTC()})
		if err != nil {
			return nil, err
		}
		file, err := made.Seal(keyset.Plugins{})
		if err != nil {
			return nil, err
		}
		return file.Bytes(), nil
	}, testRand())
	if err != nil {
		t.Fatal(err)
	}
}

// Keys returns the keys that open the encrypted remotes of tests.
func Keys(t testing.TB) transfer.Keys {
	t.Helper()
	key, err := identity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "identities")
	if err := os.WriteFile(path, key.File(time.Unix(1_700_000_000, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	return transfer.Keys{Identities: keyset.NewIdentities(keyset.Places{Own: path})}
}

// guarded returns b. If the remotes of the test are encrypted, nothing may come there in clear.
func guarded(t testing.TB, b remote.Backend) remote.Backend {
	if IsOverCrypt(t) {
		return remotetest.NewGuard(t, b)
	}
	return b
}
