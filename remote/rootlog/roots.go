package rootlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// How many roots are read at once: few at first, since the caller may want no
// more, then twice as many each time.
const (
	firstAhead = 8
	mostAhead  = 64
)

// Roots yields the roots of the log backwards, from one that was the head,
// which must still be what it was, to the first: who changed what, and when.
// Each root is proved to be the one that its successor follows, and the first
// to follow kist.json.
//
// A root that is damaged, gone or not the one that its successor follows is
// yielded as a [*DamageError], with the root if it can be read, and one that
// needs a newer program as an error that matches [ErrFormat]; the roots before
// it follow all the same. Any other error ends the log.
func (l *Log) Roots(ctx context.Context, from Position) iter.Seq2[*Root, error] {
	return func(yield func(*Root, error) bool) {
		want := &from.Hash // nil: not known
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

// checkLink checks a root against the hash that its successor has of it.
func (l *Log) checkLink(seq uint64, f *found, want *Hash) (*Root, error) {
	damaged := func(format string, args ...any) error {
		return &DamageError{Name: RootName(seq), Err: fmt.Errorf(format, args...)}
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
