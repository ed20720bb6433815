package object

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestAbsentError(t *testing.T) {
	key := Key{KindChunk, Sum([]byte("a"))}
	id, short := key.ID.String(), key.ID.Short()
	reasons := []error{ErrNotFound, ErrLost, ErrEvicted, ErrPurged, ErrExpired}
	for _, c := range []struct {
		reason error
		text   string
		match  []error
	}{
		{nil, "chunk " + id + " not found", []error{ErrNotFound}},
		{ErrNotFound, "chunk " + id + " not found", []error{ErrNotFound}},
		{ErrLost, "chunk " + id + " not found; its loss was accepted", []error{ErrNotFound, ErrLost}},
		{ErrEvicted, "chunk " + short + " is only on a remote", []error{ErrEvicted}},
		{ErrPurged, "content was purged on 2026-01-31", []error{ErrPurged}},
		{ErrExpired, "the content of " + short + " expired on 2026-01-31", []error{ErrExpired}},
		{fmt.Errorf("%w elsewhere", ErrExpired), "the content of " + short + " expired on 2026-01-31", []error{ErrExpired}},
	} {
		err := fmt.Errorf("read: %w", &AbsentError{Key: key, Reason: c.reason, Record: "on 2026-01-31"})
		if got := errors.Unwrap(err).Error(); got != c.text {
			t.Errorf("%v: text %q, want %q", c.reason, got, c.text)
		}
		for _, reason := range reasons {
			want := slices.Contains(c.match, reason)
			got, ok := AbsentKey(err, reason)
			if errors.Is(err, reason) != want || ok != want || want && got != key {
				t.Errorf("%v: matches %v: %v, absent %v (%v); want %v", c.reason, reason, errors.Is(err, reason), ok, got, want)
			}
		}
	}
	if _, ok := AbsentKey(ErrPurged, ErrPurged); ok {
		t.Error("an error without a key is about an object")
	}
}
