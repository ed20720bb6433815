package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// published is a repository with a remote in a folder that a web server publishes.
type published struct {
	*shell                       // the owner's, with the remote public
	server *remotetest.WebServer // of the folder around the remote
	url    string                // of the remote
}

// publish makes a repository, pushes it to a new remote, and publishes that with a server.
func publish(t *testing.T, start func(folder string) *remotetest.WebServer, add ...string) *published {
	t.Helper()
	s := newShell(t)
	www := s.path("../www")
	if err := os.Mkdir(www, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &published{server: start(www)}
	s.env = append(s.env, "HOME="+s.path("../home"), "KIST_HTTP_CA="+p.server.CAFile)
	p.shell, p.url = s, p.server.URL+"/data"
	p.kist("init")
	p.write(map[string]string{"a.txt": "one", "dir/b.txt": strings.Repeat("two", 100_000)})
	p.commit("first")
	p.kist(append(append([]string{"remote", "add"}, add...), "public", filepath.Join(www, "data"))...)
	p.kist("push", "-q", "public", "main")
	return p
}

// TestPublished checks the commands that read a remote behind nginx, in clear and encrypted, and
// the errors of commands that would write to it.
func TestPublished(t *testing.T) {
	t.Parallel()
	for name, add := range map[string][]string{"clear": nil, "encrypted": {"--encrypted", "--no-recovery"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := publish(t, func(folder string) *remotetest.WebServer { return remotetest.NewNginx(t, folder, "") }, add...)
			p.kist("clone", "-q", p.url, "../copy")
			c := p.in("../copy")
			c.wantFiles(c.readFiles("."), p.readFiles("."))

			p.write(map[string]string{"a.txt": "three"})
			second := p.commit("second")
			p.kist("push", "-q", "public", "main")
			if list := c.kist("ls-remote", "origin"); !strings.Contains(list, second) {
				t.Errorf("ls-remote prints %q, want the commit %s", list, second)
			}
			c.kist("fetch", "-q")
			c.kist("pull", "-q")
			c.wantFiles(c.readFiles("."), p.readFiles("."))
			c.kist("verify", "--remote", "origin", "--read-data")
			c.verify()

			c.kist("remote", "remove", "origin")
			if out := c.kist("remote", "add", "origin", p.url); !strings.Contains(out, "can only be read") {
				t.Errorf("remote add prints %q", out)
			}
			c.kist("pull", "-q", "origin", "main")
			c.write(map[string]string{"a.txt": "four"})
			c.commit("third")
			c.fails(15, "published", p.url+" is a web server", "push", "origin", "main")
			c.fails(15, "published", p.url+" is a web server", "push", "-n", "origin", "main")
			c.fails(15, "published", p.url+" is a web server", "remote", "check", "origin")
			c.fails(15, "published", p.url+" is a web server", "remote", "gc", "origin")
			c.fails(15, "empty", "no kist remote in", "clone", p.url+"/nothing", "clone")
			c.fails(15, "empty", "no kist remote in", "remote", "add", "second", p.url+"/nothing")
		})
	}
}

// TestPublishedRequests checks that the newest root is found in few requests, without a list.
func TestPublishedRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	p := publish(t, func(folder string) *remotetest.WebServer {
		return remotetest.NewFileServer(t, folder, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				next.ServeHTTP(w, r)
			})
		})
	})
	for range 20 {
		p.kist("commit", "-q", "--allow-empty", "-m", "more")
		p.kist("push", "-q", "public", "main")
	}
	count := func(most int64, args ...string) {
		t.Helper()
		requests.Store(0)
		p.kist(args...)
		if n := requests.Load(); n > most {
			t.Errorf("%q makes %d requests, want at most %d", args, n, most)
		}
	}
	count(16, "ls-remote", p.url)
	p.kist("clone", "-q", p.url, "../copy")
	count(6, "-C", "../copy", "fetch", "-q")
}

// TestCopiesHowto runs the commands of docs/howto/copies.md.
func TestCopiesHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "HOME="+s.path("../home"))
	s.kist("init")
	s.write(map[string]string{"a.jpg": strings.Repeat("one", 100_000), "b/c.jpg": "two"})
	s.commit("first")
	s.kist("hold", "add", "HEAD", "--reason", "mine")
	s.kist("remote", "add", "origin", "../origin")
	s.kist("push", "-q", "origin", "main")
	s.kist("remote", "add", "disk", "../disk")
	s.kist("push", "-q", "disk", "main")
	s.page("copies.md", "", "s3://my-bucket/photos", s.path("../cloud"), "s3://other-bucket/photos", s.path("../offsite"),
		"ssh://nas/photos", s.path("../origin"), "/media/disk/photos", s.path("../disk"), "add --encrypted", "add --encrypted --no-recovery")

	for _, copied := range []string{"cloud", "offsite"} {
		if out := s.kist("remote", "copy", "--check", "origin", copied); !strings.Contains(out, "no difference found") {
			t.Errorf("the check of %s prints %q", copied, out)
		}
		s.kist("clone", "-q", "../"+copied, "../of-"+copied)
		c := s.in("../of-" + copied)
		c.wantFiles(c.readFiles("."), s.readFiles("."))
		if holds := c.kist("hold", "list"); !strings.Contains(holds, "mine") {
			t.Errorf("the copy has the holds %q", holds)
		}
	}

	s.write(map[string]string{"a.jpg": "three"})
	s.commit("second")
	s.kist("push", "-q", "cloud", "main")
	s.exits(13, "remote", "copy", "disk", "cloud")
	s.exits(15, "remote", "copy", "--check", "cloud", "offsite")
	s.exits(15, "remote", "copy", "cloud", s.path("../cloud"))
	s.exits(15, "remote", "copy", "offsite", "disk")
	s.exits(1, "remote", "copy", "--branch", "absent", "disk", "cloud")
	s.kist("remote", "copy", "--clear", "offsite", "disk")
	s.kist("remote", "copy", "--mirror", "disk", "cloud")
	s.kist("remote", "copy", "--check", "offsite", "cloud")
}

// TestNoRanges checks the explanation for a web server without ranges.
func TestNoRanges(t *testing.T) {
	t.Parallel()
	p := publish(t, func(folder string) *remotetest.WebServer {
		return remotetest.NewFileServer(t, folder, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Range")
				next.ServeHTTP(w, r)
			})
		})
	})
	o := p.exits(15, "clone", "-q", p.url, "../copy")
	if !strings.Contains(o.stderr, "does not support ranges") || !strings.Contains(o.stderr, "kist help publish") {
		t.Errorf("clone says %s, want that the server has no ranges", o.stderr)
	}
}
