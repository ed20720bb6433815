// Package httpclient makes the connections to stores that are reached by HTTP: through proxies, with
// certificates of the user's choice, and never stuck.
package httpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// StallTimeout is the usual time after which a connection without a byte in either direction is closed.
const StallTimeout = 2 * time.Minute

const (
	dialTimeout = 10 * time.Second
	idleTimeout = time.Minute // to keep a connection for the next request
	connections = 32          // most connections kept
	maxHeader   = 256 << 10   // bytes of the header of an answer
)

// ErrStalled is the error of a connection that made no progress for too long.
var ErrStalled = errors.New("no progress on the connection")

// Options configure [NewTransport].
type Options struct {
	Getenv   func(string) string // the proxies
	CABundle string              // a file with certificates to trust instead of the system's; "": none
	Stall    time.Duration       // the longest time without a byte in either direction
	HTTP2    bool                // whether to use HTTP/2 where the server offers it
}

// NewTransport returns a transport whose connections are closed when they are stuck. It changes no
// byte of an answer: it asks for no compression.
func NewTransport(o Options) (*http.Transport, error) {
	proxy := (&httpproxy.Config{
		HTTPProxy:  cmp.Or(o.Getenv("HTTP_PROXY"), o.Getenv("http_proxy")),
		HTTPSProxy: cmp.Or(o.Getenv("HTTPS_PROXY"), o.Getenv("https_proxy")),
		NoProxy:    cmp.Or(o.Getenv("NO_PROXY"), o.Getenv("no_proxy")),
		CGI:        o.Getenv("REQUEST_METHOD") != "",
	}).ProxyFunc()
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return watch(conn, o.Stall), nil
		},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  o.Stall,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        idleTimeout,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
		DisableCompression:     true, // a blob is returned exactly as stored
		ForceAttemptHTTP2:      o.HTTP2,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if o.CABundle != "" {
		pem, err := os.ReadFile(o.CABundle)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificates", o.CABundle)
		}
	}

	return t, nil
}

// IsPlain reports whether a request failed because the server does not use TLS although it should.
func IsPlain(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return record || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// IsHTML reports whether an answer is a web page.
func IsHTML(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "text/html") }

// WaitAsked returns the time that a server asks to wait before the next request.
func WaitAsked(h http.Header, now time.Time) time.Duration {
	after := h.Get("Retry-After")
	if after == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// watchedConn is a connection that is closed when it makes no progress.
type watchedConn struct {
	net.Conn
	stall   time.Duration
	timer   *time.Timer
	stalled atomic.Bool
}

func watch(conn net.Conn, stall time.Duration) net.Conn {
	w := &watchedConn{Conn: conn, stall: stall}
	w.timer = time.AfterFunc(stall, func() {
		w.stalled.Store(true)
		conn.Close()
	})
	return w
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	return n, w.progress(n, err)
}

func (w *watchedConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	return n, w.progress(n, err)
}

func (w *watchedConn) progress(n int, err error) error {
	switch {
	case err != nil && w.stalled.Load():
		return fmt.Errorf("%w for %v", ErrStalled, w.stall)
	case err == nil && n > 0:
		w.timer.Reset(w.stall)
	}
	return err
}

func (w *watchedConn) Close() error {
	w.timer.Stop()
	return w.Conn.Close()
}
