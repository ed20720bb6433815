package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// connections bounds the open connections: in all, and of each client. A connection without a
// request under way gives its place to a new one, so that nobody can shut out others by
// connections that wait. It is safe for concurrent use.
type connections struct {
	all, each int
	shared    func(netip.Addr) bool // whether many clients have this address: a proxy

	mu    sync.Mutex
	count int
	turn  uint64 // grows with each change
	of    map[netip.Addr]map[net.Conn]uint64
}

// working is the turn of a connection with a request under way.
const working = 0

// noteState follows the state of a connection. It is the hook of [http.Server].
func (c *connections) noteState(conn net.Conn, state http.ConnState) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	client, own := netip.Addr{}, false // of a Unix socket
	if err == nil {
		client, own = network(at.Addr()), c.shared == nil || !c.shared(at.Addr())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.of[client][conn]
	switch state {
	case http.StateNew:
		c.admitConn(client, own, conn)
	case http.StateActive:
		if known {
			c.of[client][conn] = working
		}
	case http.StateIdle:
		if known {
			c.turn++
			c.of[client][conn] = c.turn
		}
	default:
		c.forgetConn(client, conn)
	}
}

// admitConn adds a new connection. Beyond a limit, it closes the one that waits longest: one of
// the same client, or of the client with the most connections. If none waits, it closes the new
// one. Own means that the address has a single client. The caller holds c.mu.
func (c *connections) admitConn(client netip.Addr, own bool, conn net.Conn) {
	if own && len(c.of[client]) >= c.each && !c.closeLongest(client) || c.count >= c.all && !c.closeLongest(c.largestClient()) {
		closeNow(conn)
		return
	}
	if c.of == nil {
		c.of = map[netip.Addr]map[net.Conn]uint64{}
	}
	if c.of[client] == nil {
		c.of[client] = map[net.Conn]uint64{}
	}
	c.turn++
	c.of[client][conn] = c.turn
	c.count++
}

// largestClient returns the client with the most connections. The caller holds c.mu.
func (c *connections) largestClient() (most netip.Addr) {
	n := -1
	for client, list := range c.of {
		if len(list) > n {
			most, n = client, len(list)
		}
	}
	return most
}

// closeLongest closes the connection of a client that waits longest, and reports whether there is one.
// The caller holds c.mu.
func (c *connections) closeLongest(client netip.Addr) bool {
	var oldest net.Conn
	for conn, turn := range c.of[client] {
		if turn != working && (oldest == nil || turn < c.of[client][oldest]) {
			oldest = conn
		}
	}
	if oldest == nil {
		return false
	}
	c.forgetConn(client, oldest)
	closeNow(oldest)
	return true
}

// closeNow closes a connection without a farewell of TLS, which could wait for the client.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.Close()
}

// forgetConn removes a connection. The caller holds c.mu.
func (c *connections) forgetConn(client netip.Addr, conn net.Conn) {
	if _, ok := c.of[client][conn]; !ok {
		return
	}
	c.count--
	if delete(c.of[client], conn); len(c.of[client]) == 0 {
		delete(c.of, client)
	}
}
