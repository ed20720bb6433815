package serve

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
)

// apiPrefix is the path of the API.
const apiPrefix = "/api/v1/"

// apiTime is the most time for an answer of the API. A search or an account can take long.
const apiTime = time.Minute

// apiDocument describes the API in the form of OpenAPI.
//
//go:embed openapi.json
var apiDocument []byte

// apiRoute is a route of the API. Its pattern is that of OpenAPI. An answer is sent as JSON.
type apiRoute struct {
	pattern string
	answer  func(*Site, context.Context, apiRequest) (any, error)
}

// apiRoutes has all routes below apiPrefix. openapi.json describes each.
var apiRoutes = []apiRoute{
	{"refs", (*Site).apiRefs},
	{"log", (*Site).apiLog},
	{"commit", (*Site).apiCommit},
	{"tree/{path}", (*Site).apiTree},
	{"file/{path}", (*Site).apiFile},
	{"diff", (*Site).apiDiff},
	{"history/{path}", (*Site).apiHistory},
	{"search", (*Site).apiSearch},
	{"stats", (*Site).apiStats},
}

// apiRequest has the arguments of a request.
type apiRequest struct {
	url.Values        // the query
	path       string // in the repository
}

// apiBudget is the budget of a request for a route.
func apiBudget(*http.Request) Budget { return Work(apiTime) }

// handleAPI adds the routes of the API.
func (s *Server) handleAPI() {
	for _, route := range apiRoutes {
		prefix, _, _ := strings.Cut(route.pattern, "{")
		s.Handle(apiPrefix+prefix, apiBudget, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.callAPI(w, r, prefix, route) }))
	}
	s.Handle(apiPrefix, cheap, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.site.Fail(w, r, httpError{http.StatusNotFound, "no such route: /api/openapi.json has them all"})
	}))
	s.Handle("/api/openapi.json", cheap, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if readOnly(w, r) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(apiDocument)
		}
	}))
}

// callAPI answers a request for a route.
func (s *Server) callAPI(w http.ResponseWriter, r *http.Request, prefix string, route apiRoute) {
	if !readOnly(w, r) {
		return
	}
	at, err := tree.CleanPath(strings.TrimPrefix(r.URL.Path, apiPrefix+prefix))
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	v, err := route.answer(s.site, r.Context(), apiRequest{r.URL.Query(), at})
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	s.sendJSON(w, r, v)
}

// sendJSON sends v.
func (s *Server) sendJSON(w http.ResponseWriter, r *http.Request, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(data, '\n'))
}

// failedJSON is the answer of the API to a request that fails.
type failedJSON struct {
	Error struct {
		Status  int    `json:"status"`
		Message string `json:"message"`
	} `json:"error"`
}

// httpError is an error with the status and the text of its answer.
type httpError struct {
	code int
	text string
}

func (e httpError) Error() string { return e.text }

func badRequest(text string) error { return httpError{http.StatusBadRequest, text} }

// refsJSON has the names of commits.
type refsJSON struct {
	Head headJSON  `json:"head"`
	Refs []refJSON `json:"refs"`
}

type headJSON struct {
	Branch string     `json:"branch"` // "" if HEAD is on no branch
	Commit *object.ID `json:"commit"` // null: the branch has none
}

type refJSON struct {
	Name   string     `json:"name"`
	Ref    string     `json:"ref"`
	ID     object.ID  `json:"id"`
	Commit *object.ID `json:"commit"` // null: it cannot be read
}

func (s *Site) apiRefs(ctx context.Context, _ apiRequest) (any, error) {
	head, err := s.Repo.Refs().Head()
	if err != nil {
		return nil, err
	}
	v := refsJSON{Head: headJSON{Branch: head.Branch}, Refs: []refJSON{}}
	if !head.ID.IsZero() {
		v.Head.Commit = &head.ID
	}
	for _, folder := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		list, err := s.Repo.Refs().List(folder)
		if err != nil && len(list) == 0 {
			return nil, err // damaged refs do not hide the others
		}
		for _, ref := range list {
			out := refJSON{Name: strings.TrimPrefix(ref.Name, folder), Ref: ref.Name, ID: ref.ID}
			if commit, err := refs.Peel(ctx, s.Repo.Objects(), ref.ID); err == nil {
				out.Commit = &commit
			}
			v.Refs = append(v.Refs, out)
		}
	}
	return v, nil
}

// logJSON is a page of the log.
type logJSON struct {
	Commits []jsonform.Commit `json:"commits"`
	Next    *int              `json:"next"` // the value of skip for the next page; null: there is none
}

func (s *Site) apiLog(ctx context.Context, q apiRequest) (any, error) {
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	limit, err := q.number("limit", 100, 1, 1000)
	if err != nil {
		return nil, err
	}
	skip, err := q.number("skip", 0, 0, 1<<30)
	if err != nil {
		return nil, err
	}
	o := log.Options{Revs: []string{c.Commit.String()}}
	if q.Has("path") {
		at, err := tree.CleanPath(q.Get("path"))
		if err == nil {
			err = c.Rules.MayRead(ctx, at)
		}
		if err != nil {
			return nil, err
		}
		o.Paths = []string{at}
	}

	v := logJSON{Commits: []jsonform.Commit{}}
	viewer := s.Viewer(ctx)
	n := 0
	for logged, err := range log.Commits(ctx, s.Repo, o) {
		if err != nil {
			return nil, err
		}
		if len(o.Paths) > 0 { // the commit may be the only trace of a hidden file
			ok, err := viewer.Touched(ctx, logged.ID, logged.Parents, o.Paths[0])
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		if n++; n <= skip {
			continue
		}
		if len(v.Commits) == limit {
			v.Next = new(skip + limit)
			break
		}
		form, err := viewer.form(ctx, logged.ID, logged.Commit)
		if err != nil {
			return nil, err
		}
		v.Commits = append(v.Commits, form)
	}
	return v, nil
}

// form returns the JSON form of a commit. Only the owner sees the skipped paths, because no
// rule of a tree covers them. The totals and the tree need the right to read everything.
func (v *Viewer) form(ctx context.Context, id object.ID, c *object.Commit) (jsonform.Commit, error) {
	form := jsonform.NewCommit(id, c)
	if v.user.Owner {
		return form, nil
	}
	form.Skipped = nil
	all, err := v.ReadsAll(ctx, id)
	if !all {
		form.Tree, form.Files, form.Bytes = nil, nil, nil
	}
	return form, err
}

func (s *Site) apiCommit(ctx context.Context, q apiRequest) (any, error) {
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	return s.Viewer(ctx).form(ctx, c.Commit, c.Info)
}

// number returns a number of the query from least to most.
func (q apiRequest) number(key string, def, least, most int) (int, error) {
	text := q.Get(key)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest(key + " must be a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}

// treeJSON is a page of a folder.
type treeJSON struct {
	jsonform.AtPath
	Entries []jsonform.Entry `json:"entries"`
	Next    *string          `json:"next"` // the value of after for the next page, escaped as in a URL; null: there is none
}

func newTreePage(dir string, page Page) treeJSON {
	v := treeJSON{AtPath: jsonform.NewPath(dir), Entries: []jsonform.Entry{}}
	for _, e := range page.Entries {
		v.Entries = append(v.Entries, jsonform.NewEntry(tree.Join(dir, e.Name), e))
	}
	if page.Next != "" {
		v.Next = new(url.QueryEscape(page.Next))
	}
	return v
}

func (s *Site) apiTree(ctx context.Context, q apiRequest) (any, error) {
	after, limit, err := pageOf(q.Values)
	if err != nil {
		return nil, err
	}
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	page, err := c.List(ctx, q.path, after, limit)
	if err != nil {
		return nil, err
	}
	return newTreePage(q.path, page), nil
}

// fileJSON is a file or folder with everything known about it.
type fileJSON struct {
	jsonform.Entry
	ContentType string            `json:"content_type"`
	Inherited   map[string]string `json:"inherited,omitempty"` // attributes of folders above it
	Commit      object.ID         `json:"commit"`
}

func (s *Site) apiFile(ctx context.Context, q apiRequest) (any, error) {
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	e, err := c.Find(ctx, q.path)
	if err != nil {
		return nil, err
	}
	shown, err := c.Rules.Shown(ctx, q.path, e)
	if err != nil {
		return nil, err
	}
	v := fileJSON{Entry: jsonform.NewEntry(q.path, shown), Commit: c.Commit}
	if v.ContentType, err = s.ContentType(ctx, c, e); errors.Is(err, object.ErrPurged) {
		v.Purged, err = true, nil
	}
	if err != nil {
		return nil, err
	}

	var in tree.Inheritance
	_, attrs, err := in.Find(ctx, c.Objects, c.Tree, q.path)
	for key, attr := range attrs {
		if may, rerr := c.Readable(ctx, attr.From); attr.From != q.path && may && rerr == nil {
			if v.Inherited == nil {
				v.Inherited = map[string]string{}
			}
			v.Inherited[key] = attr.Value
		}
	}
	return v, err
}

// fileName returns the name of a download.
func fileName(at string, commit object.ID) string {
	if at == "" {
		return "files-" + commit.Short()
	}
	return path.Base(at)
}
