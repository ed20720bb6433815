package gridfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// testURL returns the URL of a new bucket on the server that KIST_TEST_MONGODB
// names, or skips the test.
func testURL(t *testing.T, query string) string {
	t.Helper()
	url := objecttest.NeedServer(t, "KIST_TEST_MONGODB")
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

// openTest opens a bucket and drops its collections when the test ends.
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

// A recorder keeps the commands that were sent, and counts the documents that
// were received.
type recorder struct {
	mu       sync.Mutex
	commands []bson.Raw
	received map[string]int // documents by collection, without the bucket
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
			if r.received == nil {
				r.received = map[string]int{}
			}
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if docs, ok := e.Reply.Lookup("cursor", batch).ArrayOK(); ok {
					values, _ := docs.Values()
					r.received[ns[strings.LastIndexByte(ns, '.')+1:]] += len(values)
				}
			}
		},
	}
}

// takeReceived returns the number of documents of a collection that were
// received since its last call.
func (r *recorder) takeReceived(collection string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.received[collection]
	r.received = nil
	return n
}

// take returns the commands that were sent since its last call.
func (r *recorder) take() []bson.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	commands := r.commands
	r.commands = nil
	return commands
}
