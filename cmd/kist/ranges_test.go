package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Each command says once that a store ignores ranges, and does not try again.
func TestStoreIgnoresRanges(t *testing.T) {
	fake := remotetest.NewFakeS3(t, 1)
	target, err := url.Parse(fake.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	var ignores atomic.Bool
	var requests atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if ignores.Load() {
			r.Header.Del("Range")
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()

	s := newShell(t)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		s.env = append(s.env, name+"="+fake.Getenv(name))
	}
	remote := "s3://" + remotetest.FakeS3Bucket + "/p?endpoint=" + server.URL
	s.kist("init", "r")
	r := s.in("r")
	r.write(map[string]string{"small": "1", "large": noise(objecttest.Rand(3), 3<<20)})
	r.kist("add", ".")
	r.kist("commit", "-m", "first")
	r.kist("remote", "add", "origin", remote)
	r.kist("push")
	s.kist("clone", remote, "old")
	r.write(map[string]string{"small": "2", "large": noise(objecttest.Rand(4), 3<<20)})
	r.kist("commit", "-a", "-m", "second")
	r.kist("push")

	ignores.Store(true)
	for _, args := range [][]string{
		{"clone", remote, "new"},
		{"-C", "old", "fetch"},
		{"-C", "r", "verify", "--read-data", "--remote", "origin"},
	} {
		requests.Store(0)
		o := s.run(args...)
		said := strings.Count(o.stdout+o.stderr, "ignores ranges: it returns all of a file")
		if o.status != 15 || said != 1 || requests.Load() > 30 {
			t.Errorf("%d requests; the reason is there %d times: %v", requests.Load(), said, o)
		}
	}

	ignores.Store(false)
	old := s.in("old")
	old.kist("fetch")
	old.verify()
	r.verify()
}
