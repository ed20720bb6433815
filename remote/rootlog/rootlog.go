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
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
func RootName(seq uint64) string { return fmt.Sprintf("%s%020d", rootFolder, seq) }

// The names on a remote. See docs/format/remote.md.
const (
	IdentityName = "kist.json"
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

// unknownFeatures returns an error that matches [ErrFormat] if the blob with this name
// requires features for an act that this program does not know.
func unknownFeatures(name string, act Act, features []string) error {
	if act != ActRead {
		features = slices.DeleteFunc(slices.Clone(features), func(name string) bool { return name == featureLost })
	}
	if len(features) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s asks for %q to %s", ErrFormat, name, strings.Join(features, ", "), act)
}

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
	Repository string   `json:"repository"` // id of the repository: 32 hexadecimal digits
	Remote     string   `json:"remote"`     // id of the remote: 32 random hexadecimal digits
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	GC         []string `json:"gc"`
	Chunker    Chunker  `json:"chunker"`

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
	var random [16]byte
	if _, err := io.ReadFull(rand, random[:]); err != nil {
		return nil, err
	}

	data, err := json.MarshalIndent(&Identity{
		Format: identityFormat, Version: identityVersion,
		Repository: repository, Remote: hex.EncodeToString(random[:]),
		Read: []string{}, Write: []string{}, GC: []string{}, Chunker: c,
	}, "", "  ")
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
