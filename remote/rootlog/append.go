package rootlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object/canonical"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

const (
	maxChanges = 16 << 10 // bytes of changes to tables in a root; with more, a table gets a new base
	maxMoves   = 8 << 10  // bytes of moves of refs in a root
)

// Append creates the root after base with a change, and returns the new state. Base is
// the last state of this log that the caller knows. The caller has checked its [Claim]
// against base.
//
// If another writer created that root, the error is a [*LostError] with the head: the
// caller checks its claim against the head and appends again. If the head cannot be read
// then, the error only matches [ErrLost]. If a reply is lost,
// Append finds out whether its root was created. It returns an [*UnknownError] if it
// cannot find out before [Options.Deadline]: the change may have been made.
//
// After every other error the change was not made: [ErrRefMoved] and [ErrReplan] if it
// does not fit base, [ErrInvalid] if a root cannot have it, [ErrSingleWriter], [ErrNoSigner],
// [ErrFormat], a [*SignError], the errors of the store.
func (l *Log) Append(ctx context.Context, base *State, c Change) (*State, error) {
	return l.appendChange(ctx, base, &c, nil)
}

// appendChange is Append with a change of keys, or nil.
func (l *Log) appendChange(ctx context.Context, base *State, c *Change, k *KeysetChange) (*State, error) {
	if err := l.mayWrite(base, c, k != nil); err != nil {
		return nil, err
	}
	next, err := base.applyChange(c, k)
	if err != nil {
		return nil, err
	}
	if err := l.prepareKeys(ctx, base, next); err != nil {
		return nil, err
	}
	if err := l.writeBases(ctx, next, k != nil && k.NewEpoch); err != nil {
		return nil, err
	}

	data, txid, err := l.encodeRoot(ctx, base, next, c)
	if err != nil {
		return nil, err
	}

	stored, err := l.createRoot(ctx, next, data)
	if errors.Is(err, remote.ErrNoKey) {
		stored, err = l.readUnopened(ctx, base, next)
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(stored, data) {
		// CHECK_TXID: the name is taken, perhaps by an earlier attempt of our own.
		root, err := decodeRoot(next.Seq, stored)
		if root == nil || root.Txid != txid {
			return nil, l.lostError(ctx, base, err)
		}
	}

	next.Hash, next.stored = sha256.Sum256(data), data
	l.keepBases(next)
	if err := l.useKeys(ctx, next.Keys); err != nil {
		return nil, &UnknownError{Name: RootName(next.Seq), Err: err} // nothing may be put with an older key
	}
	return next, nil
}

// mayWrite checks that this program may make the change after base.
func (l *Log) mayWrite(base *State, c *Change, condemnsKeyset bool) error {
	if base.SingleWriter && !c.SingleWriter {
		return ErrSingleWriter
	}
	if (base.Signed || c.Signed) && l.o.Sign.Signer == nil {
		return ErrNoSigner
	}
	if len(c.Condemn) > 0 || len(c.Delist) > 0 || condemnsKeyset {
		return l.MayCollect(base)
	}
	return l.knowsWrite(base)
}

func (l *Log) knowsWrite(base *State) error {
	return cmp.Or(unknownFeatures(IdentityName, ActWrite, l.id.Write), unknownFeatures(RootName(base.Seq), ActWrite, base.Write))
}

// MayCollect returns an error that matches [ErrFormat] if this program lacks a feature for collecting
// garbage after base. A collector asks before it deletes anything: deletions need no new root.
func (l *Log) MayCollect(base *State) error {
	return cmp.Or(l.knowsWrite(base), unknownFeatures(IdentityName, ActGC, l.id.GC), unknownFeatures(RootName(base.Seq), ActGC, base.GC))
}

// createRoot creates the root of s if it is absent, and returns the stored bytes.
func (l *Log) createRoot(ctx context.Context, s *State, data []byte) ([]byte, error) {
	r := creation{b: l.b, o: l.o, name: RootName(s.Seq), data: data, limit: maxRootSize, readable: func(data []byte) bool {
		_, err := decodeRoot(s.Seq, data)
		return err == nil || errors.Is(err, ErrFormat)
	}}
	if l.encrypter != nil {
		r.create = func(ctx context.Context) error { return l.encrypter.CreateRoot(ctx, r.name, data, s.Keys.Ref()) }
	}
	return r.createRecord(ctx)
}

// readUnopened returns the stored bytes of a root in the place of next that this client could not open: the keyset that the root
// names may be deleted already. The keyset of the head has its key, too. If the head cannot be read either, perhaps because this
// client was removed, the error matches [ErrLost].
func (l *Log) readUnopened(ctx context.Context, base, next *State) ([]byte, error) {
	at := base.Position()
	if _, err := l.Head(ctx, &at); err != nil {
		return nil, l.lostError(ctx, base, err)
	}
	name := RootName(next.Seq)
	stored, err := readRecord(ctx, l.b, name, maxRootSize)
	if err != nil {
		return nil, &UnknownError{Name: name, Err: err}
	}
	return stored, nil
}

// lostError returns the error for a root that another writer created.
func (l *Log) lostError(ctx context.Context, base *State, err error) error {
	var head *State
	if err == nil {
		at := base.Position()
		head, err = l.Head(ctx, &at)
	}
	if err != nil {
		return fmt.Errorf("append root: %w, and the head cannot be read: %w", ErrLost, err)
	}
	return &LostError{Head: head}
}

// writeBases writes new bases for the tables whose bases are condemned, and then until the changes to all
// tables fit into a root, the table with most changes first. It condemns the old bases and fills in the state.
// A root that begins an epoch is an exception: the tables keep their bases, and the next root writes new ones
// (EPOCH_AFTER_ROOT).
func (l *Log) writeBases(ctx context.Context, s *State, newEpoch bool) error {
	tables := s.tables()
	due := make([]bool, len(tables))
	for i, t := range tables {
		if t.base != nil {
			_, due[i] = s.condemned.entries[StateName(t.base.file.Name)]
		}
		if due[i] && newEpoch {
			return asInvalid(errors.New("a root that begins an epoch cannot replace state files"))
		}
	}
	for !newEpoch {
		sum, largest, most := 0, 0, -1
		for i, t := range tables {
			size := 0
			if !due[i] {
				size = t.encodeTable().sizeOfChanges()
			}
			if sum += size; size > most {
				largest, most = i, size
			}
		}
		if sum <= maxChanges {
			break
		}
		due[largest] = true
		if old := tables[largest].base; old != nil {
			s.condemned.entries[StateName(old.file.Name)] = encodeSeq(s.Seq)
		}
	}

	g, gctx := errgroup.WithContext(ctx)
	for i, t := range tables {
		if due[i] {
			g.Go(func() (err error) {
				t.base, err = l.writeBase(gctx, tableKinds[i], t.entries)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return s.fillFields()
}

// writeBase writes a table as a state file. Every attempt has a new name.
func (l *Log) writeBase(ctx context.Context, kind *tableKind, entries map[string]cbor.ByteString) (*base, error) {
	data, err := encodeState(kind, entries)
	if err != nil {
		return nil, err
	}
	if len(data) > maxStateSize {
		return nil, asInvalid(fmt.Errorf("table %s takes %d bytes, the limit is %d", kind.name, len(data), maxStateSize))
	}

	name, err := putNew(ctx, l.b, &l.o, StateName, data)
	if err != nil {
		return nil, err
	}
	f := File{Name: name, Size: int64(len(data)), Sum: sha256.Sum256(data)}
	l.writeCached(f.Name.String(), data)
	return &base{f, entries}, nil
}

// putNew stores data under a new name. Every attempt has another one (FRESH_NAMES).
func putNew(ctx context.Context, b remote.Backend, o *Options, fullName func(pack.Name) string, data []byte) (pack.Name, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Deadline, fmt.Errorf("no answer in %v", o.Deadline))
	defer cancel()
	for try := 0; ; try++ {
		name, err := pack.NewName(o.Rand)
		if err != nil {
			return name, err
		}
		err = b.Put(ctx, fullName(name), bytes.NewReader(data), int64(len(data)))
		if err == nil {
			return name, nil
		}
		if isRefused(err) {
			return name, err
		}
		if o.backOff(ctx, try, err) != nil {
			return name, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// encodeRoot returns the stored bytes of a root and the transaction number in them.
func (l *Log) encodeRoot(ctx context.Context, base, next *State, c *Change) ([]byte, Txid, error) {
	var txid Txid
	if _, err := io.ReadFull(l.o.Rand, txid[:]); err != nil {
		return nil, txid, err
	}

	body := &rootBody{
		Seq: next.Seq, Prev: cbor.ByteString(base.Hash[:]), Txid: cbor.ByteString(txid[:]),
		Time: canonical.TimeOf(next.Time), Who: next.Who, Host: next.Host,
		policyBody: next.Policy.encodePolicy(),
		keysBody:   encodeKeys(next.Keys, next.back),
		Read:       next.Read, Write: next.Write, GC: next.GC, Head: next.DefaultBranch, Floor: next.Floor,
		tablesBody: tablesBody{
			Refs: next.refs.encodeTable(), Indexes: next.indexes.encodeTable(), Condemned: next.condemned.encodeTable(),
			Records: next.records.encodeTable(), Lost: next.lost.encodeTable(),
		},
	}

	for _, p := range next.Packs {
		body.Packs = append(body.Packs, packBody{
			Name: cbor.ByteString(p.Name[:]), Size: p.Size,
			Entries: cbor.ByteString(pack.AppendEntries(nil, p.Entries)),
		})
	}

	body.addMoves(c.Refs)
	if err := l.sign(ctx, body, next.extra); err != nil {
		return nil, txid, err
	}
	data, err := appendRoot(body, next.extra)
	if err != nil {
		return nil, txid, err
	}

	// A reader would take an invalid root for a damaged one, so it is not written.
	if _, err := parseRoot(next.Seq, data); err != nil {
		return nil, txid, asInvalid(err)
	}
	return data, txid, nil
}

// addMoves adds moves of refs, which are sorted by name, while there is room.
func (b *rootBody) addMoves(refs []RefChange) {
	size := 0
	for i, c := range refs {
		m := moveBody{Name: c.Name, Old: encodeKey(c.Old), New: encodeKey(c.New)}
		if size += len(m.Name) + len(m.Old) + len(m.New) + 8; size > maxMoves {
			b.Moved = uint64(len(refs))
			b.Moves = b.Moves[:i:i]
			return
		}
		b.Moves = append(b.Moves, m)
	}
}
