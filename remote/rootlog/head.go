package rootlog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// listed is the number of names that are read from a listing: as many as a store
// returns for one request.
const listed = 1000

// Head returns the state of the last root. Remembered is an earlier head, or nil. An
// empty log has a State with Seq 0.
//
// With a remembered root, Head reads that root and the next at the same time; if the
// next is absent, the remembered one is the head. Otherwise Head goes ahead in steps
// that double, and then bisects. Without a remembered root it starts from the last of
// the first names in a listing, because a listing may miss roots.
//
// Head returns a [*RollbackError] if the remembered root is no longer there. It verifies
// the checksum of the head, and the hash links between neighbours that it read. It does
// not read the roots that it skipped; [Log.Roots] verifies the full chain.
//
// Head never takes an unreadable root for absent. It returns a [*object.DamageError] if the
// head, the root before it, or the remembered root is unreadable; other unreadable
// roots do not matter. The error for a head that needs a newer program matches
// [ErrFormat].
func (l *Log) Head(ctx context.Context, remembered *Position) (*State, error) {
	var missing *gone
	for {
		head, err := l.findHead(ctx, remembered)
		if err != nil {
			return nil, err
		}
		if err := l.useKeysOf(ctx, head); err != nil {
			return nil, err
		}
		state, err := l.resolveState(ctx, head)
		if err == nil {
			l.keepBases(state)
			return state, nil
		}
		again, ok := errors.AsType[*gone](err)
		if !ok {
			return nil, err
		}
		// A state file that is missing twice under the same head is damage.
		at := head.Position()
		if missing != nil && *missing == *again && *remembered == at {
			return nil, damageError(StateName(again.name), fmt.Errorf("%s names it, and it is gone", RootName(head.Seq)))
		}
		missing, remembered = again, &at
	}
}

// findHead returns the last root, or nil.
func (l *Log) findHead(ctx context.Context, remembered *Position) (*Root, error) {
	s := &sight{l: l, seen: make(map[uint64]*found)}
	low, err := s.findExisting(ctx, remembered)
	if err != nil {
		return nil, err
	}

	top, err := s.findLast(ctx, low)
	if err != nil {
		return nil, err
	}
	if err := s.checkEncrypted(ctx, top, remembered); err != nil {
		return nil, err
	}
	if top > 1 && (remembered == nil || top != remembered.Seq) {
		if err := s.readRoots(ctx, top-1); err != nil {
			return nil, err
		}
		if s.seen[top-1] == nil {
			return nil, damageError(RootName(top-1), fmt.Errorf("it is gone, and there is %s", RootName(top)))
		}
	}
	if err := s.checkChain(top); err != nil {
		return nil, err
	}
	if top == 0 {
		return nil, nil
	}
	if s.seen[top].err == nil {
		err = s.checkSigned(ctx, top, remembered)
	}
	return s.seen[top].root, cmp.Or(s.seen[top].err, err)
}

// checkEncrypted makes the checks of an encrypted log after its last root is found.
func (s *sight) checkEncrypted(ctx context.Context, top uint64, remembered *Position) error {
	if !s.l.id.IsEncrypted() || top == 0 || s.seen[top].err != nil {
		return nil // the caller returns the error of the last root
	}
	if s.forgetUnopened(top) {
		needed := []uint64{1}
		if remembered != nil {
			needed[0] = remembered.Seq
		}
		if err := s.readRoots(ctx, needed...); err != nil {
			return err
		}
		if remembered != nil {
			if err := s.checkRemembered(ctx, *remembered); err != nil {
				return err
			}
		}
	}
	if err := s.follow(ctx, top, remembered); err != nil {
		return err
	}
	return s.checkKeysFall()
}

// useKeysOf makes the store use the keys of the head, or of a remote without a root.
func (l *Log) useKeysOf(ctx context.Context, head *Root) error {
	if head == nil {
		return l.useKeys(ctx, l.id.firstKeys())
	}
	return l.useKeys(ctx, head.Keys)
}

// findExisting returns the number of an existing root, or 0. It has read that root and the next.
func (s *sight) findExisting(ctx context.Context, remembered *Position) (uint64, error) {
	if remembered != nil {
		n := remembered.Seq
		if n > maxSeq {
			return 0, fmt.Errorf("remembered head: there is no root %d", n)
		}
		if err := s.readRoots(ctx, n, n+1); err != nil {
			return 0, err
		}
		if s.seen[n].isUnopened() {
			return n, nil // checkEncrypted checks it, with the keys of the head
		}
		return n, s.checkRemembered(ctx, *remembered)
	}

	low, err := s.l.listLast(ctx)
	if err != nil {
		return 0, err
	}

	// The first root has the hash of kist.json. The one before the last is read for the links.
	if err := s.readRoots(ctx, max(low, 1), low+1, 1, max(low, 2)-1); err != nil {
		return 0, err
	}
	if low > 0 && s.seen[low] == nil {
		low = 0 // the listing has a root that does not exist
	}
	return low, nil
}

// checkRemembered checks that the remembered root is unchanged (CHECK_KNOWN_HEAD). The
// absence of the next root is not enough to make it the head.
func (s *sight) checkRemembered(ctx context.Context, p Position) error {
	if f := s.seen[p.Seq]; f == nil || f.hash != p.Hash {
		// It may have been damaged on the way.
		delete(s.seen, p.Seq)
		if err := s.readRoots(ctx, p.Seq); err != nil {
			return err
		}
	}
	f := s.seen[p.Seq]
	switch {
	case f == nil:
		err := s.readRoots(ctx, 0)
		return cmp.Or(err, error(&RollbackError{Remembered: p, Emptied: s.seen[0] == nil}))
	case f.hash == p.Hash:
		return nil
	case f.err != nil && !errors.Is(f.err, ErrFormat):
		return f.err
	}
	return &RollbackError{Remembered: p, Found: &Position{p.Seq, f.hash}}
}

// findLast returns the number of the last root. Start is an existing root, or 0. The log has
// no holes: there is no root after an absent one.
func (s *sight) findLast(ctx context.Context, start uint64) (uint64, error) {
	low, high := start, uint64(0) // high is an absent root, or 0 while none is known
	for step := uint64(1); high == 0 || high-low > 1; {
		next := low + (high-low)/2
		if high == 0 {
			next = start + step
			step *= 2
		}
		if next > maxSeq {
			return 0, damageError(RootFolder, errors.New("there seem to be roots without end"))
		}

		ok, err := s.rootExists(ctx, next)
		switch {
		case err != nil:
			return 0, err
		case ok:
			low = next
		default:
			high = next
		}
	}
	return low, nil
}

// checkChain checks the hash links between the roots that were read, and that the first
// root follows kist.json.
func (s *sight) checkChain(top uint64) error {
	for seq, f := range s.seen {
		if f == nil || f.root == nil || seq == 0 {
			continue
		}
		before, known := s.seen[seq-1]
		hash := s.l.id.Hash
		switch {
		case seq == 1 && f.root.Prev != hash:
			return damageError(IdentityName, fmt.Errorf("it has changed since %s was created", RootName(1)))
		case seq == 1 || !known || before == nil || before.hash == f.root.Prev:
		case before.err == nil || errors.Is(before.err, ErrFormat):
			return damageError(RootName(seq), fmt.Errorf("it does not follow %s", RootName(seq-1)))
		case seq == top:
			return before.err
		}
	}
	return nil
}

// listLast returns the last of the first roots in a listing, or 0.
func (l *Log) listLast(ctx context.Context) (uint64, error) {
	last, n := uint64(0), 0
	for info, err := range l.b.List(ctx, RootFolder) {
		if err != nil {
			return 0, err
		}
		seq, err := strconv.ParseUint(strings.TrimPrefix(info.Name, RootFolder), 10, 64)
		if err == nil && info.Name == RootName(seq) && seq <= maxSeq {
			last = max(last, seq)
		}
		if n++; n == listed {
			break
		}
	}
	return last, nil
}

// found is the result of reading the place of a root.
type found struct {
	hash Hash  // Root.Hash, or the hash of bytes that are no root
	root *Root // nil if err has the reason
	err  error // a *object.DamageError, or matches ErrFormat or [remote.ErrNoKey]
}

// readRoot reads root seq, or kist.json for 0. It returns nil if the root is absent, and an
// error if the store gave no answer.
func (l *Log) readRoot(ctx context.Context, seq uint64) (*found, error) {
	name, limit := RootName(seq), maxRootSize
	if seq == 0 {
		name, limit = IdentityName, maxIdentity
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
	case errors.Is(err, remote.ErrNoKey):
		return &found{err: err}, nil
	case err != nil:
		return nil, err
	}

	f := &found{hash: sha256.Sum256(data)}
	if seq != 0 {
		if f.root, f.err = decodeRoot(seq, data); f.err == nil {
			f.hash, f.root.stored = f.root.Hash, data
			if err := l.checkKeys(ctx, f.root); err != nil && !errors.Is(err, remote.ErrDamaged) {
				return nil, err
			} else if err != nil {
				f.root, f.err = nil, err
			}
		}
	}
	return f, nil
}

// sight has the roots that were read during one search for the head.
type sight struct {
	l    *Log
	seen map[uint64]*found
}

// readRoots reads several roots in parallel. It skips roots that were read before.
func (s *sight) readRoots(ctx context.Context, seqs ...uint64) error {
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	results := make([]*found, len(seqs))
	g, gctx := errgroup.WithContext(ctx)
	for i, seq := range seqs {
		if _, ok := s.seen[seq]; ok {
			continue
		}
		g.Go(func() (err error) {
			results[i], err = s.l.readRoot(gctx, seq)
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

// rootExists reports whether root seq exists, readable or not.
func (s *sight) rootExists(ctx context.Context, seq uint64) (bool, error) {
	err := s.readRoots(ctx, seq)
	return s.seen[seq] != nil, err
}

// At returns a root. The error for an absent root matches [remote.ErrNotFound]; for a
// damaged one it is a [*object.DamageError].
func (l *Log) At(ctx context.Context, seq uint64) (*Root, error) {
	if seq == 0 || seq > maxSeq {
		return nil, absent(seq)
	}
	f, err := l.readRoot(ctx, seq)
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
			if err := s.readRoots(ctx, slices.Clone(seqs)...); err != nil {
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
		return f.root, errors.Join(f.err, damaged("it does not follow %s", IdentityName))
	}
	return f.root, f.err
}
