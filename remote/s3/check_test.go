package s3

import (
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Check reports which stores several writers can share.
func TestProviderCheck(t *testing.T) {
	for name, test := range map[string]struct {
		condition remotetest.S3Condition
		answer    func(remotetest.S3Request) *remotetest.S3Answer
		shared    bool
	}{
		"honours":          {remotetest.S3Honours, nil, true},
		"conflicts":        {remotetest.S3Conflicts, nil, true},
		"ignores":          {remotetest.S3Ignores, nil, false},
		"races":            {remotetest.S3Races, nil, false},
		"refuses":          {remotetest.S3Refuses, nil, false},
		"absent is denied": {remotetest.S3Honours, remotetest.S3AbsentDenied, false},
		"may not delete":   {remotetest.S3Honours, remotetest.S3Error(403, "AccessDenied", "Access Denied", "delete"), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := remotetest.NewFakeS3(t, 1)
			f.SetCondition(test.condition)
			if test.answer != nil {
				f.SetAnswers(test.answer)
			}
			exclusive := name == "honours" || name == "ignores" // it sends many megabytes
			report, err := check.Run(t.Context(), openFake(t, f), check.Options{Now: time.Now, ExclusivePut: exclusive})
			if report == nil || report.Shared() != test.shared {
				t.Errorf("report %+v, error %v; want shared %t", report, err, test.shared)
			}
		})
	}
}

// With conditional=false, one writer can use a store that refuses conditional
// requests.
func TestUnconditional(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	f.SetCondition(remotetest.S3Refuses)
	env := testEnv(t, nil)
	env.Getenv = f.Getenv
	b, err := open(t.Context(), f.URL("some/prefix")+"&conditional=false", env, stallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	report, err := check.Run(t.Context(), b, check.Options{Now: time.Now})
	if err != nil || report.Shared() || !report.Usable() {
		t.Errorf("error %v; want a store for one writer:\n%s", err, report)
	}
	if err := b.Create(t.Context(), "root/1", []byte("a")); err != nil {
		t.Error(err)
	}
	if err := b.Create(t.Context(), "root/1", []byte("b")); !errors.Is(err, remote.ErrExists) {
		t.Errorf("create of a taken name: error %v, want ErrExists", err)
	}
}

func TestProviderCheckOfServer(t *testing.T) {
	s := newRealStore(t)
	report, err := check.Run(t.Context(), s.admin, check.Options{Now: time.Now, ExclusivePut: true})
	if err != nil || !report.Shared() {
		t.Errorf("report %+v, error %v; want shared", report, err)
	}
	for info, err := range s.admin.List(t.Context(), "") {
		t.Errorf("the check left %+v, error %v", info, err)
	}
}

var _ remote.Backend = (*Backend)(nil)
