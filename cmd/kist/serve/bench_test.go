package serve_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// BenchmarkSmallFile reads small files with 50 concurrent clients, from kist and from Go's
// http.FileServer on the same files. It reports the median and the 99th percentile of the time for
// a request, and the heap after the run.
func BenchmarkSmallFile(b *testing.B) {
	const clients, files = 50, 200
	dir := b.TempDir()
	r, err := kist.Init(b.Context(), dir, kist.Options{}, kist.InitOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for i := range files {
		writeFile(b, fmt.Sprintf("%s/f%03d.txt", dir, i), fmt.Sprintf("%d %0*d\n", i, 20*i, i))
	}
	if _, err := stage.Add(b.Context(), r, stage.AddOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := commits.Commit(b.Context(), r, commits.CommitOptions{Message: "files\n"}); err != nil {
		b.Fatal(err)
	}

	users, err := serve.OpenUsers("", "")
	if err != nil {
		b.Fatal(err)
	}
	handlers := map[string]func(l net.Listener){
		"kist":       func(l net.Listener) { serve.New(r, serve.Options{Users: users}).Serve(b.Context(), l) },
		"FileServer": func(l net.Listener) { http.Serve(l, http.StripPrefix("/files/", http.FileServer(http.Dir(dir)))) },
	}
	for name, start := range handlers {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go start(l)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						began := time.Now()
						res, err := client.Get(fmt.Sprintf("http://%s/files/f%03d.txt", l.Addr(), i%files))
						if err != nil {
							b.Error(err)
							return
						}
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
						if took[i] = time.Since(began); res.StatusCode != 200 {
							b.Error(res.Status)
						}
					}
				})
			}
			all.Wait()
			client.CloseIdleConnections()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-heap")
		})
	}
}
