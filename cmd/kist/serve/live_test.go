package serve_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// While a second repository instance commits, collects garbage and purges, each answer is complete
// and correct, or reports that the content was purged.
func TestBesideWriters(t *testing.T) {
	r := kisttest.New(t)
	const files = 6
	contents := func(round, file int) string {
		return fmt.Sprintf("round %d file %d\n", round, file) + string(kisttest.Noise(byte(16*round+file), 40_000))
	}
	commit := func(round int) {
		for file := range files {
			r.Write(fmt.Sprint("f", file), contents(round, file))
		}
		r.Add(stage.AddOptions{})
		r.Commit(fmt.Sprint(round, "\n"))
	}
	commit(0)
	writer := r.Clocked(0) // opened like in a second process
	s := serving(r, serve.Options{})

	stop := make(chan struct{})
	var readers sync.WaitGroup
	for reader := range 4 {
		readers.Go(func() {
			for i := reader; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				file := i % files
				res, err := http.Get(fmt.Sprintf("%s/files/f%d", s.url, file))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				switch {
				case res.StatusCode == http.StatusGone:
				case err != nil || res.StatusCode != http.StatusOK:
					t.Errorf("f%d: %s %v", file, res.Status, err)
				default:
					var round, name int
					if _, err := fmt.Sscanf(string(body), "round %d file %d", &round, &name); err != nil || name != file || string(body) != contents(round, file) {
						t.Errorf("f%d: wrong content of %d bytes", file, len(body))
					}
				}
			}
		})
	}
	rounds := objecttest.Rounds(t, 4)
	for round := 1; round <= rounds; round++ {
		commit(round % 15)
		r.Collect(writer, gc.PlanOptions{})
	}
	r.Purge("f0")
	r.Collect(writer, gc.PlanOptions{})
	close(stop)
	readers.Wait()

	s.want("/files/f1", 200, fmt.Sprintf("round %d file 1", rounds%15))
	if got := s.get("/files/f0"); got.StatusCode == 200 {
		t.Errorf("f0 was purged, but the answer is %d with %d bytes", got.StatusCode, len(got.body))
	}
}

// An answer with damaged content is never complete, even if the content begins intact.
func TestDamage(t *testing.T) {
	r := kisttest.New(t)
	r.Write("large", string(kisttest.Noise(1, 9<<20)))
	r.Add(stage.AddOptions{})
	r.Commit("large\n")
	dir := t.TempDir()
	r.Check(os.CopyFS(dir, os.DirFS(r.Dir)))
	files, err := filepath.Glob(dir + "/.kist/volumes/*/*.vlog")
	r.Check(err)

	for _, file := range files {
		info, err := os.Stat(file)
		r.Check(err)
		if info.Size() > 8<<20 {
			r.Check(os.Chmod(file, 0o600))
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			r.Check(err)
			_, err = f.WriteAt([]byte("damage"), info.Size()-1<<20)
			r.Check(err)
			r.Check(f.Close())
		}
	}

	damaged := openAt(t, dir)
	var mu sync.Mutex
	var logged string
	s := servingWith(r, serve.New(damaged, serve.Options{Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		logged += line + "\n"
	}}))
	res, err := http.Get(s.url + "/files/large")
	r.Check(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusOK && err == nil {
		t.Errorf("a damaged file: complete answer of %d bytes", len(data))
	}
	if archive, err := http.Get(s.url + "/files/?archive=tar"); err == nil {
		if _, err := io.Copy(io.Discard, archive.Body); err == nil {
			t.Error("an archive of a damaged file: complete answer")
		}
		archive.Body.Close()
	}

	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(logged, "/files/large") {
		t.Errorf("the log lacks the damaged file: %s", logged)
	}
}

func TestMetrics(t *testing.T) {
	s := serving(small(t), serve.Options{})
	s.want("/files/a.txt", 200, "")
	s.want("/files/nope", 404, "")
	got := s.want("/metrics", 200, "")
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(got.body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"kist_http_requests_total", "kist_http_response_bytes_total", "kist_http_request_duration_seconds", "kist_http_requests_in_flight",
		"kist_store_bytes", "kist_store_volumes", "kist_last_commit_timestamp_seconds", "kist_cache_bytes", "kist_memory_bytes",
	} {
		if families[name] == nil || len(families[name].Metric) == 0 {
			t.Errorf("the metrics lack %s", name)
		}
	}
	at := time.Unix(int64(families["kist_last_commit_timestamp_seconds"].Metric[0].GetGauge().GetValue()), 0)
	if time.Since(at) > time.Hour || time.Since(at) < -time.Hour {
		t.Errorf("the metrics have the last commit at %v", at)
	}
}

// The server keeps answering while 100 clients hold connections open with no request or half a
// request.
func TestSlowClients(t *testing.T) {
	s := serving(small(t), serve.Options{})
	for i := range 100 {
		conn := dial(t, s)
		if i%2 == 0 {
			fmt.Fprintf(conn, "GET /files/a.txt HTTP/1.1\r\nHost: loc")
		}
	}
	s.want("/files/a.txt", 200, "second")
	code, _ := rawGet(t, s, "/files/a.txt?"+strings.Repeat("x", 64<<10))
	if code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a request line of 64 KiB: status %d, want 431", code)
	}
}

// Two rounds of 1,000 requests from 50 concurrent clients do not leak memory.
func TestLoad(t *testing.T) {
	s := serving(small(t), serve.Options{})
	var after [2]int
	for round := range after {
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				for range 20 {
					res, err := http.Get(s.url + "/files/folder/b.txt")
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != http.StatusOK {
						t.Error(res.Status)
					}
				}
			})
		}
		clients.Wait()
		http.DefaultClient.CloseIdleConnections()
		after[round] = int(heap())
	}
	if grown := after[1] - after[0]; grown > 8<<20 {
		t.Errorf("the memory in use grew by %d bytes", grown)
	}
}

// heap returns the number of bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// dial opens a connection to the server.
func dial(t *testing.T, s *site) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// openAt opens the repository in a folder until the test ends.
func openAt(t *testing.T, dir string) *kist.Repository {
	t.Helper()
	r, err := kist.Open(dir, kist.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
