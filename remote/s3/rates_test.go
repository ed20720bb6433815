package s3

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// With a store that often fails, each call returns a correct result or
// ErrTemporary.
func TestRates(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	f.SetAnswers(remotetest.S3Rates{Busy: 0.1, Reset: 0.05, Lost: 0.05, Cut: 0.05}.Answers(2))
	f.SetListing(remotetest.S3Listing{Hide: 0.1, Short: 0.1})
	f.SetReplay(0.1)
	f.SetPageSize(9)

	stored := map[string]bool{}
	failed := map[string]int{}
	for i := range 300 {
		name := fmt.Sprintf("packs/%04d", i)
		data := bytes.Repeat([]byte(name), 100)
		err := b.Put(t.Context(), name, bytes.NewReader(data), int64(len(data)))
		if wantTemporary(t, err); err != nil {
			failed["put"]++
			continue
		}
		stored[name] = true
		got := make([]byte, 2*len(data))
		n, err := b.Get(t.Context(), name, got, 0)
		if wantTemporary(t, err); err != nil {
			failed["get"]++
			continue
		}
		if !bytes.Equal(got[:n], data) {
			t.Errorf("%s: the bytes differ from the stored ones", name)
		}
	}
	if failed["put"] < 20 || failed["get"] < 20 {
		t.Errorf("too few calls failed: %v, want at least 20 of each", failed)
	}

	missed := 0
	for range 5 {
		list, err := names(t.Context(), b, "packs/")
		wantTemporary(t, err)
		missed += len(stored) - len(list)
	}
	if missed <= 0 {
		t.Error("no list missed a name")
	}

	// A late replay of its PUT brings a deleted blob back.
	for name := range stored {
		wantTemporary(t, b.Delete(t.Context(), name))
	}
	f.SetAnswers()

	for i := range 200 {
		if _, err := b.Stat(t.Context(), fmt.Sprintf("packs/%04d", i)); err != nil && !errors.Is(err, remote.ErrNotFound) {
			t.Error(err)
		}
	}
	if len(f.Keys("some/prefix/packs/")) == 0 {
		t.Error("no deleted blob came back")
	}
}

func wantTemporary(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, remote.ErrTemporary) {
		t.Error(err)
	}
}

func TestWrongBytes(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	b := openFake(t, f)
	f.SetObject("some/prefix/packs/a", []byte("hello"))
	p := make([]byte, 9)
	f.SetAnswers(remotetest.S3Once(1, remotetest.S3Answer{Body: remotetest.S3Flip(8)}, "get"), remotetest.S3Once(1, remotetest.S3Answer{Body: remotetest.S3Swap([]byte("other"))}, "get"))
	for _, want := range []string{"hdllo", "other", "hello"} {
		n, err := b.Get(t.Context(), "packs/a", p, 0)
		if err != nil || string(p[:n]) != want {
			t.Errorf("get %q, %v; want %q", p[:n], err, want)
		}
	}
}
