package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// A realStore is a new bucket on the server of KIST_TEST_S3, which has the form
// s3://prefix-of-the-bucket's-name?endpoint=…. The credentials come from the
// environment. The end of the test removes the bucket.
type realStore struct {
	bucket, query string
	env           remote.Env
	admin         *Backend
}

func newRealStore(t *testing.T) *realStore {
	t.Helper()
	rawURL := objecttest.NeedServer(t, "KIST_TEST_S3")
	s := &realStore{env: testEnv(t, nil)}
	s.env.Getenv = os.Getenv
	base, query, _ := strings.Cut(rawURL, "?")
	s.bucket = strings.TrimSuffix(strings.TrimPrefix(base, "s3://"), "/") + "-" + strings.ToLower(rand.Text()[:10])
	s.query = "?" + query
	s.admin = s.open(t, "", s.env)
	client := s.admin.client.Load()
	if err := client.MakeBucket(t.Context(), s.bucket, minio.MakeBucketOptions{Region: client.region}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		for object := range client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Recursive: true}) {
			if err := client.RemoveObject(ctx, s.bucket, object.Key, minio.RemoveObjectOptions{}); err != nil {
				t.Error(err)
			}
		}
		if err := client.RemoveBucket(ctx, s.bucket); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *realStore) open(t *testing.T, prefix string, env remote.Env) *Backend {
	t.Helper()
	b, err := Open(t.Context(), "s3://"+s.bucket+"/"+prefix+s.query, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.(*Backend)
}

func TestConformanceOfServer(t *testing.T) {
	s := newRealStore(t)
	remotetest.Run(t, func(t *testing.T) remote.Backend { return s.open(t, "in/"+rand.Text(), s.env) })
}

// A Put under a taken name fails also for bodies so large that clients usually
// upload them in parts.
func TestLargePutIsConditionalOnServer(t *testing.T) {
	b := newRealStore(t).admin
	first := bytes.Repeat([]byte("first "), 6<<20)
	if err := b.Put(t.Context(), "packs/a", bytes.NewReader(first), int64(len(first))); err != nil {
		t.Fatal(err)
	}
	second := bytes.Repeat([]byte("second"), 6<<20)
	err := b.Put(t.Context(), "packs/a", bytes.NewReader(second), int64(len(second)))
	wantError(t, "put", err, remote.ErrExists, 0, "")
	got := make([]byte, len(first)+1)
	if n, err := b.Get(t.Context(), "packs/a", got, 0); err != nil || !bytes.Equal(got[:n], first) {
		t.Errorf("get: %d bytes, error %v; want the bytes of the first put", n, err)
	}
}

func TestErrorsOfServer(t *testing.T) {
	s := newRealStore(t)
	withEnv := func(name, value string) remote.Env {
		env := s.env
		env.Getenv = func(n string) string {
			if n == name {
				return value
			}
			return os.Getenv(n)
		}
		return env
	}

	for name, b := range map[string]*Backend{
		"wrong id":     s.open(t, "", withEnv("AWS_ACCESS_KEY_ID", "nobody")),
		"wrong secret": s.open(t, "", withEnv("AWS_SECRET_ACCESS_KEY", "not-the-secret")),
		"wrong token":  s.open(t, "", withEnv("AWS_SESSION_TOKEN", "nonsense")),
	} {
		for op, call := range calls(t.Context(), b) {
			if err := call(); !errors.Is(err, remote.ErrCredentials) {
				t.Errorf("%s: %s: error %v, want ErrCredentials", name, op, err)
			}
		}
	}

	elsewhere := s.open(t, "", withEnv("AWS_REGION", "eu-nowhere-1"))
	if _, err := elsewhere.Get(t.Context(), "packs/a", make([]byte, 9), 0); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("wrong region: error %v, want ErrNotFound", err)
	}

	missing := s.open(t, "", s.env)
	missing.bucket += "-not"
	for op, call := range calls(t.Context(), missing) {
		wantError(t, op, call(), remote.ErrNoStore, 0, "bucket does not exist")
	}
}

// Each policy of docs/howto/s3.md allows exactly its operations.
func TestPermissionsOnServer(t *testing.T) {
	s := newRealStore(t)
	if err := s.admin.Put(t.Context(), "team/packs/a", strings.NewReader("hello"), 5); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		policy, allowed string
	}{
		{"pull", "get stat list"},
		{"push", "get stat list put create"},
		{"all", "get stat list put create delete"},
	} {
		b := s.restricted(t, test.policy)
		for _, op := range []string{"get", "stat", "list", "put", "create", "delete"} {
			err := calls(t.Context(), b)[op]()
			switch allowed := strings.Contains(test.allowed, op); {
			case allowed && err != nil:
				t.Errorf("policy %s: %s: %v", test.policy, op, err)
			case !allowed && !errors.Is(err, remote.ErrPermission):
				t.Errorf("policy %s: %s: error %v, want ErrPermission", test.policy, op, err)
			}
		}

		_, err := b.Get(t.Context(), "packs/none", make([]byte, 9), 0)
		wantError(t, "get", err, remote.ErrNotFound, 0, "")
		b.prefix = "other/"
		_, err = b.Get(t.Context(), "packs/none", make([]byte, 9), 0)
		wantError(t, "get", err, remote.ErrPermission, 0, "")

		for _, name := range []string{"packs/new", "root/1"} {
			if err := s.admin.Delete(t.Context(), "team/"+name); err != nil {
				t.Error(err)
			}
		}
	}
}

// policies returns the policies in the documentation.
func policies(t *testing.T) map[string]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/howto/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range strings.Split(string(doc), "```json\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %s", text)
		}
		blocks = append(blocks, text)
	}
	if len(blocks) != 3 {
		t.Fatalf("%d policies in s3.md, want 3", len(blocks))
	}
	return map[string]string{"pull": blocks[0], "push": blocks[1], "all": blocks[2]}
}

// onlyIfAbsent is a condition that MinIO does not support.
const onlyIfAbsent = `,
      "Condition": { "Null": { "s3:if-none-match": "false" } }`

func TestPolicies(t *testing.T) {
	for name, text := range policies(t) {
		if strings.Contains(text, onlyIfAbsent) != (name == "push") {
			t.Errorf("policy %s: only push must have the condition:\n%s", name, text)
		}
	}
}

// restricted opens the prefix team with credentials that a policy restricts.
func (s *realStore) restricted(t *testing.T, policy string) *Backend {
	t.Helper()
	text := strings.NewReplacer("BUCKET", s.bucket, "PREFIX", "team", onlyIfAbsent, "").Replace(policies(t)[policy])
	role, err := credentials.NewSTSAssumeRole(s.admin.endpoint.String(), credentials.STSAssumeRoleOptions{
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Policy: text, DurationSeconds: 3600,
	})
	if err != nil {
		t.Fatal(err)
	}
	value, err := role.GetWithContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	env := s.env
	env.Getenv = func(name string) string {
		switch name {
		case "AWS_ACCESS_KEY_ID":
			return value.AccessKeyID
		case "AWS_SECRET_ACCESS_KEY":
			return value.SecretAccessKey
		case "AWS_SESSION_TOKEN":
			return value.SessionToken
		}
		return os.Getenv(name)
	}
	return s.open(t, "team", env)
}
