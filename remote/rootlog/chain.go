package rootlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/kist-vcs/kist/remote"
)

// A root of an encrypted remote has the hashes of earlier roots: Prev, that of the root before it, and
// back. Entry j of back, from 1 on, is that of the last earlier root whose number is a multiple of
// 2^j; entry 1 comes first in the slice. So about log2(k) roots connect a root with the root k before it.

// backLen returns the number of entries of back in root seq.
func backLen(seq uint64) int { return max(bits.Len64(seq-1)-1, 0) }

// backTarget returns the number of the root whose hash is entry j of back in root seq. Entry 0 stands
// for the root before.
func backTarget(seq uint64, j int) uint64 { return (seq - 1) >> j << j }

// backAfter returns the entries of back of the root after s.
func (s *State) backAfter() (back []Hash) {
	if s.Keys == (Keys{}) {
		return nil
	}
	for j := 1; j <= backLen(s.Seq+1); j++ {
		if backTarget(s.Seq+1, j) == s.Seq {
			back = append(back, s.Hash)
		} else {
			back = append(back, s.back[j-1])
		}
	}
	return back
}

// hashOf returns the hash that r has for entry j of back, or of the root before for 0.
func (r *Root) hashOf(j int) Hash {
	if j == 0 {
		return r.Prev
	}
	return r.body.hashes()[j-1]
}

// pathStep is a step from a root to an earlier one: entry j of its back leads to root seq.
type pathStep struct {
	seq uint64
	j   int
}

// pathTo returns the steps from a root to an earlier one, and no root that avoid reports. It goes as
// far back as it can with each step: if that ends at a root from which no step leads on, no other
// path leads there. Ok is false then, and the result has the steps up to there.
func pathTo(from, to uint64, avoid func(uint64) bool) (path []pathStep, ok bool) {
	for from > to {
		j := backLen(from)
		for j >= 0 && (backTarget(from, j) < to || avoid(backTarget(from, j))) {
			j--
		}
		if j < 0 {
			return path, false
		}
		from = backTarget(from, j)
		path = append(path, pathStep{from, j})
	}
	return path, true
}

// follow checks that an encrypted log leads from root top back to the remembered root, or at first
// contact to root 1. It reads about log2(k) roots at once, and the root before top.
//
// An unreadable root is avoided. If there is no way around it, follow returns its damage; at first
// contact, the check ends there, since the caller knows nothing of earlier roots.
func (s *sight) follow(ctx context.Context, top uint64, remembered *Position) error {
	to := uint64(1)
	if remembered != nil {
		to = max(to, remembered.Seq)
	}
	if top == to {
		return nil
	}
	avoid := func(seq uint64) bool {
		f, read := s.seen[seq]
		known := remembered != nil && seq == remembered.Seq // its hash is enough
		return read && (f == nil || f.root == nil || f.root.body == nil) && !known
	}

	for {
		path, ok := pathTo(top, to, avoid)
		if !ok && remembered != nil {
			return s.unreadable(top, path)
		}
		seqs := []uint64{max(top-1, 1)}
		for _, step := range path {
			seqs = append(seqs, step.seq)
		}
		if err := s.readRoots(ctx, seqs...); err != nil {
			return err
		}
		if !slices.ContainsFunc(path, func(step pathStep) bool { return avoid(step.seq) }) {
			return s.checkPath(top, path, remembered)
		}
	}
}

// unreadable returns the damage of the root before the end of a path, which the path cannot avoid.
func (s *sight) unreadable(top uint64, path []pathStep) error {
	end := top
	if len(path) > 0 {
		end = path[len(path)-1].seq
	}
	f := s.seen[end-1]
	if f == nil {
		return damageError(RootName(end-1), fmt.Errorf("it is gone, and there is %s", RootName(end)))
	}
	return f.err
}

// checkPath compares the hashes on a path from root top.
func (s *sight) checkPath(top uint64, path []pathStep, remembered *Position) error {
	from := top
	for _, step := range path {
		if s.seen[step.seq].hash == s.seen[from].root.hashOf(step.j) {
			from = step.seq
			continue
		}
		if remembered != nil {
			return &RollbackError{Remembered: *remembered, Fork: from}
		}
		return damageError(RootName(from), fmt.Errorf("it does not follow %s", RootName(step.seq)))
	}
	return nil
}

// checkKeysFall checks the keys of all roots that were read: those of a later root are not older.
func (s *sight) checkKeysFall() error {
	var before *Root
	for _, seq := range slices.Sorted(maps.Keys(s.seen)) {
		f := s.seen[seq]
		if f == nil || f.root == nil || f.root.body == nil {
			continue
		}
		if before != nil {
			if err := f.root.Keys.checkAfter(&before.Keys, before.Seq); err != nil {
				return damageError(RootName(seq), err)
			}
		}
		before = f.root
	}
	return nil
}

// forgetUnopened forgets the roots, except top, whose keyset could not be read. It reports whether
// there were any. Once top is open, its keyset has the keys of all roots.
func (s *sight) forgetUnopened(top uint64) bool {
	before := len(s.seen)
	maps.DeleteFunc(s.seen, func(seq uint64, f *found) bool { return seq != top && f.isUnopened() })
	return len(s.seen) < before
}

// isUnopened reports whether the key of the root is missing.
func (f *found) isUnopened() bool { return f != nil && errors.Is(f.err, remote.ErrNoKey) }
