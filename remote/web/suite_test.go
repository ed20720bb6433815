package web

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/httpclient"
	"github.com/kist-vcs/kist/remote/remotetest"
)

func openAt(t testing.TB, url string, env remote.Env) *Backend {
	t.Helper()
	b, err := open(url, env, httpclient.StallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// newFolder returns a store in a new folder kist, and the folder around it.
func newFolder(t testing.TB) (remote.Backend, string) {
	t.Helper()
	base := t.TempDir()
	return newStore(t, base), base
}

// newStore returns a store in the new folder kist in base.
func newStore(t testing.TB, base string) remote.Backend {
	t.Helper()
	if err := os.Mkdir(filepath.Join(base, "kist"), 0o777); err != nil {
		t.Fatal(err)
	}
	store, err := dir.Open(t.Context(), filepath.Join(base, "kist"), remote.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestSuite runs the tests of all stores on a folder that is written directly and read through a server.
func TestSuite(t *testing.T) {
	for name, start := range map[string]func(t testing.TB, folder string) *remotetest.WebServer{
		"nginx, which compresses": func(t testing.TB, folder string) *remotetest.WebServer {
			return remotetest.NewNginx(t, folder, "gzip on; gzip_types *; gzip_min_length 1;")
		},
		"Go, with ETags that lie": func(t testing.TB, folder string) *remotetest.WebServer {
			return remotetest.NewFileServer(t, folder, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("ETag", `"never the same"`)
					next.ServeHTTP(w, r)
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			s := start(t, base)
			remotetest.Run(t, func(t *testing.T) remote.Backend {
				folder, err := os.MkdirTemp(base, "store")
				if err != nil {
					t.Fatal(err)
				}
				store := newStore(t, folder)
				return &remotetest.Published{Backend: openAt(t, s.URL+"/"+filepath.Base(folder)+"/kist/", s.Env(nil)), Store: store}
			})
		})
	}
}

// TestTypes checks that files are read from a server that calls all of them web pages.
func TestTypes(t *testing.T) {
	store, base := newFolder(t)
	s := remotetest.NewNginx(t, base, "default_type text/html;")
	b := openAt(t, s.URL+"/kist", s.Env(nil))
	data := string(remote.AppendHeader(nil, remote.TypePack, 1)) + "pack"
	if err := store.Put(t.Context(), blob, strings.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, err := b.Get(t.Context(), blob, p, 0); err != nil || string(p[:n]) != data {
		t.Errorf("get: %q, %v", p[:n], err)
	}
	if info, err := b.Stat(t.Context(), blob); err != nil || info.Size != int64(len(data)) {
		t.Errorf("stat: %+v, %v", info, err)
	}
}

// TestHTTP2 checks that connections use HTTP/2 where the server offers it.
func TestHTTP2(t *testing.T) {
	store, base := newFolder(t)
	if err := store.Create(t.Context(), "root/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	var used string
	s := remotetest.NewFileServer(t, base, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			used = r.Proto
			next.ServeHTTP(w, r)
		})
	})
	if _, err := openAt(t, s.URL+"/kist", s.Env(nil)).Stat(t.Context(), "root/1"); err != nil || used != "HTTP/2.0" {
		t.Errorf("a request used %q, error %v; want HTTP/2.0", used, err)
	}
}

// TestURL checks the URLs that are accepted.
func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://h":                "https://h/",
		"HTTPS://Host:8443/a/b//":  "https://host:8443/a/b/",
		"http://127.0.0.1:80/%20x": "http://127.0.0.1:80/%20x/",
		"https://anna@h/p":         "https://h/p/",
		"https://[::1]:4/p":        "https://[::1]:4/p/",
		"https://anna:canary@h/p":  "",
		"https://h/p?x=y":          "",
		"https://h/p?":             "",
		"https://h/p#x":            "",
		"https://h/a/../b":         "",
		"https://h/%2e%2e/b":       "",
		"https:///p":               "",
		"ftp://h/p":                "",
		"https://h\x7f/p":          "",
		"https://h:port/p":         "",
	} {
		b, err := open(url, (&remotetest.WebServer{}).Env(nil), httpclient.StallTimeout)
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), remote.ErrURL.Error()) || strings.Contains(err.Error(), "canary")):
			t.Errorf("%q: error %v, want ErrURL without the password", url, err)
		case want != "" && (err != nil || b.url != want):
			t.Errorf("%q: %+v, %v; want %q", url, b, err, want)
		}
	}
}

// TestCertificates checks that a certificate that nobody signed is refused, and a missing file of certificates, too.
func TestCertificates(t *testing.T) {
	_, base := newFolder(t)
	s := remotetest.NewFileServer(t, base, nil)
	_, err := openAt(t, s.URL, s.Env(map[string]string{"KIST_HTTP_CA": ""})).Stat(t.Context(), "kist.json")
	wantKind(t, err, remote.ErrCertificate, "is not trusted")
	if _, err := open(s.URL, s.Env(map[string]string{"KIST_HTTP_CA": "/nonexistent"}), httpclient.StallTimeout); !os.IsNotExist(underlying(err)) {
		t.Errorf("a missing file of certificates: error %v", err)
	}
}
