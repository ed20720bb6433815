package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Frozen are the packs that have to be thawed before some content can be fetched. The caller closes it.
type Frozen struct {
	Archived Packs // that nobody has asked for
	Thawing  Packs // that somebody has asked for, and that cannot be read yet
	Thawed   Packs // that lie in an archive, and can be read now

	// Classes has the classes of storage of the archived packs, with the longest time that a thaw usually takes.
	Classes map[string]time.Duration

	// Ready is when all packs can usually be read that somebody has asked for. Zero: there are none.
	Ready time.Time

	repo    *kist.Repository
	remotes []*frozenRemote
}

// Packs counts packs and their bytes.
type Packs struct {
	Packs int   `json:"packs" doc:"the number of packs"`
	Bytes int64 `json:"bytes" doc:"their size"`
}

func (p *Packs) add(info pack.Info) {
	p.Packs++
	p.Bytes += int64(info.Size)
}

// frozenRemote is a remote that may have packs in an archive.
type frozenRemote struct {
	*transfer.Reader
	states map[pack.Name]remote.ArchiveState // of the packs that were asked for
	needed map[pack.Name]pack.Info           // archived packs
}

// FindFrozen finds the packs in archives that [BringContent] of top needs, or [BringAll] if top is nil. It fetches nodes, which are in no
// archive. If another remote has an object at hand, its pack in an archive is not needed.
func FindFrozen(ctx context.Context, r *kist.Repository, top []object.Key) (*Frozen, error) {
	f := &Frozen{repo: r, Classes: map[string]time.Duration{}}
	err := f.openRemotes(ctx)
	if err == nil {
		err = f.findPacks(ctx, top)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	for _, at := range f.remotes {
		f.countPacks(at)
	}
	return f, nil
}

// Close closes the remotes.
func (f *Frozen) Close() {
	for _, at := range f.remotes {
		at.Close()
	}
	f.remotes = nil
}

// openRemotes opens the remotes that answer. The error is that of one that does not, if none does.
func (f *Frozen) openRemotes(ctx context.Context) (failed error) {
	for _, m := range registry.All(f.repo) {
		opened, err := registry.OpenNamed(ctx, f.repo, m.Name)
		var reader *transfer.Reader
		if err == nil {
			if reader, err = transfer.NewReader(ctx, opened); err != nil {
				opened.Close()
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			f.remotes = append(f.remotes, &frozenRemote{reader, map[pack.Name]remote.ArchiveState{}, map[pack.Name]pack.Info{}})
		case !errors.Is(err, rootlog.ErrEmpty) && !errors.Is(err, transfer.ErrRepository):
			failed = &object.AwayError{Remote: m.Name, Err: err}
		}
	}
	if len(f.remotes) > 0 {
		return nil
	}
	return failed
}

// findPacks looks for the chunks below top that are not here.
func (f *Frozen) findPacks(ctx context.Context, top []object.Key) error {
	records, err := f.repo.RecordView()
	if err != nil {
		return err
	}
	if top == nil {
		if top, err = neededObjects(ctx, f.repo, records); err != nil {
			return err
		}
	}
	b := &bringer{r: f.repo, records: records, seen: map[object.Key]bool{}, take: f.locateChunks}
	return b.bring(ctx, object.Key{}, top)
}

// locateChunks finds the packs of chunks that are not here, and asks for their states.
func (f *Frozen) locateChunks(ctx context.Context, chunks []object.Key) error {
	var open []object.Key
	for _, key := range chunks {
		if volume.IsAbsent(f.repo.Objects(), key) {
			open = append(open, key)
		}
	}
	type place struct {
		at   *frozenRemote
		pack pack.Info
	}
	archived := map[object.Key]place{} // the first of each
	for _, at := range f.remotes {
		if len(open) == 0 {
			break
		}
		found, err := at.FindPacks(ctx, open)
		if err == nil {
			err = at.askStates(ctx, found)
		}
		if err != nil {
			return err
		}
		var left []object.Key
		for _, key := range open {
			info, there := found[key]
			if there && at.states[info.Name].Takes == 0 && !at.states[info.Name].Archived {
				delete(archived, key)
				continue
			}
			if _, known := archived[key]; there && !known {
				archived[key] = place{at, info}
			}
			left = append(left, key)
		}
		open = left
	}
	for _, p := range archived {
		p.at.needed[p.pack.Name] = p.pack
	}
	return nil
}

// askStates asks for the states of packs that are not known.
func (at *frozenRemote) askStates(ctx context.Context, found map[object.Key]pack.Info) error {
	var packs []pack.Info
	for _, info := range found {
		if _, known := at.states[info.Name]; !known {
			at.states[info.Name] = remote.ArchiveState{}
			packs = append(packs, info)
		}
	}
	states, err := at.ArchiveStates(ctx, packs)
	for i, info := range packs {
		at.states[info.Name] = states[i]
	}
	return err
}

// countPacks counts the archived packs of a remote.
func (f *Frozen) countPacks(at *frozenRemote) {
	for name, info := range at.needed {
		switch state := at.states[name]; {
		case !state.Archived:
			f.Thawed.add(info)
		case state.Thawing:
			f.Thawing.add(info)
			f.noteReady(at, name)
		default:
			f.Archived.add(info)
			f.Classes[state.Class] = max(f.Classes[state.Class], state.Takes)
		}
	}
}

// noteReady notes when a pack can be read that is being thawed. If another repository has asked for it, that is at the latest after
// the usual time from now.
func (f *Frozen) noteReady(at *frozenRemote, name pack.Name) {
	ready := at.ThawReady(name)
	if ready.IsZero() {
		ready = f.repo.Options().Now().Add(at.states[name].Takes)
	}
	if ready.After(f.Ready) {
		f.Ready = ready
	}
}

// Thaw asks for all archived packs that nobody has asked for. Then they count as thawing.
func (f *Frozen) Thaw(ctx context.Context) error {
	for _, at := range f.remotes {
		var packs []pack.Info
		for name, info := range at.needed {
			if state := at.states[name]; state.Archived && !state.Thawing {
				packs = append(packs, info)
			}
		}
		if err := at.Reader.Thaw(ctx, packs, func(name pack.Name) time.Duration { return at.states[name].Takes }); err != nil {
			return err
		}
		for _, info := range packs {
			f.noteReady(at, info.Name)
		}
	}
	f.Thawing.Packs += f.Archived.Packs
	f.Thawing.Bytes += f.Archived.Bytes
	f.Archived = Packs{}
	return nil
}
