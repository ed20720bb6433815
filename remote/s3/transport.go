package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
)

const (
	dialTimeout  = 10 * time.Second
	stallTimeout = 2 * time.Minute // without a byte in either direction
	idleTimeout  = time.Minute     // to keep a connection for the next request
	connections  = 32              // most connections kept

	// maxList limits a page of a list, in bytes: 1000 escaped keys of 1024
	// bytes with their properties.
	maxList = 8 << 20
)

var (
	// errStalled means that a connection made no progress for too long.
	errStalled = errors.New("no progress on the connection")
	// errEndless means that the pages of a store's list repeat.
	errEndless = errors.New("the store's list goes round in circles")
)

// answer has the details of an answer that minio-go does not return.
type answer struct {
	status int // 0: no answer
	header http.Header
	err    error  // error of the request; nil if there was an answer
	page   string // requested page of a list
}

type answerKey struct{}

// transport sends requests and saves the details of the answer in the context.
type transport struct{ *http.Transport }

// newTransport returns a transport. caBundle names a file with certificates to
// trust instead of the system's, or is "".
func newTransport(caBundle string, stall time.Duration, env remote.Env) (*transport, error) {
	proxy := (&httpproxy.Config{
		HTTPProxy:  cmp.Or(env.Getenv("HTTP_PROXY"), env.Getenv("http_proxy")),
		HTTPSProxy: cmp.Or(env.Getenv("HTTPS_PROXY"), env.Getenv("https_proxy")),
		NoProxy:    cmp.Or(env.Getenv("NO_PROXY"), env.Getenv("no_proxy")),
		CGI:        env.Getenv("REQUEST_METHOD") != "",
	}).ProxyFunc()
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t := &transport{&http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return watch(conn, stall), nil
		},
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: stall,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          connections,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       idleTimeout,
		ReadBufferSize:        64 << 10,
		WriteBufferSize:       64 << 10,
		DisableCompression:    true, // a blob is returned exactly as stored
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}}
	if caBundle != "" {
		pem, err := os.ReadFile(caBundle)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificates", caBundle)
		}
	}

	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	a, ok := r.Context().Value(answerKey{}).(*answer)
	if !ok {
		a = &answer{}
	}

	query := r.URL.Query()
	page := query.Get("continuation-token")
	if page != "" && page == a.page {
		return nil, errEndless // minio-go would never stop
	}

	end := trace.From(r.Context()).Begin("request", "method", r.Method, "url", r.URL.Scheme+"://"+r.URL.Host+r.URL.Path, "bytes", r.ContentLength)
	resp, err := t.Transport.RoundTrip(r)
	*a = answer{err: err, page: page}
	if err != nil {
		end(err)
		return nil, err
	}

	end(nil, "status", resp.StatusCode, "bytes", resp.ContentLength)
	a.status, a.header = resp.StatusCode, resp.Header
	if query.Has("list-type") {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxList), resp.Body}
	}

	return resp, nil
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
		return fmt.Errorf("%w for %v", errStalled, w.stall)
	case err == nil && n > 0:
		w.timer.Reset(w.stall)
	}
	return err
}

func (w *watchedConn) Close() error {
	w.timer.Stop()
	return w.Conn.Close()
}
