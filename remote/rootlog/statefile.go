package rootlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// StateName returns the name of a state file on the remote.
func StateName(name pack.Name) string { return stateFolder + name.String() }

// encodeState returns the bytes of a state file with a table.
func encodeState(kind *tableKind, entries map[string]cbor.ByteString) ([]byte, error) {
	data, err := encoding.Marshal(&stateBody{kind.name, entries})
	if err != nil {
		return nil, err
	}
	return append(remote.AppendHeader(nil, remote.TypeState, remote.Version1), data...), nil
}

// decodeState returns the table in a state file.
func decodeState(kind *tableKind, data []byte) (map[string]cbor.ByteString, error) {
	if len(data) > maxStateSize {
		return nil, fmt.Errorf("longer than %d bytes", maxStateSize)
	}
	if err := remote.CheckHeader(data, remote.TypeState); err != nil {
		return nil, err
	}
	var body stateBody
	if err := decoding.Unmarshal(data[remote.HeaderSize:], &body); err != nil {
		return nil, err
	}
	if body.Table != kind.name {
		return nil, fmt.Errorf("table %q, not %q", body.Table, kind.name)
	}
	if err := (table{entries: body.Set}).eachEntry(kind.check); err != nil {
		return nil, err
	}
	if again, err := encodeState(kind, body.Set); err != nil || !bytes.Equal(again, data) {
		return nil, errors.Join(errCanonical, err)
	}
	return body.Set, nil
}

// hasContent reports whether data has the size and the hash of f.
func (f *File) hasContent(data []byte) bool {
	return int64(len(data)) == f.Size && sha256.Sum256(data) == f.Sum
}

// loadBase returns the table in a state file: from memory, from the cache, or from the
// remote. The error for a missing file is a [*gone].
func (l *Log) loadBase(ctx context.Context, kind *tableKind, f File) (*base, error) {
	l.mu.Lock()
	known := l.bases[f.Name]
	l.mu.Unlock()
	if known != nil && known.file == f {
		return known, nil
	}

	damaged := func(err error) error { return damageError(StateName(f.Name), err) }
	data := l.readCached(f)
	if data == nil {
		var err error
		data, err = readFitting(func() ([]byte, error) { return l.readState(ctx, f) }, f.hasContent)
		switch {
		case errors.Is(err, remote.ErrNotFound):
			return nil, &gone{f.Name}
		case errors.Is(err, remote.ErrDamaged), err == errMismatch:
			return nil, damaged(err)
		case err != nil:
			return nil, err
		}
		l.writeCached(f.Name.String(), data)
	}

	entries, err := decodeState(kind, data)
	switch {
	case errors.Is(err, ErrFormat):
		return nil, fmt.Errorf("%s: %w", StateName(f.Name), err)
	case err != nil:
		return nil, damaged(err)
	}
	return &base{f, entries}, nil
}

// readState reads a state file, and one byte more if it is too long.
func (l *Log) readState(ctx context.Context, f File) ([]byte, error) {
	data := make([]byte, f.Size+1)
	n, err := l.b.Get(ctx, StateName(f.Name), data, 0)
	return data[:n], err
}

// resolveState returns the state of a root. It reads the state files of the root.
func (l *Log) resolveState(ctx context.Context, r *Root) (*State, error) {
	if r == nil {
		return &State{Hash: l.id.Hash, Keys: l.id.firstKeys()}, nil
	}
	if r.Stub {
		return nil, damageError(RootName(r.Seq), errors.New("the head is a stub"))
	}

	var tables [5]table
	g, gctx := errgroup.WithContext(ctx)
	for i, body := range r.tables() {
		g.Go(func() (err error) {
			tables[i], err = l.resolveTable(gctx, r.Seq, tableKinds[i], body)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}

	policy, err := r.body.policyBody.parsePolicy()
	if err != nil {
		return nil, damageError(RootName(r.Seq), err)
	}

	s := &State{
		Seq: r.Seq, Hash: r.Hash, Time: r.Time, Who: r.Who, Host: r.Host,
		Floor: r.body.Floor, DefaultBranch: r.body.Head, Packs: r.packs,
		Policy: policy, Keys: r.Keys,

		Read: r.body.Read, Write: r.body.Write, GC: r.body.GC, extra: r.extra,
		back: r.body.hashes(), stored: r.stored,
		tableSet: tableSet{tables[0], tables[1], tables[2], tables[3], tables[4]},
	}
	if err := s.fillFields(); err != nil {
		return nil, damageError(RootName(r.Seq), err)
	}
	return s, nil
}

// tables returns the tables of a root in the order of tableKinds.
func (r *Root) tables() [5]*tableBody {
	return [5]*tableBody{r.body.Refs, r.body.Indexes, r.body.Condemned, r.body.Records, r.body.Lost}
}

// resolveTable returns a table of root seq. It reads the base of the table.
func (l *Log) resolveTable(ctx context.Context, seq uint64, kind *tableKind, body *tableBody) (table, error) {
	var from *base
	if body != nil && body.Base != nil {
		f, err := decodeFile(body.Base, maxStateSize)
		if err == nil {
			from, err = l.loadBase(ctx, kind, f)
		}
		if err != nil {
			return table{}, err
		}
	}
	t, err := body.resolveTable(kind, from)
	if err != nil {
		err = damageError(RootName(seq), err)
	}
	return t, err
}

// Stored reads kist.json, the state files and both copies of the keyset of s from the remote, and returns the
// damage: until then they may only be known from copies. The damage of a missing file
// matches [remote.ErrNotFound]. The error is the reason why the store gave no answer.
func (l *Log) Stored(ctx context.Context, s *State) ([]*object.DamageError, error) {
	var all []*object.DamageError
	check := func(name string, read func() ([]byte, error), fits func([]byte) bool) error {
		_, err := readFitting(read, fits)
		if errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) || err == errMismatch {
			all = append(all, &object.DamageError{Name: name, Err: err, Kind: remote.ErrDamaged})
			return nil
		}
		return err
	}

	err := check(IdentityName, func() ([]byte, error) {
		return readRecord(ctx, l.b, IdentityName, maxIdentity)
	}, func(data []byte) bool { return sha256.Sum256(data) == l.id.Hash })
	for _, t := range s.tables() {
		if err != nil {
			return all, err
		}
		if t.base == nil {
			continue
		}
		f := t.base.file
		err = check(StateName(f.Name), func() ([]byte, error) { return l.readState(ctx, f) }, f.hasContent)
	}
	if s.Keys.Keyset.Size == 0 {
		return all, err
	}
	for _, name := range s.Keys.Keyset.Copies() {
		if err != nil {
			return all, err
		}
		err = check(name, func() ([]byte, error) { return readRecord(ctx, l.b, name, remote.MaxKeyset) }, s.Keys.Keyset.HasContent)
	}
	return all, err
}

// errMismatch is the error for bytes that a root does not name.
var errMismatch = errors.New("it does not have the length and hash that the root has")

// readFitting is readTwice for bytes that must fit. It returns errMismatch if they do not.
func readFitting(read func() ([]byte, error), fits func([]byte) bool) ([]byte, error) {
	check := func(data []byte) error {
		if !fits(data) {
			return errMismatch
		}
		return nil
	}
	data, err := readTwice(read, check)
	if err == nil {
		err = check(data)
	}
	return data, err
}
