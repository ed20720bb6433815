package rootlog

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
)

// overCrypt makes newLog open encrypted remotes. Only TestOverCrypt sets it: no test of this package is parallel.
var overCrypt bool

// onlyClear has the tests that TestOverCrypt does not run, with the reason.
var onlyClear = map[string]string{
	"TestSameBytes":                  "each attempt to create a root has a salt of its own; the root is the same",
	"TestHeadRequests":               "TestHeadRequestsOverCrypt",
	"TestChain":                      "it writes roots in clear; TestForks",
	"TestEndlessRoots":               "it answers with roots in clear",
	"TestRoots":                      "it writes roots in clear",
	"TestKistJSONIsPartOfTheChain":   "it writes kist.json of a remote in clear",
	"TestInit":                       "it is about remotes in clear; TestInitEncrypted",
	"TestInitRace":                   "it is about remotes in clear; TestInitEncrypted",
	"TestIdentityLate":               "it is about remotes in clear",
	"TestParseIdentity":              "it makes no remote",
	"TestFeatures":                   "it writes roots in clear",
	"TestLostList":                   "it measures roots in clear",
	"TestLostNames":                  "it makes no remote",
	"TestManyRecords":                "it measures roots in clear",
	"TestVectors":                    "it makes no remote",
	"TestUnknownFields":              "it writes roots in clear",
	"TestStubs":                      "it writes roots in clear",
	"TestOwnRootIsAStub":             "it writes roots in clear",
	"TestHostileRootsAllocateLittle": "it makes no remote",
	"TestTenThousandRefs":            "it counts state files and requests",
	"TestCache":                      "it counts reads",
	"TestStateFileUploads":           "it counts uploads",
	"TestClaim":                      "it makes no remote",
	"TestLive":                       "it makes no remote",
}

// TestOverCrypt runs the tests of this package again, with encrypted remotes.
func TestOverCrypt(t *testing.T) {
	overCrypt = true
	defer func() { overCrypt = false }()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"TestAppendFindsOut", TestAppendFindsOut},
		{"TestAppendLost", TestAppendLost},
		{"TestLateDuplicate", TestLateDuplicate},
		{"TestAppendUnknown", TestAppendUnknown},
		{"TestAppendRefused", TestAppendRefused},
		{"TestAppendWaitsForDamage", TestAppendWaitsForDamage},
		{"TestAppendRejects", TestAppendRejects},
		{"TestManyWriters", TestManyWriters},
		{"TestConfirm", TestConfirm},
		{"TestConfirmOfOthers", TestConfirmOfOthers},
		{"TestConfirmMany", TestConfirmMany},
		{"TestHead", TestHead},
		{"TestFirstContactDoesNotTrustLists", TestFirstContactDoesNotTrustLists},
		{"TestRollback", TestRollback},
		{"TestDamagedRoots", TestDamagedRoots},
		{"TestHeadWithoutAnswers", TestHeadWithoutAnswers},
		{"TestDamagedInTransit", TestDamagedInTransit},
		{"TestRootsAhead", TestRootsAhead},
		{"TestLockIsRecorded", TestLockIsRecorded},
		{"TestImplausibleRecord", TestImplausibleRecord},
		{"TestDamagedStateFile", TestDamagedStateFile},
		{"TestStateFileGoneMeanwhile", TestStateFileGoneMeanwhile},
		{"TestChanges", TestChanges},
	} {
		if reason, ok := onlyClear[test.name]; ok {
			t.Errorf("%s runs over an encrypted store, and there is a reason against that: %s", test.name, reason)
		}
		t.Run(test.name, test.run)
	}
}

const keysetMagic = "keyset of a test\n"

// testKey returns a key of an epoch.
func testKey(first byte) []byte { return bytes.Repeat([]byte{first}, crypt.KeySize) }

// keysetOf returns a keyset with these keys. Tests need no recipients: everybody can read it.
func keysetOf(keys ...[]byte) []byte {
	return append([]byte(keysetMagic), bytes.Join(keys, nil)...)
}

func parseKeyset(id *Identity, data []byte) (*crypt.Keys, error) {
	keys := &crypt.Keys{}
	if _, err := hex.Decode(keys.Remote[:], []byte(id.Remote)); err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(data, []byte(keysetMagic))
	if !ok || len(rest)%crypt.KeySize != 0 {
		return nil, errors.New("malformed keyset")
	}
	for ; len(rest) > 0; rest = rest[crypt.KeySize:] {
		key, err := crypt.ParseKey(rest[:crypt.KeySize])
		if err != nil {
			return nil, err
		}
		keys.Epochs = append(keys.Epochs, key)
	}
	return keys, nil
}

// initEncrypted makes b an encrypted remote, if it is none. The keyset of a test has no repository.
func initEncrypted(ctx context.Context, b remote.Backend, _ string, _ Chunker, rand io.Reader) (*Identity, error) {
	return InitEncrypted(ctx, b, func(string) ([]byte, error) { return keysetOf(testKey(1)), nil }, rand)
}

// openCrypt returns a store over b that knows no key, and reads keysets.
func openCrypt(t testing.TB, b remote.Backend, id *Identity) *crypt.Store {
	t.Helper()
	none, err := parseKeyset(id, []byte(keysetMagic))
	if err != nil {
		t.Fatal(err)
	}
	return crypt.New(b, crypt.Options{Keys: none, Load: func(ctx context.Context, names [2][16]byte) (*crypt.Keys, error) {
		data, err := readRecord(ctx, b, KeysetName(names[0]), remote.MaxKeyset)
		if err != nil {
			data, err = readRecord(ctx, b, KeysetName(names[1]), remote.MaxKeyset)
		}
		if err != nil {
			return nil, err
		}
		return parseKeyset(id, data)
	}})
}
