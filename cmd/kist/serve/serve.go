// Package serve is the HTTP server of kist: raw files, an API, metrics, and the handlers of
// others.
//
// A [Server] checks each request before a handler sees it: its Host, its rate, its user, and,
// if it is no GET, that it comes from no other site. A handler finds the user in the context
// of the request ([access.UserOf]) and the repository in a [Site]. serveOptions.run in package
// look plugs the handlers in:
//
//	server.Handle("/", web.Budget, pages)
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
)

// The limits of a connection. They end slow clients. A request for a large file may last:
// only the time until its header is complete, and idle times, are limited.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10         // bytes
	graceTime     = 10 * time.Second // for requests under way at the end
)

// Options configure a [Server].
type Options struct {
	Write bool        // handlers may change the repository
	TLS   *tls.Config // nil: plain HTTP
	Hosts []string    // further names of the server beside localhost; "*": any
	Users *Users      // nil: the server has no login
	Proxy Proxy

	Owners []string // users who count as the owner: no rule binds them, and they end locks of others

	Rate    int   // requests that a client may send in a second; 0: any number
	MaxBody int64 // bytes of the body of a request; 0: any number

	Log      func(string) // receives a line for each failure of the server; nil: dropped
	Requests func(string) // receives a line for each request; nil: dropped
}

// Server serves a repository. One goroutine sets it up; after that, [Server.Serve] handles
// requests concurrently.
type Server struct {
	o        Options
	site     *Site
	mux      *http.ServeMux
	routes   []string // the patterns in mux
	owner    refs.Who
	metrics  metrics
	rates    rates
	failures rates // of logins
	requests slots // of requests under way
	costly   slots
	archives slots
	open     connections
}

// New returns a server of a repository. The repository stays open while it serves.
func New(r *kist.Repository, o Options) *Server {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &Server{o: o, site: newSite(r, o), mux: http.NewServeMux(), owner: r.Who()}
	s.failures = rates{every: failedPause, burst: failedLogins}
	s.requests = slots{all: maxRequests, each: maxOwnRequests}
	s.costly = slots{all: maxCostly, each: maxOwnCostly}
	s.open = connections{all: maxConnections, each: maxOwn, shared: s.o.Proxy.trustsAddress}
	s.archives = slots{all: maxArchives, each: maxOwnArchives}
	if o.Rate > 0 {
		s.rates = rates{every: time.Second / time.Duration(o.Rate), burst: 10 * o.Rate}
	}
	s.handle("/healthz", cheap, http.HandlerFunc(s.answerHealth))
	s.handle(filesPrefix, filesBudget, http.HandlerFunc(s.serveFiles))
	s.Handle("/metrics", func(*http.Request) Budget { return Work(metricsTime) }, http.HandlerFunc(s.metricsPage))
	s.handleAPI()
	return s
}

// Site returns the repository as handlers use it.
func (s *Server) Site() *Site { return s.site }

// Routes returns the patterns of all handlers.
func (s *Server) Routes() []string { return slices.Clone(s.routes) }

// Handle plugs in the handler of a path, such as "/dav/", or of all other paths: "/". The
// pattern is one of [http.ServeMux]. Visitors without a name never reach it. Budget returns the
// bounds of a request.
func (s *Server) Handle(pattern string, budget func(*http.Request) Budget, h http.Handler) {
	s.handle(pattern, budget, s.onlyNamed(h))
}

// handle is Handle for a handler that checks the access of all visitors itself.
func (s *Server) handle(pattern string, budget func(*http.Request) Budget, h http.Handler) {
	s.routes = append(s.routes, pattern)
	h = s.giveBudgets(budget, h)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if a, ok := w.(*answer); ok {
			a.route = pattern
		}
		h.ServeHTTP(w, r)
	})
}

// Serve answers requests on l until ctx ends. It then closes l, and gives requests under way
// some seconds to finish.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler:           s.allHandlers(),
		BaseContext:       func(net.Listener) context.Context { return alive },
		ConnContext:       withConnection,
		ConnState:         s.open.noteState,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         s.o.TLS,
		ErrorLog:          s.errorLog(),
	}

	go s.site.refreshVolumes(alive)
	if s.o.HasUsers() {
		go s.site.warmRules(alive)
	}
	failed := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			failed <- server.ServeTLS(l, "", "")
		} else {
			failed <- server.Serve(l)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	grace, stop := context.WithTimeout(alive, graceTime)
	defer stop()
	if server.Shutdown(grace) != nil {
		end()
		server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answerHealth answers "ok" while the repository can be read.
func (s *Server) answerHealth(w http.ResponseWriter, r *http.Request) {
	if _, err := s.site.Repo.Refs().Head(); err != nil {
		s.site.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}
