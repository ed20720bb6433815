// Package web has the pages of 'kist serve': history, files, differences, search and the
// dashboard. The server renders them; scripts only make them more comfortable.
package web

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/serve"
)

//go:embed static
var static embed.FS

// Options configure [New].
type Options struct {
	Now  func() time.Time
	Jobs int         // files that a search reads at once
	Log  func(error) // receives the errors behind answers that do not show them; may be nil
}

// site has everything that requests share.
type site struct {
	*serve.Site
	Options
	name      string // of the repository
	pages     pages
	versions  indexed
	dashboard dashboard
	painter   *painter
	markdown  *markdown
	times     refTimes
	restoring sync.Mutex // held while a file is restored
}

// policy is the Content-Security-Policy of all pages. Nothing comes from elsewhere, and no
// script or style is in the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; " +
	"frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// New returns the handler of the pages, for the path "/". Work in the background ends with
// ctx. The pages need raw content at /files/PATH?rev=REV, which package serve has.
func New(ctx context.Context, of *serve.Site, o Options) (http.Handler, error) {
	if o.Log == nil {
		o.Log = func(error) {}
	}
	all, err := parsePages(o.Now)
	if err != nil {
		return nil, err
	}
	s := &site{Site: of, Options: o, name: filepath.Base(of.Repo.Home()), pages: all, painter: newPainter()}
	s.markdown = newMarkdown(s.painter)
	start := func(work func(ctx context.Context)) { go work(ctx) }
	s.versions = indexed{of, start, make(chan struct{}, 1)}
	s.dashboard = dashboard{start: start, repo: of.Repo, now: o.Now}

	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /static/", s.allowCaching(http.StripPrefix("/static/", http.FileServerFS(files))))
	mux.Handle("GET /favicon.ico", http.RedirectHandler("/static/icon.svg", http.StatusMovedPermanently)) // for raw content
	for _, route := range routes {
		mux.Handle(route.pattern, s.page(func(r *request) (page, error) { return route.show(s, r) }))
	}
	return mux, nil
}

// routes has all pages.
var routes = []struct {
	pattern string
	show    func(*site, *request) (page, error)
}{
	{"GET /{$}", (*site).showOverview},
	{"GET /log", (*site).showLog},
	{"GET /refs", (*site).showRefs},
	{"GET /commit/{id}", (*site).showCommit},
	{"GET /diff", (*site).showDiff},
	{"GET /tree/{path...}", (*site).showTree},
	{"GET /blob/{path...}", (*site).showFile},
	{"GET /history/{path...}", (*site).showHistory},
	{"GET /blame/{path...}", (*site).showBlame},
	{"GET /search", (*site).showSearch},
	{"GET /dashboard", (*site).showDashboard},
	{"POST /restore", (*site).restoreFile},
	{"/", func(*site, *request) (page, error) { return page{}, errNoPage }},
}

// errNoPage means that the server has no page with the address.
var errNoPage = errors.New("no such page")

// allowCaching lets browsers keep files that are part of the program for an hour.
func (s *site) allowCaching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) { // package http has another status for it
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// maxTime is the longest that a page works on its answer.
var maxTime = 20 * time.Second

// Budget returns the budget of a request for a page.
func Budget(r *http.Request) serve.Budget {
	if strings.HasPrefix(r.URL.Path, "/static/") {
		return serve.Budget{}
	}
	return serve.Work(maxTime)
}

// page returns the handler of one page.
func (s *site) page(show func(*request) (page, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &request{Request: r, site: s}
		p, err := show(req)
		if err != nil {
			p = s.failurePage(err)
			req.rev = "" // links lead to HEAD
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		if err := s.pages.writeAnswer(w, req, p); err != nil && r.Context().Err() == nil {
			s.Log(err)
		}
	})
}
