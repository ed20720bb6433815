// Package rootlog has the changeable state of a remote: a log of numbered roots.
// Each root is created at most once, by the first writer. The last root, the head,
// names the refs and the live packs of the remote. Package rootlog finds the head,
// detects a remote that was rolled back, appends roots, and checks the rules under
// which a writer may append.
//
// docs/format/remote.md describes the protocol, docs/format/rootlog.md the form of
// roots and state files. Words in capitals, as in RELY_ON_ALL_LIVE, name rules of
// the protocol. The model in remote/rootlog/model shows that each is necessary.
package rootlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
)

// Hash is the SHA-256 of the stored bytes of a root or of kist.json.
type Hash [sha256.Size]byte

// String returns the hash as 64 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("hash %q: want %d hexadecimal digits", text, hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Txid is a random number by which a writer recognises its own root.
type Txid [16]byte

// Position names a root: its number, and the hash of its stored bytes.
// Number 0 stands for kist.json, which the first root follows.
type Position struct {
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
}

// RootName returns the name of a root on the remote.
func RootName(seq uint64) string { return fmt.Sprintf("%s%020d", RootFolder, seq) }

// The names on a remote. See docs/format/remote.md.
const (
	IdentityName = "kist.json"
	RootFolder   = "root/"
	stateFolder  = "state/"
	keysFolder   = "keys/"
	packFolder   = "packs/"
)

// maxSeq is the largest number of a root. No log will ever have as many.
const maxSeq = 1 << 62

// Options configure a log. Every field except Rand may be zero.
type Options struct {
	// Rand is the source of names and transaction numbers. It must be unpredictable.
	Rand io.Reader

	// Cache is a directory for copies of the head and of its state files; "" stands
	// for no cache. The log makes the directory when it needs it. Several processes
	// may use it, and it may be removed at any time. Every read verifies the file.
	Cache string

	// Deadline is the longest time that Append and Init wait for an answer. Zero
	// stands for five minutes.
	Deadline time.Duration

	Sign Signing

	// Sleep waits between two tries, or until ctx ends. If nil, a timer is used.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Log is the root log of a remote. It is safe for concurrent use.
type Log struct {
	b  remote.Backend
	id *Identity
	o  Options

	encrypter remote.Encrypter // of an encrypted remote

	mu    sync.Mutex
	bases map[pack.Name]*base // of the last head that was read
}

// Open returns the log of the remote with the given identity. It reads nothing. The
// caller closes the backend.
//
// An encrypted remote needs a backend that is a [remote.Encrypter]. If the two do not belong together,
// each call of the log returns an error that matches [ErrEncrypted] or [ErrNotEncrypted].
func Open(b remote.Backend, id *Identity, o Options) *Log {
	l := &Log{b: fitting(b, id), id: id, o: o.withDefaults()}
	l.encrypter, _ = remote.As[remote.Encrypter](l.b)
	return l
}

func (o Options) withDefaults() Options {
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Minute
	}
	if o.Sleep == nil {
		o.Sleep = retry.Sleep
	}
	return o
}

// backOff waits between try n, which ended with err, and try n+1. It waits for a random
// time between half of and the full 50 ms, twice as long for each later try, and at most
// 10 s; or longer if the store asked for it.
func (o *Options) backOff(ctx context.Context, n int, err error) error {
	wait := min(50*time.Millisecond<<min(n, 10), 10*time.Second)
	wait = wait/2 + rand.N(wait/2)
	if e, ok := errors.AsType[*remote.Error](err); ok {
		wait = max(wait, e.Wait)
	}
	return o.Sleep(ctx, wait)
}

// Act is a way to use a remote.
type Act string

// The acts. A remote has a list of required features for each.
const (
	ActRead  Act = "read"
	ActWrite Act = "write"
	ActGC    Act = "collect garbage"
)

// featureLost is the feature of a remote with a list of lost objects. Without the
// list, a writer would rely on missing objects.
const featureLost = "lost"

// featureSigned is the feature of a remote whose roots are all signed: a writer that does not know
// signatures would append a root without one.
const featureSigned = "signed"

// featureEncrypted is the feature in kist.json of an encrypted remote.
const featureEncrypted = "encrypted"

// unknownFeatures returns an error that matches [ErrFormat] if the blob with this name
// requires features for an act that this program does not know.
func unknownFeatures(name string, act Act, features []string) error {
	features = slices.DeleteFunc(slices.Clone(features), func(feature string) bool {
		switch feature {
		case featureLost:
			return act != ActRead
		case featureSigned:
			return act == ActWrite
		case featureEncrypted:
			return name == IdentityName
		}
		return false
	})
	if len(features) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s asks for %q to %s", ErrFormat, name, strings.Join(features, ", "), act)
}
