package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
)

// traffic is the amount of data that went over connections to a server.
type traffic struct {
	sent, received int64 // bytes, with all headers
	requests       int64
}

func (t traffic) minus(u traffic) traffic {
	return traffic{t.sent - u.sent, t.received - u.received, t.requests - u.requests}
}

// relay forwards connections to an HTTP server without TLS, and counts bytes
// and requests.
type relay struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	idle     *sync.Cond // open has become 0
	open     int
	total    traffic
}

// newRelay listens on a free port of the loopback interface.
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
	var up traffic
	var received int64
	defer func() {
		r.mu.Lock()
		r.open--
		r.total.sent += up.sent
		r.total.requests += up.requests
		r.total.received += received
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
		up = forwardRequests(server, client)
		server.CloseWrite()
	})
	received, _ = io.Copy(client, server)
	client.CloseWrite()
	wg.Wait()
}

// forwardRequests copies requests until the client ends or an error occurs. A
// body of known length does not pass through a buffer of this program, so that
// counting costs little. Requests that follow a body of unknown length on the
// same connection are not counted.
func forwardRequests(server, client *net.TCPConn) traffic {
	var total traffic
	in := bufio.NewReaderSize(client, 64<<10)
	for {
		header, length, err := readHeader(in)
		n, writeErr := server.Write(header)
		total.sent += int64(n)
		if err != nil || writeErr != nil {
			return total
		}
		total.requests++

		if length < 0 {
			n, _ := io.Copy(server, in)
			total.sent += n
			return total
		}
		buffered, err := io.CopyN(server, in, min(length, int64(in.Buffered())))
		if err == nil {
			length, err = io.CopyN(server, client, length-buffered)
		}
		total.sent += buffered + length
		if err != nil {
			return total
		}
	}
}

// readHeader returns the bytes of a request up to its body, and the length of
// the body: -1 if the header does not state it. With an error it returns the
// bytes read until then.
func readHeader(in *bufio.Reader) (header []byte, length int64, err error) {
	for {
		line, err := in.ReadSlice('\n')
		header = append(header, line...)
		if err != nil {
			return header, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return header, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return header, 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
}

// carried waits until no connection is open and returns the traffic so far.
func (r *relay) carried() traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.open > 0 {
		r.idle.Wait()
	}
	return r.total
}
