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

// Txid is the random number by which a writer knows its own root.
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

// Names on a remote, see docs/format/remote.md.
const (
	identityName = "kist.json"
	rootFolder   = "root/"
	stateFolder  = "state/"
	packFolder   = "packs/"
)

// maxSeq is more roots than a log will ever have; numbers above are not
// looked for.
const maxSeq = 1 << 62

// Options says how a log is used. The zero value of each field but Rand works.
type Options struct {
	// Rand gives names and transaction numbers; it must be unpredictable.
	Rand io.Reader

	// Cache is a folder for the state files of the head, of which others are
	// removed. It is made when it is needed, may be removed at any time, and
	// may be used by several processes. Files are verified when they are read.
	// What cannot be written there is read from the remote again. Empty: none.
	Cache string

	// Deadline is how long Append and Init try to get an answer; 0: five
	// minutes.
	Deadline time.Duration

	// Sleep waits between two tries, or until ctx ends. nil: with a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Log is the root log of a remote. It is safe for concurrent use.
type Log struct {
	b  remote.Backend
	id *Identity
	o  Options

	mu    sync.Mutex
	bases map[pack.Name]*base // of the head that was read last
}

// Open returns the log of the remote that id describes. It reads nothing. The
// backend stays the caller's to close.
func Open(b remote.Backend, id *Identity, o Options) *Log {
	return &Log{b: b, id: id, o: o.withDefaults()}
}

// Identity returns what the log was opened with.
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

// backOff waits before try n+1, the first try being 0: 50 ms, then twice as
// long each time, up to 10 s, of that a random part of at least half; or as
// long as the store asked for with the error of try n.
func (o *Options) backOff(ctx context.Context, n int, err error) error {
	wait := min(50*time.Millisecond<<min(n, 10), 10*time.Second)
	wait = wait/2 + rand.N(wait/2)
	return o.Sleep(ctx, max(wait, askedWait(err)))
}
