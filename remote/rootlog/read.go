package rootlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// found is what a look at the place of a root found there.
type found struct {
	hash Hash  // as Root.Hash, or of bytes that are no root
	root *Root // nil if err says why not
	err  error // a *DamageError, or matches ErrFormat
}

// look reads root seq, or kist.json for 0. That there is none is nil; an error
// says that there was no answer.
func (l *Log) look(ctx context.Context, seq uint64) (*found, error) {
	name, limit := RootName(seq), MaxRootSize
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
		return &found{err: &DamageError{Name: name, Err: err}}, nil
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

// sight remembers what was found while one head is looked for.
type sight struct {
	l    *Log
	seen map[uint64]*found
}

// look reads several roots at once, those that were not read yet.
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

// exists reports whether there is a root seq, readable or not.
func (s *sight) exists(ctx context.Context, seq uint64) (bool, error) {
	err := s.look(ctx, seq)
	return s.seen[seq] != nil, err
}

// At returns a root. One that is not there matches [remote.ErrNotFound], one
// that is damaged is a [*DamageError].
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
