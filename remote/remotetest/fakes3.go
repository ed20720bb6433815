package remotetest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The bucket and the access key of a [FakeS3].
const (
	FakeS3Bucket    = "kist-test"
	FakeS3AccessKey = "FAKEACCESSKEY"
	FakeS3SecretKey = "fake-secret-key"
)

// S3Condition is the reaction of a [FakeS3] to If-None-Match: * on a PUT.
type S3Condition uint8

// The reactions of stores to the condition.
const (
	S3Honours   S3Condition = iota // one of any number of PUTs succeeds, the others get 412
	S3Ignores                      // each PUT replaces
	S3Races                        // looks first and stores later, so that several succeed
	S3Refuses                      // 501
	S3Conflicts                    // 409 for a PUT while another of the same key is under way, else as it should be
)

// FakeS3 is a small S3 server in this process: one bucket, [FakeS3Bucket], in
// path style, with conditional PUT, ranged GET, HEAD, DELETE and
// ListObjectsV2. It looks at the access key of a request, but checks no
// signature. It has no faults until a method sets one. It is safe for
// concurrent use.
type FakeS3 struct {
	server  *httptest.Server
	stop    chan struct{} // closed: stuck requests end
	traffic atomic.Int64

	mu        sync.Mutex
	rand      *rand.Rand
	objects   map[string]fakeObject
	under     map[string]int // PUTs under way, by key
	looks     map[string]int // PUTs that came, by key
	requests  []S3Request
	effects   []fakeEffect // of the past, for replays
	condition S3Condition
	answers   []func(S3Request) *S3Answer
	listing   S3Listing
	replay    float64
	pageSize  int
	clock     time.Time // Last-Modified of the newest object
	archive   fakeArchive
}

type fakeObject struct {
	data     []byte
	modified time.Time
	class    string // of storage; "": STANDARD
}

type fakeEffect struct {
	key         string
	class       string
	data        []byte // nil: a DELETE
	conditional bool
}

// S3Request is a request that a [FakeS3] got.
type S3Request struct {
	N      int    // the number of the request, from 1
	Kind   string // "get", "head", "put", "delete", "list", "restore", "bucket" (HEAD or location), "other"
	Key    string // of the object, or the prefix of a list
	Bucket string
	Size   int64 // bytes of the body that it says it has
	Exists bool  // the object was there when the request came
	Header http.Header
}

// NewFakeS3 starts a server, which ends with the test. Its random choices follow
// from seed and the order of requests.
func NewFakeS3(t testing.TB, seed uint64) *FakeS3 {
	t.Helper()
	f := &FakeS3{
		stop:     make(chan struct{}),
		rand:     rand.New(rand.NewPCG(seed, 0)),
		objects:  map[string]fakeObject{},
		under:    map[string]int{},
		looks:    map[string]int{},
		pageSize: 1000,
		clock:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.Listener = countingListener{f.server.Listener, &f.traffic}
	f.server.Start()
	t.Cleanup(func() {
		close(f.stop)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// Watch has see called with each request and its body, before it is answered. Call it before the first request.
// See is called by several goroutines.
func (f *FakeS3) Watch(see func(r *http.Request, body []byte)) {
	f.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		see(r, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.serve(w, r)
	})
}

// Endpoint returns the server's URL, http://127.0.0.1:PORT.
func (f *FakeS3) Endpoint() string { return f.server.URL }

// URL returns the URL of a remote in the server's bucket.
func (f *FakeS3) URL(prefix string) string {
	return "s3://" + FakeS3Bucket + "/" + prefix + "?endpoint=" + f.server.URL
}

// Getenv returns an environment with only the server's credentials.
func (f *FakeS3) Getenv(name string) string {
	switch name {
	case "AWS_ACCESS_KEY_ID":
		return FakeS3AccessKey
	case "AWS_SECRET_ACCESS_KEY":
		return FakeS3SecretKey
	case "AWS_EC2_METADATA_DISABLED":
		return "true"
	}
	return ""
}

// SetCondition sets the reaction to If-None-Match.
func (f *FakeS3) SetCondition(c S3Condition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.condition = c
}

// SetAnswers replaces the functions that choose the answer to each request. The
// first function that returns an answer decides. They are called one at a time
// and must not call the server. Without functions there are no faults.
func (f *FakeS3) SetAnswers(answers ...func(S3Request) *S3Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = answers
}

// SetListing sets the faults of lists.
func (f *FakeS3) SetListing(l S3Listing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listing = l
}

// SetReplay sets the rate, per request, at which an old PUT or DELETE takes
// effect once more, like a request that was delayed on its way.
func (f *FakeS3) SetReplay(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replay = rate
}

// SetPageSize sets how many entries a page of a list has at most; 1000 unless
// set.
func (f *FakeS3) SetPageSize(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pageSize = n
}

// Requests returns the requests since the last [FakeS3.Reset].
func (f *FakeS3) Requests() []S3Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Count returns the number of requests of some kinds since the last
// [FakeS3.Reset]; without kinds, of all.
func (f *FakeS3) Count(kinds ...string) int {
	n := 0
	for _, r := range f.Requests() {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			n++
		}
	}
	return n
}

// Traffic returns the number of bytes on the server's connections so far, in
// both directions, headers included.
func (f *FakeS3) Traffic() int64 { return f.traffic.Load() }

// Reset forgets the requests so far.
func (f *FakeS3) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// Keys returns the keys of all objects that begin with prefix, sorted.
func (f *FakeS3) Keys(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys(prefix)
}

func (f *FakeS3) keys(prefix string) []string {
	var keys []string
	for key := range f.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Object returns a copy of an object's bytes, and whether it exists.
func (f *FakeS3) Object(key string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.objects[key]
	return slices.Clone(o.data), ok
}

// SetObject stores an object; nil removes it. Tests damage objects with it, or
// restore an older state.
func (f *FakeS3) SetObject(key string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data == nil {
		delete(f.objects, key)
		return
	}
	f.store(key, f.objects[key].class, slices.Clone(data))
}

// store stores an object in a class of storage. The caller holds f.mu.
func (f *FakeS3) store(key, class string, data []byte) {
	f.clock = f.clock.Add(time.Second)
	f.objects[key] = fakeObject{data: data, modified: f.clock, class: class}
	delete(f.archive.copies, key)
}
