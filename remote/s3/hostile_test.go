package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// FuzzRange checks the answers to a request of a range with arbitrary headers.
func FuzzRange(f *testing.F) {
	f.Add(206, "bytes 10-19/100", int64(10), int64(10), int64(10))
	f.Add(206, "bytes 10-19/*", int64(10), int64(10), int64(10))
	f.Add(206, "bytes 10-19/20", int64(10), int64(10), int64(100))
	f.Add(206, "bytes 10-9223372036854775807/9223372036854775807", int64(-1), int64(10), int64(100))
	f.Add(206, "", int64(10), int64(0), int64(10))
	f.Add(200, "", int64(10), int64(0), int64(10))
	f.Add(200, "", int64(-1), int64(0), int64(10))
	f.Fuzz(func(t *testing.T, status int, contentRange string, length, off, size int64) {
		if off < 0 || size <= 0 || off > 1<<62 || size > 1<<62 {
			return
		}
		n, whole, err := checkRange(status, contentRange, length, off, size)
		if err == nil && (n < 0 || n > size || n != min(size, max(whole-off, 0))) {
			t.Errorf("checkRange returned %d bytes of a blob of %d; requested %d from %d", n, whole, size, off)
		}
	})
}

// A store that ignores ranges is unfit at once. kist does not try again.
func TestIgnoresRanges(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
		w.Header().Set("ETag", `"x"`)
		fmt.Fprint(w, "all of the file")
	}))
	defer server.Close()
	b, err := open(t.Context(), "s3://bucket/p?endpoint="+server.URL, testEnv(t, settings{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}

	_, err = b.Get(t.Context(), "packs/a", make([]byte, 3), 5)
	if !errors.Is(err, remote.ErrUnsupported) || !strings.Contains(err.Error(), "ignores ranges: it returns all of a file, not the requested part (HTTP 200)") {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
}

// For each answer of a server, calls succeed or return a *remote.Error that is
// safe to print.
func FuzzAnswer(f *testing.F) {
	const list = `<ListBucketResult><IsTruncated>%v</IsTruncated><Contents><Key>p/packs/a</Key><Size>5</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>%s</ListBucketResult>`
	f.Add(200, "bytes 0-4/5", []byte(fmt.Sprintf(list, false, "")))
	f.Add(200, "", []byte(fmt.Sprintf(list, true, "")))
	f.Add(200, "", []byte(fmt.Sprintf(list, true, "<NextContinuationToken>x</NextContinuationToken>")))
	f.Add(206, "bytes 0-4/5", []byte("hello"))
	f.Add(206, "bytes 0-99/100", []byte("hello"))
	f.Add(404, "", []byte("<Error><Code>NoSuchKey</Code></Error>"))
	f.Add(503, "", []byte("<Error><Code>SlowDown</Code><Message>\x1b[2J</Message></Error>"))
	f.Add(301, "", []byte("<Error><Code>PermanentRedirect</Code><Region>../x</Region></Error>"))
	f.Add(400, "", []byte("<Error>"))
	var status int
	var contentRange string
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
		w.Header().Set("ETag", `"x"`)
		if contentRange != "" {
			w.Header().Set("Content-Range", contentRange)
		}
		w.WriteHeader(status)
		w.Write(body)
	}))
	defer server.Close()
	b, err := open(f.Context(), "s3://bucket/p?endpoint="+server.URL, testEnv(f, settings{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}), 10*time.Second)
	if err != nil {
		f.Fatal(err)
	}

	f.Fuzz(func(t *testing.T, s int, header string, data []byte) {
		if s < 200 || s > 999 {
			return
		}
		for _, c := range []byte(header) {
			if c < ' ' || c > '~' {
				return
			}
		}

		status, contentRange, body = s, header, data
		for op, call := range calls(t.Context(), b) {
			err := call()
			var re *remote.Error
			if err != nil && !errors.As(err, &re) {
				t.Errorf("%s: error %v is no *remote.Error", op, err)
			}
			if err == nil {
				continue
			}

			for _, r := range err.Error() {
				if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
					t.Errorf("%s: error %q has control characters", op, err)
				}
			}
		}
	})
}
