package serve

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of clients.
const (
	maxClients     = 10_000 // addresses whose rates are known
	maxRequests    = 512    // requests at once
	maxConnections = 2048
	failedLogins   = 10               // in a row, from one address
	failedPause    = 10 * time.Second // for one more
	slowest        = time.Minute      // without a byte, in either direction
)

// rates limits events by the address of the client. It is safe for concurrent use.
type rates struct {
	every time.Duration // 0: no limit
	burst int

	mu      sync.Mutex
	clients map[netip.Addr]*rate.Limiter
}

// of returns the limiter of an address, nil if there is no limit.
func (r *rates) of(at netip.Addr) *rate.Limiter {
	if r.every == 0 {
		return nil
	}
	if at = at.Unmap().WithZone(""); at.Is6() {
		network, _ := at.Prefix(64) // a single client can have all of it
		at = network.Addr()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.clients[at]
	if l == nil {
		if len(r.clients) >= maxClients {
			r.forget()
		}
		if r.clients == nil {
			r.clients = map[netip.Addr]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Every(r.every), r.burst)
		r.clients[at] = l
	}
	return l
}

// forget drops the addresses that used nothing of their burst, or all if there are none. The
// caller holds r.mu.
func (r *rates) forget() {
	for at, l := range r.clients {
		if l.Tokens() >= float64(r.burst) {
			delete(r.clients, at)
		}
	}
	if len(r.clients) >= maxClients {
		clear(r.clients)
	}
}

// allow counts an event, and reports whether the limit allows it.
func (r *rates) allow(at netip.Addr) bool {
	l := r.of(at)
	return l == nil || l.Allow()
}

// spent reports whether no further event is allowed now. It counts nothing.
func (r *rates) spent(at netip.Addr) bool {
	l := r.of(at)
	return l != nil && l.Tokens() < 1
}
