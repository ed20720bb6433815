package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/tree"
)

// request is a request for a page.
type request struct {
	*http.Request
	site *site
	rev  string // the revision that the page shows, as the visitor named it
}

// parameter returns a parameter of the address.
func (r *request) parameter(key string) string { return r.URL.Query().Get(key) }

// numberParameter returns a parameter that is a number from 0 to a limit, or 0.
func (r *request) numberParameter(key string, limit int) int {
	n, err := strconv.Atoi(r.parameter(key))
	if err != nil {
		return 0
	}
	return min(max(n, 0), limit)
}

// revision returns the revision that the parameter rev names: HEAD by default.
func (r *request) revision() string {
	r.rev = cmp.Or(r.parameter("rev"), "HEAD")
	return r.rev
}

// openCommit returns the commit that the parameter rev names, as the visitor may see it.
func (r *request) openCommit() (*serve.VisibleCommit, error) {
	return r.site.Open(r.Context(), r.revision())
}

// failurePage returns the page for an error.
func (s *site) failurePage(err error) page {
	f := failure{Title: "Something went wrong", Text: "The server could not read the repository. Its log has the reason.", status: http.StatusInternalServerError}
	var shown *shownError
	switch {
	case errors.As(err, &shown):
		f = failure{shown.title, shown.text, shown.status}
	case errors.Is(err, errNoPage):
		f = failure{"No such page", "There is nothing at this address.", http.StatusNotFound}
	case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir), errors.Is(err, access.ErrDenied):
		f = failure{"Not found", "This version has no such file or folder.", http.StatusNotFound}
	case errors.Is(err, kist.ErrUnborn):
		f = failure{"Nothing here yet", "The repository has no commit. 'kist add' and 'kist commit' make the first one.", http.StatusNotFound}
	case errors.Is(err, refs.ErrNotFound), isRevision(err):
		f = failure{"No such version", "The repository has no commit with this name.", http.StatusNotFound}
	case errors.Is(err, object.ErrExpired):
		f = failure{"Expired", expiredText, http.StatusGone}
	case errors.Is(err, object.ErrPurged):
		f = failure{"Purged", "The content was purged: somebody decided that it must disappear.", http.StatusGone}
	case errors.Is(err, remote.ErrArchived):
		f = failure{"In an archive", "The content lies in an archive of a remote. 'kist fetch --data PATH --thaw' on the server brings it back in hours.", http.StatusServiceUnavailable}
	case object.IsAway(err):
		f = failure{"Not here", awayText(err), http.StatusServiceUnavailable}
	case errors.Is(err, context.DeadlineExceeded):
		f = failure{"This takes too long", "The server gave up, to stay quick for others.", http.StatusServiceUnavailable}
	case errors.Is(err, context.Canceled): // the client has gone
	default:
		s.Log(err)
	}
	return page{name: "failure", status: f.status, Title: f.Title, Data: f}
}

const expiredText = "The content of this commit has expired: a retention policy gave it up."

// whyUnreadable returns the words for content that cannot be read because of err. They are empty
// for an error of another kind.
func whyUnreadable(err error) string {
	switch {
	case errors.Is(err, object.ErrPurged):
		return "The content was purged."
	case object.IsAway(err):
		return awayText(err)
	case object.IsUnreadable(err):
		return "The content is damaged or missing here. 'kist verify' shows more, and 'kist verify --repair' may bring it back."
	}
	return ""
}

// awayText is [serve.AwayText] as a sentence.
func awayText(err error) string {
	text := serve.AwayText(err) + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// isRevision reports whether an error is about the name of a revision.
func isRevision(err error) bool {
	var unknown *refs.UnknownRevisionError
	var ambiguous *refs.AmbiguousError
	var name *refs.NameError
	return errors.As(err, &unknown) || errors.As(err, &ambiguous) || errors.As(err, &name)
}

// failure is the content of the page for an error.
type failure struct {
	Title, Text string
	status      int
}

// shownError is an error that the visitor sees.
type shownError struct {
	title, text string
	status      int
}

func (e *shownError) Error() string { return e.title + ": " + e.text }
