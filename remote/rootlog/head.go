package rootlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// listed is how many names are read of a list of roots: no more than a store
// gives with one request.
const listed = 1000

// Head returns what the last root of the log says. remembered is a root that
// was the head once, nil if none is known. An empty log gives a State with
// Seq 0.
//
// With a remembered root it reads that and the next at once; if the next is
// absent, the remembered one is the head. Otherwise it looks further ahead in
// steps that double, and then bisects. Without, it begins at the last of the
// first names that a list of the roots has: a root that a list lacks may exist
// all the same.
//
// Whether the remembered root is still there is a [*RollbackError]. What else
// Head knows for certain: the head's stored bytes have the checksum in them,
// the head follows the root before it by its hash, and so do all other roots
// read that are neighbours. Roots skipped between the remembered one and the
// head are not read; [Log.Roots] proves the whole chain. A root that exists
// but cannot be read is never taken for absent: if it is the head, the
// remembered one, or the one before the head, it is a [*DamageError], and
// otherwise no hindrance. A head that needs a newer program matches
// [ErrFormat].
func (l *Log) Head(ctx context.Context, remembered *Position) (*State, error) {
	var missing *gone
	for {
		head, err := l.find(ctx, remembered)
		if err != nil {
			return nil, err
		}
		state, err := l.resolve(ctx, head)
		if err == nil {
			l.keep(state)
			return state, nil
		}
		var again *gone
		if !errors.As(err, &again) {
			return nil, err
		}
		// What is gone under an unchanged head, twice, is damage.
		at := head.Position()
		if missing != nil && *missing == *again && *remembered == at {
			return nil, &DamageError{Name: StateName(again.name), Err: fmt.Errorf("%s names it, and it is gone", RootName(head.Seq))}
		}
		missing, remembered = again, &at
	}
}

// find returns the last root, nil if there is none.
func (l *Log) find(ctx context.Context, remembered *Position) (*Root, error) {
	s := &sight{l: l, seen: make(map[uint64]*found)}
	low, err := s.start(ctx, remembered)
	if err != nil {
		return nil, err
	}
	top, err := s.top(ctx, low)
	if err != nil {
		return nil, err
	}
	if top > 1 && (remembered == nil || top != remembered.Seq) {
		if err := s.look(ctx, top-1); err != nil {
			return nil, err
		}
		if s.seen[top-1] == nil {
			return nil, &DamageError{Name: RootName(top - 1), Err: fmt.Errorf("it is gone, and there is %s", RootName(top))}
		}
	}
	if err := s.checkChain(top); err != nil {
		return nil, err
	}
	if top == 0 {
		return nil, nil
	}
	return s.seen[top].root, s.seen[top].err
}

// start returns a root that exists, or 0, having read it and the next.
func (s *sight) start(ctx context.Context, remembered *Position) (uint64, error) {
	if remembered != nil {
		n := remembered.Seq
		if n > maxSeq {
			return 0, fmt.Errorf("remembered head: there is no root %d", n)
		}
		if err := s.look(ctx, n, n+1); err != nil {
			return 0, err
		}
		return n, s.checkRemembered(ctx, *remembered)
	}
	low, err := s.l.list(ctx)
	if err != nil {
		return 0, err
	}
	// The first root tells whether kist.json is what it was.
	if err := s.look(ctx, max(low, 1), low+1, 1); err != nil {
		return 0, err
	}
	if low > 0 && s.seen[low] == nil {
		low = 0 // the list has what is not there
	}
	return low, nil
}

// checkRemembered checks that the remembered root is the one that is there
// (CHECK_KNOWN_HEAD): that the next is absent does not make it the head.
func (s *sight) checkRemembered(ctx context.Context, p Position) error {
	if f := s.seen[p.Seq]; f == nil || f.hash != p.Hash {
		// It may have been damaged on the way.
		delete(s.seen, p.Seq)
		if err := s.look(ctx, p.Seq); err != nil {
			return err
		}
	}
	f := s.seen[p.Seq]
	switch {
	case f == nil:
		return &RollbackError{Remembered: p}
	case f.hash == p.Hash:
		return nil
	case f.err != nil && !errors.Is(f.err, ErrFormat):
		return f.err
	}
	return &RollbackError{Remembered: p, Found: &Position{p.Seq, f.hash}}
}

// top returns the last root, starting from one that exists, or 0. The log has
// no holes: behind a root that is absent there is none.
func (s *sight) top(ctx context.Context, start uint64) (uint64, error) {
	low, high := start, uint64(0)
	for step := uint64(1); high == 0; step *= 2 {
		next := start + step
		if next > maxSeq {
			return 0, &DamageError{Name: rootFolder, Err: errors.New("there seem to be roots without end")}
		}
		ok, err := s.exists(ctx, next)
		if err != nil {
			return 0, err
		}
		if ok {
			low = next
		} else {
			high = next
		}
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		ok, err := s.exists(ctx, middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// checkChain checks that of the roots that were read each follows the one
// before it, by its hash, and that the first follows kist.json.
func (s *sight) checkChain(top uint64) error {
	for seq, f := range s.seen {
		if f == nil || f.root == nil || seq == 0 {
			continue
		}
		before, known := s.seen[seq-1]
		hash := s.l.id.Hash
		switch {
		case seq == 1 && f.root.Prev != hash:
			return &DamageError{Name: identityName, Err: fmt.Errorf("it is not what it was when %s was created", RootName(1))}
		case seq == 1 || !known || before == nil || before.hash == f.root.Prev:
		case before.err == nil || errors.Is(before.err, ErrFormat):
			return &DamageError{Name: RootName(seq), Err: fmt.Errorf("it does not follow %s", RootName(seq-1))}
		case seq == top:
			return before.err
		}
	}
	return nil
}

// list returns the last of the first roots that a list has; 0: none.
func (l *Log) list(ctx context.Context) (uint64, error) {
	last, n := uint64(0), 0
	for info, err := range l.b.List(ctx, rootFolder) {
		if err != nil {
			return 0, err
		}
		seq, err := strconv.ParseUint(strings.TrimPrefix(info.Name, rootFolder), 10, 64)
		if err == nil && info.Name == RootName(seq) && seq <= maxSeq {
			last = max(last, seq)
		}
		if n++; n == listed {
			break
		}
	}
	return last, nil
}
