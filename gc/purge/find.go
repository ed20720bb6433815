package purge

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// minPurgeDigits is the least number of digits of an ID.
const minPurgeDigits = 4

// Target adds a content to purge.
func (w *Walk) Target(key object.Key) {
	if w.Targets[key] == nil {
		w.Targets[key] = &Content{Key: key}
	}
}

// findPath makes the content of a path a target.
func (w *Walk) findPath(ctx context.Context, p *Plan, at Path) error {
	var roots []walkedCommit
	if p.O.AllHistory {
		roots = w.commits
	} else {
		id, c, err := w.r.ReadCommit(ctx, cmp.Or(at.Rev, "HEAD"))
		if err != nil {
			return err
		}
		roots = []walkedCommit{{id, c}}
	}

	found := false
	seen := map[object.ID]bool{}
	for _, c := range roots {
		w.begin(c.id)
		e, err := tree.Find(ctx, w.r.Objects(), c.Tree, at.Path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || object.PassOver(w.here, at.Path, object.Key{}, err) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
		if err := w.collect(ctx, p, at.Path, &e, c.id, seen); err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("path %q: %w", at.Path, kist.ErrNoMatch)
	}

	return nil
}

// collect makes targets of an entry and everything below it. It skips the
// folders in seen.
func (w *Walk) collect(ctx context.Context, p *Plan, path string, e *object.Entry, commit object.ID, seen map[object.ID]bool) error {
	if e.Type == object.TypeDir {
		return tree.WalkInto(ctx, w.here, e.Content.ID, once(seen), func(below string, e object.Entry) error {
			w.collectFile(p, tree.Join(path, below), &e, commit)
			return nil
		})
	}
	w.collectFile(p, path, e, commit)
	return nil
}

// collectFile makes the content of an entry a target. Inline content cannot be
// purged and is listed in p.Inline.
func (w *Walk) collectFile(p *Plan, path string, e *object.Entry, commit object.ID) {
	switch {
	case e.Type == object.TypeDir:
	case !e.Content.IsZero():
		w.Target(e.Content)
	case len(e.Inline) > 0 || e.Target != "":
		p.Inlines[InlineContent(e)] = true
		w.used(&p.Inline, path, commit)
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
func (w *Walk) findID(ctx context.Context, digits string) (object.Key, error) {
	digits = strings.ToLower(digits)
	if _, err := hex.DecodeString(digits + "0"[:len(digits)%2]); err != nil || len(digits) < minPurgeDigits || len(digits) > 64 {
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
		if err := w.eachContent(ctx, func(key object.Key) {
			if strings.HasPrefix(key.ID.String(), digits) {
				found[key] = true
			}
		}); err != nil {
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

// HistoryFiles calls each with the path of every file in the commits that
// [NewPlan] searches, sometimes more than once.
func HistoryFiles(ctx context.Context, r *kist.Repository, each func(path string)) error {
	w := NewWalk(r)
	if err := w.findCommits(ctx); err != nil {
		return err
	}

	type place struct {
		path string
		node object.ID
	}

	seen := map[place]bool{}
	for _, c := range w.commits {
		w.begin(c.id)
		err := tree.WalkInto(ctx, w.here, c.Tree, func(path string, node object.ID) (bool, error) {
			first := !seen[place{path, node}]
			seen[place{path, node}] = true
			return first, nil
		}, func(path string, e object.Entry) error {
			if e.Type != object.TypeDir {
				each(path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// eachContent calls each for the contents of all files in all commits.
func (w *Walk) eachContent(ctx context.Context, each func(object.Key)) error {
	seen := map[object.ID]bool{}
	for _, c := range w.commits {
		w.begin(c.id)
		if err := tree.WalkInto(ctx, w.here, c.Tree, once(seen), func(_ string, e object.Entry) error {
			if e.Type != object.TypeDir && !e.Content.IsZero() {
				each(e.Content)
			}
			return nil
		}); err != nil {
			return err
		}
	}

	return nil
}

// once returns a function that makes a walk read each node only once. It adds
// the nodes to seen.
func once(seen map[object.ID]bool) func(path string, node object.ID) (bool, error) {
	return func(_ string, node object.ID) (bool, error) {
		first := !seen[node]
		seen[node] = true
		return first, nil
	}
}
