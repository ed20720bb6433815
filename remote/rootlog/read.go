package rootlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// found is the result of reading the place of a root.
type found struct {
	hash Hash  // Root.Hash, or the hash of bytes that are no root
	root *Root // nil if err has the reason
	err  error // a *object.DamageError, or matches ErrFormat
}

// look reads root seq, or kist.json for 0. It returns nil if the root is absent, and an
// error if the store gave no answer.
func (l *Log) look(ctx context.Context, seq uint64) (*found, error) {
	name, limit := RootName(seq), maxRootSize
	if seq == 0 {
		name, limit = identityName, maxIdentity
	}
	data, err := readTwice(func() ([]byte, error) {
		return readRecord(ctx, l.b, name, limit)
	}, func(data []byte) error {
		if seq == 0 {
			return nil
		}
		_, err := decodeRoot(seq, data)
		return err
	})
	switch {
	case errors.Is(err, remote.ErrNotFound):
		return nil, nil
	case errors.Is(err, remote.ErrDamaged):
		return &found{err: damageError(name, err)}, nil
	case err != nil:
		return nil, err
	}
	f := &found{hash: sha256.Sum256(data)}
	if seq != 0 {
		if f.root, f.err = decodeRoot(seq, data); f.err == nil {
			f.hash, f.root.stored = f.root.Hash, data
		}
	}
	return f, nil
}

// sight has the roots that were read during one search for the head.
type sight struct {
	l    *Log
	seen map[uint64]*found
}

// look reads several roots in parallel. It skips roots that were read before.
func (s *sight) look(ctx context.Context, seqs ...uint64) error {
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	results := make([]*found, len(seqs))
	g, gctx := errgroup.WithContext(ctx)
	for i, seq := range seqs {
		if _, ok := s.seen[seq]; ok {
			continue
		}
		g.Go(func() (err error) {
			results[i], err = s.l.look(gctx, seq)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, seq := range seqs {
		if _, ok := s.seen[seq]; !ok {
			s.seen[seq] = results[i]
		}
	}
	return nil
}

// exists reports whether root seq exists, readable or not.
func (s *sight) exists(ctx context.Context, seq uint64) (bool, error) {
	err := s.look(ctx, seq)
	return s.seen[seq] != nil, err
}

// At returns a root. The error for an absent root matches [remote.ErrNotFound]; for a
// damaged one it is a [*object.DamageError].
func (l *Log) At(ctx context.Context, seq uint64) (*Root, error) {
	if seq == 0 || seq > maxSeq {
		return nil, absent(seq)
	}
	f, err := l.look(ctx, seq)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return nil, absent(seq)
	}
	return f.root, f.err
}

func absent(seq uint64) error {
	return &remote.Error{Op: "get", Name: RootName(seq), Kind: remote.ErrNotFound}
}

// The number of roots that are read at a time: few at first, since the caller may need
// no more, then twice as many each time.
const (
	firstAhead = 8
	mostAhead  = 64
)

// Roots yields the roots of the log from an earlier head back to the first. It verifies
// that each root is the one that its successor follows, and that the first follows
// kist.json.
//
// For a root that is damaged, missing or not the expected one it yields a
// [*object.DamageError], with the root if that is readable. For a root that needs a newer
// program it yields an error that matches [ErrFormat]. After both it goes on with the
// earlier roots. Any other error ends the log.
func (l *Log) Roots(ctx context.Context, from Position) iter.Seq2[*Root, error] {
	return func(yield func(*Root, error) bool) {
		want := &from.Hash // nil if unknown
		ahead := uint64(firstAhead)
		for seq := from.Seq; seq > 0; ahead = min(2*ahead, mostAhead) {
			n := min(ahead, seq)
			s := &sight{l: l, seen: make(map[uint64]*found)}
			seqs := make([]uint64, n)
			for i := range seqs {
				seqs[i] = seq - uint64(i)
			}
			if err := s.look(ctx, slices.Clone(seqs)...); err != nil {
				yield(nil, err)
				return
			}
			for _, seq := range seqs {
				root, err := l.checkLink(seq, s.seen[seq], want)
				if !yield(root, err) {
					return
				}
				if want = nil; root != nil {
					want = &root.Prev
				}
			}
			seq -= n
		}
	}
}

// checkLink checks a root against the hash in its successor.
func (l *Log) checkLink(seq uint64, f *found, want *Hash) (*Root, error) {
	damaged := func(format string, args ...any) error {
		return damageError(RootName(seq), fmt.Errorf(format, args...))
	}
	switch {
	case f == nil:
		return nil, damaged("it is gone")
	case f.root == nil:
		return nil, f.err
	case want != nil && f.hash != *want:
		return f.root, damaged("it is not the root that the next one follows")
	case seq == 1 && f.root.Prev != l.id.Hash:
		return f.root, errors.Join(f.err, damaged("it does not follow %s", identityName))
	}
	return f.root, f.err
}
