package serve

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
)

// allHandlers returns the handler of all requests: the checks, then those of [Server.Handle].
func (s *Server) allHandlers() http.Handler {
	var h http.Handler = s.mux
	h = http.NewCrossOriginProtection().Handler(h)
	h = s.authenticate(h)
	h = s.checkHost(h)
	h = s.limitRequests(h)
	h = secure(h)
	return s.measureRequests(s.recoverPanics(h))
}

// secure sets the headers that each answer has. A handler may replace them.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// recoverPanics logs the panic of a handler and breaks its answer off. The server goes on.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			switch p {
			case http.ErrAbortHandler:
			case errOutput:
				s.o.Log(fmt.Sprintf("%s %s: %v", r.Method, r.URL.EscapedPath(), errOutput))
			default:
				s.o.Log(fmt.Sprintf("%s %s: panic: %v\n%s", r.Method, r.URL.EscapedPath(), p, debug.Stack()))
			}
			panic(http.ErrAbortHandler) // the client sees a broken answer
		}()
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses a request for another host. A page of another site could otherwise reach
// a server on the loopback interface: its name may resolve to 127.0.0.1.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.knowsHost(r) {
			s.site.Fail(w, r, httpError{http.StatusMisdirectedRequest, "this server has another name"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowsHost reports whether the Host header of a request names this server. Without
// [Options.Hosts], any name does if a page of another site cannot get in: it has no password,
// and cannot use a Unix socket. But it could set the header of a proxy.
func (s *Server) knowsHost(r *http.Request) bool {
	if len(s.o.Hosts) == 0 && (s.o.Users.needsLogin() || connectionOf(r).unix) {
		return true
	}
	host := r.Host
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(s.o.Hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, name) })
}

// errorLog returns the log of package http.
func (s *Server) errorLog() *log.Logger { return log.New(logWriter(s.o.Log), "", 0) }

type logWriter func(string)

func (w logWriter) Write(p []byte) (int, error) {
	w(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
