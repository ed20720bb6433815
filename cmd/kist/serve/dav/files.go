package dav

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// etag returns the entity tag of a file: a part of the ID of its content.
func etag(e *object.Entry) string {
	id := tree.ContentID(e)
	return `"` + hex.EncodeToString(id[:16]) + `"`
}

// mediaType returns the media type of a file: its attribute, or that of its name.
func mediaType(e *object.Entry, name string) string {
	if t := e.Attrs[tree.ContentType]; t != "" {
		if _, _, err := mime.ParseMediaType(t); err == nil {
			return t
		}
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// answerGet answers GET and HEAD: the content of a file, or a plain list of a folder.
func (q *request) answerGet(p *place) error {
	e, err := p.readEntry(q.r.Context())
	if err != nil {
		return err
	}
	if p.root == "" && q.r.URL.Query().Has("locks") {
		return listLocks(q)
	}
	if e.Type == object.TypeDir {
		return q.answerFolder(p)
	}
	header := q.w.Header()
	header.Set("Content-Type", mediaType(&e, path.Base(p.path)))
	header.Set("ETag", etag(&e))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'") // no script of a stored page runs
	header.Set("Cache-Control", "private, no-cache")
	content := object.NewContentReader(q.r.Context(), p.side.Objects, e)
	var first [1]byte
	if _, err := content.ReadAt(first[:], 0); err != nil && err != io.EOF {
		return err // with a status, as nothing is written yet
	}
	modified, ok := e.Modified()
	if ok {
		header.Set("Last-Modified", modified.Format(http.TimeFormat)) // ServeContent leaves out the start of 1970
	}
	http.ServeContent(q.w, q.r, "", modified, &abortingReader{content})
	return nil
}

// abortingReader ends the connection if a content cannot be read to its end. The client must
// not take the part for the file.
type abortingReader struct{ io.ReadSeeker }

func (r *abortingReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// answerFolder answers GET of a folder: a list for people who open it in a browser.
func (q *request) answerFolder(p *place) error {
	var b strings.Builder
	title := html.EscapeString(readable.Escape("/" + p.fullPath()))
	fmt.Fprintf(&b, "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title><h1>%s</h1>\n<p>Open this address with a WebDAV client.</p>\n<ul>\n", title, title)
	n := 0
	for e, err := range p.readableEntries(q.r.Context()) {
		if err != nil {
			return err
		}
		if n++; n > maxListed {
			fmt.Fprint(&b, "<li>…</li>\n")
			break
		}
		link := href(tree.Join(p.fullPath(), e.Name), e.Type == object.TypeDir)
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", html.EscapeString(link), html.EscapeString(readable.Escape(e.Name)))
	}
	fmt.Fprint(&b, "</ul>\n</html>\n")
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	q.w.Header().Set("Cache-Control", "private, no-cache")
	_, err := io.WriteString(q.w, b.String())
	return err
}

// maxListed is the number of names in the list of a folder for people.
const maxListed = 10_000

// answerPut answers PUT: it stores a file.
func (q *request) answerPut(p *place) error {
	if err := p.checkWritable(); err != nil {
		return err
	}
	limit := q.o.MaxSize
	switch {
	case q.r.Header.Get("Content-Range") != "":
		return &statusError{http.StatusBadRequest, "a part of a file cannot be replaced"}
	case p.slash:
		return &statusError{http.StatusMethodNotAllowed, "a folder cannot be replaced by a file"}
	case isFinderFile(q.r, p):
		return &statusError{http.StatusForbidden, "kist does not keep this file"}
	case limit > 0 && expectedSize(q.r) > limit:
		return &statusError{http.StatusRequestEntityTooLarge, "the file is larger than this server allows"}
	}
	if _, err := q.checkPut(p); err != nil { // before the client sends the content
		return err
	}

	defer p.branch.BeginUpload()()
	body := q.r.Body
	if limit > 0 {
		body = http.MaxBytesReader(q.w, body, limit)
	}
	up, err := q.changes.Receive(q.r.Context(), body)
	if err != nil {
		return bodyError(err)
	}
	defer up.Close()
	if want := expectedSize(q.r); want >= 0 && uint64(want) != up.Entry.Size {
		return &statusError{http.StatusBadRequest, "the content is not complete"}
	}
	if at, ok := modifiedTime(q.r); ok {
		up.Entry.MTime = at
		q.w.Header().Set("X-OC-Mtime", "accepted")
	}

	created := false
	err = p.branch.Change(q.r.Context(), q.authorOfChanges(), up, func(e *pending.Edit) error {
		now, err := q.placeAt(p, e.Before, p.path)
		if err != nil {
			return err
		}
		old, err := q.checkPut(now)
		if err != nil {
			return err
		}
		created = old == nil
		entry := up.Entry
		if old != nil {
			entry.Mode, entry.Attrs, entry.Meta = old.Mode, old.Attrs, old.Meta
		}
		e.Set(p.path, entry)
		return nil
	})
	if err != nil {
		return err
	}
	q.w.Header().Set("ETag", etag(&up.Entry))
	answerChanged(q.w, created)
	return nil
}

// bodyError returns the error for a body that could not be read or stored.
func bodyError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &statusError{http.StatusBadRequest, "the content is not complete"}
	}
	return err
}

// answerChanged answers a change.
func answerChanged(w http.ResponseWriter, created bool) {
	if created {
		w.WriteHeader(http.StatusCreated)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
}

// checkPut returns the file that a PUT replaces, nil if there is none, or the reason why it
// may not be stored.
func (q *request) checkPut(p *place) (*object.Entry, error) {
	old, err := q.checkTarget(p)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.Type == object.TypeDir:
		return nil, &statusError{http.StatusMethodNotAllowed, "a folder cannot be replaced by a file"}
	}
	return old, q.checkLocks(p, old == nil)
}

// checkTarget returns the entry at a path that will be written, nil if there is none. It
// checks the access, the preconditions and the parent.
func (q *request) checkTarget(p *place) (*object.Entry, error) {
	if err := p.checkName(); err != nil {
		return nil, err
	}
	if err := p.rules.MayWrite(q.r.Context(), p.path); err != nil {
		return nil, err
	}
	var old *object.Entry
	e, err := p.side.Find(q.r.Context(), p.path)
	switch {
	case err == nil:
		old = &e
	case !isNotFound(err):
		return nil, err
	}
	if old != nil && old.Type != object.TypeFile && old.Type != object.TypeDir {
		return nil, &statusError{http.StatusForbidden, "a symlink or a special file has this name"}
	}
	if err := checkPrecondition(q.r, old); err != nil {
		return nil, err
	}
	return old, p.checkParent(q.r.Context())
}

// checkPrecondition checks the headers If-Match and If-None-Match.
func checkPrecondition(r *http.Request, e *object.Entry) error {
	failed := &statusError{http.StatusPreconditionFailed, "the file has changed"}
	if list := r.Header.Get("If-Match"); list != "" && (e == nil || !matchesTag(list, e)) {
		return failed
	}
	if list := r.Header.Get("If-None-Match"); list != "" && e != nil && matchesTag(list, e) {
		return failed
	}
	return nil
}

// matchesTag reports whether a list of entity tags has that of e.
func matchesTag(list string, e *object.Entry) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	if e.Type == object.TypeDir {
		return false
	}
	for tag := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(tag) == etag(e) {
			return true
		}
	}
	return false
}

// answerDelete answers DELETE.
func (q *request) answerDelete(p *place) error {
	if err := p.checkWritable(); err != nil {
		return err
	}
	err := p.branch.Change(q.r.Context(), q.authorOfChanges(), nil, func(e *pending.Edit) error {
		now, err := q.placeAt(p, e.Before, p.path)
		if err != nil {
			return err
		}
		if err := q.checkRemove(now); err != nil {
			return err
		}
		e.Remove(p.path)
		return nil
	})
	if err != nil {
		return err
	}
	q.locks.removeBelow(p.fullPath())
	answerChanged(q.w, false)
	return nil
}

// checkRemove returns the reason why a place cannot be removed.
func (q *request) checkRemove(p *place) error {
	e, err := p.readEntry(q.r.Context())
	if err != nil {
		return err
	}
	if q.r.Method == http.MethodDelete && strings.Contains(q.r.RequestURI, "#") {
		return &statusError{http.StatusBadRequest, "a part of a file cannot be removed"}
	}
	if err := checkPrecondition(q.r, &e); err != nil {
		return err
	}
	if err := q.checkAccessBelow(p, p.rules.MayWrite); err != nil {
		return err
	}
	return q.checkLocks(p, true)
}

// checkAccessBelow checks the access to a place and to everything in it.
func (q *request) checkAccessBelow(p *place, may func(context.Context, string) error) error {
	if p.rules.Open() {
		return nil
	}
	if err := may(q.r.Context(), p.path); err != nil {
		return err
	}
	e, err := p.side.Find(q.r.Context(), p.path)
	if err != nil || e.Type != object.TypeDir || e.Content.IsZero() {
		return err
	}
	return tree.Walk(q.r.Context(), p.side.Objects, e.Content.ID, func(path string, _ object.Entry) error {
		return may(q.r.Context(), tree.Join(p.path, path))
	})
}

// answerMkcol answers MKCOL: it makes a folder.
func (q *request) answerMkcol(p *place) error {
	if err := p.checkWritable(); err != nil {
		return err
	}
	var first [1]byte
	if n, _ := q.r.Body.Read(first[:]); n > 0 {
		return &statusError{http.StatusUnsupportedMediaType, "a new folder has no content"}
	}
	err := p.branch.Change(q.r.Context(), q.authorOfChanges(), nil, func(e *pending.Edit) error {
		now, err := q.placeAt(p, e.Before, p.path)
		if err != nil {
			return err
		}
		old, err := q.checkTarget(now)
		if err == nil && old != nil {
			err = &statusError{http.StatusMethodNotAllowed, "exists already"}
		}
		if err == nil {
			err = q.checkLocks(now, true)
		}
		if err != nil {
			return err
		}
		e.SetDir(p.path, object.Entry{Type: object.TypeDir, Mode: 0o755 &^ q.repo.Options().Umask})
		return nil
	})
	if err != nil {
		return err
	}
	answerChanged(q.w, true)
	return nil
}

// answerCommit answers POST of a branch: its changes become a commit now. The answer has the ID.
func (q *request) answerCommit(p *place) error {
	if p.branch == nil || p.path != "" {
		return &statusError{http.StatusForbidden, "only a branch that can be changed takes POST: it commits the changes"}
	}
	if err := p.rules.MayWrite(q.r.Context(), ""); err != nil {
		return err
	}
	id, err := p.branch.Commit(q.r.Context())
	if err != nil || id.IsZero() {
		if err == nil {
			answerChanged(q.w, false)
		}
		return err
	}
	q.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	q.w.WriteHeader(http.StatusCreated)
	_, err = fmt.Fprintln(q.w, id)
	return err
}

// destinationPlace returns the place of the Destination header.
func (q *request) destinationPlace() (*place, error) {
	text := q.r.Header.Get("Destination")
	u, err := url.Parse(text)
	switch {
	case text == "" || err != nil:
		return nil, &statusError{http.StatusBadRequest, "no usable Destination header"}
	case u.Host != "" && !strings.EqualFold(u.Host, q.r.Host):
		return nil, &statusError{http.StatusBadGateway, "the destination is on another server"}
	}
	p, err := q.placeOfURL(u.Path)
	if isNotFound(err) {
		return nil, &statusError{http.StatusConflict, "the destination is in no branch"}
	}
	if err != nil {
		return nil, err
	}
	return p, p.checkWritable()
}

// answerCopy answers COPY and MOVE.
func (q *request) answerCopy(src *place) error {
	dst, err := q.destinationPlace()
	if err != nil {
		return err
	}
	if _, err := src.readEntry(q.r.Context()); err != nil {
		return err
	}
	shallow, err := q.checkCopy(src, dst)
	if err != nil {
		return err
	}
	other := src.root != dst.root
	if other && src.branch != nil {
		if err := src.branch.Checkpoint(q.r.Context()); err != nil { // its objects are in the store then
			return err
		}
	}
	created := false
	err = dst.branch.Change(q.r.Context(), q.authorOfChanges(), nil, func(e *pending.Edit) (err error) {
		to, err := q.placeAt(dst, e.Before, dst.path)
		from := src
		if err == nil && !other {
			from, err = q.placeAt(src, e.Before, src.path)
		}
		if err != nil {
			return err
		}
		created, err = q.addCopy(e, from, to, shallow)
		return err
	})
	if err != nil {
		return err
	}
	if q.r.Method == "MOVE" {
		q.locks.removeBelow(src.fullPath())
	}
	if !created {
		q.locks.removeInside(dst.fullPath())
	}
	answerChanged(q.w, created)
	return nil
}

// checkCopy returns the reason why a COPY or MOVE is not possible, whatever the places have.
// Shallow is set for a COPY of a folder without its content.
func (q *request) checkCopy(src, dst *place) (shallow bool, err error) {
	move := q.r.Method == "MOVE"
	switch depth := strings.ToLower(q.r.Header.Get("Depth")); {
	case depth == "" || depth == "infinity":
	case depth == "0" && !move:
		shallow = true
	default:
		return false, &statusError{http.StatusBadRequest, "this depth is not possible"}
	}
	if isFinderFile(q.r, dst) {
		return shallow, &statusError{http.StatusForbidden, "kist does not keep this file"}
	}
	if src.folder != nil {
		return shallow, &statusError{http.StatusForbidden, "a folder of branches or tags cannot be copied"}
	}
	inside := tree.Below(dst.fullPath(), src.fullPath())
	switch {
	case src.fullPath() == dst.fullPath():
		return shallow, &statusError{http.StatusForbidden, "source and destination are the same"}
	case !move && inside && !shallow:
		return shallow, &statusError{http.StatusForbidden, "a folder cannot be put into itself"}
	case !move && tree.Below(src.fullPath(), dst.fullPath()):
		return shallow, &statusError{http.StatusForbidden, "a folder cannot be replaced by a part of it"}
	case !move:
		return shallow, nil
	}
	if err := src.checkWritable(); err != nil {
		return shallow, err
	}
	switch {
	case src.root != dst.root:
		return shallow, &statusError{http.StatusBadGateway, "a move to another branch is not possible: copy, then delete"}
	case inside:
		return shallow, &statusError{http.StatusForbidden, "a folder cannot be put into itself"}
	case tree.Below(src.fullPath(), dst.fullPath()):
		return shallow, &statusError{http.StatusForbidden, "a folder cannot be replaced by a part of it"}
	}
	return shallow, nil
}

// addCopy adds the parts of a COPY or MOVE to an edit, and reports whether the destination is
// new.
func (q *request) addCopy(e *pending.Edit, from, to *place, shallow bool) (created bool, err error) {
	entry, err := from.readEntry(q.r.Context())
	if err != nil {
		return false, err
	}
	move := q.r.Method == "MOVE"
	if move {
		err = q.checkRemove(from)
	} else if err = checkPrecondition(q.r, &entry); err == nil {
		err = q.checkAccessBelow(from, from.rules.MayRead)
	}
	if err == nil {
		created, err = q.checkDestination(to)
	}
	if err != nil {
		return false, err
	}

	switch {
	case entry.Type == object.TypeDir && (shallow || entry.Content.IsZero()):
		e.Remove(to.path)
		e.SetDir(to.path, entry)
	case from.root != to.root:
		e.SetFrom(to.path, entry)
	default:
		e.Set(to.path, entry)
	}
	if move {
		e.Remove(from.path)
	}
	return created, nil
}

// checkDestination returns the reason why a COPY or MOVE cannot write a place, and reports
// whether it is free.
func (q *request) checkDestination(to *place) (free bool, err error) {
	if err := to.checkName(); err != nil {
		return false, err
	}
	if err := to.rules.MayWrite(q.r.Context(), to.path); err != nil {
		return false, err
	}
	_, err = to.side.Find(q.r.Context(), to.path)
	switch {
	case isNotFound(err):
		free = true
	case err != nil:
		return false, err
	case strings.EqualFold(q.r.Header.Get("Overwrite"), "F"):
		return false, &statusError{http.StatusPreconditionFailed, "the destination exists"}
	default:
		if err := q.checkAccessBelow(to, to.rules.MayWrite); err != nil {
			return false, err
		}
	}
	if err := to.checkParent(q.r.Context()); err != nil {
		return free, err
	}
	return free, q.checkLocks(to, true)
}
