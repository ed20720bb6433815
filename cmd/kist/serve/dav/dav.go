// Package dav serves a repository over WebDAV (RFC 4918, classes 1 and 2).
//
// Tags, commits and HEAD's commit are read-only. Branches can be changed if the server allows
// it: each change is on disk before the answer, and becomes part of a commit after a quiet time
// (package pending). Package access decides who may read and write which path.
package dav

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/browse"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/pending"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Prefix is the path of the handler on its server.
const Prefix = "/dav"

// label begins the messages of commits.
const label = "webdav"

// The longest that the server works on an answer: one that it makes at once, and one that it
// sends while it makes it.
const (
	workTime = 2 * time.Minute
	listTime = 5 * time.Minute
)

// maxListing is the most bytes of the answer to a PROPFIND.
const maxListing = 256 << 20

// Budget returns the budget of a request. The size of a file and the client decide how long a
// GET or PUT takes.
func Budget(r *http.Request) serve.Budget {
	switch r.Method {
	case http.MethodOptions, http.MethodPut, "LOCK", "UNLOCK":
		return serve.Budget{}
	case http.MethodGet, http.MethodHead:
		if strings.HasSuffix(r.URL.Path, "/") {
			return serve.Work(workTime)
		}
		return serve.Budget{}
	case "PROPFIND":
		return serve.Budget{Time: listTime, Output: maxListing, Place: serve.Costly}
	}
	return serve.Work(workTime)
}

// Options configure [New].
type Options struct {
	Write   bool          // allow changes of branches
	Quiet   time.Duration // before changes become a commit; 0: [pending.DefaultQuiet]
	MaxSize int64         // bytes of a file that a client may store; 0: no limit
	Log     func(string)  // receives a line for each problem of the server; nil: dropped
	Guard   *access.Guard // has the rules of access; nil: the handler opens one
}

// Handler answers WebDAV requests. It is safe for concurrent use.
type Handler struct {
	repo    *kist.Repository
	o       Options
	history *browse.History
	changes *pending.Changes // nil: read-only
	locks   *locks
	started time.Time // the time of folders without a time of their own
}

// New returns the handler of a repository, for all paths below [Prefix]. With o.Write, it first
// finds the changes that a killed server has left. The error is a [*disk.BusyError] if another
// server makes changes. The caller closes the handler.
func New(ctx context.Context, r *kist.Repository, o Options) (*Handler, error) {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Guard == nil {
		o.Guard = access.Open(r)
	}
	now := r.Options().Now
	h := &Handler{repo: r, o: o, history: browse.OfRepository(r, browse.Options{}), locks: newLocks(now), started: now()}
	if o.Write {
		var err error
		h.changes, err = pending.Open(ctx, r, pending.Options{
			Quiet: o.Quiet, Label: label, Warn: func(text string) { o.Log(label + ": " + text) }, MayName: h.everyoneMayKnow,
		})
		return h, err
	}
	left, err := pending.Uncommitted(r)
	for _, branch := range left {
		o.Log(fmt.Sprintf("%s: branch %s has changes that are not committed; kist serve --write commits them", label, branch))
	}
	return h, err
}

// everyoneMayKnow reports whether every user with a name may know a path.
func (h *Handler) everyoneMayKnow(ctx context.Context, at compare.Side, path string) bool {
	rules, err := h.o.Guard.Rules(ctx, access.AnyUser, at)
	return err == nil && rules.MayRead(ctx, path) == nil
}

// Close commits the changes that are pending. It is called after the last request.
func (h *Handler) Close(ctx context.Context) error {
	if h.changes == nil {
		return nil
	}
	return h.changes.Close(ctx)
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{Handler: h, r: r, w: w, user: access.UserOf(r.Context())}
	w.Header().Set("DAV", "1, 2")
	w.Header().Set("MS-Author-Via", "DAV")
	if err := q.dispatch(); err != nil {
		q.answerError(err)
	}
}

// method is an HTTP method with its answer.
type method struct {
	name   string
	answer func(*request, *place) error
}

// methods are the methods that the handler knows, beside OPTIONS.
var methods = []method{
	{http.MethodGet, (*request).answerGet},
	{http.MethodHead, (*request).answerGet},
	{"PROPFIND", (*request).answerPropfind},
	{http.MethodPut, (*request).answerPut},
	{http.MethodDelete, (*request).answerDelete},
	{"MKCOL", (*request).answerMkcol},
	{"COPY", (*request).answerCopy},
	{"MOVE", (*request).answerCopy},
	{"PROPPATCH", (*request).answerProppatch},
	{"LOCK", (*request).answerLock},
	{"UNLOCK", (*request).answerUnlock},
	{http.MethodPost, (*request).answerCommit},
}

// allowed is the value of the header Allow.
var allowed = func() string {
	list := http.MethodOptions
	for _, m := range methods {
		list += ", " + m.name
	}
	return list
}()

// request is a request under way.
type request struct {
	*Handler
	r        *http.Request
	w        http.ResponseWriter
	user     access.User
	ifHeader *conditions // set by serve
}

// dispatch carries out the request. If it returns an error, it has written nothing.
func (q *request) dispatch() error {
	if q.r.Method == http.MethodOptions {
		q.w.Header().Set("Allow", allowed)
		q.w.WriteHeader(http.StatusOK)
		return nil
	}
	i := slices.IndexFunc(methods, func(m method) bool { return m.name == q.r.Method })
	if i < 0 {
		q.w.Header().Set("Allow", allowed)
		return &statusError{http.StatusMethodNotAllowed, "unknown method"}
	}
	p, err := q.placeOfURL(q.r.URL.Path)
	if err != nil {
		return err
	}
	if q.ifHeader, err = parseConditions(q.r); err != nil {
		return err
	}
	return methods[i].answer(q, p)
}

// authorOfChanges returns the user as the author of changes.
func (q *request) authorOfChanges() refs.Who {
	if q.user.Name == "" {
		return q.repo.Who()
	}
	return refs.NewWho(q.user.Name, q.user.Email)
}

// statusError is an error with the status code and the text of the answer.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// condError is a failed precondition of RFC 4918, with the element that names it.
type condError struct {
	code int
	name string // of the element in the namespace DAV:
	href string // of the resource in question; may be empty
}

func (e *condError) Error() string { return e.name }

// status returns the status code and the text for an error.
func status(err error) (int, string) {
	var known *statusError
	var stale *volume.StaleError
	var local *stage.LocalChangesError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return known.code, known.text
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "the file is larger than this server allows"
	case errors.As(err, &local):
		return http.StatusConflict, "the branch is checked out, and the worktree has local changes"
	case errors.As(err, &stale):
		return http.StatusServiceUnavailable, "stored data was removed meanwhile; repeat the request"
	case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir), errors.Is(err, refs.ErrNotFound), errors.Is(err, kist.ErrUnborn):
		return http.StatusNotFound, "no such file or folder"
	case errors.Is(err, worktree.ErrGit):
		return http.StatusForbidden, "no server changes a .git folder"
	case errors.Is(err, access.ErrDenied):
		return http.StatusForbidden, "access denied"
	case errors.Is(err, object.ErrPurged), errors.Is(err, object.ErrExpired):
		return http.StatusGone, "the content was removed for good"
	case object.IsAway(err), errors.Is(err, remote.ErrArchived):
		return http.StatusServiceUnavailable, serve.AwayText(err)
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "this takes too long"
	case errors.Is(err, pending.ErrClosed):
		return http.StatusServiceUnavailable, "the server ends"
	case isNoSpace(err):
		return http.StatusInsufficientStorage, "the disk is full"
	}
	return http.StatusInternalServerError, "internal error"
}

// answerError answers with the status of an error.
func (q *request) answerError(err error) {
	if errors.Is(q.r.Context().Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client has gone
	}
	q.w.Header().Del("Content-Length")
	q.w.Header().Del("ETag")
	var failed *condError
	if errors.As(err, &failed) {
		q.w.Header().Set("Content-Type", xmlType)
		q.w.WriteHeader(failed.code)
		fmt.Fprint(q.w, xmlHeader, `<D:error xmlns:D="DAV:"><D:`, failed.name, `>`)
		if failed.href != "" {
			fmt.Fprint(q.w, `<D:href>`, escape(failed.href), `</D:href>`)
		}
		fmt.Fprint(q.w, `</D:`, failed.name, `></D:error>`)
		return
	}
	code, text := status(err)
	if code == http.StatusInternalServerError || code == http.StatusInsufficientStorage {
		q.o.Log(fmt.Sprintf("%s: %s %s: %v", label, q.r.Method, q.r.URL.EscapedPath(), err))
	}
	if code == http.StatusServiceUnavailable {
		q.w.Header().Set("Retry-After", serve.RetryAfter(err))
	}
	http.Error(q.w, text, code)
}
