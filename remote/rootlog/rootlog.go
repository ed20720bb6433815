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
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
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

// String returns the number as 32 lower-case hexadecimal digits.
func (t Txid) String() string { return hex.EncodeToString(t[:]) }

// Position names a root: its number, and the hash of its stored bytes.
// Number 0 stands for kist.json, which the first root follows.
type Position struct {
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
}

// RootName returns the name of a root on the remote.
func RootName(seq uint64) string { return fmt.Sprintf("%s%020d", rootFolder, seq) }

// The names on a remote. See docs/format/remote.md.
const (
	identityName = "kist.json"
	rootFolder   = "root/"
	stateFolder  = "state/"
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

	// Sleep waits between two tries, or until ctx ends. If nil, a timer is used.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Log is the root log of a remote. It is safe for concurrent use.
type Log struct {
	b  remote.Backend
	id *Identity
	o  Options

	mu    sync.Mutex
	bases map[pack.Name]*base // of the last head that was read
}

// Open returns the log of the remote with the given identity. It reads nothing. The
// caller closes the backend.
func Open(b remote.Backend, id *Identity, o Options) *Log {
	return &Log{b: b, id: id, o: o.withDefaults()}
}

// Identity returns the identity of the remote.
func (l *Log) Identity() *Identity { return l.id }

func (o Options) withDefaults() Options {
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Minute
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// backOff waits between try n, which ended with err, and try n+1. It waits for a random
// time between half of and the full 50 ms, twice as long for each later try, and at most
// 10 s; or longer if the store asked for it.
func (o *Options) backOff(ctx context.Context, n int, err error) error {
	wait := min(50*time.Millisecond<<min(n, 10), 10*time.Second)
	wait = wait/2 + rand.N(wait/2)
	return o.Sleep(ctx, max(wait, askedWait(err)))
}
