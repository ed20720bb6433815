package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/kist-vcs/kist/remote/s3"
)

// minioServer returns the URL of the MinIO server for tests, without the query,
// and the query.
func minioServer(t *testing.T) (url, query string) {
	t.Helper()
	url = os.Getenv("KIST_TEST_S3")
	if url == "" {
		reason := "KIST_TEST_S3 names no server; 'make test' starts one"
		if os.Getenv("KIST_TEST_NOSKIP") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	url, query, _ = strings.Cut(url, "?")
	return strings.TrimSuffix(url, "/"), query
}

// restricted returns the environment of a user of the server whose permissions a
// policy of docs/howto/s3.md restricts, the n-th one there.
func restricted(t *testing.T, n int, bucket, prefix, query string) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/howto/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	policy, _, _ := strings.Cut(strings.Split(string(doc), "```json\n")[n], "```")
	policy = strings.NewReplacer("BUCKET", bucket, "PREFIX", prefix).Replace(policy)
	// MinIO does not know this condition.
	before, after, found := strings.Cut(policy, `,
      "Condition": { "Null": { "s3:if-none-match": "false" } }`)
	if found {
		policy = before + after
	}
	role, err := credentials.NewSTSAssumeRole(strings.TrimPrefix(query, "endpoint="), credentials.STSAssumeRoleOptions{
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Policy: policy, DurationSeconds: 3600,
	})
	if err != nil {
		t.Fatal(err)
	}
	value, err := role.GetWithContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"AWS_ACCESS_KEY_ID=" + value.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + value.SecretAccessKey, "AWS_SESSION_TOKEN=" + value.SessionToken}
}

// TestPushWithoutPermissionToDelete has a user with the policy for pushes: all
// commands work, except gc of the remote, which changes nothing.
func TestPushWithoutPermissionToDelete(t *testing.T) {
	t.Parallel()
	base, query := minioServer(t)
	prefix := fmt.Sprintf("%016x", rand.Uint64())
	p := newPlace(t, s3.Open, base+"/"+prefix+"?"+query, os.Getenv)
	p.env = append(p.env, restricted(t, 2, strings.TrimPrefix(base, "s3://"), prefix, query)...)

	s := p.folder()
	s.kist("init")
	if o := s.exits(0, "remote", "add", "origin", p.url, "-v"); !strings.Contains(o.stdout, "the credentials may not delete") {
		t.Errorf("the check does not report what it left: %v", o)
	}
	for i := range 17 { // the last push merges small packs
		s.write(map[string]string{fmt.Sprint("file", i%3): fmt.Sprint("version ", i)})
		s.commit("a version")
		s.kist("push")
	}
	s.write(map[string]string{"file0": "on a branch"})
	s.kist("checkout", "-b", "topic")
	s.commit("on a branch")
	s.kist("push", "origin", "topic")
	s.kist("checkout", "main")
	s.kist("push", "--delete", "origin", "topic")

	clone := p.wantWhole()
	s.write(map[string]string{"file1": "the last version"})
	s.commit("the last version")
	s.kist("push")
	clone.kist("pull")
	clone.kist("verify", "--remote", "origin", "--read-data", "--repair")

	before := p.blobs()
	if len(p.head().Condemned) == 0 {
		t.Error("no push has merged packs")
	}
	s.kist("remote", "gc", "-n", "origin")
	for _, args := range [][]string{{"remote", "gc", "origin"}, collectRemote, repackRemote} {
		s.fails(16, "permission", "garbage collection needs permission to delete", args...)
	}
	if !maps.Equal(p.blobs(), before) {
		t.Error("gc without permission has changed the remote")
	}
}
