package serve

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// answer is a ResponseWriter that counts, and that ends a connection if the client reads too
// slowly.
type answer struct {
	http.ResponseWriter
	conn    *http.ResponseController
	route   string
	user    string
	code    int
	written int64
	budget  Budget
	begun   func() // called before the first byte of a budget with Made; may be nil
}

// Unwrap lets [http.ResponseController] find the methods below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK {
		a.code = code
		sealHeader(a.Header(), code)
	}
	a.ResponseWriter.WriteHeader(code)
}

// sealHeader makes sure that no answer lacks the headers that all need: no cache keeps an error
// or an answer whose handler does not allow that, and no page of another site frames it.
func sealHeader(h http.Header, code int) {
	if code >= http.StatusBadRequest || h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors") {
		h.Set("Content-Security-Policy", strings.TrimPrefix(policy+"; frame-ancestors 'none'", "; "))
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.begun != nil {
		a.begun()
		a.begun = nil
	}
	if a.budget.Output > 0 && a.written+int64(len(p)) > a.budget.Output {
		panic(errOutput) // the client must not take the part for the answer
	}
	a.conn.SetWriteDeadline(time.Now().Add(slowest))
	n, err := a.ResponseWriter.Write(p)
	a.written += int64(n)
	return n, err
}

// slowBody is the body of a request. It ends a connection if the client sends too slowly.
type slowBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b slowBody) Read(p []byte) (int, error) {
	b.conn.SetReadDeadline(time.Now().Add(slowest))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// measureRequests limits the size of a request and the pauses of its client, and counts the request.
func (s *Server) measureRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w, conn: http.NewResponseController(w), route: "refused"}
		a.conn.SetWriteDeadline(began.Add(slowest))
		if r.Body != nil && r.Body != http.NoBody {
			body := r.Body
			if s.o.MaxBody > 0 {
				body = http.MaxBytesReader(w, body, s.o.MaxBody)
			}
			r.Body = slowBody{body, a.conn}
		}

		s.metrics.beginRequest()
		defer func() {
			took := time.Since(began)
			s.metrics.endRequest(a.route, a.code, a.written, took)
			if s.o.Requests != nil {
				s.o.Requests(fmt.Sprintf("%s %q %s %s %d %d %s", s.clientAddress(r), a.user, r.Method, r.URL.EscapedPath(), a.code, a.written, took.Round(time.Microsecond)))
			}
		}()
		next.ServeHTTP(a, r)
		if a.code == 0 {
			a.WriteHeader(http.StatusOK)
		}
	})
}

// limitRequests refuses requests of a client that sends too many, and requests beyond maxRequests.
func (s *Server) limitRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := s.clientAddress(r)
		if !s.rates.countEvent(at) {
			s.site.Fail(w, r, httpError{http.StatusTooManyRequests, "too many requests"})
			return
		}
		leave, err := s.requests.takePlace(network(at).String())
		if err != nil {
			s.site.Fail(w, r, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
