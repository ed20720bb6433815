package s3

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/httpclient"
)

const (
	stallTimeout = httpclient.StallTimeout

	// maxList limits a page of a list, in bytes: 1000 escaped keys of 1024
	// bytes with their properties.
	maxList = 8 << 20
)

// errEndless means that the pages of a store's list repeat.
var errEndless = errors.New("the store's list goes round in circles")

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
	t, err := httpclient.NewTransport(httpclient.Options{Getenv: env.Getenv, CABundle: caBundle, Stall: stall})
	if err != nil {
		return nil, err
	}
	return &transport{t}, nil
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
