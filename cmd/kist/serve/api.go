package serve

import (
	"context"
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

// apiRoute is a route of the API. Its pattern is that of OpenAPI. An answer is sent as JSON. The other
// fields are for the document.
type apiRoute struct {
	pattern     string
	answer      func(*Site, context.Context, apiRequest) (any, error)
	id, summary string
	result      any // of the type of answers
	parameters  []apiParameter
	forbidden   string // the meaning of status 403; "": it is not used
}

// apiRoutes has all routes below apiPrefix.
var apiRoutes = []apiRoute{
	{pattern: "refs", answer: (*Site).apiRefs, result: refsJSON{}, id: "listRefs", summary: "HEAD, branches, tags and remote-tracking branches"},
	{pattern: "log", answer: (*Site).apiLog, result: logJSON{}, id: "listCommits", summary: "The commits that a revision reaches, newest first", parameters: []apiParameter{
		ofRev, {name: "path", doc: "Only commits that changed this path or a path below it."}, atMost, skipped,
	}},
	{pattern: "commit", answer: (*Site).apiCommit, result: jsonform.Commit{}, id: "getCommit", summary: "A commit", parameters: []apiParameter{ofRev}},
	{pattern: "tree/{path}", answer: (*Site).apiTree, result: treeJSON{}, id: "listFolder", summary: "The content of a folder, sorted by the bytes of names", parameters: []apiParameter{
		inPath, ofRev, inPages, {name: "after", doc: "Begin after this name."},
	}},
	{pattern: "file/{path}", answer: (*Site).apiFile, result: fileJSON{}, id: "getFile", summary: "A file or folder, with its media type and inherited attributes", parameters: []apiParameter{inPath, ofRev}},
	{pattern: "diff", answer: (*Site).apiDiff, result: diffJSON{}, id: "compareCommits", summary: "The changes between two commits", parameters: []apiParameter{
		{name: "from", doc: "A revision, by default the first parent of to."}, {name: "to", doc: ofRev.doc},
		{name: "path", doc: "Only changes of this path or below it."}, {name: "patch", doc: "1: compare texts of up to 1 MiB by lines."}, inPages, skipped,
	}},
	{pattern: "history/{path}", answer: (*Site).apiHistory, result: historyJSON{}, id: "listVersions", summary: "The versions of a file, across renames", parameters: []apiParameter{inPath, ofRev}},
	{pattern: "search", answer: (*Site).apiSearch, result: searchJSON{}, id: "search", summary: "Files by their names, or lines of files", parameters: []apiParameter{
		{name: "q", doc: "The text. Capital and small letters are equal.", required: true}, {name: "in", doc: "names (the default), or text.", values: []string{"names", "text"}},
		ofRev, {name: "path", doc: "Search in this folder only."}, atMost,
	}},
	{
		pattern: "stats", answer: (*Site).apiStats, result: statsJSON{}, id: "getStats", summary: "The space that commits, branches and tags use",
		forbidden: "Something in the repository is hidden from the user.",
	},
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
		if document, err := apiDocument(); err != nil {
			s.site.Fail(w, r, err)
		} else if readOnly(w, r) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(document)
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
	Error failureJSON `json:"error" doc:"the error"`
}

type failureJSON struct {
	Status  int    `json:"status" doc:"the status of the answer"`
	Message string `json:"message" doc:"the message"`
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
	Head headJSON  `json:"head" doc:"HEAD"`
	Refs []refJSON `json:"refs" doc:"the branches, tags and remote-tracking branches"`
}

type headJSON struct {
	Branch string     `json:"branch" doc:"the branch; empty if HEAD is on none"`
	Commit *object.ID `json:"commit" doc:"its commit; null: it has none yet"`
}

type refJSON struct {
	Name   string     `json:"name" doc:"the short name"`
	Ref    string     `json:"ref" doc:"the full name"`
	ID     object.ID  `json:"id" doc:"the commit, or the tag object of an annotated tag"`
	Commit *object.ID `json:"commit" doc:"the commit; null: it cannot be read"`
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
	Commits []jsonform.Commit `json:"commits" doc:"the commits, newest first"`
	Next    *int              `json:"next" doc:"the value of skip for the next page; null: there is none"`
}

func (s *Site) apiLog(ctx context.Context, q apiRequest) (any, error) {
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	limit, err := q.numberParameter("limit", 100, 1, 1000)
	if err != nil {
		return nil, err
	}
	skip, err := q.numberParameter("skip", 0, 0, 1<<30)
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
		form, err := viewer.commitJSON(ctx, logged.ID, logged.Commit)
		if err != nil {
			return nil, err
		}
		v.Commits = append(v.Commits, form)
	}
	return v, nil
}

// commitJSON returns the JSON form of a commit. Only the owner sees the skipped paths, because no
// rule of a tree covers them. The totals and the tree need the right to read everything.
func (v *Viewer) commitJSON(ctx context.Context, id object.ID, c *object.Commit) (jsonform.Commit, error) {
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
	return s.Viewer(ctx).commitJSON(ctx, c.Commit, c.Info)
}

// numberParameter returns a number of the query from least to most.
func (q apiRequest) numberParameter(key string, def, least, most int) (int, error) {
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
	jsonform.AtPath `doc:"the folder"`
	Entries         []jsonform.Entry `json:"entries" doc:"its files and folders"`
	Next            *string          `json:"next" doc:"the value of after for the next page, escaped as in a URL; null: there is none"`
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
	ContentType string            `json:"content_type" doc:"the media type"`
	Inherited   map[string]string `json:"inherited,omitempty" doc:"the attributes of the folders above it"`
	Commit      object.ID         `json:"commit" doc:"the commit"`
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
