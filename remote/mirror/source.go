package mirror

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// source is a remote at one root, as a push reads it. It implements [transfer.Local].
type source struct {
	*transfer.Snapshot
	from  *transfer.Remote
	parts *transfer.NodePacks // parts of packs that were read, also of packs of chunks

	mu       sync.Mutex          // guards the following
	wanted   map[pack.Name]int64 // bytes of the objects that a plan needs, by their packs; nil: not counted
	repacked map[pack.Name]bool  // whether packs may have patches
}

// openSource opens a remote at its head. Dir is a folder for a temporary file.
func openSource(ctx context.Context, from *transfer.Remote, dir string) (*source, error) {
	snap, err := from.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := transfer.OpenNodePacks(dir, from.Options().Jobs, from.ReadPack)
	if err != nil {
		return nil, err
	}
	return &source{Snapshot: snap, from: from, parts: parts, repacked: map[pack.Name]bool{}}, nil
}

func (s *source) close() { s.parts.Close() }

// Get implements [object.Reader].
func (s *source) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if !key.Kind.IsNode() {
		return s.Snapshot.Get(ctx, key)
	}
	p, err := s.Locate(key)
	if err != nil {
		return nil, err
	}
	s.parts.LoadValues(ctx, []pack.Entry{p.Entry})
	return s.ReadNode(ctx, s.parts, p.Entry)
}

// GetStored implements [transfer.Local].
func (s *source) GetStored(ctx context.Context, key object.Key, dst []byte) (value []byte, raw int, err error) {
	p, err := s.Locate(key)
	if err != nil {
		return nil, 0, err
	}
	s.parts.LoadValues(ctx, []pack.Entry{p.Entry})
	value, err = s.parts.StoredValue(p.Entry)
	if err == nil {
		_, err = pack.Decode(p.Entry, value)
	}
	if err != nil { // also for a patch
		value, err = s.ReadPlain(ctx, p.Entry)
	}
	return append(dst[:0], value...), int(p.Raw), err
}

// StoredSize implements [transfer.Local]. A plan calls it for each object that it needs.
func (s *source) StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error) {
	p, err := s.Locate(key)
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, stored = int64(p.Raw), int64(p.Stored)
	if s.wanted != nil {
		s.wanted[p.Pack.Name] += stored
		return raw, stored, nil
	}
	repacked, known := s.repacked[p.Pack.Name]
	if !known {
		repacked, err = pack.IsRepacked(p.Pack, func(b []byte, off int64) (int, error) { return s.from.ReadPack(ctx, p.Pack, b, off) })
		if err != nil && !transfer.IsBadCopy(err) {
			return 0, 0, err
		}
		s.repacked[p.Pack.Name] = repacked
	}
	if repacked { // it may be a patch, which travels as a complete object
		stored = raw + frame.MaxOverhead
	}
	return raw, stored, nil
}

// wholePacks returns the packs with little else than wanted objects, sorted by name. Head is that of the target. It leaves
// out packs with objects that either side has purged, or that the target lists as lost, and packs that are too large for the target.
func (s *source) wholePacks(to *transfer.Remote, head *rootlog.State) ([]pack.Info, error) {
	limit := transfer.PackSizesFor(to.Backend(), pack.TargetSize).Limit
	there := head.Records.View()
	stored, useless := map[pack.Name]int64{}, map[pack.Name]bool{}
	for p, err := range s.Entries() {
		if err != nil {
			return nil, err
		}
		if s.wanted[p.Pack.Name] == 0 {
			continue
		}
		stored[p.Pack.Name] += int64(p.Stored)
		_, purged := s.Records.Purged(p.Key)
		_, purgedThere := there.Purged(p.Key)
		_, lost := head.Lost[p.Key]
		if purged || purgedThere || lost {
			useless[p.Pack.Name] = true
		}
	}
	var whole []pack.Info
	for _, p := range s.LivePacks() {
		if want := s.wanted[p.Name]; want > 0 && !useless[p.Name] && int(p.Size) <= limit && want*100 >= stored[p.Name]*wholeShare {
			whole = append(whole, p)
		}
	}
	return whole, nil
}

var _ transfer.Local = (*source)(nil)
