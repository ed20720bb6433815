package gridfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// testURL returns the URL of a bucket of the test's own on the server that
// tests are told of, or skips the test.
func testURL(t *testing.T, query string) string {
	t.Helper()
	url := os.Getenv("KIST_TEST_MONGODB")
	if url == "" {
		const reason = "KIST_TEST_MONGODB names no server; 'make test' starts one"
		if os.Getenv("KIST_TEST_NOSKIP") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	if strings.Contains(url, "?") {
		url += "&"
	} else {
		url += "?"
	}
	return fmt.Sprintf("%sbucket=test%016x%s", url, rand.Uint64(), query)
}

func testEnv() remote.Env {
	return remote.Env{Getenv: func(string) string { return "" }, Now: time.Now}
}

// openTest opens a bucket that is removed when the test has ended.
func openTest(t *testing.T, url string, monitor *event.CommandMonitor) *Backend {
	t.Helper()
	b, err := open(context.Background(), url, testEnv(), monitor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{".files", ".chunks", ".roots"} {
			if err := b.client.Database(b.database).Collection(b.bucket + name).Drop(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestSuite(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) remote.Backend { return openTest(t, testURL(t, ""), nil) })
}

// A recorder keeps the commands that are sent, and counts the documents that
// come.
type recorder struct {
	mu       sync.Mutex
	commands []bson.Raw
	came     map[string]int // by collection, without the bucket
}

func (r *recorder) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.commands = append(r.commands, append(bson.Raw(nil), e.Command...))
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			ns, _ := e.Reply.Lookup("cursor", "ns").StringValueOK()
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.came == nil {
				r.came = map[string]int{}
			}
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if docs, ok := e.Reply.Lookup("cursor", batch).ArrayOK(); ok {
					values, _ := docs.Values()
					r.came[ns[strings.LastIndexByte(ns, '.')+1:]] += len(values)
				}
			}
		},
	}
}

// takeCame returns how many documents of a collection came since it was called
// last.
func (r *recorder) takeCame(collection string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.came[collection]
	r.came = nil
	return n
}

// take returns the commands since it was called last.
func (r *recorder) take() []bson.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	commands := r.commands
	r.commands = nil
	return commands
}
