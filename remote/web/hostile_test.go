package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// wantKind checks that err is a [*remote.Error] of a kind, nil for none, with words in its text.
func wantKind(t testing.TB, err, kind error, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok || e.Kind != kind {
		t.Errorf("error %v, want kind %v", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want %q in it", err, word)
		}
	}
}

// underlying returns the error of a file in err, or err.
func underlying(err error) error {
	if file, ok := errors.AsType[*os.PathError](err); ok {
		return file
	}
	return err
}

// plainServer starts a server of HTTP/1 without TLS.
func plainServer(t testing.TB, handler http.HandlerFunc) *Backend {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return openAt(t, s.URL, (&remotetest.WebServer{}).Env(nil))
}

const blob = "packs/ab/cd"

// TestAnswers checks the error for each answer that is no part of a file, or another part than was asked for.
func TestAnswers(t *testing.T) {
	ten := []byte("0123456789")
	part := func(header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", header)
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, body)
		}
	}
	status := func(code int, pairs ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				w.Header().Set(pairs[i], pairs[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, "<html>an error")
		}
	}
	page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><p>Welcome") }
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}

	for name, test := range map[string]struct {
		handler http.HandlerFunc
		off     int64
		kind    error
		words   string
	}{
		"no ranges":           {func(w http.ResponseWriter, _ *http.Request) { w.Write(ten) }, 4, remote.ErrUnsupported, "does not support ranges"},
		"no ranges, large":    {func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat(ten, 100)) }, 0, remote.ErrUnsupported, "does not support ranges"},
		"another part":        {part("bytes 0-3/10", "0123"), 4, nil, "another part"},
		"a short part":        {part("bytes 4-5/10", "45"), 4, nil, "another part"},
		"a longer part":       {part("bytes 4-9/10", "456789"), 4, nil, "another part"},
		"a part of nothing":   {part("bytes 4-7/4", "4567"), 4, nil, "another part"},
		"an unknown size":     {part("bytes 4-7/*", "4567"), 4, nil, "another part"},
		"a negative part":     {part("bytes 4--7/10", "4567"), 4, nil, "another part"},
		"a huge part":         {part("bytes 4-9223372036854775807/9223372036854775807", "4567"), 4, nil, "another part"},
		"no range":            {part("", "4567"), 4, nil, "another part"},
		"a wrong length":      {part("bytes 4-7/10", "456"), 4, nil, "another number of bytes"},
		"an endless part":     {func(w http.ResponseWriter, r *http.Request) { part("bytes 4-7/10", "")(w, r); endless(w, r) }, 4, nil, "another number of bytes"},
		"an endless file":     {endless, 0, remote.ErrUnsupported, "does not support ranges"},
		"a cut part":          {cut("HTTP/1.1 206 OK\r\nContent-Range: bytes 4-7/10\r\nContent-Length: 4\r\n\r\n45"), 4, remote.ErrTemporary, "closed too early"},
		"a cut file":          {cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n01\r\n"), 0, remote.ErrTemporary, "closed too early"},
		"a file without end":  {cut("HTTP/1.0 200 OK\r\n\r\n01"), 0, remote.ErrUnsupported, "does not say how long"},
		"nothing":             {cut(""), 4, remote.ErrTemporary, ""},
		"no HTTP":             {cut("SSH-2.0-OpenSSH_9.2\r\n"), 4, remote.ErrTemporary, ""},
		"a large header":      {cut("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)), 4, remote.ErrTemporary, ""},
		"an end in the file":  {status(416, "Content-Range", "bytes */10"), 4, nil, "another part"},
		"a page":              {page, 0, remote.ErrUnsupported, "a web page"},
		"a page for a part":   {page, 4, remote.ErrUnsupported, "a web page"},
		"compressed":          {status(206, "Content-Encoding", "gzip", "Content-Range", "bytes 4-7/10"), 4, remote.ErrUnsupported, "compresses"},
		"missing":             {status(404), 0, remote.ErrNotFound, ""},
		"gone":                {status(410), 0, remote.ErrNotFound, ""},
		"wants a password":    {status(401), 0, remote.ErrCredentials, "only to https://"},
		"forbidden":           {status(403), 0, remote.ErrPermission, "status 404"},
		"a bad request":       {status(400), 0, nil, "400 Bad Request"},
		"no content":          {status(204), 0, nil, "204"},
		"busy":                {status(503, "Retry-After", "7"), 0, remote.ErrTemporary, "503"},
		"redirects for ever":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, 0, nil, "more than 5 times"},
		"redirects elsewhere": {status(302, "Location", "file:///etc/passwd"), 0, nil, "no web server"},
		"a folder": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		}, 0, remote.ErrNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := plainServer(t, test.handler)
			p := make([]byte, 4)
			n, err := b.Get(t.Context(), blob, p, test.off)
			wantKind(t, err, test.kind, test.words)
			if e, _ := errors.AsType[*remote.Error](err); n != 0 || e != nil && name == "busy" && e.Wait != 7*time.Second {
				t.Errorf("%d bytes, wait %v", n, e.Wait)
			}
		})
	}
}

// cut answers each request with a text, and closes the connection.
func cut(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, text)
	}
}

// TestStatAnswers checks the error of Stat for answers that do not describe a file.
func TestStatAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		header string
		kind   error
		words  string
	}{
		"no length":  {"200 OK\r\n", remote.ErrUnsupported, "how long"},
		"compressed": {"200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n", remote.ErrUnsupported, "compresses"},
		"no HEAD":    {"405 Method Not Allowed\r\nContent-Length: 0\r\n", remote.ErrUnsupported, "405"},
		"missing":    {"404 Not Found\r\nContent-Length: 9\r\n", remote.ErrNotFound, ""},
	} {
		_, err := plainServer(t, cut("HTTP/1.1 "+test.header+"\r\n")).Stat(t.Context(), blob)
		t.Log(name)
		wantKind(t, err, test.kind, test.words)
	}
	b := plainServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html>Hi") })
	_, err := b.Stat(t.Context(), blob)
	wantKind(t, err, remote.ErrUnsupported, "a web page")
	b = plainServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		io.WriteString(w, " \n<HTML>Hi")
	})
	_, err = b.Get(t.Context(), blob, make([]byte, 100), 0)
	wantKind(t, err, remote.ErrUnsupported, "a web page")
}

// TestWholeFiles checks that a server without ranges serves for files that fit into the buffer.
func TestWholeFiles(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		b := plainServer(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"format"`)
			if chunked {
				http.NewResponseController(w).Flush()
			}
			io.WriteString(w, `:1}`)
		})
		p := make([]byte, 100)
		if n, err := b.Get(t.Context(), "kist.json", p, 0); err != nil || string(p[:n]) != `{"format":1}` {
			t.Errorf("chunked %t: %q, %v", chunked, p[:n], err)
		}
	}
}

// TestNotTLS checks the error for a server without TLS.
func TestNotTLS(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := openAt(t, strings.Replace(s.URL, "http:", "https:", 1), (&remotetest.WebServer{}).Env(nil)).Stat(t.Context(), blob)
	wantKind(t, err, nil, "write http://")
}

// TestUnreachable checks the error for a server that is not there.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = openAt(t, "http://"+l.Addr().String(), (&remotetest.WebServer{}).Env(nil)).Stat(t.Context(), blob)
	wantKind(t, err, remote.ErrTemporary, "cannot be reached")
}

// TestReadOnly checks that nothing is written, and that the error names the server.
func TestReadOnly(t *testing.T) {
	b := plainServer(t, func(http.ResponseWriter, *http.Request) { t.Error("a request") })
	for op, err := range map[string]error{
		"put":     b.Put(t.Context(), blob, strings.NewReader("x"), 1),
		"create":  b.Create(t.Context(), "root/1", nil),
		"replace": b.Replace(t.Context(), "root/1", nil),
		"delete":  b.Delete(t.Context(), blob),
		"open":    remote.CheckWritable(b),
	} {
		wantKind(t, err, remote.ErrPermission, op, b.url[:len(b.url)-1]+" is a web server")
		if !errors.Is(err, remote.ErrReadOnly) {
			t.Errorf("%s: error %v, want ErrReadOnly", op, err)
		}
	}
	for _, err := range b.List(t.Context(), "") {
		t.Errorf("a list yields, with error %v", err)
	}
}

// TestCaches checks that the answer of a cache that a file is missing, or an old record, is not believed for ever.
func TestCaches(t *testing.T) {
	store, base := newFolder(t)
	files := http.FileServer(http.Dir(base))
	cache := map[string]*httptest.ResponseRecorder{}
	s := remotetest.NewWebServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + r.URL.String() + r.Header.Get("Range")
		if cache[key] == nil {
			cache[key] = httptest.NewRecorder()
			files.ServeHTTP(cache[key], r)
		}
		for name, values := range cache[key].Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(cache[key].Code)
		w.Write(cache[key].Body.Bytes())
	}))
	b := openAt(t, s.URL+"/kist", s.Env(nil))
	p := make([]byte, 10)
	for _, name := range []string{"root/2", blob} {
		for range 3 {
			_, err := b.Get(t.Context(), name, p, 0)
			wantKind(t, err, remote.ErrNotFound)
		}
	}

	err := errors.Join(store.Create(t.Context(), "root/2", []byte("new")), store.Put(t.Context(), blob, strings.NewReader("new"), 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"root/2", blob} {
		if n, err := b.Get(t.Context(), name, p, 0); err != nil || string(p[:n]) != "new" {
			t.Errorf("%s: %q, %v; want the file", name, p[:n], err)
		}
	}
	before := len(cache)
	if err := store.Put(t.Context(), "packs/ab/ce", strings.NewReader("new"), 3); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := b.Get(t.Context(), "packs/ab/ce", p, 0); err != nil {
			t.Error(err)
		}
	}
	if len(cache) != before+1 {
		t.Errorf("%d addresses of a pack, want 1, which caches can keep", len(cache)-before)
	}
}

// FuzzRange checks that no header of an answer makes more or other bytes of it than were asked for.
func FuzzRange(f *testing.F) {
	f.Add("bytes 4-7/10", int64(4), int64(4), int64(4))
	f.Add("bytes 0-0/1", int64(-1), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, header string, length, size, off int64) {
		if size <= 0 || off < 0 || size > 1<<30 {
			return
		}
		n, err := promised(&http.Response{Header: http.Header{"Content-Range": {header}}, ContentLength: length}, size, off)
		if err == nil && (n <= 0 || int64(n) > size || length >= 0 && int64(n) != length || !strings.Contains(header, fmt.Sprint(off))) {
			t.Errorf("%d bytes of %d from %d, by %q and length %d", n, size, off, header, length)
		}
	})
}
