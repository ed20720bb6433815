package object_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

func TestSkipped(t *testing.T) {
	list := func(n int, path string) []object.Skipped {
		all := make([]object.Skipped, n)
		for i := range all {
			all[i] = object.Skipped{Path: fmt.Sprint(path, i), Reason: "permission denied"}
		}
		return all
	}

	for _, test := range []struct {
		name string
		all  []object.Skipped
		want int // number of paths in the commit itself
	}{
		{"none", nil, 0},
		{"few", list(3, "dir/\xff"), 3},
		{"as many as fit", list(1000, "p"), 1000},
		{"more", list(2500, "p"), 1000},
		{"long paths", list(900, strings.Repeat("p", 3000)), 173},
		{"one path of the largest size", list(1, strings.Repeat("p", object.MaxPathSize-1)), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := objecttest.NewMemory()
			c := fullCommit()
			c.Message = strings.Repeat("m", object.MaxMessageSize)
			if err := c.SetSkipped(t.Context(), store, test.all); err != nil {
				t.Fatal(err)
			}
			if c.SkippedCount != uint64(len(test.all)) || len(c.Skipped) != test.want || c.SkippedRest.IsZero() != (len(test.all) == test.want) {
				t.Errorf("%d skipped, %d in the commit, rest %s; want %d, %d in the commit", c.SkippedCount, len(c.Skipped), c.SkippedRest.Short(), len(test.all), test.want)
			}

			c, err := object.DecodeCommit(mustEncode(t, c))
			if err != nil {
				t.Fatal(err)
			}

			var got []object.Skipped
			for s, err := range object.AllSkipped(t.Context(), store, c) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, s)
			}

			if diff := cmp.Diff(test.all, got, cmpEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSkippedCutAtChunkSize(t *testing.T) {
	all := make([]object.Skipped, 9000)
	for i := range all {
		all[i] = object.Skipped{Path: strings.Repeat("p", 4000) + fmt.Sprint(i)}
	}
	store := objecttest.NewMemory()
	c := fullCommit()
	if err := c.SetSkipped(t.Context(), store, all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for s, err := range object.AllSkipped(t.Context(), store, c) {
		if err != nil || s != all[n] {
			t.Fatalf("skipped path %d: %v", n, err)
		}
		n++
	}
	if c.SkippedCount != 9000 || n < 4000 || n >= 9000 {
		t.Errorf("%d of %d paths are kept, want 4000 to 8999 of 9000", n, c.SkippedCount)
	}
}

func TestBadSkippedChunk(t *testing.T) {
	for name, data := range map[string]string{
		"not CBOR":    "\xff\xff",
		"truncated":   "\x82\x41a",
		"empty path":  "\x82\x40\x60",
		"other shape": "\xa1\x01\x02",
		"huge count":  "\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
	} {
		store := objecttest.NewMemory()
		id, err := store.Put(t.Context(), object.KindChunk, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range object.AllSkipped(t.Context(), store, &object.Commit{SkippedRest: id}) {
			last = err
		}
		t.Run(name, func(t *testing.T) { wantReason(t, last, object.ReasonSkipped) })
	}
	var last error
	for _, err := range object.AllSkipped(t.Context(), objecttest.NewMemory(), &object.Commit{SkippedRest: object.Sum(nil)}) {
		last = err
	}
	if !errors.Is(last, object.ErrNotFound) {
		t.Errorf("AllSkipped with a missing chunk: %v, want ErrNotFound", last)
	}
}

func FuzzSkipped(f *testing.F) {
	f.Add([]byte("\x82\x41a\x61b\x82\x41c\x60"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		store := objecttest.NewMemory()
		id, err := store.Put(t.Context(), object.KindChunk, data)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for s, err := range object.AllSkipped(t.Context(), store, &object.Commit{SkippedRest: id}) {
			if n++; err == nil && s.Path == "" || n > len(data) {
				t.Fatalf("path %d is %q, from %d bytes", n, s.Path, len(data))
			}
		}
	})
}
