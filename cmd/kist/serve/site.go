package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/cache"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

const (
	maxRev      = 1000             // bytes of a revision in a request
	cacheSize   = 64 << 20         // bytes of objects in memory
	refreshTime = 10 * time.Second // between looks at the volumes
	resolveTime = 10 * time.Second // to find the commit of a revision
)

// Site is the state that the handlers of a server share. It is safe for concurrent use, unlike most of
// the repository: beside a Site, handlers only use Refs, Objects and functions of packages
// that need nothing else. An operation that writes needs a lock of its handler.
type Site struct {
	Repo  *kist.Repository
	Guard *access.Guard
	Write bool // handlers may change the repository

	log     func(string)
	users   bool         // visitors may have a name
	login   bool         // they log in here
	cache   *cache.Cache // over the objects of Repo
	types   types
	history history
	account account
}

func newSite(r *kist.Repository, o Options) *Site {
	return &Site{Repo: r, Guard: access.Open(r), Write: o.Write, log: o.Log, users: o.HasUsers(), login: o.Users.needsLogin(), cache: cache.New(r.Objects(), cacheSize)}
}

// refreshVolumes looks for removed volumes from time to time, until ctx ends. Otherwise the store
// would keep their files open, and so their disk space in use.
func (s *Site) refreshVolumes(ctx context.Context) {
	tick := time.NewTicker(refreshTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := volume.Relist(s.Repo.Objects()); err != nil && ctx.Err() == nil {
				s.log("list volumes: " + err.Error())
			}
		}
	}
}

// warmRules reads the rules of access before a request needs them.
func (s *Site) warmRules(ctx context.Context) {
	if err := s.Guard.Warm(ctx); err != nil && ctx.Err() == nil {
		s.log("rules of access: " + err.Error())
	}
}

// Objects returns a reader of all objects. It returns an error for purged content. Use it for
// one request only.
func (s *Site) Objects() object.Reader { return kist.ContentsOf(s.Repo, s.cache) }

// VisibleCommit is a commit as the user of a request sees it.
type VisibleCommit struct {
	compare.Side // its Objects return an error for purged content

	Info  *object.Commit
	Rules *access.Rules // of the user
}

// Open returns the commit that a revision names, HEAD for "", for the user of ctx. Use it for
// one request only. Each call reads the names again, and so finds new commits.
func (s *Site) Open(ctx context.Context, rev string) (*VisibleCommit, error) {
	id, err := s.Resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	objects := s.Objects()
	info, err := object.ReadCommit(ctx, objects, id)
	if err == nil {
		err = kist.CheckUsable(ctx, s.Repo, id)
	}
	if err != nil {
		return nil, err
	}

	c := &VisibleCommit{Side: compare.Side{Tree: info.Tree, Commit: id, Objects: objects}, Info: info}
	c.Rules, err = s.Guard.Rules(ctx, access.UserOf(ctx), compare.Side{Commit: id, Tree: info.Tree, Objects: objects})
	return c, err
}

// Resolve returns the commit that a revision names, HEAD for "". Only the owner may use all of
// docs/revisions.md. Others name a branch, a tag or an ID: a search of messages takes long, and
// reveals them.
func (s *Site) Resolve(ctx context.Context, rev string) (object.ID, error) {
	if len(rev) > maxRev {
		return object.ID{}, &refs.UnknownRevisionError{Rev: rev[:maxRev] + "…"}
	}
	switch owner := access.UserOf(ctx).Owner; {
	case rev == "" || rev == "HEAD":
	case !owner:
		return refs.ResolveName(ctx, s.Repo.Refs(), s.Repo.Objects(), rev)
	default:
		ctx, stop := context.WithTimeout(ctx, resolveTime) // ":/TEXT" searches history
		defer stop()
		return s.Repo.Resolve(ctx, rev)
	}
	head, err := s.Repo.Refs().Head()
	if err == nil && head.ID.IsZero() {
		err = kist.ErrUnborn
	}
	return head.ID, err
}

// Find returns the entry at a path, or the root for "". The error is a [*tree.PathError] with
// [tree.ErrNotExist] if the path does not exist, and [access.ErrDenied] if the user may not
// read it.
func (c *VisibleCommit) Find(ctx context.Context, path string) (object.Entry, error) {
	if err := c.Rules.MayRead(ctx, path); err != nil {
		return object.Entry{}, err
	}
	return tree.Find(ctx, c.Objects, c.Tree, path)
}

// StatusOf returns the status code for an error, and a text that is safe to show. To a visitor,
// a path without access does not exist.
func StatusOf(err error) (code int, text string) {
	var path *tree.PathError
	var known httpError
	var ambiguous *refs.AmbiguousError
	switch {
	case errors.As(err, &known):
		return known.code, known.text
	case errors.As(err, &ambiguous):
		return http.StatusBadRequest, "this revision needs more digits"
	case errors.Is(err, access.ErrDenied), errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir):
		return http.StatusNotFound, "no such file or folder"
	case errors.Is(err, refs.ErrNotFound):
		return http.StatusNotFound, "unknown revision"
	case errors.Is(err, kist.ErrUnborn):
		return http.StatusNotFound, "there is no commit yet"
	case errors.Is(err, tree.ErrTooMany):
		return http.StatusUnprocessableEntity, tree.ErrTooMany.Error()
	case errors.Is(err, object.ErrPurged), errors.Is(err, object.ErrExpired):
		return http.StatusGone, err.Error()
	case object.IsAway(err), errors.Is(err, remote.ErrArchived):
		return http.StatusServiceUnavailable, AwayText(err)
	case errors.As(err, &path) && !object.IsUnreadable(err):
		return http.StatusBadRequest, "not a path"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "this takes too long"
	case object.IsUnreadable(err):
		return http.StatusInternalServerError, "stored data is damaged or missing"
	}
	return http.StatusInternalServerError, "internal error"
}

// AwayText returns the words for content that is away and cannot be fetched because of err.
func AwayText(err error) string {
	switch {
	case errors.Is(err, object.ErrNoFetch):
		return "only a remote has this content, and this server does not fetch it"
	case errors.Is(err, remote.ErrArchived):
		return "the content lies in an archive, and cannot be read before a thaw"
	}
	return "only a remote has this content, and it does not answer"
}

// RetryAfter returns the number of seconds after which a client may repeat a request that failed with err. A thaw takes hours, and each
// request for archived content costs one to the store.
func RetryAfter(err error) string {
	if errors.Is(err, remote.ErrArchived) {
		return "3600"
	}
	return "1"
}

// Fail answers with the status of err, in JSON if the request is for the API. It logs an error
// of the server. A visitor without a name is asked for one, if a user could see more.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the client has gone
	}
	code, text := StatusOf(err)
	if u := access.UserOf(r.Context()); code == http.StatusNotFound && s.users && u.Name == "" {
		code, text = errLogin.code, errLogin.text // there may be more to see
	}
	if code >= http.StatusInternalServerError {
		s.log(r.Method + " " + r.URL.EscapedPath() + ": " + err.Error())
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", RetryAfter(err))
	}
	if code == http.StatusUnauthorized && s.login {
		w.Header().Set("WWW-Authenticate", `Basic realm="kist", charset="UTF-8"`)
	}
	if !strings.HasPrefix(r.URL.Path, apiPrefix) {
		http.Error(w, text, code)
		return
	}
	var v failedJSON
	v.Error.Status, v.Error.Message = code, text
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}
