package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree"
)

// keepAge is the age at which a repository renews its keep ref on a remote. It is far below
// [collect.DefaultKeepAge].
const keepAge = 30 * 24 * time.Hour

// ErrSameRemote is the error for a remote with the ID of another one.
var ErrSameRemote = errors.New("it is the same remote as another one")

// ErrNoKeep is matched by the error for a remote that does not let this repository make a keep ref.
var ErrNoKeep = errors.New("no permission for a keep ref")

// lockKeep takes the lock under which the keep refs of a repository move, and under which it
// gives content away. The error is [disk.ErrBusy] if another process holds it.
func lockKeep(ctx context.Context, r *kist.Repository) (*disk.FileLock, error) {
	return disk.Lock(ctx, filepath.Join(r.Dir(), "keep.lock"), disk.Exclusive, 0)
}

// RenewKeep moves the keep ref of r on a remote if content is away that it does not reach, or if it is a month old or was
// deleted. It deletes the ref if nothing is away. It does nothing if
// another process holds the lock of the keep refs. Head is the present head of the remote; nil: RenewKeep reads it if
// content is away.
func RenewKeep(ctx context.Context, r *kist.Repository, name string, head *rootlog.State) error {
	due, err := isKeepDue(ctx, r, name)
	if err == nil && !due {
		due, err = lacksKeep(ctx, r, name, head)
	}
	if !due || err != nil {
		return err
	}
	lock, err := lockKeep(ctx, r)
	if errors.Is(err, disk.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	k := &keeper{repo: r, name: name}
	return k.move(ctx)
}

// isKeepDue reports whether the keep ref on a remote has to be made, renewed or deleted, by its note.
func isKeepDue(ctx context.Context, r *kist.Repository, name string) (bool, error) {
	note := transfer.ReadKeep(registry.Dir(r, name))
	away, err := hasAway(ctx, r)
	if !away || err != nil {
		return note.ID != "", err
	}
	n := len(note.Commits)
	return n == 0 || !note.Commits[n-1].All || isOld(r, note) || r.Config().IsLazy(), nil // names may need other commits
}

// isOld reports whether the newest commit of a keep ref is a month old.
func isOld(r *kist.Repository, note transfer.KeepNote) bool {
	n := len(note.Commits)
	return n > 0 && r.Options().Now().Sub(note.Commits[n-1].Time) >= keepAge
}

// lacksKeep reports whether content is away, and the remote at head, or at its present head if that is nil, does not keep it.
func lacksKeep(ctx context.Context, r *kist.Repository, name string, head *rootlog.State) (bool, error) {
	away, err := hasAway(ctx, r)
	if !away || err != nil {
		return false, err
	}
	if head == nil {
		opened, err := registry.OpenNamed(ctx, r, name)
		if err != nil {
			return false, err
		}
		defer opened.Close()
		if head, err = opened.Head(ctx); err != nil {
			return false, err
		}
	}
	return !transfer.ReadKeep(registry.Dir(r, name)).KeepsAll(head), nil
}

// dueKeeps returns the remotes on which the keep ref is a month old, or has to be made or deleted.
func dueKeeps(ctx context.Context, r *kist.Repository) (names []string, err error) {
	away, err := hasAway(ctx, r)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(keepRemotes(r), func(name string) bool {
		note := transfer.ReadKeep(registry.Dir(r, name))
		if !away {
			return note.ID == ""
		}
		return len(note.Commits) > 0 && !isOld(r, note)
	}), nil
}

// hasAway reports whether content of r may be away.
func hasAway(ctx context.Context, r *kist.Repository) (bool, error) {
	if r.Config().IsLazy() {
		return true, nil
	}
	return volume.HasEvicted(ctx, r.Objects())
}

// keeper moves the keep ref of a repository on a remote. Its user holds the lock of [lockKeep].
type keeper struct {
	repo *kist.Repository
	name string // of the remote

	// giving means that content will be given away. Volumes are those whose chunks the
	// keep ref has to reach, whether or not they are in a commit.
	giving  bool
	volumes []string

	except map[string]bool // IDs of remotes that move refuses; it adds the ID of this one
	dryRun bool            // only find the parents
	ahead  *EarlyPush      // see [PushOptions]
	jobs   int

	// The results of move.
	commit object.Key   // that the keep ref names; zero: there is no keep ref
	below  []object.Key // the parents that it has, or would have
	note   transfer.KeepNote
	sent   int64 // bytes
}

// move makes the keep ref name a commit that reaches everything that is away and that the remote
// has (KEEP_COVERS_AWAY). It deletes the ref if nothing is away.
//
// The keep ref is moved by an ordinary push. So the content is in live packs at the root that
// moves the ref (KEEP_FROM_LIVE). The push sends the chunks of k.volumes.
func (k *keeper) move(ctx context.Context) error {
	m, err := registry.Find(k.repo, k.name)
	if err != nil {
		return err
	}
	push := PushOptions{Remote: m.Name, Ahead: k.ahead, Jobs: k.jobs}
	if len(k.volumes) > 0 {
		push.opened, err = openForPush(ctx, k.repo, m, push)
	} else {
		push.opened, err = registry.Open(ctx, k.repo, m, false)
	}
	if err != nil {
		return err
	}
	defer func() {
		if push.opened != nil {
			push.opened.Close()
		}
	}()
	if id := push.opened.Identity().Remote; k.except[id] {
		return ErrSameRemote
	} else if k.except != nil {
		k.except[id] = true
	}
	evicted, err := volume.HasEvicted(ctx, k.repo.Objects())
	if err != nil {
		return err
	}
	if !evicted && len(k.volumes) == 0 { // there are no chunks to look up
		transfer.LookUpInParts(push.opened)
	}
	head, err := transfer.HeadToWrite(ctx, push.opened)
	if err != nil {
		return err
	}
	snap, err := push.opened.SnapshotAt(ctx, head)
	if err != nil {
		return err
	}

	old, err := k.findOwn(snap.State)
	if err != nil {
		return err
	}
	if err := k.findParents(ctx, snap, old); err != nil || k.dryRun {
		return err
	}
	commit, all, err := k.makeCommit(ctx, snap, old)
	if err != nil {
		return err
	}
	if commit == old {
		k.commit = old
		return nil
	}
	push.head = snap.State
	err = k.push(ctx, push, old, commit, all)
	push.opened = nil // closed
	if err != nil {
		return err
	}
	k.commit = commit
	return nil
}

// findOwn returns the commit of the keep ref at a head, zero if there is none. If the ref names a commit that
// this repository has not made, a copy of the repository has the same ref: then this one begins another, so
// that no two clones share one.
func (k *keeper) findOwn(head *rootlog.State) (object.Key, error) {
	k.note = transfer.ReadKeep(registry.Dir(k.repo, k.name))
	old, ok := head.Refs[k.note.Ref()]
	if k.note.ID != "" && (!ok || k.note.Find(old.ID) != nil) {
		return old, nil
	}
	var err error
	k.note, err = transfer.NewKeepNote(k.repo.Options().Random)
	return object.Key{}, err
}

// push moves the keep ref from old to commit. It notes the commit before, because the outcome of a push
// may be unknown.
func (k *keeper) push(ctx context.Context, o PushOptions, old, commit object.Key, all bool) error {
	dir, now := registry.Dir(k.repo, k.name), k.repo.Options().Now().UTC()
	made := transfer.KeepCommit{ID: commit.ID.String(), All: all, Time: now}
	if !commit.IsZero() {
		both := k.note
		both.Commits = append(slices.Clone(both.Commits), made)
		if err := transfer.WriteKeep(ctx, dir, both); err != nil {
			return err
		}
	}

	ref := registry.PushRef{Name: k.note.Ref(), ID: commit.ID, Kind: commit.Kind}
	if !commit.IsZero() {
		ref.Source = commit.ID.String()
	}
	o.Refs, o.expect = []registry.PushRef{ref}, &old.ID
	result, err := Push(ctx, k.repo, o)
	if result != nil && result.PushResult != nil {
		k.sent = result.Bytes
	}
	if errors.Is(err, remote.ErrPermission) {
		err = fmt.Errorf("%w: %w", ErrNoKeep, err)
	}
	if err != nil {
		return err
	}
	k.note.Commits = []transfer.KeepCommit{made}
	if commit.IsZero() {
		k.note = transfer.KeepNote{}
	}
	return transfer.WriteKeep(ctx, dir, k.note)
}

// makeCommit stores a keep commit for a remote at the head of snap. Its parents are the newest
// commits of the remote that names here need. Its tree lists the other chunks that the keep ref has to reach. All means that
// the remote has everything that is away. The commit is old if that is young and the same, and zero if nothing is away.
func (k *keeper) makeCommit(ctx context.Context, snap *transfer.Snapshot, old object.Key) (commit object.Key, all bool, err error) {
	r := k.repo
	reach, err := gc.NewReach(ctx, r.Objects(), snap.Records, k.below...)
	if err != nil {
		return commit, false, err
	}

	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	l := &keepList{keeper: k, snap: snap, reach: reach, manifest: object.NewManifestWriter(tx)}
	if err := l.addChunks(ctx); err != nil {
		return commit, false, err
	}
	if err := l.checkLacking(ctx); err != nil {
		return commit, false, err
	}
	if l.away == 0 && !k.giving && len(k.volumes) == 0 && !r.Config().IsLazy() {
		return commit, true, nil
	}
	root, err := l.finish(ctx, tx)
	if err != nil {
		return commit, false, err
	}

	var parents []object.ID
	for _, key := range k.below {
		parents = append(parents, key.ID)
	}
	if made := k.note.Find(old.ID); made != nil && made.All == l.all && r.Options().Now().Sub(made.Time) < keepAge {
		c, err := object.ReadCommit(ctx, snap, old.ID)
		if err == nil && c.Tree == root.ID && slices.Equal(c.Parents, parents) {
			k.note.Commits = []transfer.KeepCommit{*made}
			return old, l.all, transfer.WriteKeep(ctx, registry.Dir(r, k.name), k.note)
		}
	}
	c := kist.NewCommit(r, root, "content that "+r.Options().Host+" has given away", parents...)
	c.Committer.Time = object.TimeOf(later(r.Options().Now(), snap.State.Time)) // whatever date the user gives to commits
	commit.Kind = object.KindCommit
	if commit.ID, err = tx.PutCommit(ctx, c); err != nil {
		return object.Key{}, false, err
	}
	return commit, l.all, tx.Publish(ctx)
}

// later returns the later one of two times. A collection of the remote deletes a keep ref by the time of its commit: a slow clock here must not make
// that old.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// findParents finds the newest commits that the refs of the remote reach and that names here need.
func (k *keeper) findParents(ctx context.Context, snap *transfer.Snapshot, old object.Key) error {
	tips, err := k.pushedTips(ctx, snap, old)
	if err != nil {
		return err
	}
	pushed := map[object.ID]bool{}
	if err := graph.Walk(ctx, pushed, tips, func(id object.ID) ([]object.ID, error) { return parentsOf(ctx, k.repo, id) }); err != nil {
		return err
	}
	if tips, err = neededTips(ctx, k.repo); err != nil {
		return err
	}

	newest := map[object.ID]bool{}
	var older []object.ID
	err = graph.Walk(ctx, map[object.ID]bool{}, tips, func(id object.ID) ([]object.ID, error) {
		parents, err := parentsOf(ctx, k.repo, id)
		if err != nil || !pushed[id] {
			return parents, err
		}
		if has, err := k.repo.Objects().Has(ctx, object.Key{Kind: object.KindCommit, ID: id}); !has || err != nil {
			return nil, err
		}
		newest[id] = true
		older = append(older, parents...)
		return nil, nil
	})
	if err != nil {
		return err
	}
	err = graph.Walk(ctx, map[object.ID]bool{}, older, func(id object.ID) ([]object.ID, error) {
		delete(newest, id)
		return parentsOf(ctx, k.repo, id)
	})
	for _, id := range slices.SortedFunc(maps.Keys(newest), object.ID.Compare) {
		if len(k.below) < object.MaxLinks-1 { // the list has what the other commits need
			k.below = append(k.below, object.Key{Kind: object.KindCommit, ID: id})
		}
	}
	return err
}

// parentsOf returns the parents of a commit, none if it cannot be read.
func parentsOf(ctx context.Context, r *kist.Repository, id object.ID) ([]object.ID, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if object.IsUnreadable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Parents, nil
}

// pushedTips returns the commits that the refs of the remote name, as far as they are here. The keep commit need not be.
func (k *keeper) pushedTips(ctx context.Context, snap *transfer.Snapshot, old object.Key) (tips []object.ID, err error) {
	for _, key := range snap.State.Refs {
		id, err := refs.Peel(ctx, k.repo.Objects(), key.ID)
		switch {
		case err == nil:
			tips = append(tips, id)
		case !object.IsUnreadable(err):
			return nil, err
		case key == old: // gc has removed it here
			c, err := object.ReadCommit(ctx, snap, key.ID)
			if err != nil {
				return nil, err
			}
			tips = append(tips, c.Parents...)
		}
	}
	return tips, nil
}

// neededTips returns the commits that names here need.
func neededTips(ctx context.Context, r *kist.Repository) (tips []object.ID, err error) {
	records, err := r.RecordView()
	if err != nil {
		return nil, err
	}
	needed, err := gc.FindNeeds(ctx, r, records, nil)
	if err != nil {
		return nil, err
	}
	for _, root := range needed.Roots {
		if root.Key.Kind != object.KindCommit && root.Key.Kind != object.KindTag {
			continue
		}
		if id, err := refs.Peel(ctx, r.Objects(), root.Key.ID); err == nil {
			tips = append(tips, id)
		}
	}
	return tips, nil
}

// keepList lists the chunks that a keep commit has to reach besides those below its parents.
type keepList struct {
	*keeper
	snap     *transfer.Snapshot
	reach    *gc.Reach
	manifest *object.ManifestWriter
	away     int          // number of chunks that are away
	lacking  []object.Key // chunks that are away and that the remote lacks
	all      bool         // the remote has all of them that any remote has
}

// addChunks adds the chunks that are away or in the volumes of the keeper. It leaves out chunks that are away
// and that the remote lacks: another remote has them.
func (l *keepList) addChunks(ctx context.Context) error {
	inventory, err := l.repo.Objects().Inventory(ctx)
	if err != nil {
		return err
	}
	var places []volume.Place
	for i := range inventory.Len() {
		v := inventory.Volume(i)
		giving := slices.Contains(l.volumes, v.Name)
		if !v.Evicted && !giving {
			continue
		}
		for rec, err := range inventory.Keys(i, object.KindChunk) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				places, err = inventory.Find(rec.Key, places[:0])
			}
			if err != nil {
				return err
			}
			if len(places) == 0 || places[0].Volume != i {
				continue // listed with another volume
			}
			here := giving || slices.ContainsFunc(places, func(p volume.Place) bool { return !inventory.Volume(p.Volume).Evicted })
			if err := l.add(ctx, object.ChunkRef{ID: rec.Key.ID, Size: rec.Raw}, here, giving); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a chunk, unless a parent reaches it.
func (l *keepList) add(ctx context.Context, chunk object.ChunkRef, here, giving bool) error {
	key := object.Key{Kind: object.KindChunk, ID: chunk.ID}
	if !here {
		l.away++
	}
	if _, purged := l.snap.Records.Purged(key); purged {
		return nil
	}
	reached, err := l.reach.Has(key)
	if err != nil {
		return err
	}
	_, there, err := l.snap.Find(key)
	switch {
	case err != nil:
		return err
	case there && reached:
		return nil
	case there || giving:
		return l.manifest.Add(ctx, chunk)
	case !here:
		l.lacking = append(l.lacking, key)
	}
	return nil
}

// checkLacking finds out whether other remotes have the chunks that this one lacks. The store notes the ones that none has, so that a command
// that has the bytes stores them again: nothing relies on those.
func (l *keepList) checkLacking(ctx context.Context) error {
	report, err := volume.CheckAway(ctx, l.repo.Objects(), l.lacking)
	l.all = len(report.Gone) == len(l.lacking)
	warnGone(l.repo, len(report.Gone))
	return err
}

// finish stores the list as the only file of a tree, unless it is empty.
func (l *keepList) finish(ctx context.Context, tx *kist.Tx) (root tree.Info, err error) {
	e := object.Entry{Name: "chunks", Type: object.TypeFile, Mode: 0o600}
	if e.Content, e.Size, err = l.manifest.Finish(ctx); err != nil {
		return root, err
	}
	folder := object.NewTreeWriter(tx)
	if e.Size > 0 {
		root.Files, root.Bytes = 1, e.Size
		if err := folder.Add(ctx, e); err != nil {
			return root, err
		}
	}
	root.ID, err = folder.Finish(ctx)
	return root, err
}
