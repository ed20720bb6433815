package serve

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// seconds are the upper bounds of the histogram of durations.
var seconds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60}

// metrics counts requests. It is safe for concurrent use.
type metrics struct {
	mu     sync.Mutex
	routes map[string]*routeMetrics
	now    int // requests under way
}

// routeMetrics has the counts of one route.
type routeMetrics struct {
	codes map[int]int64
	bytes int64
	sum   float64 // seconds of all requests
	upTo  []int64 // requests for each of seconds
	all   int64
}

// beginRequest counts a request that begins.
func (m *metrics) beginRequest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now++
}

// endRequest counts a request that ended.
func (m *metrics) endRequest(route string, code int, written int64, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now--
	if m.routes == nil {
		m.routes = map[string]*routeMetrics{}
	}
	at := m.routes[route]
	if at == nil {
		at = &routeMetrics{codes: map[int]int64{}, upTo: make([]int64, len(seconds))}
		m.routes[route] = at
	}
	at.codes[code]++
	at.bytes += written
	at.sum += took.Seconds()
	at.all++
	for i, bound := range seconds {
		if took.Seconds() <= bound {
			at.upTo[i]++
		}
	}
}

// writeCounts writes the counts in the text format of Prometheus.
func (m *metrics) writeCounts(b *bytes.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge(b, "kist_http_requests_in_flight", "Requests under way.", float64(m.now))
	routes := slices.Sorted(maps.Keys(m.routes))

	head(b, "kist_http_requests_total", "counter", "Requests by route and status.")
	for _, route := range routes {
		for _, code := range slices.Sorted(maps.Keys(m.routes[route].codes)) {
			fmt.Fprintf(b, "kist_http_requests_total{route=%s,code=\"%d\"} %d\n", readable.QuoteLabel(route), code, m.routes[route].codes[code])
		}
	}
	head(b, "kist_http_response_bytes_total", "counter", "Bytes of answers.")
	for _, route := range routes {
		fmt.Fprintf(b, "kist_http_response_bytes_total{route=%s} %d\n", readable.QuoteLabel(route), m.routes[route].bytes)
	}
	head(b, "kist_http_request_duration_seconds", "histogram", "Time until an answer was sent.")
	for _, route := range routes {
		at := m.routes[route]
		for i, bound := range seconds {
			fmt.Fprintf(b, "kist_http_request_duration_seconds_bucket{route=%s,le=\"%g\"} %d\n", readable.QuoteLabel(route), bound, at.upTo[i])
		}
		fmt.Fprintf(b, "kist_http_request_duration_seconds_bucket{route=%s,le=\"+Inf\"} %d\n", readable.QuoteLabel(route), at.all)
		fmt.Fprintf(b, "kist_http_request_duration_seconds_sum{route=%s} %g\n", readable.QuoteLabel(route), at.sum)
		fmt.Fprintf(b, "kist_http_request_duration_seconds_count{route=%s} %d\n", readable.QuoteLabel(route), at.all)
	}
}

func head(b *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func gauge(b *bytes.Buffer, name, help string, value float64) {
	head(b, name, "gauge", help)
	fmt.Fprintf(b, "%s %s\n", name, number(value))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// metricsTime is the most time to collect all metrics.
const metricsTime = 20 * time.Second

// metricsPage answers with all metrics.
func (s *Server) metricsPage(w http.ResponseWriter, r *http.Request) {
	if !readOnly(w, r) {
		return
	}
	var b bytes.Buffer
	s.metrics.writeCounts(&b)
	if err := s.site.writeMetrics(r.Context(), &b); err != nil {
		s.site.Fail(w, r, err)
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	gauge(&b, "kist_memory_bytes", "Memory that the server has from the system.", float64(m.Sys-m.HeapReleased))
	gauge(&b, "kist_goroutines", "Goroutines of the server.", float64(runtime.NumGoroutine()))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(b.Bytes())
}

// writeMetrics writes the metrics of the repository.
func (s *Site) writeMetrics(ctx context.Context, b *bytes.Buffer) error {
	volumes, err := s.Repo.Objects().Volumes(ctx)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, v := range volumes {
		size += v.Bytes
	}
	gauge(b, "kist_store_bytes", "Size of the volumes.", float64(size))
	gauge(b, "kist_store_volumes", "Number of the volumes.", float64(len(volumes)))
	cached := s.cache.Stats()
	gauge(b, "kist_cache_bytes", "Objects in memory.", float64(cached.Bytes))
	for name, value := range map[string]int64{"hits": cached.Hits, "reads": cached.Reads} {
		head(b, "kist_cache_"+name+"_total", "counter", "Objects that were in memory (hits), or were read (reads).")
		fmt.Fprintf(b, "kist_cache_%s_total %d\n", name, value)
	}

	head(b, "kist_last_commit_timestamp_seconds", "gauge", "Time of the last commit of a branch.")
	branches, err := s.Repo.Refs().List(refs.Heads)
	for _, ref := range branches {
		if c, err := object.ReadCommit(ctx, s.Repo.Objects(), ref.ID); err == nil {
			fmt.Fprintf(b, "kist_last_commit_timestamp_seconds{branch=%s} %d\n", readable.QuoteLabel(strings.TrimPrefix(ref.Name, refs.Heads)), c.Committer.When().Unix())
		}
	}
	if err != nil {
		return err
	}

	last, err := s.LastMoves()
	head(b, "kist_last_push_timestamp_seconds", "gauge", "Time when a branch of a remote last moved here, by a push or a fetch.")
	for _, remote := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(b, "kist_last_push_timestamp_seconds{remote=%s} %d\n", readable.QuoteLabel(remote), last[remote].Unix())
	}
	return err
}

// LastMoves returns, for each remote, the time when a branch of it last moved in this
// repository: by a push or a fetch.
func (s *Site) LastMoves() (map[string]time.Time, error) {
	last := map[string]time.Time{}
	list, err := s.Repo.Refs().List(refs.Remotes)
	for _, ref := range list {
		entries, _ := s.Repo.Refs().Log(ref.Name) // damaged entries do not hide the others
		remote, _, _ := strings.Cut(strings.TrimPrefix(ref.Name, refs.Remotes), "/")
		if len(entries) > 0 && entries[0].Time.After(last[remote]) {
			last[remote] = entries[0].Time
		}
	}
	return last, err
}
