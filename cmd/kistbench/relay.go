package main

import (
	"io"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// traffic is the amount of data that went over connections to a server.
type traffic struct {
	sent, received int64 // bytes, with all headers
	requests       int64
}

func (t traffic) minus(u traffic) traffic {
	return traffic{t.sent - u.sent, t.received - u.received, t.requests - u.requests}
}

// relay forwards connections to an HTTP server without TLS, and counts bytes and requests.
type relay struct {
	net.Listener
	to                       string
	delay                    atomic.Int64 // of each connection and request, in nanoseconds
	sent, received, requests atomic.Int64
}

// newRelay listens on a free port of the loopback interface.
func newRelay(to string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Listener: listener, to: to}
	go func() {
		for {
			client, err := r.Accept()
			if err != nil {
				return
			}
			go r.forward(client.(*net.TCPConn))
		}
	}()
	return r, nil
}

// forward copies the data of a connection in both directions.
func (r *relay) forward(client *net.TCPConn) {
	defer client.Close()
	time.Sleep(time.Duration(r.delay.Load()))
	conn, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	var up sync.WaitGroup
	up.Go(func() {
		io.Copy(&requestCounter{r, server}, client)
		server.CloseWrite()
	})
	io.Copy(&answerCounter{r, client}, server)
	client.CloseWrite()
	up.Wait()
}

// requestLine matches the beginning of a request.
var requestLine = regexp.MustCompile(`^[A-Z]+ \S+ HTTP/1\.1\r\n`)

// requestCounter counts and passes on the data of a client. No client sends a request before the answer to the one
// before. So each request begins a write.
type requestCounter struct {
	*relay
	to io.Writer
}

func (c *requestCounter) Write(p []byte) (int, error) {
	if requestLine.Match(p) {
		c.requests.Add(1)
		time.Sleep(time.Duration(c.delay.Load()))
	}
	c.sent.Add(int64(len(p)))
	return c.to.Write(p)
}

// answerCounter counts and passes on the data of a server. It counts first: so whatever a client received is counted.
type answerCounter struct {
	*relay
	to io.Writer
}

func (c *answerCounter) Write(p []byte) (int, error) {
	c.received.Add(int64(len(p)))
	return c.to.Write(p)
}

// carried returns the traffic so far.
func (r *relay) carried() traffic {
	return traffic{r.sent.Load(), r.received.Load(), r.requests.Load()}
}

// countTransfers adds the traffic of some work to its sample.
func (r *relay) countTransfers(work func() (Sample, error)) (Sample, error) {
	before := r.carried()
	s, err := work()
	more := r.carried().minus(before)
	s.Sent, s.Received, s.Requests = s.Sent+more.sent, s.Received+more.received, s.Requests+more.requests
	return s, err
}
