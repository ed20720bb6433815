package exchange

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Where says where content is. Sizes are bytes of content that is not compressed; equal content counts once.
type Where struct {
	Here, Away int64
	Lent       int64         // the part of Away that files of the worktree have, too
	Remotes    []WhereRemote // in the order of the configuration
}

// WhereRemote says which part of the content that is away a remote keeps.
type WhereRemote struct {
	Name string

	// Promises means that the keep ref of the repository is there, and reaches everything that is away.
	Promises bool
	Kept     int64     // bytes that the remote has and promises to keep
	Checked  time.Time // when this was looked up; if Err is set, when the promise was made, or zero
	Err      error     // why the remote could not be asked
}

// whereBatch is the number of chunks that FindWhere looks up at once.
const whereBatch = 1 << 16

// FindWhere finds out where the content below some objects is. It asks each remote for its head, and looks up there the content that is
// away.
func FindWhere(ctx context.Context, r *kist.Repository, below ...object.Key) (*Where, error) {
	reach, err := gc.NewReach(ctx, r.Objects(), (&record.Set{}).View(), below...)
	if err != nil {
		return nil, err
	}
	w := &whereFinder{repo: r, reach: reach, sizes: map[object.Key]int64{}}
	defer w.close()
	if err := w.askRemotes(ctx); err != nil {
		return nil, err
	}
	if err := w.addChunks(ctx); err != nil {
		return nil, err
	}
	return &w.Where, ctx.Err()
}

// whereFinder is a call of FindWhere.
type whereFinder struct {
	Where
	repo    *kist.Repository
	reach   *gc.Reach
	readers []*transfer.Reader // by number of the remote; nil: it is not asked
	sizes   map[object.Key]int64
}

// close closes the remotes.
func (w *whereFinder) close() {
	for _, reader := range w.readers {
		if reader != nil {
			reader.Close()
		}
	}
}

// askRemotes reads the head of each remote, if content is away.
func (w *whereFinder) askRemotes(ctx context.Context) error {
	away, err := volume.HasEvicted(ctx, w.repo.Objects())
	if !away || err != nil {
		return err
	}
	for _, m := range registry.All(w.repo) {
		note := transfer.ReadKeep(registry.Dir(w.repo, m.Name))
		at := WhereRemote{Name: m.Name}
		var reader *transfer.Reader
		opened, err := registry.OpenNamed(ctx, w.repo, m.Name)
		if err == nil {
			if reader, err = transfer.NewReader(ctx, opened); err != nil {
				opened.Close()
			}
		}
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		switch n := len(note.Commits); {
		case err == nil:
			at.Checked, at.Promises = w.repo.Options().Now(), note.KeepsAll(reader.State())
		case errors.Is(err, rootlog.ErrEmpty):
			at.Checked = w.repo.Options().Now()
		default:
			at.Err = err
			if n > 0 && note.Commits[n-1].All {
				at.Promises, at.Checked = true, note.Commits[n-1].Time
			}
		}
		if err == nil && !at.Promises {
			reader.Close()
			reader = nil
		}
		w.Remotes, w.readers = append(w.Remotes, at), append(w.readers, reader)
	}
	return nil
}

// addChunks adds the chunks of the store that are wanted.
func (w *whereFinder) addChunks(ctx context.Context) error {
	inventory, err := w.repo.Objects().Inventory(ctx)
	if err != nil {
		return err
	}
	var places []volume.Place
	for i := range inventory.Len() {
		for rec, err := range inventory.Keys(i, object.KindChunk) {
			if err == nil {
				err = ctx.Err()
			}
			wanted := false
			if err == nil {
				wanted, err = w.reach.Has(rec.Key)
			}
			if err == nil && wanted {
				places, err = inventory.Find(rec.Key, places[:0])
			}
			if err != nil && !object.IsUnreadable(err) {
				return err
			}
			if err != nil || !wanted || len(places) == 0 || places[0].Volume != i {
				continue // damaged, or listed with another volume
			}
			if slices.ContainsFunc(places, func(p volume.Place) bool { return !inventory.Volume(p.Volume).Evicted }) {
				w.Here += int64(rec.Raw)
				continue
			}
			w.Away += int64(rec.Raw)
			if volume.HasLent(w.repo.Objects(), rec.Key) {
				w.Lent += int64(rec.Raw)
			}
			w.sizes[rec.Key] = int64(rec.Raw)
			if len(w.sizes) == whereBatch {
				if err := w.lookUp(ctx); err != nil {
					return err
				}
			}
		}
	}
	return w.lookUp(ctx)
}

// lookUp looks the collected chunks up on the remotes that promise to keep them. A remote that fails is not asked again.
func (w *whereFinder) lookUp(ctx context.Context) error {
	chunks := make([]object.Key, 0, len(w.sizes))
	total := int64(0)
	for key, size := range w.sizes {
		chunks = append(chunks, key)
		total += size
	}
	for i, reader := range w.readers {
		if reader == nil || len(chunks) == 0 {
			continue
		}
		unkept, err := reader.FindUnkept(ctx, chunks)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			w.Remotes[i].Err, w.Remotes[i].Kept = err, 0
			reader.Close()
			w.readers[i] = nil
			continue
		}
		w.Remotes[i].Kept += total
		for _, key := range unkept {
			w.Remotes[i].Kept -= w.sizes[key]
		}
	}
	clear(w.sizes)
	return nil
}
