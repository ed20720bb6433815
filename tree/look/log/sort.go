package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// SortKeys are the keys of [SortRefs]. A date that a ref does not have comes first.
var SortKeys = []string{
	"refname",         // the full name
	"version:refname", // the same, with numbers by their value: v1.9 before v1.10
	"v:refname",       // the same as version:refname
	"creatordate",     // when the annotated tag, or else the commit, was made
	"taggerdate",      // when the annotated tag was made
	"committerdate",   // when the commit was made; an annotated tag has no such date
}

// ErrSortKey is matched by the error for an unknown key.
var ErrSortKey = errors.New("is no key to sort by")

// SortRefs sorts refs by keys, the last one first, as git's --sort does. A "-" before a key
// reverses its order. Equal refs are in the order of their names.
func SortRefs(ctx context.Context, r *kist.Repository, list []refs.Ref, keys []string) error {
	dated := false
	for _, key := range keys {
		key = strings.TrimPrefix(key, "-")
		if !slices.Contains(SortKeys, key) {
			return fmt.Errorf("%q %w", key, ErrSortKey)
		}
		dated = dated || strings.HasSuffix(key, "date")
	}
	if len(keys) == 0 {
		return nil
	}

	dates := map[object.ID]objectDates{}
	if dated {
		for _, ref := range list {
			dates[ref.ID] = datesOf(ctx, r, ref.ID)
		}
	}
	slices.SortFunc(list, func(a, b refs.Ref) int {
		for _, key := range slices.Backward(keys) {
			name, down := strings.CutPrefix(key, "-")
			order := 0
			switch name {
			case "refname":
				order = strings.Compare(a.Name, b.Name)
			case "version:refname", "v:refname":
				order = compareVersions(a.Name, b.Name)
			case "creatordate":
				order = dates[a.ID].creatorTime().Compare(dates[b.ID].creatorTime())
			case "taggerdate":
				order = dates[a.ID].tagger.Compare(dates[b.ID].tagger)
			case "committerdate":
				order = dates[a.ID].committer.Compare(dates[b.ID].committer)
			}
			if down {
				order = -order
			}
			if order != 0 {
				return order
			}
		}
		return strings.Compare(a.Name, b.Name)
	})
	return nil
}

// objectDates are those of an object. A zero time means that the object has none.
type objectDates struct{ tagger, committer time.Time }

func (d objectDates) creatorTime() time.Time {
	if !d.tagger.IsZero() {
		return d.tagger
	}
	return d.committer
}

// datesOf returns the dates of a commit or tag object, none if it cannot be read.
func datesOf(ctx context.Context, r *kist.Repository, id object.ID) (d objectDates) {
	if c, err := object.ReadCommit(ctx, r.Objects(), id); err == nil {
		d.committer = c.Committer.When()
	} else if tag, err := object.ReadTag(ctx, r.Objects(), id); err == nil {
		d.tagger = tag.Tagger.When()
	}
	return d
}

// compareVersions compares texts with their numbers by value. Of equal numbers, the one with
// more zeros before it comes first.
func compareVersions(a, b string) int {
	const digits = "0123456789"
	for a != "" && b != "" {
		x, y := a[:len(a)-len(strings.TrimLeft(a, digits))], b[:len(b)-len(strings.TrimLeft(b, digits))]
		if x != "" && y != "" {
			n, m := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if order := cmp.Or(len(n)-len(m), strings.Compare(n, m), len(y)-len(x)); order != 0 {
				return order
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}
