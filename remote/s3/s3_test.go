package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// minio-go sleeps up to this long after a failed request, even without a retry.
func init() { minio.DefaultRetryUnit = 0 }

// settings has variables of the environment.
type settings map[string]string

func (s settings) get(name string) string { return s[name] }

// testEnv returns an environment with these settings and an empty home.
func testEnv(t testing.TB, s settings) remote.Env {
	return remote.Env{
		Getenv: s.get,
		Home:   t.TempDir(),
		Now:    time.Now,
	}
}

// openFake opens a remote on a fake S3.
func openFake(t testing.TB, f *remotetest.FakeS3) *Backend {
	t.Helper()
	env := testEnv(t, nil)
	env.Getenv = f.Getenv
	b, err := open(t.Context(), f.URL("some/prefix"), env, stallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConformance(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) remote.Backend {
		return openFake(t, remotetest.NewFakeS3(t, 1))
	})
}

func TestConformanceWithConflicts(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) remote.Backend {
		f := remotetest.NewFakeS3(t, 1)
		f.SetCondition(remotetest.S3Conflicts)
		f.SetPageSize(7)
		return openFake(t, f)
	})
}

// A blob of any size is stored by one conditional PUT. minio-go alone would
// upload the large ones in parts.
func TestOneConditionalRequest(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	for _, size := range []int{0, 1, 5 << 20, 17 << 20, 65 << 20} {
		f.Reset()
		name := fmt.Sprintf("packs/%d", size)
		if err := b.Put(t.Context(), name, bytes.NewReader(make([]byte, size)), int64(size)); err != nil {
			t.Fatal(err)
		}
		checkPut(t, f, "some/prefix/"+name, int64(size))
	}
	f.Reset()
	if err := b.Create(t.Context(), "root/00000000000000000001", []byte("root")); err != nil {
		t.Fatal(err)
	}
	checkPut(t, f, "some/prefix/root/00000000000000000001", 4)
}

func checkPut(t *testing.T, f *remotetest.FakeS3, key string, size int64) {
	t.Helper()
	requests := f.Requests()
	if len(requests) != 1 || requests[0].Kind != "put" || requests[0].Key != key || requests[0].Size != size {
		t.Fatalf("put of %d bytes: requests %+v", size, requests)
	}
	h := requests[0].Header
	if got := h.Get("If-None-Match"); got != "*" {
		t.Errorf("put of %d bytes: If-None-Match %q, want *", size, got)
	}
	if h.Get("Content-Md5") != "" || len(h.Get("X-Amz-Content-Sha256")) != 64 {
		t.Errorf("put of %d bytes: header %v, want only a SHA-256", size, h)
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-Checksum") || name == "X-Amz-Trailer" || name == "X-Amz-Decoded-Content-Length" {
			t.Errorf("put of %d bytes: unwanted header %s", size, name)
		}
	}
}

// Each PUT has a checksum of its body: a signed SHA-256, or an MD5. kist sends
// the MD5 if requests are not signed, and after a store asked for it. S3 asks for
// it in buckets with Object Lock.
func TestChecksum(t *testing.T) {
	const (
		body   = "a pack"
		sha256 = "d55b179625eddb11f50e77ddd1bb9660f7373879e56123ffdc1e0a9d9ff30428"
		md5    = "I39E3fUYMX5tJW4iaEKq2g=="
	)
	put := func(b *Backend, name string) error {
		return b.Put(t.Context(), name, strings.NewReader(body), int64(len(body)))
	}
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	f.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
		if r.Header.Get("Content-Md5") == "" && strings.Contains(r.Key, "locked") {
			return &remotetest.S3Answer{Status: 400, Code: "InvalidRequest", Message: "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"}
		}
		return nil
	})
	for _, test := range []struct {
		name string
		want []string // checksums of the requests
	}{
		{"packs/1", []string{sha256}},
		{"packs/locked-1", []string{sha256, md5}},
		{"packs/locked-2", []string{md5}},
		{"packs/2", []string{md5}},
	} {
		f.Reset()
		if err := put(b, test.name); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range f.Requests() {
			sum := r.Header.Get("X-Amz-Content-Sha256")
			if sum == "UNSIGNED-PAYLOAD" {
				sum = r.Header.Get("Content-Md5")
			}
			got = append(got, sum)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: checksums %q, want %q", test.name, got, test.want)
		}
	}

	f.Reset()
	env := testEnv(t, nil)
	env.Getenv = f.Getenv
	anonymous, err := open(t.Context(), f.URL("some/prefix")+"&anonymous=true", env, stallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	put(anonymous, "packs/3") // fails, because the fake refuses anonymous requests
	if r := f.Requests(); len(r) != 1 || r[0].Header.Get("Content-Md5") != md5 {
		t.Errorf("anonymous put: requests %+v, want one with MD5", r)
	}
}

// TestRequests checks the requests that each call makes.
func TestRequests(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	f.SetObject("some/prefix/packs/a", []byte("hello"))
	for _, test := range []struct {
		name string
		call func() error
		want []string
	}{
		{"open", func() error { openFake(t, f); return nil }, nil},
		{"get", func() error { _, err := b.Get(t.Context(), "packs/a", make([]byte, 9), 0); return err }, []string{"get"}},
		{"stat", func() error { _, err := b.Stat(t.Context(), "packs/a"); return err }, []string{"get"}},
		{"list", func() error { _, err := names(t.Context(), b, ""); return err }, []string{"list"}},
		{"delete", func() error { return b.Delete(t.Context(), "packs/a") }, []string{"delete"}},
	} {
		f.Reset()
		if err := test.call(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var kinds []string
		for _, r := range f.Requests() {
			kinds = append(kinds, r.Kind)
		}
		if !slices.Equal(kinds, test.want) {
			t.Errorf("%s: requests %q, want %q", test.name, kinds, test.want)
		}
	}
}

// names returns the names that a list yields.
func names(ctx context.Context, b *Backend, prefix string) (list []string, err error) {
	for info, err := range b.List(ctx, prefix) {
		if err != nil {
			return list, err
		}
		list = append(list, info.Name)
	}
	return list, nil
}

func TestListLeavesOutWhatIsNotOurs(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	for _, key := range []string{"some/prefix/packs/a", "some/prefix/README.txt", "some/prefix/", "some/prefix/packs/", "some/prefix2/packs/b", "some/p", "x"} {
		f.SetObject(key, []byte("x"))
	}
	if got, err := names(t.Context(), b, ""); err != nil || !slices.Equal(got, []string{"packs/a"}) {
		t.Errorf("list yields %q, error %v; want packs/a", got, err)
	}
}

func TestListAfter(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	f.SetPageSize(2)
	b := openFake(t, f)
	for i := range 9 {
		f.SetObject(fmt.Sprintf("some/prefix/packs/%d", i), []byte("x"))
	}
	var got []string
	for info, err := range b.ListAfter(t.Context(), "packs/", "packs/3") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Name)
	}
	if want := []string{"packs/4", "packs/5", "packs/6", "packs/7", "packs/8"}; !slices.Equal(got, want) {
		t.Errorf("list yields %q, want %q", got, want)
	}
}

// If the store names another region for the bucket, kist repeats the request
// there and uses that region from then on.
func TestRegion(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	f.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
		if strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/s3/") {
			return nil
		}
		return &remotetest.S3Answer{
			Status: 400, Code: "AuthorizationHeaderMalformed", Message: "The authorization header is malformed; the region is wrong",
			Header: http.Header{"X-Amz-Bucket-Region": {"eu-central-1"}},
		}
	})
	b := openFake(t, f)
	if err := b.Put(t.Context(), "packs/a", strings.NewReader("hello"), 5); err != nil {
		t.Fatal(err)
	}
	if data, ok := f.Object("some/prefix/packs/a"); !ok || string(data) != "hello" {
		t.Errorf("stored %q, %t; want hello", data, ok)
	}
	if list, err := names(t.Context(), b, ""); err != nil || len(list) != 1 {
		t.Errorf("list %q, error %v; want one name", list, err)
	}
	if n := f.Count(); n != 3 {
		t.Errorf("%d requests, want 3: put, its repetition, and list", n)
	}

	// kist gives up if the store names another region each time.
	f.Reset()
	n := 0
	f.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
		n++
		return &remotetest.S3Answer{Status: 301, Code: "PermanentRedirect", Message: "elsewhere", Header: http.Header{"X-Amz-Bucket-Region": {fmt.Sprintf("nowhere-%d", n)}}}
	})
	_, err := b.Get(t.Context(), "packs/a", make([]byte, 9), 0)
	var re *remote.Error
	if !errors.As(err, &re) || re.Kind != nil || f.Count() != 2 {
		t.Errorf("%d requests, error %v; want 2 requests and an error without a kind", f.Count(), err)
	}
}

// TestLogOfRequests checks that the log has the status of each request, and no query.
func TestLogOfRequests(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	var out strings.Builder
	ctx := trace.With(t.Context(), trace.New(&out, time.Now))
	if _, err := openFake(t, f).Stat(ctx, "packs/a"); !errors.Is(err, remote.ErrNotFound) {
		t.Fatal(err)
	}
	for _, err := range openFake(t, f).List(ctx, "packs/") {
		if err != nil {
			t.Fatal(err)
		}
	}

	log := out.String()
	for _, want := range []string{"method=GET", "status=404", "status=200", "took="} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "list-type") || strings.Contains(log, "prefix=") {
		t.Errorf("the log has the query of a request:\n%s", log)
	}
}
