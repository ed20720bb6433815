package main

import (
	"io"
	"net"
	"sync"
)

// relay hands connections on to a server, and counts what they carry.
type relay struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	idle     *sync.Cond // open has become 0
	open     int
	sent     int64 // to the server
	received int64
}

// newRelay begins to listen on a free port of the loopback interface.
func newRelay(to string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, to: to}
	r.idle = sync.NewCond(&r.mu)
	go r.serve()
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) close() { r.listener.Close() }

func (r *relay) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.open++
		r.mu.Unlock()
		go r.handle(conn.(*net.TCPConn))
	}
}

func (r *relay) handle(client *net.TCPConn) {
	var sent, received int64
	defer func() {
		r.mu.Lock()
		r.open--
		r.sent += sent
		r.received += received
		if r.open == 0 {
			r.idle.Broadcast()
		}
		r.mu.Unlock()
	}()
	defer client.Close()
	conn, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		sent, _ = io.Copy(server, client)
		server.CloseWrite()
	})
	received, _ = io.Copy(client, server)
	client.CloseWrite()
	wg.Wait()
}

// carried waits until no connection is open and returns what all have carried
// so far.
func (r *relay) carried() (sent, received int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.open > 0 {
		r.idle.Wait()
	}
	return r.sent, r.received
}
