package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/versions"
)

// versionsCache keeps the index of history in memory. It is brought up to date in the
// background, so that no page waits long for it.
type versionsCache struct {
	ctx  context.Context
	repo *kist.Repository

	mu    sync.Mutex
	index *versions.Index
	state object.ID     // the refs that index has
	ready chan struct{} // closed at the end of the present build; nil: there is none
	err   error         // of the last build

	use sync.Mutex // held while index is used: it serves one goroutine at a time
}

// errIndexing means that the index of history is not ready yet.
var errIndexing = &shownError{"Reading the history", "The index of the history is being made. This page asks again by itself.", http.StatusServiceUnavailable}

// maxIndexing is the longest that a page waits for the index of history.
const maxIndexing = 3 * time.Second

// with calls fn with the index of the present history. If the index takes too long, the error
// is errIndexing.
func (c *versionsCache) with(ctx context.Context, fn func(x *versions.Index) error) error {
	ready, err := c.refresh()
	if err != nil {
		return err
	}
	select {
	case <-ready:
	case <-time.After(maxIndexing):
		return errIndexing
	case <-ctx.Done():
		return ctx.Err()
	}

	c.mu.Lock()
	x, err := c.index, c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.use.Lock()
	defer c.use.Unlock()
	return fn(x)
}

// now calls fn with the index if it is at hand. Otherwise it starts to make it, for later.
func (c *versionsCache) now(fn func(x *versions.Index)) {
	ready, err := c.refresh()
	if err != nil {
		return
	}
	select {
	case <-ready:
	default:
		return
	}
	c.mu.Lock()
	x := c.index
	c.mu.Unlock()
	if x == nil || !c.use.TryLock() {
		return
	}
	defer c.use.Unlock()
	fn(x)
}

// refresh starts to read the index if the refs changed since. The channel is closed when the
// index is ready.
func (c *versionsCache) refresh() (<-chan struct{}, error) {
	state, err := refsState(c.repo)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready != nil {
		select {
		case <-c.ready:
		default:
			return c.ready, nil
		}
		if c.state == state && c.err == nil {
			return c.ready, nil
		}
	}
	ready := make(chan struct{})
	c.ready = ready
	go func() {
		defer close(ready)
		x, err := versions.Open(c.ctx, c.repo, nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.index, c.state, c.err = x, state, err
	}()
	return ready, nil
}

// refsState returns a hash of HEAD and all refs.
func refsState(r *kist.Repository) (object.ID, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return object.ID{}, err
	}
	list, err := r.Refs().List("")
	if err != nil && len(list) == 0 {
		return object.ID{}, err
	}
	data := []byte(head.Branch + "\x00" + head.ID.String())
	for _, ref := range list {
		data = append(data, "\x00"+ref.Name+"\x00"+ref.ID.String()...)
	}
	return object.Sum(data), nil
}
