package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// AddOptions say what [Repository.Add] stages.
type AddOptions struct {
	Paths         []string // below the worktree's root, slash-separated; "" or none is all
	Update        bool     // only what is tracked already
	Force         bool     // ignored files too
	ExcludeCaches bool     // leave out folders tagged as caches by a CACHEDIR.TAG
	DryRun        bool     // store and stage nothing
	Progress      Progress // may be nil
}

// Progress is told, now and then and from one goroutine at a time, how far an
// operation is. A total of 0 is not known.
type Progress func(done, total Amount)

// Amount counts files and their bytes.
type Amount struct{ Files, Bytes int64 }

// AddResult tells what [Repository.Add] did, or would have done.
type AddResult struct {
	Added, Modified, Deleted []string         // paths of files and symlinks; of folders, if they are empty or gone
	Skipped                  []object.Skipped // could not be read, or changed while it was
	Stats                    volume.Stats
}

// Add stores what has changed in the worktree since it was last staged, and
// stages it. A path that cannot be read is skipped, and what is staged for it
// stays.
func (r *Repository) Add(ctx context.Context, o AddOptions) (*AddResult, error) {
	var result *AddResult
	err := retryStale(func() (err error) {
		result, err = r.add(ctx, o)
		return err
	})
	return result, err
}

// retryStale runs f again when objects that it relied on were removed by
// another process meanwhile: they have to be stored again.
func retryStale(f func() error) error {
	for range 3 {
		err := f()
		var stale *volume.StaleError
		if !errors.As(err, &stale) {
			return err
		}
	}
	return fmt.Errorf("objects were removed by other processes, three times: %w", volume.ErrBusy)
}

func (r *Repository) add(ctx context.Context, o AddOptions) (*AddResult, error) {
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	found, err := r.worktree.Scan(ctx, idx, worktree.ScanOptions{
		Paths: o.Paths, IncludeIgnored: o.Force, ExcludeCaches: o.ExcludeCaches, NoUntracked: o.Update,
	})
	if err != nil {
		return nil, err
	}
	session := r.objects.Begin(volume.SessionOptions{DryRun: o.DryRun})
	defer session.Close()
	edits, err := r.store(ctx, session, found, o.Progress)
	if err != nil {
		return nil, err
	}
	result := edits.result()
	result.Stats = session.Stats()
	if o.DryRun || len(edits) == 0 {
		return result, nil
	}
	err = session.Publish(ctx, func(ctx context.Context) error {
		return index.Update(ctx, r.dir, func(idx *index.Index) error { return edits.apply(idx) })
	})
	result.Stats = session.Stats()
	return result, errors.Join(err, session.Close())
}

// store reads what was found in the worktree into dst, and returns what that
// means for the index.
func (r *Repository) store(ctx context.Context, dst object.Writer, found []worktree.Found, progress Progress) (edits, error) {
	var list edits
	var files []worktree.Found
	var total Amount
	for _, f := range found {
		switch f.State {
		case worktree.Ignored:
		case worktree.Deleted:
			list = append(list, edit{path: f.Path, old: f.Old, dir: f.Dir, remove: true})
		case worktree.Unreadable:
			list = append(list, edit{path: f.Path, skipped: reason(f.Err)})
		case worktree.Special, worktree.Nested:
			list = append(list, edit{path: f.Path, skipped: f.State.String()})
		default:
			if f.Dir {
				list = append(list, edit{path: f.Path, dir: true, mode: f.Mode})
				continue
			}
			files = append(files, f)
			total.Files++
			total.Bytes += f.Stat.Size
		}
	}
	report := func(files, bytes int64) {}
	if progress != nil {
		report = func(files, bytes int64) { progress(Amount{files, bytes}, total) }
	}
	stored := make(edits, len(files))
	err := r.worktree.StoreAll(ctx, dst, files, func(i int, s worktree.Stored, err error) error {
		e := edit{path: files[i].Path, old: files[i].Old}
		switch {
		case errors.Is(err, worktree.ErrGone):
			e.remove = true
		case err != nil:
			e.skipped = reason(err)
		default:
			entry := index.NewEntry(s.Entry, s.Stat)
			if e.old != nil && e.old.SameContent(&entry) {
				entry.MTime = e.old.MTime // a change of the time alone is no change
			}
			e.entry = &entry
			if s.Unstable {
				e.skipped = "changed while it was read"
			}
		}
		stored[i] = e
		return nil
	}, report)
	if err != nil {
		return nil, err
	}
	return append(list, stored...), nil
}
