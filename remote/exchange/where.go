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

	// Unlisted is the content of folders and files whose chunks a lazy repository does not know, because it has never read their lists.
	// The folders above have these sizes. Equal content counts more than once, and a part may be here.
	Unlisted, UnlistedFiles uint64
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

// FindWhere finds out where the content of some files and folders is. It asks each remote for its head, and looks up there the content that is
// away. It fetches nothing.
func FindWhere(ctx context.Context, r *kist.Repository, below ...object.Entry) (*Where, error) {
	var keys []object.Key
	for _, e := range below {
		if !e.Content.IsZero() {
			keys = append(keys, e.Content)
		}
	}
	reach, err := gc.NewReach(ctx, r.Objects(), (&record.Set{}).View(), keys...)
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
	if r.Config().IsLazy() {
		if err := w.addAbsent(ctx, below); err != nil {
			return nil, err
		}
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
	away, err := hasAway(ctx, w.repo)
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
			if err := w.addAway(ctx, rec.Key, int64(rec.Raw)); err != nil {
				return err
			}
		}
	}
	return w.lookUp(ctx)
}

// addAway adds a chunk that is away.
func (w *whereFinder) addAway(ctx context.Context, chunk object.Key, size int64) error {
	w.Away += size
	if volume.HasLent(w.repo.Objects(), chunk) {
		w.Lent += size
	}
	w.sizes[chunk] = size
	if len(w.sizes) < whereBatch {
		return nil
	}
	return w.lookUp(ctx)
}

// addAbsent adds the content below entries that no volume lists, as far as nodes that are here show it.
func (w *whereFinder) addAbsent(ctx context.Context, todo []object.Entry) error {
	store := w.repo.Objects()
	here := volume.OnlyHere(store)
	seen := map[object.Key]bool{}
	for todo = slices.Clone(todo); len(todo) > 0; {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e.Content.IsZero() || seen[e.Content] {
			continue
		}
		seen[e.Content] = true
		var err error
		if e.Content.Kind == object.KindTree {
			var entries []object.Entry
			if entries, err = w.entriesHere(ctx, here, e.Content.ID); err == nil || object.IsAway(err) {
				todo = append(todo, entries...)
				for i := range entries { // the rest is unknown
					e.Size -= min(e.Size, entries[i].Size)
					e.Files -= min(e.Files, max(entries[i].Files, 1))
				}
			}
		} else {
			err = w.addAbsentChunks(ctx, here, e, seen)
		}
		switch {
		case object.IsAway(err):
			w.Unlisted += e.Size
			w.UnlistedFiles += max(e.Files, 1)
		case err != nil && !object.IsUnreadable(err):
			return err
		}
	}
	return w.lookUp(ctx)
}

// entriesHere returns the entries of a folder that are in nodes that are here. The error is an [*object.AwayError] if another node is away.
func (w *whereFinder) entriesHere(ctx context.Context, here volume.Here, id object.ID) (entries []object.Entry, err error) {
	for nodes := []object.ID{id}; len(nodes) > 0; nodes = nodes[1:] {
		t, rerr := object.ReadTree(ctx, here, nodes[0])
		switch {
		case object.IsAway(rerr):
			err = rerr
			continue
		case rerr != nil:
			return entries, rerr
		}
		for _, child := range t.Children {
			nodes = append(nodes, child.ID)
		}
		entries = append(entries, t.Entries...)
	}
	return entries, err
}

// addAbsentChunks adds the chunks of a file that no volume lists. The error is an [*object.AwayError] if the list of the chunks is away.
func (w *whereFinder) addAbsentChunks(ctx context.Context, here volume.Here, e object.Entry, seen map[object.Key]bool) error {
	for c, err := range object.Chunks(ctx, here, e.Content, e.Size, 0) {
		if err != nil {
			return err
		}
		key := object.Key{Kind: object.KindChunk, ID: c.ID}
		if known := seen[key] && key != e.Content; !known && volume.IsAbsent(w.repo.Objects(), key) {
			if err := w.addAway(ctx, key, int64(c.Size)); err != nil {
				return err
			}
		}
		seen[key] = true
	}
	return nil
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
