package serve

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of clients.
const (
	maxClients     = 10_000 // addresses whose rates are known
	maxRequests    = 512    // requests at once
	maxOwnRequests = 128    // of one client
	maxConnections = 2048
	maxOwn         = 256              // connections of one client
	failedLogins   = 10               // in a row, from one address
	failedPause    = 10 * time.Second // for one more
	slowest        = time.Minute      // without a byte, in either direction
)

// rates limits events by the address of the client. It is safe for concurrent use.
type rates struct {
	every time.Duration // 0: no limit
	burst int

	mu      sync.Mutex
	clients map[netip.Addr]*client
}

// client has the events of one address.
type client struct {
	*rate.Limiter
	held int // reserved events
}

// network returns the address that stands for all addresses of a client.
func network(at netip.Addr) netip.Addr {
	at = at.Unmap().WithZone("")
	if !at.Is6() {
		return at
	}
	all, _ := at.Prefix(64) // a single client can have all of it
	return all.Addr()
}

// clientAt returns the events of an address. The caller holds r.mu.
func (r *rates) clientAt(at netip.Addr) *client {
	at = network(at)
	c := r.clients[at]
	if c == nil {
		if len(r.clients) >= maxClients {
			r.forgetClients()
		}
		if r.clients == nil {
			r.clients = map[netip.Addr]*client{}
		}
		c = &client{Limiter: rate.NewLimiter(rate.Every(r.every), r.burst)}
		r.clients[at] = c
	}
	return c
}

// forgetClients drops the addresses that used nothing of their burst, or all if there are none. The
// caller holds r.mu.
func (r *rates) forgetClients() {
	for at, c := range r.clients {
		if c.held == 0 && c.Tokens() >= float64(r.burst) {
			delete(r.clients, at)
		}
	}
	if len(r.clients) >= maxClients {
		clear(r.clients)
	}
}

// countEvent counts an event, and reports whether the limit allows it.
func (r *rates) countEvent(at netip.Addr) bool {
	if r.every == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clientAt(at).Allow()
}

// reserveEvent holds an event that may follow, and reports whether the limit allows it. The caller
// ends the reservation with settle, which counts the event if it happened. So simultaneous
// events cannot be more than the limit allows.
func (r *rates) reserveEvent(at netip.Addr) (settle func(happened bool), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clientAt(at)
	if c.Tokens()-float64(c.held) < 1 {
		return nil, false
	}
	c.held++
	return func(happened bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.held--
		if happened {
			c.Allow()
		}
	}, true
}

// slots limits the work at once: in all, and of each client. It is safe for concurrent use.
type slots struct {
	all, each int

	mu    sync.Mutex
	taken int
	of    map[string]int
	freed chan struct{} // closed when a place becomes free; nil: nobody waits
}

// The errors of take.
var (
	errBusy     = httpError{http.StatusServiceUnavailable, "the server is busy"}
	errOwnPlace = httpError{http.StatusTooManyRequests, "too many requests at once"}
)

// takePlace takes a place for a client until the caller calls leave. The error is errOwnPlace if the
// client has all of its places, and errBusy if all others are taken.
func (p *slots) takePlace(client string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeFree(client)
}

// takeFree is take for a caller that holds p.mu.
func (p *slots) takeFree(client string) (leave func(), err error) {
	switch {
	case p.of[client] >= p.each:
		return nil, errOwnPlace
	case p.taken >= p.all:
		return nil, errBusy
	}
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.taken++
	p.of[client]++
	return func() { p.freePlace(client) }, nil
}

// awaitPlace is take, but it waits for a place until ctx ends.
func (p *slots) awaitPlace(ctx context.Context, client string) (leave func(), err error) {
	for {
		p.mu.Lock()
		leave, err = p.takeFree(client)
		if err == nil {
			p.mu.Unlock()
			return leave, nil
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()

		select {
		case <-freed:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// freePlace frees a place.
func (p *slots) freePlace(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[client]--; p.of[client] == 0 {
		delete(p.of, client)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}
