package tracking

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Ahead sends the new chunks of a session to a remote before [Push] sends the rest. It
// opens the remote only after the first aheadAfter bytes, so that a small backup makes no
// more requests than without. It is safe for concurrent use.
type Ahead struct {
	Repo   *kist.Repository
	Remote string
	Jobs   int // packs that are sent at once; 0: the default of package transfer

	mu      sync.Mutex // guards the following
	seen    int        // bytes of stored values
	failed  bool       // the remote could not be opened, or the sender was closed
	opened  *transfer.Remote
	sending *transfer.Ahead
	sent    int64 // bytes that the ended sending sent
}

// aheadAfter is the number of bytes of stored values that are left to the push.
const aheadAfter = 8 << 20

// Add sends the stored value of a new object if it is a chunk. It copies value.
func (a *Ahead) Add(ctx context.Context, key object.Key, value []byte, raw int) {
	if key.Kind != object.KindChunk {
		return
	}
	if sending := a.begin(ctx, len(value)); sending != nil {
		sending.Add(ctx, key, value, raw)
	}
}

// begin returns where a value of n bytes is sent, nil if it is left to the push.
func (a *Ahead) begin(ctx context.Context, n int) *transfer.Ahead {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen += n
	if a.sending != nil || a.failed || a.seen <= aheadAfter {
		return a.sending
	}
	m, err := registry.Find(a.Repo, a.Remote)
	if err == nil {
		a.opened, err = registry.Open(ctx, a.Repo, m, true)
	}
	if err == nil {
		if a.sending, err = transfer.SendAhead(ctx, a.opened, a.Jobs); err != nil {
			a.opened.Close()
		}
	}
	if a.failed = err != nil; a.failed {
		a.opened = nil // the push reports why
	}
	return a.sending
}

// end waits until all packs are sent. It returns the remote for a push, nil if nothing was
// sent. The caller closes the remote. The next Add begins again.
func (a *Ahead) end(ctx context.Context) *transfer.Remote {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	opened := a.opened
	if opened != nil {
		a.sending.End(ctx)
		a.sent = a.sending.Sent()
	}
	a.opened, a.sending = nil, nil
	return opened
}

// Sent returns the number of bytes that were sent before the latest push or Close.
func (a *Ahead) Sent() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// Close ends the sending without a push. The next push uses the sent packs.
func (a *Ahead) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if opened := a.end(ctx); opened != nil {
		opened.Close()
	}
}
