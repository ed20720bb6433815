package s3

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// openClass opens a remote on a fake S3 with class= in the URL.
func openClass(t *testing.T, f *remotetest.FakeS3, class string) *Backend {
	t.Helper()
	env := testEnv(t, nil)
	env.Getenv = f.Getenv
	b, err := open(t.Context(), f.URL("some/prefix")+"&class="+class, env, stallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Only large blobs of content get the class of the URL.
func TestClass(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openClass(t, f, "DEEP_ARCHIVE")
	large := make([]byte, remote.MinClassed)
	for _, test := range []struct {
		name    string
		content bool
		data    []byte
		want    string
	}{
		{"packs/content", true, large, "DEEP_ARCHIVE"},
		{"packs/small", true, large[1:], ""},
		{"packs/nodes", false, large, ""},
		{"index/large", false, large, ""},
	} {
		ctx := t.Context()
		if test.content {
			ctx = remote.WithContent(ctx)
		}
		if err := b.Put(ctx, test.name, bytes.NewReader(test.data), int64(len(test.data))); err != nil {
			t.Fatal(err)
		}
		if got := f.Class("some/prefix/" + test.name); got != test.want {
			t.Errorf("%s is in class %q, want %q", test.name, got, test.want)
		}
		info, err := b.Stat(t.Context(), test.name)
		if err != nil || info.Archived != (test.want != "") || info.Size != int64(len(test.data)) || info.Modified.IsZero() {
			t.Errorf("stat of %s: %+v, error %v", test.name, info, err)
		}
		for listed, err := range b.List(t.Context(), "") {
			if listed.Name == test.name && (err != nil || listed.Archived != (test.want != "")) {
				t.Errorf("list: %+v, error %v", listed, err)
			}
		}
	}
	if err := b.Create(remote.WithContent(t.Context()), "root/1", make([]byte, 100)); err != nil || f.Class("some/prefix/root/1") != "" {
		t.Errorf("a root is in class %q, error %v", f.Class("some/prefix/root/1"), err)
	}
}

// An archived blob can be read after a thaw, until the copy ends.
func TestThaw(t *testing.T) {
	for class, takes := range map[string]time.Duration{"GLACIER": 5 * time.Hour, "DEEP_ARCHIVE": 12 * time.Hour} {
		f := remotetest.NewFakeS3(t, 1)
		b := openClass(t, f, class)
		data := bytes.Repeat([]byte("archived"), remote.MinClassed/8)
		if err := b.Put(remote.WithContent(t.Context()), "packs/a", bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
		wantState := func(want remote.ArchiveState) {
			t.Helper()
			want.Class, want.Takes = class, takes
			got, err := b.ArchiveState(t.Context(), "packs/a")
			if err != nil || got != want {
				t.Errorf("%s: state %+v, error %v; want %+v", class, got, err, want)
			}
			p := make([]byte, 100)
			n, err := b.Get(t.Context(), "packs/a", p, 8)
			if want.Archived {
				var re *remote.Error
				if !errors.Is(err, remote.ErrArchived) || !errors.As(err, &re) || re.Kind != nil {
					t.Errorf("%s: get: error %v, want ErrArchived that is not retried", class, err)
				}
			} else if err != nil || !bytes.Equal(p[:n], data[8:108]) {
				t.Errorf("%s: get: %d bytes, error %v", class, n, err)
			}
		}
		thaw := func() {
			t.Helper()
			if err := b.Thaw(t.Context(), "packs/a", 2); err != nil {
				t.Errorf("%s: thaw: %v", class, err)
			}
		}

		wantState(remote.ArchiveState{Archived: true})
		thaw()
		wantState(remote.ArchiveState{Archived: true, Thawing: true})
		thaw()
		f.PassTime(takes)
		wantState(remote.ArchiveState{})
		f.PassTime(30 * time.Hour)
		thaw() // for two days from now
		f.PassTime(30 * time.Hour)
		wantState(remote.ArchiveState{})
		f.PassTime(30 * time.Hour)
		wantState(remote.ArchiveState{Archived: true})
		if f.Count("restore") != 2 {
			t.Errorf("%s: %d requests for copies, want 2", class, f.Count("restore"))
		}
	}
}

// Another client may ask for the copy between the two requests of Thaw. A blob of another class needs no thaw.
func TestThawRaces(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openClass(t, f, "GLACIER_IR")
	data := make([]byte, remote.MinClassed)
	if err := b.Put(remote.WithContent(t.Context()), "packs/a", bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if state, err := b.ArchiveState(t.Context(), "packs/a"); err != nil || state != (remote.ArchiveState{Class: "GLACIER_IR"}) {
		t.Errorf("state %+v, error %v", state, err)
	}
	if err := b.Thaw(t.Context(), "packs/a", 2); err != nil || f.Count("restore") != 0 {
		t.Errorf("thaw of a blob that can be read: %d requests, error %v", f.Count("restore"), err)
	}
	_, err := b.ArchiveState(t.Context(), "packs/none")
	wantError(t, "stat", err, remote.ErrNotFound, 0, "")
	wantError(t, "stat", b.Thaw(t.Context(), "packs/none", 2), remote.ErrNotFound, 0, "")

	f = remotetest.NewFakeS3(t, 1)
	b = openClass(t, f, "GLACIER")
	if err := b.Put(remote.WithContent(t.Context()), "packs/a", bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	f.SetAnswers(remotetest.S3Error(409, "RestoreAlreadyInProgress", "Object restore is already in progress", "restore"))
	if err := b.Thaw(t.Context(), "packs/a", 2); err != nil {
		t.Errorf("thaw that another client has asked for: %v", err)
	}
	f.SetAnswers(remotetest.S3Error(403, "AccessDenied", "Access Denied", "restore"))
	wantError(t, "thaw", b.Thaw(t.Context(), "packs/a", 2), remote.ErrPermission, 0, "Access Denied")
}

// The check tries the class.
func TestClassCheck(t *testing.T) {
	for class, text := range map[string]string{"GLACIER": "", "COLD": "no such class of storage"} {
		f := remotetest.NewFakeS3(t, 1)
		b := openClass(t, f, class)
		o := check.Options{Now: time.Now}
		report, err := check.Run(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		check.RunClass(t.Context(), b, report, o)
		last := report.Checks[len(report.Checks)-1]
		if last.Name != "class" || report.Usable() != (text == "") || !strings.Contains(last.Detail, text) {
			t.Errorf("class %s: %+v", class, last)
		}
		if keys := f.Keys(""); len(keys) > 0 {
			t.Errorf("class %s: the check left %q", class, keys)
		}
	}
}
