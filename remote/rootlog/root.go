package rootlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// Root is one root of the log, with its author and the moves of refs.
type Root struct {
	Seq  uint64
	Hash Hash // of its stored bytes; of a stub: of the bytes before
	Prev Hash // of the root before, or of kist.json
	Txid Txid
	Time time.Time
	Who  string
	Host string

	Moves []RefChange // sorted by name; check the names before use
	Moved int         // number of moved refs; Moves may have fewer

	// Stub is true if the root was truncated to the fields above.
	Stub bool

	body   *rootBody
	packs  []Inline
	extra  extra
	stored []byte // the bytes of the root, or nil
}

// Position returns the place of the root in the log.
func (r *Root) Position() Position { return Position{r.Seq, r.Hash} }

// decodeRoot decodes the bytes of root seq. The error is a [*object.DamageError], or matches
// [ErrFormat]. With the latter it may also return a root with Seq, Hash, Prev and Txid.
func decodeRoot(seq uint64, data []byte) (*Root, error) {
	r, err := parseRoot(seq, data)
	if err != nil && !errors.Is(err, ErrFormat) {
		return nil, damageError(RootName(seq), err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", RootName(seq), err)
	}
	return r, err
}

// parseRoot is decodeRoot with plain errors.
func parseRoot(seq uint64, data []byte) (*Root, error) {
	if len(data) > maxRootSize {
		return nil, fmt.Errorf("longer than %d bytes", maxRootSize)
	}
	if err := remote.CheckHeader(data, remote.TypeRoot); err != nil {
		return nil, err
	}
	end := len(data) - sha256.Size
	if end < remote.HeaderSize || sha256.Sum256(data[:end]) != [sha256.Size]byte(data[end:]) {
		return nil, errors.New("checksum does not match")
	}
	return parseBody(seq, data[remote.HeaderSize:end], sha256.Sum256(data))
}

// appendRoot returns the stored bytes of a root.
func appendRoot(body *rootBody, more extra) ([]byte, error) {
	encoded, err := body.encode(more)
	if err != nil {
		return nil, err
	}
	data := append(remote.AppendHeader(nil, remote.TypeRoot, remote.Version1), encoded...)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

// core has the fields of a root that are the same in all versions.
type core struct {
	Seq  uint64          `cbor:"seq"`
	Prev cbor.ByteString `cbor:"prev"`
	Txid cbor.ByteString `cbor:"txid"`
	Read []string        `cbor:"read"`
}

// parseBody decodes the CBOR of a root.
func parseBody(seq uint64, data []byte, hash Hash) (*Root, error) {
	var c core
	if err := decoding.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	r := &Root{Seq: seq, Hash: hash}
	switch {
	case c.Seq != seq || seq == 0:
		return nil, fmt.Errorf("says that it is root %d", c.Seq)
	case len(c.Prev) != len(r.Prev) || len(c.Txid) != len(r.Txid):
		return nil, errors.New("malformed prev or txid")
	}
	copy(r.Prev[:], c.Prev)
	copy(r.Txid[:], c.Txid)
	if err := checkFeatures(c.Read); err != nil {
		return nil, err
	}
	if err := unknownFeatures(RootName(seq), ActRead, c.Read); err != nil {
		return r, err
	}
	if err := r.parse(data); err != nil {
		return nil, err
	}
	return r, nil
}

// parse decodes and checks all fields of a root.
func (r *Root) parse(data []byte) (err error) {
	r.body = &rootBody{}
	if err = decoding.Unmarshal(data, r.body); err != nil {
		return err
	}
	if r.extra, err = decodeExtra(data); err != nil {
		return err
	}
	if again, err := r.body.encode(r.extra); err != nil || !bytes.Equal(again, data) {
		return errors.Join(errCanonical, err)
	}
	b := r.body
	r.Who, r.Host = b.Who, b.Host
	if r.Time, err = b.Time.Time(); err != nil {
		return err
	}
	if b.Stub != "" {
		return r.parseStub()
	}
	for _, check := range []error{
		checkLine("who", b.Who), checkLine("host", b.Host),
		checkFeatures(b.Read, b.Write, b.GC),
		b.Refs.check(refsTable), b.Indexes.check(indexesTable), b.Condemned.check(condemnedTable), b.Records.check(recordsTable), b.Lost.check(lostTable),
	} {
		if check != nil {
			return check
		}
	}
	if b.Floor >= r.Seq {
		return fmt.Errorf("floor %d of root %d", b.Floor, r.Seq)
	}
	if b.Head != "" {
		if err := checkRefName(b.Head); err != nil {
			return err
		}
	}
	if err := r.parseMoves(); err != nil {
		return err
	}
	return r.parsePacks()
}

// parseStub checks a stub: a root with only its place in the log and its moves.
func (r *Root) parseStub() error {
	b := r.body
	if len(b.Stub) != len(r.Hash) || b.Refs != nil || b.Indexes != nil || b.Condemned != nil ||
		b.Records != nil || b.Lost != nil || b.Packs != nil || b.Floor != 0 || b.Head != "" || b.SingleWriter {
		return errors.New("malformed stub")
	}
	r.Stub = true
	copy(r.Hash[:], b.Stub)
	if err := checkLine("who", b.Who); err != nil {
		return err
	}
	if err := checkLine("host", b.Host); err != nil {
		return err
	}
	return r.parseMoves()
}

// parseMoves decodes the moves of refs.
func (r *Root) parseMoves() error {
	b := r.body
	if !sorted(b.Moves, func(m moveBody) string { return m.Name }) {
		return errors.New("moves of refs are not sorted")
	}
	for _, m := range b.Moves {
		move := RefChange{Name: m.Name}
		err := checkRefName(m.Name)
		if err == nil && m.Old != "" {
			move.Old, err = decodeKey(m.Old)
		}
		if err == nil && m.New != "" {
			move.New, err = decodeKey(m.New)
		}
		if err != nil {
			return err
		}
		if move.Old == move.New {
			return errCanonical
		}
		r.Moves = append(r.Moves, move)
	}
	if r.Moved = len(b.Moves); b.Moved != 0 {
		if b.Moved <= uint64(len(b.Moves)) || b.Moved > 1<<31-1 {
			return errCanonical
		}
		r.Moved = int(b.Moved)
	}
	return nil
}

// parsePacks decodes the packs with their entries.
func (r *Root) parsePacks() error {
	if !sorted(r.body.Packs, func(p packBody) string { return string(p.Name) }) {
		return errors.New("packs are not sorted")
	}
	for _, p := range r.body.Packs {
		inline := Inline{Info: pack.Info{Size: p.Size}}
		if len(p.Name) != len(inline.Name) || p.Entries == "" {
			return errors.New("malformed pack")
		}
		copy(inline.Name[:], p.Name)
		var err error
		if inline.Entries, err = pack.ParseEntries(inline.Info, []byte(p.Entries)); err != nil {
			return err
		}
		if !bytes.Equal(pack.AppendEntries(nil, inline.Entries), []byte(p.Entries)) {
			return errCanonical
		}
		r.packs = append(r.packs, inline)
	}
	return nil
}
