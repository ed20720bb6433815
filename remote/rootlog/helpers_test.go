package rootlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
)

var (
	ctx     = context.Background()
	noon    = time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)
	chunker = Chunker{Polynomial: "0x3da3358b4dc173", Min: 64 << 10, Average: 256 << 10, Max: 2 << 20}
)

const repositoryID = "000102030405060708090a0b0c0d0e0f"

// random returns the same bytes in every run.
type random struct {
	mu  sync.Mutex
	rng *rand.ChaCha8
}

func newRandom(seed string) io.Reader {
	return &random{rng: rand.NewChaCha8(sha256.Sum256([]byte(seed)))}
}

func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.Read(p)
}

// noWait returns at once, with the error of the context.
func noWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// newLog opens the log of b. It makes b a remote if it is none.
func newLog(t testing.TB, b remote.Backend) *Log {
	t.Helper()
	return newLogWith(t, b, Options{})
}

func newLogWith(t testing.TB, b remote.Backend, o Options) *Log {
	t.Helper()
	o.Rand, o.Sleep = newRandom(t.Name()), noWait
	start := Init
	if overCrypt {
		start = initEncrypted
	}
	id, err := start(ctx, b, repositoryID, chunker, o.Rand)
	if err != nil {
		t.Fatal(err)
	}
	return reopen(t, b, id, o)
}

// reopen opens the log of a remote.
func reopen(t testing.TB, b remote.Backend, id *Identity, o Options) *Log {
	t.Helper()
	if id.IsEncrypted() {
		b = openCrypt(t, b, id)
	}
	return Open(b, id, o)
}

func commit(n int) object.Key {
	return object.Key{Kind: object.KindCommit, ID: object.Sum(fmt.Append(nil, "commit ", n))}
}

func name(n int) pack.Name {
	sum := sha256.Sum256(fmt.Append(nil, "name ", n))
	return pack.Name(sum[:16])
}

// inline returns pack n, with entries of its own.
func inline(n, objects int) Inline {
	p := Inline{Info: pack.Info{Name: name(n), Size: 8 << 20}}
	for i := range objects {
		key := object.Key{Kind: object.KindTree, ID: object.Sum(fmt.Append(nil, n, i))}
		p.Entries = append(p.Entries, pack.Entry{Key: key, Pack: p.Info, Offset: uint32(remote.HeaderSize + 100*i), Stored: 100, Raw: 100})
	}
	data := pack.AppendEntries(nil, p.Entries)
	var err error
	if p.Entries, err = pack.ParseEntries(p.Info, data); err != nil {
		panic(err)
	}
	return p
}

func indexFile(n int) File {
	return File{Name: name(n), Size: int64(1000 + n), Sum: sha256.Sum256(fmt.Append(nil, n))}
}

// move returns a change that moves one branch. Commit 0 stands for no commit.
func move(branch string, from, to int) Change {
	c := Change{Who: "Ann <ann@example.org>", Host: "attic", Time: noon}
	r := RefChange{Name: "refs/heads/" + branch}
	if from > 0 {
		r.Old = commit(from)
	}
	if to > 0 {
		r.New = commit(to)
	}
	c.Refs = []RefChange{r}
	return c
}

func mustHead(t testing.TB, l *Log, remembered *Position) *State {
	t.Helper()
	s, err := l.Head(ctx, remembered)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustAppend(t testing.TB, l *Log, s *State, c Change) *State {
	t.Helper()
	next, err := l.Append(ctx, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// grow appends n roots. Each moves main to the next commit.
func grow(t testing.TB, l *Log, n int) *State {
	t.Helper()
	s := mustHead(t, l, nil)
	for range n {
		s = mustAppend(t, l, s, move("main", int(s.Seq), int(s.Seq)+1))
	}
	return s
}

func wantDamage(t testing.TB, err error, name string) {
	t.Helper()
	var damage *object.DamageError
	if !errors.As(err, &damage) || damage.Name != name || !errors.Is(err, object.ErrCorrupt) || !errors.Is(err, remote.ErrDamaged) {
		t.Errorf("error %v, want a DamageError of %s", err, name)
	}
}

// temporary returns a fault at the n-th call of op for a root. The caller cannot know
// its outcome.
func temporary(op remotetest.Op, how remotetest.How, n int) remotetest.Fault {
	return remotetest.Fault{Op: op, Name: RootFolder, N: n, How: how}
}
