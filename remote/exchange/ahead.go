package exchange

import (
	"bytes"
	"context"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// EarlyPush sends the new chunks of a session to a remote before [Push] sends the rest. It
// opens the remote only after the first aheadAfter bytes, so that a small backup makes no
// more requests than without. It is safe for concurrent use.
type EarlyPush struct {
	Repo   *kist.Repository
	Remote string
	Jobs   int // packs that are sent at once; 0: the default of package transfer

	mu      sync.Mutex    // guards the following
	seen    int           // bytes of stored values
	waiting []storedChunk // for the remote to be open; together at most maxWaiting bytes
	opening chan struct{} // closed when the remote is open, or cannot be opened; nil: not begun
	opened  *transfer.Remote
	sending *transfer.EarlyPacks
	sent    int64 // bytes that the ended sending sent
}

// storedChunk is a chunk of raw bytes and its stored value.
type storedChunk struct {
	key   object.Key
	value []byte
	raw   int
}

const (
	aheadAfter = 8 << 20  // bytes of stored values; if there are no more, the push sends them
	maxWaiting = 32 << 20 // bytes of stored values that wait; the push sends later ones
)

// Add sends the stored value of a new object if it is a chunk. Values that arrive before
// the remote is open wait in memory. Add copies value, and waits while the packs before are
// being sent. Ctx ends the sending, also later.
func (a *EarlyPush) Add(ctx context.Context, key object.Key, value []byte, raw int) {
	if key.Kind != object.KindChunk {
		return
	}
	sending, waited := a.begin(ctx, storedChunk{key, value, raw})
	if sending == nil {
		return
	}
	for _, c := range waited {
		sending.Add(ctx, c.key, c.value, c.raw)
	}
	sending.Add(ctx, key, value, raw)
}

// begin returns where c is sent, and the chunks to send before it. It returns nil if the
// remote is not open: then c waits, or is left to the push.
func (a *EarlyPush) begin(ctx context.Context, c storedChunk) (*transfer.EarlyPacks, []storedChunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen += len(c.value)
	if a.opening == nil && a.seen > aheadAfter {
		a.opening = make(chan struct{})
		go a.open(ctx, a.opening)
	}

	if a.sending == nil {
		if a.seen <= maxWaiting {
			c.value = bytes.Clone(c.value)
			a.waiting = append(a.waiting, c)
		}
		return nil, nil
	}
	waited := a.waiting
	a.waiting = nil
	return a.sending, waited
}

// open opens the remote. After an error, the push sends everything, and reports it.
func (a *EarlyPush) open(ctx context.Context, opening chan struct{}) {
	defer close(opening)
	m, err := registry.Find(a.Repo, a.Remote)
	if err != nil {
		return
	}
	opened, err := registry.Open(ctx, a.Repo, m, true)
	if err != nil {
		return
	}
	sending, err := transfer.SendAhead(ctx, opened, a.Jobs)
	if err != nil {
		opened.Close()
		return
	}
	a.mu.Lock()
	a.opened, a.sending = opened, sending
	a.mu.Unlock()
}

// end waits until all packs are sent. It returns the remote for a push, nil if nothing was
// sent. The caller closes the remote. The next Add begins again.
func (a *EarlyPush) end(ctx context.Context) *transfer.Remote {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	opening := a.opening
	a.mu.Unlock()
	if opening != nil {
		<-opening
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	opened := a.opened
	if opened != nil {
		for _, c := range a.waiting {
			a.sending.Add(ctx, c.key, c.value, c.raw)
		}
		a.sending.End(ctx)
		a.sent = a.sending.Sent()
	}
	a.opened, a.sending, a.opening, a.waiting = nil, nil, nil, nil
	return opened
}

// Sent returns the number of bytes that were sent before the latest push or Close.
func (a *EarlyPush) Sent() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// Close ends the sending without a push. The next push uses the sent packs.
func (a *EarlyPush) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if opened := a.end(ctx); opened != nil {
		opened.Close()
	}
}
