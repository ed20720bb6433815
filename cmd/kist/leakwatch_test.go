package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/gridfs"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/s3"
)

// watched is a place that keeps all bytes and names that commands ever send to it.
type watched struct {
	*place

	// notice returns the bytes that came since the last call, by texts that say where they were.
	notice func() map[string][]byte

	// hasPath is true if the store has to know the path of the remote.
	hasPath bool

	slow bool // the commands about damage and collections do not run
}

// watchedStores open places of each kind. The path is part of their URLs.
var watchedStores = map[string]func(t testing.TB, path string) watched{
	"dir": watchFolder, "s3": watchS3, "gridfs": watchGridFS,
}

// watchFolder watches a folder: all names and contents that are there when notice is called.
func watchFolder(t testing.TB, path string) watched {
	folder := filepath.Join(tempDir(t), path)
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	return watched{place: newPlace(t, dir.Open, folder, os.Getenv), notice: func() map[string][]byte {
		fresh := map[string][]byte{}
		err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			name, err := filepath.Rel(folder, path)
			key := fmt.Sprint(name, info.Size(), info.ModTime())
			if err != nil || known[key] {
				return err
			}
			known[key] = true
			fresh["name of "+name] = []byte(name)
			if !e.IsDir() {
				fresh[name], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}}
}

// watchS3 watches an S3 server: URLs, headers and bodies of all requests.
func watchS3(t testing.TB, path string) watched {
	fake := remotetest.NewFakeS3(t, 1)
	var mu sync.Mutex
	came, n := map[string][]byte{}, 0
	fake.Watch(func(r *http.Request, body []byte) {
		var head bytes.Buffer
		r.Header.Write(&head)
		query, err := url.QueryUnescape(r.URL.RawQuery)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		where := fmt.Sprintf("request %d, %s %s", n, r.Method, r.URL.Path)
		came["URL of "+where] = []byte(r.RequestURI + "\n" + r.URL.Path + "\n" + query)
		came["header of "+where] = head.Bytes()
		came["body of "+where] = body
	})
	return watched{place: newPlace(t, s3.Open, fake.URL(path), fake.Getenv), hasPath: true, notice: func() map[string][]byte {
		mu.Lock()
		defer mu.Unlock()
		fresh := came
		came = map[string][]byte{}
		return fresh
	}}
}

// watchGridFS watches a MongoDB server: all bytes on the way to it.
func watchGridFS(t testing.TB, path string) watched {
	server, err := url.Parse(objecttest.NeedServer(t, "KIST_TEST_MONGODB"))
	if err != nil {
		t.Fatal(err)
	}
	query := server.Query()
	query.Set("bucket", fmt.Sprintf("%s%016x", path, rand.Uint64()))
	server.RawQuery = query.Encode()
	w := watched{place: newPlace(t, gridfs.Open, server.String(), os.Getenv), hasPath: true, slow: true}
	server.Host, w.notice = watchConnections(t, server.Host)
	w.url = server.String()
	return w
}

// watchConnections starts a proxy of a server on this machine. It returns the proxy's address, and a function that
// returns the bytes that have come from clients, as notice of [watched].
func watchConnections(t testing.TB, server string) (address string, notice func() map[string][]byte) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	came := map[string][]byte{}
	add := func(name string, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		came[name] = append(came[name], data...)
	}

	var running sync.WaitGroup
	running.Go(func() {
		for n := 1; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				t.Error(err)
				client.Close()
				return
			}
			mu.Lock()
			conns = append(conns, client, to)
			mu.Unlock()

			running.Go(func() {
				io.Copy(to, io.TeeReader(client, writerFunc(func(p []byte) { add(fmt.Sprint("connection ", n), p) })))
				to.Close()
			})
			running.Go(func() {
				io.Copy(client, to)
				client.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return listener.Addr().String(), func() map[string][]byte {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(came) // a secret may be in two parts
	}
}

// writerFunc is a function that takes all bytes that are written.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// textOf returns the content of a file without white space at its end.
func (s *shell) textOf(name string) string {
	s.Helper()
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}
