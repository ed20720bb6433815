package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/s3"
)

// options wait only a millisecond between retries.
var options = Options{Now: time.Now, ExclusivePut: true, Retry: retry.Options{
	Sleep: func(ctx context.Context, _ time.Duration) error { time.Sleep(time.Millisecond); return ctx.Err() },
}}

// An existing folder passes all checks, and so does a folder that the check creates.
func TestFolder(t *testing.T) {
	for _, folder := range []string{t.TempDir(), filepath.Join(t.TempDir(), "new")} {
		b, err := dir.Open(t.Context(), folder, remote.Env{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		r, err := Run(t.Context(), b, options)
		if err != nil || !r.Shared() || len(statuses(r)) > 0 {
			t.Errorf("error %v\n%v", err, r)
		}
		for info, err := range b.List(t.Context(), "") {
			t.Errorf("probe left: %q, %v", info.Name, err)
		}
	}
}

func TestNoFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "no", "such", "folder")
	b, err := dir.Open(t.Context(), folder, remote.Env{})
	if err == nil {
		defer b.Close()
		_, err = Run(t.Context(), b, options)
	}
	if !errors.Is(err, remote.ErrNoStore) {
		t.Errorf("error %v, want ErrNoStore", err)
	}
	if _, err := os.Stat(filepath.Dir(folder)); err == nil {
		t.Errorf("%s was created", filepath.Dir(folder))
	}
}

// The check recognises S3 servers that ignore the condition of a request or check it
// too early.
func TestS3(t *testing.T) {
	for name, test := range map[string]struct {
		condition      remotetest.S3Condition
		want           []string
		shared, usable bool
	}{
		"honours":   {remotetest.S3Honours, nil, true, true},
		"conflicts": {remotetest.S3Conflicts, nil, true, true},
		"ignores":   {remotetest.S3Ignores, []string{"create-once failed", "create-race failed", "put-once failed", "put-race failed"}, false, true},
		"races":     {remotetest.S3Races, []string{"create-race failed"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := remotetest.NewFakeS3(t, 1)
			fake.SetCondition(test.condition)
			b, err := s3.Open(t.Context(), fake.URL("team"), remote.Env{Getenv: fake.Getenv, Home: t.TempDir(), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			r, err := Run(t.Context(), b, options)
			if err != nil {
				t.Fatal(err)
			}

			found := statuses(r)
			if name == "races" { // the few large puts may not overlap
				found = slices.DeleteFunc(found, func(s string) bool { return s == "put-race failed" })
			}
			if r.Shared() != test.shared || r.Usable() != test.usable || !slices.Equal(found, test.want) {
				t.Errorf("shared %t, usable %t, %q\n%v", r.Shared(), r.Usable(), found, r)
			}
			if left := fake.Keys(""); len(left) > 0 {
				t.Errorf("probes left: %q", left)
			}
		})
	}
}
