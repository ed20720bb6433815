package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// filesPrefix is the path of raw files.
const filesPrefix = "/files/"

// listTime is the most time for the list of a folder.
const listTime = time.Minute

// filesBudget is the budget of a request for a file, a folder or an archive.
func filesBudget(r *http.Request) Budget {
	switch isDir := strings.HasSuffix(r.URL.Path, "/"); {
	case r.URL.Query().Has("archive"):
		return Budget{Place: Archive}
	case isDir:
		return Work(listTime)
	}
	return Budget{}
}

// serveFiles serves the raw content of files, lists folders, and sends folders as archives.
func (s *Server) serveFiles(w http.ResponseWriter, r *http.Request) {
	if !readOnly(w, r) {
		return
	}
	query := r.URL.Query()
	name := strings.TrimPrefix(r.URL.Path, filesPrefix)
	at, err := tree.CleanPath(name)
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	c, err := s.site.Open(r.Context(), query.Get("rev"))
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}
	e, err := c.Find(r.Context(), at)
	if err != nil {
		s.site.Fail(w, r, err)
		return
	}

	isDir := tree.IsDir(&e)
	switch asked := strings.HasSuffix(name, "/") || name == ""; {
	case isDir && query.Has("archive"):
		s.sendArchive(w, r, c, at, e)
	case isDir && !asked:
		redirect(w, r, path.Base(r.URL.EscapedPath())+"/")
	case isDir:
		s.listFolder(w, r, c, at, e)
	case asked:
		redirect(w, r, "../"+path.Base(r.URL.EscapedPath()))
	default:
		s.sendFile(w, r, c, at, e)
	}
}

// readOnly reports whether a request is GET or HEAD. It answers any other one with an error.
func readOnly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "only GET and HEAD are possible here", http.StatusMethodNotAllowed)
	return false
}

// redirect sends the client to a path relative to that of the request. The query stays.
func redirect(w http.ResponseWriter, r *http.Request, to string) {
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", "./"+strings.TrimPrefix(to, "./"))
	w.WriteHeader(http.StatusFound)
}

// sendFile sends the content of a file, or the target of a symlink. The caller has checked
// the access.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, c *VisibleCommit, at string, e object.Entry) {
	var content io.ReadSeeker = strings.NewReader(e.Target)
	kind := "text/plain; charset=utf-8"
	switch e.Type {
	case object.TypeFile:
		kind, err := s.site.ContentType(r.Context(), c, e)
		if err != nil {
			s.site.Fail(w, r, err)
			return
		}
		file := object.NewContentReader(r.Context(), c.Objects, e)
		if err := s.checkReadable(r, &e, file); err != nil {
			s.site.Fail(w, r, err)
			return
		}
		SetType(w.Header(), kind)
		content = &checkedReader{ContentReader: file}
	case object.TypeSymlink:
		SetType(w.Header(), kind)
	default:
		s.site.Fail(w, r, &tree.PathError{Path: at, Err: tree.ErrNotExist})
		return
	}

	h := w.Header()
	h.Set("ETag", `"`+tree.ContentID(&e).String()+`"`)
	h.Set("Cache-Control", "private, no-cache") // a client asks each time, and gets no content twice
	if r.URL.Query().Has("download") {
		h.Set("Content-Disposition", attachment(path.Base(at)))
	}
	modified, ok := e.Modified()
	if ok {
		h.Set("Last-Modified", modified.Format(http.TimeFormat)) // ServeContent leaves out the start of 1970
	}
	http.ServeContent(w, r, "", modified, content)
	if checked, ok := content.(*checkedReader); ok && checked.err != nil {
		s.logFailure(r, checked.err)
		panic(http.ErrAbortHandler) // the client must not take the part for the file
	}
}

// checkReadable returns an error if a part of a file was purged, or if its start is damaged. The
// caller runs it before the status line is sent, while an error status is still possible.
func (s *Server) checkReadable(r *http.Request, e *object.Entry, file *object.ContentReader) error {
	purged, err := s.site.Repo.Purged(r.Context(), e)
	err = cmp.Or(err, purged)
	if err == nil && e.Size > 0 && r.Method == http.MethodGet && r.Header.Get("Range") == "" {
		_, err = file.ReadAt(make([]byte, 1), 0) // the reader keeps the chunk
	}
	return err
}

// checkedReader remembers the first error of a content.
type checkedReader struct {
	*object.ContentReader
	err error
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.ContentReader.Read(p)
	if err != nil && err != io.EOF && c.err == nil {
		c.err = err
	}
	return n, err
}

// attachment returns the Content-Disposition that makes a browser save a file.
func attachment(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	value := `attachment; filename="` + ascii + `"`
	if ascii != name {
		value += "; filename*=UTF-8''" + url.PathEscape(strings.ToValidUTF8(name, "\ufffd"))
	}
	return value
}

// ContentType returns the media type of a file: that of its attribute, or else by its
// content, which it remembers. It may be any text: before it goes to a browser, see
// [SetType].
func (s *Site) ContentType(ctx context.Context, c *VisibleCommit, e object.Entry) (string, error) {
	if kind, ok := e.Attrs[tree.ContentType]; ok {
		return kind, nil
	}
	id := tree.ContentID(&e)
	if kind, ok := s.types.get(id); ok && e.Type == object.TypeFile {
		return kind, nil
	}
	kind, err := tree.DetectType(ctx, c.Objects, e)
	if err == nil && e.Type == object.TypeFile {
		s.types.add(id, kind)
	}
	return kind, err
}

// asIs are further types that are sent as they are. The policy of SetType stops their
// scripts.
var asIs = map[string]bool{
	"application/pdf": true, "application/json": true, "application/zip": true, "application/gzip": true, "image/svg+xml": true,
}

// SetType sets the headers with the type of a content that a stranger may have made. Browsers
// show it, but never run scripts in it: text of all kinds is sent as plain text, and the
// policy makes a sandbox of a document.
func SetType(h http.Header, kind string) {
	media, params, err := mime.ParseMediaType(kind)
	main, _, _ := strings.Cut(media, "/")
	switch {
	case err != nil:
		kind = "application/octet-stream"
	case main == "text" || isCode(media):
		kind = "text/plain"
		if charset := params["charset"]; charset != "" {
			kind = mime.FormatMediaType(kind, map[string]string{"charset": charset})
		}
	case main == "image" || main == "audio" || main == "video" || main == "font" || asIs[media]:
		kind = media
	default:
		kind = "application/octet-stream"
	}
	h.Set("Content-Type", kind)

	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src 'self'; frame-ancestors 'self'; sandbox"
	if media == "application/pdf" { // the viewers of browsers do not work in a sandbox
		policy = "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; plugin-types application/pdf; frame-ancestors 'self'"
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
}

// isCode reports whether a type that is not text/* is text that a browser may run.
func isCode(media string) bool {
	for _, word := range []string{"script", "xml", "html", "wasm"} {
		if strings.Contains(media, word) && media != "image/svg+xml" {
			return true
		}
	}
	return false
}

// archiveFormats are the formats of ?archive=, with their types.
var archiveFormats = map[string]string{"tar": "application/x-tar", "zip": "application/zip"}

// sendArchive sends the readable part of a folder as an archive.
func (s *Server) sendArchive(w http.ResponseWriter, r *http.Request, c *VisibleCommit, at string, e object.Entry) {
	format := r.URL.Query().Get("archive")
	kind, known := archiveFormats[format]
	if !known {
		http.Error(w, "archive must be tar or zip", http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", attachment(fileName(at, c.Commit)+"."+format))
	h.Set("Cache-Control", "private, no-cache")
	if r.Method == http.MethodHead {
		return
	}
	if err := c.writeArchive(r.Context(), w, format, at, e); err != nil {
		s.logFailure(r, err)
		panic(http.ErrAbortHandler)
	}
}

// logFailure logs an error after the header of an answer was sent.
func (s *Server) logFailure(r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, access.ErrDenied) {
		s.o.Log(fmt.Sprintf("%s %s: %v", r.Method, r.URL.EscapedPath(), err))
	}
}
