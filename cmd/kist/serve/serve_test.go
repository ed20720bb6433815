package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// site is a repository that is served while a test runs.
type site struct {
	*kisttest.Repository
	url string // without a slash at the end
}

// serving serves s until the test ends.
func serving(s *kisttest.Repository, o serve.Options) *site {
	s.Helper()
	if o.Log == nil {
		o.Log = func(line string) { s.Log(line) }
	}
	return servingWith(s, serve.New(s.Repo, o))
}

func servingWith(s *kisttest.Repository, server *serve.Server) *site {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	s.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
	return &site{s, "http://" + l.Addr().String()}
}

// anyWork is a budget for tests.
func anyWork(*http.Request) serve.Budget { return serve.Budget{} }

// reply is a response with its body.
type reply struct {
	*http.Response
	body string
}

// get sends a GET request. Headers have the form "Range: bytes=0-1".
func (s *site) get(path string, headers ...string) reply {
	return s.send(http.MethodGet, path, headers...)
}

func (s *site) send(method, path string, headers ...string) reply {
	s.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	s.Check(err)
	for _, line := range headers {
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "Host":
			r.Host = value
		case "Login":
			name, password, _ := strings.Cut(value, ":")
			r.SetBasicAuth(name, password)
		default:
			r.Header.Set(key, value)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	s.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	s.Check(err)
	return reply{res, string(body)}
}

// want checks that the answer to a request has a status and contains a text.
func (s *site) want(path string, code int, text string, headers ...string) reply {
	s.Helper()
	got := s.get(path, headers...)
	if got.StatusCode != code || !strings.Contains(got.body, text) {
		s.Errorf("%s %q: %d %.300q, want %d %q", path, headers, got.StatusCode, got.body, code, text)
	}
	return got
}

// small returns a repository with two commits.
func small(t *testing.T) *kisttest.Repository {
	s := kisttest.New(t)
	s.Write("a.txt", "first\n")
	s.Write("folder/b.txt", "b\n")
	s.Write("folder/deep/c.txt", "c\n")
	s.Add(stage.AddOptions{})
	s.Commit("one\n")
	s.Write("a.txt", "second\n")
	s.Add(stage.AddOptions{})
	s.Commit("two\n")
	return s
}

// With full metadata, the start of 1970 is a time like any other.
func TestEpoch(t *testing.T) {
	r := kisttest.NewWith(t, kist.InitOptions{Full: true})
	r.Write("epoch", "old\n")
	r.Check(os.Chtimes(filepath.Join(r.Dir, "epoch"), time.Unix(0, 0), time.Unix(0, 0)))
	r.Add(stage.AddOptions{})
	r.Commit("one\n")
	if got := serving(r, serve.Options{}).want("/files/epoch", 200, "old\n").Header.Get("Last-Modified"); got != "Thu, 01 Jan 1970 00:00:00 GMT" {
		t.Errorf("Last-Modified is %q", got)
	}
}

func TestFiles(t *testing.T) {
	s := serving(small(t), serve.Options{})
	first := s.want("/files/a.txt", 200, "second\n")
	s.want("/files/a.txt?rev=HEAD~1", 200, "first\n")
	s.want("/files/a.txt?rev=nope", 404, "unknown revision")
	s.want("/files/a.txt?rev="+strings.Repeat("x", 5000), 404, "unknown revision")
	s.want("/files/absent", 404, "no such file")
	s.want("/files/a.txt/below", 404, "no such file")
	s.want("/healthz", 200, "ok")
	s.want("/", 404, "")

	if kind := first.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Errorf("a.txt has the type %q", kind)
	}
	tag := first.Header.Get("ETag")
	if len(tag) != 66 || first.Header.Get("Last-Modified") == "" {
		t.Errorf("ETag %q, Last-Modified %q", tag, first.Header.Get("Last-Modified"))
	}
	if got := s.get("/files/a.txt", "If-None-Match: "+tag); got.StatusCode != 304 || got.body != "" {
		t.Errorf("If-None-Match: %d %q", got.StatusCode, got.body)
	}
	part := s.get("/files/a.txt", "Range: bytes=2-4")
	if part.StatusCode != 206 || part.body != "con" || part.Header.Get("Content-Range") != "bytes 2-4/7" {
		t.Errorf("range: %d %q %v", part.StatusCode, part.body, part.Header)
	}
	for tag, code := range map[string]int{tag: 206, `"0"`: 200} {
		if got := s.get("/files/a.txt", "Range: bytes=2-4", "If-Range: "+tag); got.StatusCode != code {
			t.Errorf("If-Range %s: %d, want %d", tag, got.StatusCode, code)
		}
	}
	s.want("/files/a.txt", 416, "", "Range: bytes=7-")
	for method, code := range map[string]int{"HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405} {
		if got := s.send(method, "/files/a.txt"); got.StatusCode != code || method == "HEAD" && (got.body != "" || got.ContentLength != 7) {
			t.Errorf("%s: %d %q, want %d", method, got.StatusCode, got.body, code)
		}
	}

	// The server shows a new commit at once. An unchanged file keeps its ETag.
	before := s.get("/files/folder/b.txt").Header.Get("ETag")
	s.Write("a.txt", "third\n")
	s.Write("long", strings.Repeat("x", 1000))
	s.Add(stage.AddOptions{})
	s.Commit("three\n")
	s.want("/files/a.txt", 200, "third\n")
	for ranges, code := range map[int]int{2: 206, 16: 206, 17: 200, 500: 200} {
		if got := s.get("/files/long", "Range: bytes=0-0"+strings.Repeat(",2-2", ranges-1)); got.StatusCode != code {
			t.Errorf("%d ranges: %s, want %d", ranges, got.Status, code)
		}
	}
	if after := s.get("/files/folder/b.txt").Header.Get("ETag"); after != before || after == "" {
		t.Errorf("ETag of an unchanged file: %s became %s", before, after)
	}
}

func TestFolders(t *testing.T) {
	s := serving(small(t), serve.Options{})
	list := s.want("/files/", 200, `<a href="./a.txt">a.txt</a>`)
	if !strings.Contains(list.body, `<a href="./folder/">folder/</a>`) || strings.Contains(list.body, "<script") {
		t.Error(list.body)
	}
	s.want("/files/folder/?rev=HEAD~1", 200, `<a href="./deep/?rev=HEAD~1">deep/</a>`)
	if got := s.get("/files/folder?rev=HEAD"); got.StatusCode != 302 || got.Header.Get("Location") != "./folder/?rev=HEAD" {
		t.Errorf("a folder without a slash: %d %v, want a redirect", got.StatusCode, got.Header)
	}
	if got := s.get("/files/folder/b.txt/"); got.StatusCode != 302 || got.Header.Get("Location") != "./../b.txt" {
		t.Errorf("a file with a slash: %d %v, want a redirect", got.StatusCode, got.Header)
	}
	s.want("/files/folder/", 200, `"entries":[{"path":"folder/b.txt"`, "Accept: application/json")
	page := s.want("/files/?limit=1", 200, `<a href="?after=a.txt&amp;limit=1">more</a>`)
	if strings.Contains(page.body, "folder") {
		t.Error(page.body)
	}
	s.want("/files/?limit=1&after=a.txt", 200, "folder/")
	s.want("/files/?limit=0", 400, "limit")
}

// TestUnborn checks the answers of a repository without a commit.
func TestUnborn(t *testing.T) {
	s := serving(kisttest.New(t), serve.Options{})
	s.want("/files/", 404, "")
	s.want("/api/v1/refs", 200, `"commit":null`)
	s.want("/api/v1/log", 404, "")
	s.want("/metrics", 200, "kist_store_bytes")
	s.want("/healthz", 200, "ok")
}

func TestHost(t *testing.T) {
	s := serving(small(t), serve.Options{})
	for host, code := range map[string]int{
		"localhost": 200, "localhost:80": 200, "127.0.0.1": 200, "[::1]:80": 200, "LOCALHOST.": 200,
		"evil.example": 421, "evil.example:80": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "10.0.0.1": 421, "0.0.0.0": 421,
	} {
		if got := s.get("/files/a.txt", "Host: "+host); got.StatusCode != code {
			t.Errorf("host %s: %d, want %d", host, got.StatusCode, code)
		}
	}
	named := serving(small(t), serve.Options{Hosts: []string{"kist.example"}})
	named.want("/files/a.txt", 200, "", "Host: KIST.example:443")
	named.want("/files/a.txt", 421, "", "Host: other.example")
}

// A page of another site cannot send a request that changes something.
func TestOtherSite(t *testing.T) {
	r := small(t)
	server := serve.New(r.Repo, serve.Options{})
	calls := 0
	server.Handle("/change", anyWork, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	s := servingWith(r, server)
	for _, header := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
		if got := s.send("POST", "/change", header); got.StatusCode != 403 || calls != 0 {
			t.Errorf("%s: status %d, %d calls, want 403 without a call", header, got.StatusCode, calls)
		}
	}
	if got := s.send("POST", "/change", "Sec-Fetch-Site: same-origin"); got.StatusCode != 200 || calls != 1 {
		t.Errorf("same origin: status %d, %d calls, want 200 and one call", got.StatusCode, calls)
	}
}

// A panic ends only its own request. The log of it has no query.
func TestPanic(t *testing.T) {
	r := small(t)
	var logged []string
	server := serve.New(r.Repo, serve.Options{Log: func(line string) { logged = append(logged, line) }})
	server.Handle("/panic", anyWork, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }))
	s := servingWith(r, server)
	if res, err := http.Get(s.url + "/panic?token=secret"); err == nil {
		res.Body.Close()
		t.Errorf("a request that panics is answered with %s", res.Status)
	}
	s.want("/healthz", 200, "ok")
	if all := strings.Join(logged, "\n"); !strings.Contains(all, "panic: oh") || strings.Contains(all, "secret") {
		t.Errorf("the log is %s", all)
	}
}
