package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/limit"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
)

// newVault returns a new bucket with Object Lock. The test does not remove the
// bucket, because it cannot delete the locked objects.
func newVault(t *testing.T) *Backend {
	t.Helper()
	s := newRealStore(t)
	client := s.admin.client.Load()
	bucket := s.bucket + "-" + strings.ToLower(rand.Text()[:5])
	if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{Region: client.region, ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	vault := *s
	vault.bucket = bucket
	return vault.open(t, "some/prefix", s.env)
}

func TestLockerConformanceOfServer(t *testing.T) {
	remotetest.RunLocker(t, func(t *testing.T) remote.Backend {
		return limit.New(retry.New(newVault(t), retry.Options{Now: time.Now}), limit.Options{Upload: 1 << 30})
	})
}

func TestLockerConformanceOfVault(t *testing.T) {
	remotetest.RunLocker(t, func(t *testing.T) remote.Backend { return remotetest.NewVault(time.Now) })
}

// A deletion hides a locked object, but no client can delete the locked version.
// A deleted record counts as damaged, not as missing.
func TestLockedOnServer(t *testing.T) {
	b := newVault(t)
	b.SetLock(remote.Lock{Age: time.Hour})
	for _, name := range []string{"kist.json", "root/1", "probe/x/root/1"} {
		if err := b.Create(t.Context(), name, []byte("record")); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		want := remote.ErrDamaged
		if strings.HasPrefix(name, "probe/") {
			want = remote.ErrNotFound
		}
		for op, call := range map[string]func() error{
			"get":  func() error { _, err := b.Get(t.Context(), name, make([]byte, 9), 0); return err },
			"stat": func() error { _, err := b.Stat(t.Context(), name); return err },
		} {
			if err := call(); !errors.Is(err, want) || want == remote.ErrDamaged && !strings.Contains(err.Error(), "was deleted") {
				t.Errorf("%s of deleted %s: error %v, want %v", op, name, err, want)
			}
		}
	}
	if err := b.Put(t.Context(), "packs/a", strings.NewReader("hello"), 5); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "packs/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "packs/a", make([]byte, 9), 0); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("get of a deleted pack: error %v, want ErrNotFound", err)
	}

	client := b.client.Load()
	versions := 0
	for o := range client.ListObjectsIter(context.Background(), b.bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if o.IsDeleteMarker {
			continue
		}
		versions++
		err := client.RemoveObject(t.Context(), b.bucket, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID, GovernanceBypass: true})
		if err == nil {
			t.Errorf("the locked version of %s was deleted", o.Key)
		}
	}
	if versions != 4 {
		t.Errorf("%d versions, want 4", versions)
	}
}

// In a bucket without Object Lock, calls that lock objects return ErrUnsupported.
func TestNoObjectLockOnServer(t *testing.T) {
	b := newRealStore(t).admin
	if err := b.Put(t.Context(), "packs/a", strings.NewReader("a"), 1); err != nil {
		t.Fatal(err)
	}
	b.SetLock(remote.Lock{Age: time.Hour})
	_, err := b.Retention(t.Context(), "packs/a")
	for op, err := range map[string]error{
		"put":       b.Put(t.Context(), "packs/b", strings.NewReader("b"), 1),
		"retention": err,
		"retain":    b.Retain(t.Context(), "packs/a", remote.Retention{Until: time.Now().Add(time.Hour)}),
	} {
		if !errors.Is(err, remote.ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", op, err)
		}
	}
}
