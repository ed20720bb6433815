package s3

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/httpclient"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// calls returns calls of a backend's methods, by the Op of their errors.
func calls(ctx context.Context, b *Backend) map[string]func() error {
	return map[string]func() error{
		"get":    func() error { _, err := b.Get(ctx, "packs/a", make([]byte, 100), 0); return err },
		"stat":   func() error { _, err := b.Stat(ctx, "packs/a"); return err },
		"put":    func() error { return b.Put(ctx, "packs/new", strings.NewReader("hello"), 5) },
		"create": func() error { return b.Create(ctx, "root/1", []byte("hello")) },
		"delete": func() error { return b.Delete(ctx, "packs/a") },
		"list":   func() error { _, err := names(ctx, b, "packs/"); return err },
	}
}

// wantError checks that an error has this kind and wait, and contains text.
func wantError(t *testing.T, op string, err, kind error, wait time.Duration, text string) {
	t.Helper()
	var re *remote.Error
	switch {
	case !errors.As(err, &re):
		t.Errorf("%s: error %v is no *remote.Error", op, err)
	case re.Op != op || re.Kind != kind || re.Wait != wait || !strings.Contains(err.Error(), text):
		t.Errorf("%s: error %q of kind %v, wait %v; want kind %v, wait %v, text %q", op, err, re.Kind, re.Wait, kind, wait, text)
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	everything := ""
	for _, test := range []struct {
		status        int
		code, message string
		retryAfter    string
		ops           string
		kind          error
		wait          time.Duration
		text          string
	}{
		{403, "AccessDenied", "Access Denied", "", everything, remote.ErrPermission, 0, "Access Denied (AccessDenied, HTTP 403)"},
		{403, "AccessDenied", "Access Denied", "", "get stat", remote.ErrPermission, 0, "s3:ListBucket"},
		{403, "", "", "", everything, remote.ErrPermission, 0, "HTML"},
		{403, "InvalidAccessKeyId", "No such key.", "", everything, remote.ErrCredentials, 0, "No such key."},
		{403, "SignatureDoesNotMatch", "Wrong.", "", everything, remote.ErrCredentials, 0, "Wrong."},
		{403, "RequestTimeTooSkewed", "The clock is wrong.", "", everything, remote.ErrCredentials, 0, "the clock of this machine differs from the clock of the store: The clock is wrong."},
		{403, "InvalidObjectState", "Not here.", "", "get", nil, 0, "the store has archived the file: Not here. (InvalidObjectState, HTTP 403)"},
		{400, "ExpiredToken", "Too old.", "", everything, remote.ErrCredentials, 0, "Too old. (ExpiredToken, HTTP 400)"},
		{401, "Unauthorized", "Who?", "", everything, remote.ErrCredentials, 0, "Who?"},
		{404, "NoSuchBucket", "No bucket.", "", everything, remote.ErrNoStore, 0, `bucket "kist-test" does not exist`},
		{404, "NoSuchKey", "No key.", "", "get stat put create", remote.ErrNotFound, 0, "No key."},
		{404, "", "", "", "get stat put create", nil, 0, "HTML"},
		{409, "ConditionalRequestConflict", "Conflict.", "", "put create", remote.ErrTemporary, 0, "Conflict."},
		{409, "OperationAborted", "Conflict.", "", everything, remote.ErrTemporary, 0, "Conflict."},
		{412, "PreconditionFailed", "It is there.", "", "put create", remote.ErrExists, 0, "It is there."},
		{501, "NotImplemented", "Cannot do that.", "", "put create", remote.ErrUnsupported, 0, "Cannot do that."},
		{507, "XMinioStorageFull", "Full.", "", "put create", remote.ErrFull, 0, "Full."},
		{507, "", "", "", "put create", remote.ErrFull, 0, "HTTP 507"},
		{400, "XMinioAdminBucketQuotaExceeded", "Quota.", "", "put create", remote.ErrFull, 0, "Quota."},
		{403, "QuotaExceeded", "Quota.", "", "put create", remote.ErrFull, 0, "Quota."},
		{400, "BadDigest", "Other bytes.", "", "put create", remote.ErrTemporary, 0, "Other bytes."},
		{400, "InvalidArgument", "No.", "", everything, nil, 0, "No. (InvalidArgument, HTTP 400)"},
		{405, "MethodNotAllowed", "No.", "", everything, nil, 0, "No."},
		{429, "TooManyRequests", "Slowly.", "7", everything, remote.ErrTemporary, 7 * time.Second, "Slowly."},
		{503, "SlowDown", "Slowly.", "", everything, remote.ErrTemporary, 0, "Slowly."},
		{503, "ServiceUnavailable", "Later.", "Thu, 01 Jan 2026 00:00:09 GMT", everything, remote.ErrTemporary, 9 * time.Second, "Later."},
		{503, "ServiceUnavailable", "Later.", "Wed, 31 Dec 2025 00:00:09 GMT", everything, remote.ErrTemporary, 0, "Later."},
		{503, "ServiceUnavailable", "Later.", "-1 soon", everything, remote.ErrTemporary, 0, "Later."},
		{500, "InternalError", "Sorry.", "", everything, remote.ErrTemporary, 0, "Sorry."},
		{502, "", "", "", everything, remote.ErrTemporary, 0, "HTTP 502"},
		{504, "", "gateway \x1b[31mtimeout\r\n\u202e", "", everything, remote.ErrTemporary, 0, "gateway [31mtimeout (HTTP 504)"},
	} {
		t.Run(test.code+test.text, func(t *testing.T) {
			t.Parallel()
			f := remotetest.NewFakeS3(t, 1)
			f.SetObject("some/prefix/packs/a", []byte("hello"))
			b := openFake(t, f)
			b.now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
			answer := remotetest.S3Answer{Status: test.status, Code: test.code, Message: test.message, Header: http.Header{}}
			if test.retryAfter != "" {
				answer.Header.Set("Retry-After", test.retryAfter)
			}
			f.SetAnswers(remotetest.S3Do(answer))

			for op, call := range calls(t.Context(), b) {
				if test.ops == everything || strings.Contains(test.ops, op) {
					f.Reset()
					wantError(t, op, call(), test.kind, test.wait, test.text)
					if n := f.Count(); n != 1 {
						t.Errorf("%s: %d requests, want 1", op, n)
					}
				}
			}
		})
	}
}

func TestMissing(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	_, err := b.Get(t.Context(), "packs/a", make([]byte, 9), 0)
	wantError(t, "get", err, remote.ErrNotFound, 0, "key does not exist")
	f.SetAnswers(remotetest.S3AbsentDenied)
	_, err = b.Stat(t.Context(), "packs/a")
	wantError(t, "stat", err, remote.ErrPermission, 0, "s3:ListBucket")
	b.bucket = "another"
	for op, call := range calls(t.Context(), b) {
		f.SetAnswers()
		wantError(t, op, call(), remote.ErrNoStore, 0, `bucket "another" does not exist`)
	}
}

// A request without an answer fails with ErrTemporary, at whatever stage the
// connection breaks.
func TestBroken(t *testing.T) {
	for name, answer := range map[string]remotetest.S3Answer{
		"reset":      {Reset: true},
		"lost reply": {Reset: true, Effect: true},
		"stuck":      {Stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := remotetest.NewFakeS3(t, 1)
			env := testEnv(t, nil)
			env.Getenv = f.Getenv
			stall := stallTimeout
			if answer.Stuck {
				stall = 100 * time.Millisecond
			}
			b, err := open(t.Context(), f.URL("some/prefix"), env, stall)
			if err != nil {
				t.Fatal(err)
			}

			f.SetAnswers(remotetest.S3Do(answer))
			for op, call := range calls(t.Context(), b) {
				wantError(t, op, call(), remote.ErrTemporary, 0, "")
			}
			if _, ok := f.Object("some/prefix/packs/new"); ok != answer.Effect {
				t.Errorf("blob is stored: %t, want %t", ok, answer.Effect)
			}

			f.SetAnswers()
			switch err := calls(t.Context(), openFake(t, f))["put"](); {
			case answer.Effect:
				wantError(t, "put", err, remote.ErrExists, 0, "")
			case err != nil:
				t.Error(err)
			}
		})
	}
}

func TestBodyCutShort(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	f.SetObject("some/prefix/packs/a", make([]byte, 100_000))
	for _, answer := range []remotetest.S3Answer{{Cut: true}, {Short: true}} {
		for _, n := range []int{50_000, 100_000, 200_000} {
			f.SetAnswers(remotetest.S3Do(answer))
			got, err := b.Get(t.Context(), "packs/a", make([]byte, n), 0)
			wantError(t, "get", err, remote.ErrTemporary, 0, "")
			if got != 0 {
				t.Errorf("get of %d bytes returned %d, want 0 with an error", n, got)
			}
		}
	}
}

// A slow body is read to its end. A body that stops fails with ErrStalled.
func TestSlow(t *testing.T) {
	t.Parallel()
	f := remotetest.NewFakeS3(t, 1)
	env := testEnv(t, nil)
	env.Getenv = f.Getenv
	b, err := open(t.Context(), f.URL("some/prefix"), env, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	f.SetObject("some/prefix/packs/a", make([]byte, 40_000))
	f.SetAnswers(remotetest.S3Do(remotetest.S3Answer{Slow: 300 * time.Millisecond}))
	if n, err := b.Get(t.Context(), "packs/a", make([]byte, 50_000), 0); n != 40_000 || err != nil {
		t.Errorf("get of a slow body: %d bytes, error %v; want 40000 bytes", n, err)
	}
	b, err = open(t.Context(), f.URL("some/prefix"), env, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	f.SetAnswers(remotetest.S3Do(remotetest.S3Answer{Slow: time.Hour}))
	_, err = b.Get(t.Context(), "packs/a", make([]byte, 50_000), 0)
	wantError(t, "get", err, remote.ErrTemporary, 0, "no progress on the connection for 50ms")
	if !errors.Is(err, httpclient.ErrStalled) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	const closed = "127.0.0.1:1" // no server listens there
	env := testEnv(t, map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
	for endpoint, text := range map[string]string{
		"http://" + closed:          closed + " cannot be reached: ",
		"https://s3.kist.invalid":   "s3.kist.invalid cannot be reached: ",
		"http://s3.kist.invalid:81": "s3.kist.invalid:81 cannot be reached: ",
	} {
		b, err := open(t.Context(), "s3://bucket/prefix?endpoint="+endpoint, env, stallTimeout)
		if err != nil {
			t.Fatal(err)
		}
		for op, call := range calls(t.Context(), b) {
			wantError(t, op, call(), remote.ErrTemporary, 0, text)
		}
	}
}

// TestStrangers checks the errors for a server without TLS, and for a server
// with an unknown certificate.
func TestStrangers(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	defer unknown.Close()
	env := testEnv(t, map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
	for _, test := range []struct {
		endpoint string
		kind     error
		text     string
	}{
		{strings.Replace(plain.URL, "http://", "https://", 1), nil, "endpoint=http://"},
		{unknown.URL, remote.ErrCertificate, "the certificate of 127.0.0.1:"},
	} {
		b, err := open(t.Context(), "s3://bucket/prefix?endpoint="+test.endpoint, env, stallTimeout)
		if err != nil {
			t.Fatal(err)
		}
		for op, call := range calls(t.Context(), b) {
			wantError(t, op, call(), test.kind, 0, test.text)
		}
	}
}

func TestCancelled(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	for op := range calls(t.Context(), b) {
		ctx, cancel := context.WithCancel(t.Context())
		f.SetAnswers(func(remotetest.S3Request) *remotetest.S3Answer {
			cancel()
			return &remotetest.S3Answer{Stuck: true}
		})
		err := calls(ctx, b)[op]()
		if wantError(t, op, err, nil, 0, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", op, err)
		}
	}
}

// A failingBody returns errDisk for reads beyond an offset.
type failingBody struct{ from int64 }

var errDisk = errors.New("disk on fire")

func (f failingBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errDisk
	}
	return len(p), nil
}

// An error of reading the body has no kind, so it does not count as an error of
// the store.
func TestBodyCannotBeRead(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	err := b.Put(t.Context(), "packs/a", failingBody{100_000}, 1_000_000)
	if wantError(t, "put", err, nil, 0, "disk on fire"); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	err = b.Put(t.Context(), "packs/a", strings.NewReader("hello"), 6)
	if wantError(t, "put", err, nil, 0, "after 5 of 6 bytes"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if keys := f.Keys(""); len(keys) > 0 {
		t.Errorf("stored %q, want nothing", keys)
	}
}

// Errors show no credentials, even if the store's answer repeats them.
func TestSecretsAreNotShown(t *testing.T) {
	env := testEnv(t, map[string]string{
		"AWS_ACCESS_KEY_ID": "CANARYID", "AWS_SECRET_ACCESS_KEY": "canary/secret", "AWS_SESSION_TOKEN": "canary-token",
	})
	for _, status := range []int{400, 403, 404, 500} {
		f := remotetest.NewFakeS3(t, 1)
		f.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
			if !strings.Contains(r.Header.Get("Authorization"), "CANARYID") || r.Header.Get("X-Amz-Security-Token") != "canary-token" {
				t.Errorf("the request is not signed with the credentials: %v", r.Header)
			}
			return &remotetest.S3Answer{Status: status, Code: "CodeCANARYID", Message: "you sent canary/secret and canary-token: " + r.Header.Get("Authorization")}
		})
		b, err := open(t.Context(), f.URL("p"), env, stallTimeout)
		if err != nil {
			t.Fatal(err)
		}
		for op, call := range calls(t.Context(), b) {
			err := call()
			if err == nil && op != "delete" {
				t.Errorf("%s with HTTP %d: no error", op, status)
			}
			if err != nil && strings.Contains(strings.ToLower(err.Error()), "canary") {
				t.Errorf("%s: the error shows credentials: %v", op, err)
			}
		}
	}
}
