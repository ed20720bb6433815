package serve

import (
	"context"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// The numbers of entries on a page.
const (
	defaultPage = 1000
	maxPage     = 10_000
)

// Page is a part of the entries of a folder.
type Page struct {
	Entries []object.Entry
	Next    string // the name after which the next page begins; "" if there is none
}

// List returns up to limit readable entries of a folder, after the name after. The error is
// that of [VisibleCommit.Find], or [tree.ErrNotDir] in a [*tree.PathError].
func (c *VisibleCommit) List(ctx context.Context, dir, after string, limit int) (Page, error) {
	e, err := c.Find(ctx, dir)
	if err != nil {
		return Page{}, err
	}
	if !tree.IsDir(&e) {
		return Page{}, &tree.PathError{Path: dir, Err: tree.ErrNotDir}
	}
	from := ""
	if after != "" {
		from = after + "\x00" // the first name after it
	}

	var page Page
	for e, err := range c.Rules.Entries(ctx, c.Objects, dir, e.Content.ID, from) {
		if err != nil {
			return page, err
		}
		if len(page.Entries) == limit {
			page.Next = page.Entries[limit-1].Name
			break
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// Readable reports whether the user may read a path. The error means that a rule cannot be
// read.
func (c *VisibleCommit) Readable(ctx context.Context, path string) (bool, error) {
	return c.Rules.Readable(ctx, path)
}

// writeArchive writes the readable part of the folder e, at a path, as an archive. Names in it
// begin with the name of the folder.
func (c *VisibleCommit) writeArchive(ctx context.Context, w io.Writer, format, at string, e object.Entry) error {
	below := compare.Side{Tree: e.Content.ID, Objects: c.Objects}
	_, err := checkout.Archive(ctx, below, w, checkout.ArchiveOptions{
		Paths: []string{""}, Format: format, Prefix: fileName(at, c.Commit) + "/", Time: c.Info.Committer.Time.Time(),
		Select: func(path string) (bool, error) { return c.Readable(ctx, tree.Join(at, path)) },
	})
	return err
}

// pageOf returns the arguments of a request for a page.
func pageOf(query url.Values) (after string, limit int, err error) {
	limit, err = apiRequest{Values: query}.numberParameter("limit", defaultPage, 1, maxPage)
	return query.Get("after"), limit, err
}

// listFolder sends a page of a folder: as JSON if the client prefers that, and otherwise as
// HTML.
func (s *Server) listFolder(w http.ResponseWriter, r *http.Request, c *VisibleCommit, at string, e object.Entry) {
	query := r.URL.Query()
	after, limit, err := pageOf(query)
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	page, err := c.List(r.Context(), at, after, limit)
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Cache-Control", "private, no-cache")
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
		s.sendJSON(w, r, newTreePage(at, page))
		return
	}

	list := listing{Title: readable.Escape("/" + at), Up: at != "", Query: revQuery(query)}
	for i := range page.Entries {
		list.Rows = append(list.Rows, newRow(&page.Entries[i], list.Query))
	}
	if page.Next != "" {
		next := url.Values{"after": {page.Next}, "limit": {strconv.Itoa(limit)}}
		if rev := query.Get("rev"); rev != "" {
			next.Set("rev", rev)
		}
		list.Next = "?" + next.Encode()
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'")
	if r.Method != http.MethodHead {
		listingPage().Execute(w, list)
	}
}

// revQuery returns the query of links that stay at the revision of a request.
func revQuery(query url.Values) string {
	if rev := query.Get("rev"); rev != "" {
		return "?rev=" + url.QueryEscape(rev)
	}
	return ""
}

// listing is the content of the page of a folder.
type listing struct {
	Title, Query string
	Up           bool
	Rows         []row
	Next         string
}

type row struct{ Href, Name, Size, Modified string }

func newRow(e *object.Entry, query string) row {
	name, href := e.Name, "./"+url.PathEscape(e.Name)
	if tree.IsDir(e) {
		name, href = name+"/", href+"/"
	}
	v := row{Href: href + query, Name: readable.Escape(name)}
	if e.Type == object.TypeFile {
		v.Size = strconv.FormatUint(e.Size, 10)
	}
	if at, ok := e.Modified(); ok {
		v.Modified = at.Format(time.DateTime)
	}
	return v
}

var listingPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("listing").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
<table>
{{- if .Up}}
<tr><td><a href="../{{.Query}}">../</a>
{{- end}}
{{- range .Rows}}
<tr><td><a href="{{.Href}}">{{.Name}}</a><td>{{.Size}}<td>{{.Modified}}
{{- end}}
</table>
{{- if .Next}}
<p><a href="{{.Next}}">more</a>
{{- end}}
`))
})
