package purge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// minPurgeDigits is the least number of digits of an ID.
const minPurgeDigits = 4

// Target adds a content to purge.
func (w *HistorySearch) Target(key object.Key) {
	if w.Targets[key] == nil {
		w.Targets[key] = &Content{Key: key}
	}
}

// findPath makes the content of a path, and of all paths below it, targets.
func (w *HistorySearch) findPath(ctx context.Context, p *Plan, at Path) error {
	commits := w.commits
	if !p.O.AllHistory {
		id, c, err := w.r.ReadCommit(ctx, cmp.Or(at.Rev, "HEAD"))
		if err != nil {
			return err
		}
		commits = []history.Commit{{ID: id, Commit: c}}
	}

	found := false
	into := firstVisits()
	for _, c := range commits {
		w.setCommit(c.ID)
		e, err := tree.Find(ctx, w.r.Objects(), c.Tree, at.Path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || object.PassOver(w.here, at.Path, object.Key{}, err) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
		if e.Type != object.TypeDir {
			w.targetContent(p, at.Path, &e, c.ID)
			continue
		}
		err = tree.WalkInto(ctx, w.here, e.Content.ID, into, func(below string, e object.Entry) error {
			w.targetContent(p, tree.Join(at.Path, below), &e, c.ID)
			return nil
		})
		if err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("path %q: %w", at.Path, kist.ErrNoMatch)
	}
	return nil
}

// targetContent makes the content of a file a target. Inline content cannot be purged
// and is listed in p.Inline.
func (w *HistorySearch) targetContent(p *Plan, path string, e *object.Entry, commit object.ID) {
	switch {
	case e.Type == object.TypeDir:
	case !e.Content.IsZero():
		w.Target(e.Content)
	case len(e.Inline) > 0 || e.Target != "":
		p.Inlines[InlineContent(e)] = true
		w.countUse(&p.Inline, path, commit)
	}
}

// InlineContent returns a text that identifies the inline content of an entry.
func InlineContent(e *object.Entry) string {
	if e.Type == object.TypeSymlink {
		return "to " + e.Target
	}
	return "is " + string(e.Inline)
}

// findID returns the content whose ID begins with digits: it is here, was
// purged before, or is in some commit.
func (w *HistorySearch) findID(ctx context.Context, digits string) (object.Key, error) {
	digits = strings.ToLower(digits)
	if !object.IsHex(digits) || len(digits) < minPurgeDigits || len(digits) > 64 {
		return object.Key{}, fmt.Errorf("%q is no ID: it has 4 to 64 digits from 0 to f", digits)
	}

	found := map[object.Key]bool{}
	for _, kind := range []object.Kind{object.KindChunk, object.KindManifest} {
		ids, err := w.r.Objects().Prefix(ctx, kind, digits, 2)
		if err != nil {
			return object.Key{}, err
		}
		for _, id := range ids {
			found[object.Key{Kind: kind, ID: id}] = true
		}
	}

	set, err := w.r.Records().Load()
	if err != nil {
		return object.Key{}, err
	}

	for rec := range set.All() {
		if rec.Kind == record.Purge && strings.HasPrefix(rec.Key.ID.String(), digits) {
			found[rec.Key] = true
		}
	}

	if len(found) == 0 {
		err := w.eachContent(ctx, func(key object.Key) {
			if strings.HasPrefix(key.ID.String(), digits) {
				found[key] = true
			}
		})
		if err != nil {
			return object.Key{}, err
		}
	}

	switch keys := slices.Collect(maps.Keys(found)); len(keys) {
	case 0:
		return object.Key{}, fmt.Errorf("no content has the ID %q: %w", digits, kist.ErrNoMatch)
	case 1:
		return keys[0], nil
	}

	return object.Key{}, fmt.Errorf("several contents have IDs that begin with %q: more digits are needed", digits)
}

// eachContent calls each for the contents of all files in all commits.
func (w *HistorySearch) eachContent(ctx context.Context, each func(object.Key)) error {
	into := firstVisits()
	for _, c := range w.commits {
		err := w.eachFile(ctx, c, into, func(_ string, e *object.Entry) {
			if !e.Content.IsZero() {
				each(e.Content)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// HistoryFiles calls each with the path of every file in the commits that
// [NewPlan] searches, sometimes more than once.
func HistoryFiles(ctx context.Context, r *kist.Repository, each func(path string)) error {
	w := NewHistorySearch(r)
	if err := w.findCommits(ctx); err != nil {
		return err
	}

	type place struct {
		path string
		node object.ID
	}
	seen := map[place]bool{}
	into := func(path string, node object.ID) (bool, error) {
		first := !seen[place{path, node}]
		seen[place{path, node}] = true
		return first, nil
	}

	for _, c := range w.commits {
		if err := w.eachFile(ctx, c, into, func(path string, _ *object.Entry) { each(path) }); err != nil {
			return err
		}
	}

	return nil
}
