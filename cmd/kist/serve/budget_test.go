package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/dav"
	"github.com/kist-vcs/kist/cmd/kist/serve/web"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// complete returns a server with all routes of 'kist serve'.
func complete(s *kisttest.Repository, o serve.Options) *serve.Server {
	s.Helper()
	server := serve.New(s.Repo, o)
	pages, err := web.New(s.Context(), server.Site(), web.Options{Now: time.Now, Jobs: 2})
	s.Check(err)
	server.Handle("/", web.Budget, pages)
	h, err := dav.New(s.Context(), s.Repo, dav.Options{Write: o.Write, Quiet: time.Hour})
	s.Check(err)
	s.Cleanup(func() { s.Check(h.Close(context.WithoutCancel(s.Context()))) })
	server.Handle(dav.Prefix+"/", dav.Budget, h)
	server.Handle("OPTIONS /{$}", dav.Budget, h)
	return server
}

// TestHeaders checks the headers of an answer and of errors of each route.
func TestHeaders(t *testing.T) {
	users, err := serve.OpenUsers(usersFile(t, "anna"), "")
	if err != nil {
		t.Fatal(err)
	}
	r := small(t)
	r.Write("page.html", "<!DOCTYPE html><p>text")
	r.Add(stage.AddOptions{})
	r.Commit("page\n")
	server := complete(r, serve.Options{Users: users, Hosts: []string{"127.0.0.1"}})
	s := servingWith(r, server)

	good := map[string][]string{ // the requests that a route answers
		"/healthz": {"/healthz"}, "/metrics": {"/metrics"}, "/api/v1/": {}, "/api/openapi.json": {"/api/openapi.json"},
		"/files/":      {"/files/a.txt", "/files/page.html", "/files/", "/files/folder/?archive=tar", "/files/folder"},
		"/":            {"/", "/log", "/tree/", "/blob/a.txt", "/refs", "/blame/a.txt", "/search?q=a", "/static/style.css", "/favicon.ico"},
		"/dav/":        {"/dav/", "/dav/latest/", "/dav/latest/page.html", "/dav/branches/main/a.txt"},
		"OPTIONS /{$}": {"OPTIONS /"},
	}
	for _, route := range serve.APIRoutes() {
		pattern, _, _ := strings.Cut(route, "{")
		good[pattern] = []string{strings.ReplaceAll(route, "{path}", "a.txt") + "?q=a"}
	}
	good["/api/v1/tree/"] = []string{"/api/v1/tree/folder"}
	for _, pattern := range server.Routes() {
		requests, ok := good[pattern]
		if !ok {
			t.Errorf("the route %s is not in this table", pattern)
		}
		path := pattern[strings.Index(pattern, "/"):]
		path = strings.TrimSuffix(path, "{$}")
		for _, request := range append(requests, path+"absent/%ff", "POST "+path, "TRACE "+path, path+"?rev=:/x") {
			method, path, found := strings.Cut(request, " ")
			if !found {
				method, path = http.MethodGet, request
			}
			for _, headers := range [][]string{{"Login: anna:anna"}, nil, {"Host: evil.example"}, {"Login: anna:anna", "Range: bytes=999-"}, {"Login: anna:anna", "If-Match: \"x\""}, {"Origin: https://evil.example"}} {
				got := s.send(method, path, headers...)
				checkHeaders(t, fmt.Sprintf("%s %s %q", method, path, headers), got)
				if len(headers) == 1 && headers[0] == "Login: anna:anna" && len(requests) > 0 && request == requests[0] && got.StatusCode != http.StatusOK {
					t.Errorf("%s: %s %.200q", request, got.Status, got.body)
				}
			}
		}
	}
}

// checkHeaders checks that no cache keeps an answer unasked, and that no page of another site
// frames it.
func checkHeaders(t *testing.T, request string, got reply) {
	t.Helper()
	cache := got.Header.Get("Cache-Control")
	switch {
	case got.StatusCode >= 400 && cache != "no-store":
		t.Errorf("%s: %s has Cache-Control %q", request, got.Status, cache)
	case cache != "no-store" && cache != "private, no-cache" && !(cache == "public, max-age=3600" && strings.Contains(request, "/static/")):
		t.Errorf("%s: %s has Cache-Control %q", request, got.Status, cache)
	}
	policy := got.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors '") {
		t.Errorf("%s: %s has Content-Security-Policy %q", request, got.Status, policy)
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: %s lacks nosniff", request, got.Status)
	}
}

// A client with many idle connections shuts out neither itself nor others.
func TestIdleConnections(t *testing.T) {
	r := small(t)
	server := serve.New(r.Repo, serve.Options{})
	server.LimitConnections(12, 8)
	s := servingWith(r, server)
	for range 30 {
		dial(t, s)
	}
	s.want("/healthz", 200, "ok")

	for from := range 4 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+from))}}
		conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Skip(err) // only Linux has these addresses
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("another client: %v, %v", res, err)
		}
		for range 10 {
			dial(t, s)
		}
	}
	s.want("/healthz", 200, "ok")
}

// A user whose costly requests take all of the user's places does not stop others, and a request
// without a place ends in the time of its budget. Its context ends then, too.
func TestCostly(t *testing.T) {
	r := small(t)
	server := serve.New(r.Repo, serve.Options{Proxy: serve.Proxy{UserHeader: "User", From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	ended := make(chan error, 1)
	server.Handle("/wait", func(*http.Request) serve.Budget { return serve.Work(50 * time.Millisecond) },
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- r.Context().Err()
		}))
	server.Handle("/long", func(*http.Request) serve.Budget { return serve.Budget{Output: 1000} },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 11 {
				w.Write(make([]byte, 100))
			}
		}))
	s := servingWith(r, server)

	s.want("/wait", 200, "", "User: anna")
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context of the request ended with %v", err)
	}
	for range 4 {
		r.Check(server.TakeCostly("anna"))
	}
	if err := server.TakeCostly("anna"); err == nil {
		t.Error("anna has more than four places")
	}
	if got := s.want("/wait", 429, "at once", "User: anna"); got.Header.Get("Retry-After") == "" {
		t.Error("an answer with the status 429 lacks Retry-After")
	}
	s.want("/wait", 200, "", "User: bob")
	if body, err := http.NewRequest("GET", s.url+"/long", nil); err == nil {
		body.Header.Set("User", "bob")
		res, err := http.DefaultTransport.RoundTrip(body)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		if err == nil {
			t.Error("an answer beyond its budget is complete")
		}
	}
}
