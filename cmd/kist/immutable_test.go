package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/s3"
)

// minioServer returns the URL and the query of the MinIO server for tests. It skips the
// test if there is no server.
func minioServer(t *testing.T) (url, query string) {
	t.Helper()
	url, query, _ = strings.Cut(objecttest.NeedServer(t, "KIST_TEST_S3"), "?")
	return strings.TrimSuffix(url, "/"), query
}

// policy returns the n-th JSON block of a page of docs/howto, counted from 1.
func policy(t *testing.T, page string, n int) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/howto/" + page)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(strings.Split(string(doc), "```json\n")[n], "```")
	return text
}

// restricted returns the environment of a user that has only the rights of a policy.
func restricted(t *testing.T, policy, bucket, prefix, query string) []string {
	t.Helper()
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

// TestPushWithoutPermissionToDelete checks that all commands except remote gc work with
// the policy for pushes. remote gc fails and changes nothing.
func TestPushWithoutPermissionToDelete(t *testing.T) {
	t.Parallel()
	base, query := minioServer(t)
	prefix := fmt.Sprintf("%016x", rand.Uint64())
	p := newPlace(t, s3.Open, base+"/"+prefix+"?"+query, os.Getenv)
	p.env = append(p.env, restricted(t, policy(t, "s3.md", 2), strings.TrimPrefix(base, "s3://"), prefix, query)...)

	s := p.folder()
	s.kist("init")
	if o := s.exits(0, "remote", "add", "origin", p.url, "-v"); !strings.Contains(o.stdout, "the credentials may not delete") {
		t.Errorf("the check does not report the missing permission: %v", o)
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

	clone := p.wantIntact()
	s.write(map[string]string{"file1": "the last version"})
	s.commit("the last version")
	s.kist("push")
	clone.kist("pull")
	clone.kist("verify", "--remote", "origin", "--read-data", "--repair")

	before := p.blobs()
	if len(p.head().Condemned) == 0 {
		t.Error("no push merged packs")
	}
	s.kist("remote", "gc", "-n", "origin")
	for _, args := range [][]string{{"remote", "gc", "origin"}, collectRemote, repackRemote} {
		s.fails(16, "permission", "garbage collection needs permission to delete", args...)
	}
	if !maps.Equal(p.blobs(), before) {
		t.Error("gc without permission changed the remote")
	}
}

// makeLockingBucket makes a bucket with Object Lock on the MinIO server for tests. Its objects stay until the server ends.
func makeLockingBucket(t *testing.T) (client *minio.Client, bucket, query string) {
	t.Helper()
	_, query = minioServer(t)
	client, err := minio.New(strings.TrimPrefix(query, "endpoint=http://"), &minio.Options{
		Creds: credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""), Region: os.Getenv("AWS_REGION"),
	})
	if err != nil {
		t.Fatal(err)
	}
	bucket = fmt.Sprintf("locked-%016x", rand.Uint64())
	if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	return client, bucket, query
}

// TestObjectLock checks that no user can destroy pushed content in a bucket with Object
// Lock.
func TestObjectLock(t *testing.T) {
	t.Parallel()
	client, bucket, query := makeLockingBucket(t)
	base, _ := minioServer(t)
	p := newPlace(t, s3.Open, "s3://"+bucket+"/backup?"+query, os.Getenv)
	unlocked := func() time.Time { // the earliest end of a lock
		t.Helper()
		earliest := time.Now().Add(100 * 365 * 24 * time.Hour)
		head := p.head()
		for name := range p.list() {
			if _, condemned := head.Condemned[name]; condemned || strings.HasPrefix(name, "probe/") {
				continue
			}
			mode, until, err := client.GetObjectRetention(t.Context(), bucket, "backup/"+name, "")
			if err != nil || *mode != minio.Compliance {
				t.Fatalf("%s: retention mode %v, error %v, want COMPLIANCE", name, mode, err)
			}
			if until.Before(earliest) {
				earliest = *until
			}
		}
		return earliest
	}

	s := p.folder()
	s.kist("init")
	for reason, args := range map[string][]string{
		"Bucket is missing ObjectLockConfiguration": {"30d", "plain", base + fmt.Sprintf("/%016x?", rand.Uint64()) + query},
		"only a bucket of S3 can lock files":        {"30d", "folder", filepath.Join(p.root, "folder")},
	} {
		o := s.exits(15, append([]string{"remote", "add", "--object-lock"}, args...)...)
		if !strings.Contains(o.stderr, "a stored blob stays locked: ") || !strings.Contains(o.stderr, reason) {
			t.Errorf("no %q in stderr: %v", reason, o)
		}
	}
	s.exits(2, "remote", "add", "--object-lock", "1h", "origin", p.url)
	s.kist("remote", "add", "--object-lock", "2d", "origin", p.url)
	// This user may not delete.
	push := strings.Replace(policy(t, "s3.md", 2), `"Statement": [`, `"Statement": [`+policy(t, "immutable.md", 1)+",", 1)
	s = s.with(restricted(t, push, bucket, "backup", query)...)
	s.kist("remote", "check", "origin")
	s.write(map[string]string{"file": "the first version"})
	s.commit("first")
	if o := s.exits(0, "push"); strings.Contains(o.stdout, "renewed") {
		t.Errorf("the push renewed locks, want none to renew: %v", o)
	}
	const day = 24 * time.Hour
	if end := unlocked(); end.Before(time.Now().Add(2*day - time.Hour)) {
		t.Errorf("after a push: locked until %v, want 2 days", end)
	}

	// The next push applies a longer lock, even if it sends nothing. A clone applies it too.
	s.kist("config", "remote.origin.object-lock", "30d")
	if o := s.exits(0, "push"); !strings.Contains(o.stdout, "renewed the locks of") {
		t.Errorf("the push did not renew the locks: %v", o)
	}
	if o := s.exits(0, "push"); strings.Contains(o.stdout, "renewed") {
		t.Errorf("a second push renewed locks: %v", o)
	}
	s.write(map[string]string{"file": "the second version"})
	s.commit("second")
	s.kist("push")
	clone := p.clone()
	clone.kist("checkout", "-b", "topic")
	clone.write(map[string]string{"file": "a topic"})
	clone.commit("topic")
	clone.kist("push", "origin", "topic")
	if end := unlocked(); end.Before(time.Now().Add(30*day - time.Hour)) {
		t.Errorf("after the push of a clone: locked until %v, want 30 days", end)
	}

	// gc keeps locked files.
	clone.kist("push", "--delete", "origin", "topic")
	before := len(p.list())
	o := clone.exits(0, collectRemote...)
	if c := clone.collect(collectRemote...); !strings.Contains(o.stdout, " locked until ") || c.Deleted > 0 || len(p.list()) < before {
		t.Errorf("gc deleted locked files, or does not report them: %v, then %+v", o, c)
	}
	p.wantIntact()

	// An attacker with the owner's credentials deletes everything and overwrites a root.
	for o := range client.ListObjectsIter(t.Context(), bucket, minio.ListObjectsOptions{Prefix: "backup/", Recursive: true, WithVersions: true}) {
		if err := client.RemoveObject(t.Context(), bucket, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID, GovernanceBypass: true}); err == nil && !o.IsDeleteMarker && !strings.Contains(o.Key, "/probe/") {
			t.Errorf("a locked version of %s was deleted", o.Key)
		}
	}
	for name := range p.list() {
		if err := p.backend.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	data := "forged"
	if _, err := client.PutObject(t.Context(), bucket, "backup/root/00000000000000000001", strings.NewReader(data), int64(len(data)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	s.exits(11, "fetch")
	s.write(map[string]string{"file": "the third version"})
	s.commit("third")
	s.exits(11, "push")
	s.exits(11, "clone", p.url, "again")

	// The owner restores the oldest version of each object.
	restoreVersions(t, client, bucket)
	s.kist("push")
	p.wantIntact()
}

// restoreVersions deletes all versions but the oldest one of each object.
func restoreVersions(t *testing.T, client *minio.Client, bucket string) {
	t.Helper()
	var last minio.ObjectInfo
	for o := range client.ListObjectsIter(t.Context(), bucket, minio.ListObjectsOptions{Prefix: "backup/", Recursive: true, WithVersions: true}) {
		// The versions of a key are listed from the newest on.
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if last.Key == o.Key {
			if err := client.RemoveObject(t.Context(), bucket, last.Key, minio.RemoveObjectOptions{VersionID: last.VersionID}); err != nil {
				t.Fatal(err)
			}
		}
		last = o
	}
}

// TestObjectLockOfKeysets checks that nobody can destroy the keys of an encrypted remote in a bucket with Object Lock,
// and that a push renews their locks.
func TestObjectLockOfKeysets(t *testing.T) {
	t.Parallel()
	client, bucket, query := makeLockingBucket(t)
	p := newPlace(t, s3.Open, "s3://"+bucket+"/backup?"+query, os.Getenv)
	wantLocked := func(age time.Duration) {
		t.Helper()
		keysets := 0
		for name := range p.list() {
			if strings.HasPrefix(name, "probe/") {
				continue
			}
			if strings.HasPrefix(name, "keys/") {
				keysets++
			}
			_, until, err := client.GetObjectRetention(t.Context(), bucket, "backup/"+name, "")
			if err != nil {
				t.Errorf("%s is not locked: %v", name, err)
			} else if until.Before(time.Now().Add(age - time.Hour)) {
				t.Errorf("%s is locked until %v, want %v from now", name, until, age)
			}
		}
		if keysets < 2 {
			t.Errorf("%d keysets, want two at least", keysets)
		}
	}

	const day = 24 * time.Hour
	s := p.folder()
	s.kist("init")
	s.kist("remote", "add", "--encrypted", "--no-recovery", "--object-lock", "2d", "origin", p.url)
	s.write(map[string]string{"file": "the first version"})
	s.commit("first")
	s.kist("push")
	wantLocked(2 * day)
	s.kist("config", "remote.origin.object-lock", "30d")
	s.kist("push")
	wantLocked(30 * day)

	// The keys of old epochs stay as long as their locks.
	before := p.list()
	s.kist("key", "rotate", "origin")
	s.write(map[string]string{"file": "the second version"})
	s.commit("second")
	s.kist("push")
	s.kist("remote", "gc", "origin")
	for name := range before {
		if _, stays := p.list()[name]; !stays {
			t.Errorf("%s is gone", name)
		}
	}

	// An attacker with the owner's credentials deletes everything. The owner restores it.
	for o := range client.ListObjectsIter(t.Context(), bucket, minio.ListObjectsOptions{Prefix: "backup/keys/", Recursive: true, WithVersions: true}) {
		if err := client.RemoveObject(t.Context(), bucket, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID, GovernanceBypass: true}); err == nil {
			t.Errorf("a locked version of %s was deleted", o.Key)
		}
	}
	for name := range p.list() {
		if err := p.backend.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s.exits(11, "fetch")
	restoreVersions(t, client, bucket)
	s.kist("verify", "--remote", "origin", "--read-data")
	s.kist("clone", p.url, "../restored")
}
