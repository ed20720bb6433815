// Package purge finds a content that must disappear, and records its purge.
package purge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// Options select the contents that [NewPlan] looks for.
type Options struct {
	Paths []Path
	IDs   []string // the first digits, at least 4, of chunks and manifests

	// AllHistory selects every version of a path in any commit, not only that
	// of its revision.
	AllHistory bool
}

// Path is a file, or a folder with its content.
type Path struct {
	Rev  string // empty: HEAD
	Path string
}

// Plan lists the contents to purge and the consequences. It changes nothing;
// [Apply] carries it out.
type Plan struct {
	Contents []Content       // sorted by first path
	Inline   []Use           // inline content, which cannot be purged
	Holds    []record.Record // holds that block the purge: their commits reach a content

	// The space of the contents in the local store, in bytes: Freed becomes
	// free, Shared stays because other contents have the same chunks.
	Freed, Shared int64

	O       Options
	Walk    *HistorySearch
	Inlines map[string]bool // the contents of Inline
}

// Content is a content to purge, with its uses.
type Content struct {
	Key     object.Key
	Size    uint64 // size of the files that have it, in bytes; 0 if there are none
	Already bool   // it was purged before
	Here    bool   // it is in the local store

	Uses   []Use    // the files that have it, by path
	PartOf []Use    // files that contain it as a part and also become unreadable
	Staged []string // paths at which it is staged
}

// Use is a path, and the commits in which it has a content.
type Use struct {
	Path    string
	Count   int         // number of commits
	Commits []object.ID // newest first, at most 100
}

// maxPurgeCommits is the most commits that a [Use] names.
const maxPurgeCommits = 100

// NewPlan finds the contents to purge, and their uses under any path in all
// commits that refs, their logs and holds reach. The error matches
// [kist.ErrNoMatch] if a path does not exist, and [object.ErrNotFound] if an
// ID does not.
func NewPlan(ctx context.Context, r *kist.Repository, o Options) (*Plan, error) {
	w := NewHistorySearch(r)
	if err := w.findCommits(ctx); err != nil {
		return nil, err
	}

	p := &Plan{O: o, Walk: w, Inlines: map[string]bool{}}
	for _, at := range o.Paths {
		if err := w.findPath(ctx, p, at); err != nil {
			return nil, err
		}
	}

	for _, id := range o.IDs {
		key, err := w.findID(ctx, id)
		if err != nil {
			return nil, err
		}
		w.Target(key)
	}

	if err := w.findUses(ctx); err != nil {
		return nil, err
	}
	if err := w.sumSpace(ctx, p); err != nil {
		return nil, err
	}

	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	if p.Holds, err = w.heldBy(ctx, set.At(r.Options().Now())); err != nil {
		return nil, err
	}

	for key, c := range w.Targets {
		old, _ := set.Get(record.Purge, key)
		c.Already = old.On
		if c.Here, err = r.Objects().Has(ctx, key); err != nil {
			return nil, err
		}
		p.Contents = append(p.Contents, *c)
	}

	slices.SortFunc(p.Contents, func(a, b Content) int {
		return cmp.Or(tree.ComparePaths(a.firstPath(), b.firstPath()), a.Key.Compare(b.Key))
	})

	return p, nil
}

// firstPath returns a path that has the content, or "".
func (c *Content) firstPath() string {
	switch {
	case len(c.Uses) > 0:
		return c.Uses[0].Path
	case len(c.Staged) > 0:
		return c.Staged[0]
	case len(c.PartOf) > 0:
		return c.PartOf[0].Path
	}
	return ""
}

// Apply records that the contents of a plan are purged. From now on, no
// command reads them, and garbage collections remove them, here and on remotes
// that receive the records. The reason is stored and pushed, after the paths
// of each content if withPath is set. Apply returns the contents that were not
// purged before. If a held commit reaches a content, nothing is purged, and
// the error is a [*retain.HeldError].
func Apply(ctx context.Context, r *kist.Repository, p *Plan, reason string, withPath bool) ([]Content, error) {
	if err := record.CheckText(reason); err != nil {
		return nil, fmt.Errorf("reason: %w", err)
	}

	var purged []Content
	change := func(set *record.Set) error {
		purged = nil
		if holds, err := p.Walk.heldBy(ctx, set.At(r.Options().Now())); err != nil || len(holds) > 0 {
			return cmp.Or(err, error(&retain.HeldError{Holds: holds}))
		}
		for _, c := range p.Contents {
			if old, _ := set.Get(record.Purge, c.Key); old.On {
				continue
			}
			text := reason
			if withPath {
				text = c.reasonText(reason)
			}
			if err := set.Switch(retain.Stamp(r, record.Record{Kind: record.Purge, Key: c.Key, On: true, Reason: text})); err != nil {
				return err
			}
			purged = append(purged, c)
		}
		return nil
	}
	return purged, r.Publish(ctx, func(tx *kist.Tx) {
		tx.NoteStep(func(ctx context.Context) error { return r.Records().Update(ctx, change) })
	})
}

// reasonText returns the paths of a content followed by text.
func (c *Content) reasonText(text string) string {
	var paths []string
	add := func(path string) {
		if record.CheckText(path) != nil || strings.ContainsAny(path, "\n\t") {
			path = fmt.Sprintf("%q", path)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}

	for _, u := range c.Uses {
		add(u.Path)
	}

	for _, path := range c.Staged {
		add(path)
	}

	const shown = 3
	if more := len(paths) - shown; more > 0 {
		paths = append(paths[:shown], fmt.Sprintf("%d more", more))
	}

	all := strings.Join(paths, ", ")
	if text != "" && all != "" {
		text = all + ": " + text
	} else {
		text = all + text
	}
	if record.CheckText(text) != nil { // too long for a record
		return strings.ToValidUTF8(text[:min(len(text), record.MaxText-3)], "") + "..."
	}

	return text
}

// All returns the records of purged contents, sorted by name.
func All(r *kist.Repository) ([]record.Record, error) {
	set, err := r.Records().Load()
	var list []record.Record
	for rec := range set.All() {
		if rec.Kind == record.Purge && rec.On {
			list = append(list, rec)
		}
	}

	return list, err
}

// ErrNotPurged is matched by the error for an ID that no purged content has.
var ErrNotPurged = errors.New("nothing that was purged has this ID")

// Undo undoes the purge of a content, given the first digits of its ID. If a
// part of the content is missing, nothing changes, and the error matches
// [object.ErrNotFound].
func Undo(ctx context.Context, r *kist.Repository, id string) (record.Record, error) {
	list, err := All(r)
	if err != nil {
		return record.Record{}, err
	}

	var found []record.Record
	for _, rec := range list {
		if len(id) >= minPurgeDigits && strings.HasPrefix(rec.Key.ID.String(), strings.ToLower(id)) {
			found = append(found, rec)
		}
	}

	if len(found) != 1 {
		if len(found) > 1 {
			return record.Record{}, fmt.Errorf("%q stands for %d contents that were purged: more digits are needed", id, len(found))
		}
		return record.Record{}, fmt.Errorf("%q: %w", id, ErrNotPurged)
	}

	rec := found[0]

	// Meanwhile, no gc removes the content.
	return rec, r.Publish(ctx, kist.Step(func(ctx context.Context) error {
		if err := graph.CheckPresent(ctx, r.Objects(), rec.Key); err != nil {
			return err
		}
		return r.Records().Update(ctx, func(set *record.Set) error {
			old, _ := set.Get(record.Purge, rec.Key)
			if !old.On {
				return fmt.Errorf("%q: %w", id, ErrNotPurged)
			}
			old.On = false
			return set.Switch(retain.Stamp(r, old))
		})
	}))
}
