package rootlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
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

	Keys Keys // of an encrypted remote

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
	encoded, err := body.encodeBody(more)
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
		return nil, fmt.Errorf("its number is %d", c.Seq)
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
	if err := r.parseFields(data); err != nil {
		return nil, err
	}
	return r, nil
}

// parseFields decodes and checks all fields of a root.
func (r *Root) parseFields(data []byte) (err error) {
	r.body = &rootBody{}
	if err = decoding.Unmarshal(data, r.body); err != nil {
		return err
	}
	if r.extra, err = decodeExtra(data); err != nil {
		return err
	}
	if again, err := r.body.encodeBody(r.extra); err != nil || !bytes.Equal(again, data) {
		return errors.Join(errCanonical, err)
	}

	b := r.body
	r.Who, r.Host = b.Who, b.Host
	if r.Time, err = b.Time.Time(); err != nil {
		return err
	}
	if err = cmp.Or(checkLine("who", b.Who), checkLine("host", b.Host)); err != nil {
		return err
	}
	if r.Keys, err = b.parseKeys(r.Seq); err != nil {
		return err
	}
	if b.Stub != "" {
		return r.parseStub()
	}
	if len(b.Signature) > maxSignature {
		return errors.New("signature is too long")
	}

	_, err = b.policyBody.parsePolicy()
	if err = cmp.Or(err, checkFeatures(b.Read, b.Write, b.GC)); err != nil {
		return err
	}

	for i, t := range r.tables() {
		if err := t.checkTable(tableKinds[i]); err != nil {
			return err
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
	if len(b.Stub) != len(r.Hash) || b.tablesBody != (tablesBody{}) || b.Packs != nil || b.Floor != 0 || b.Head != "" ||
		b.policyBody != (policyBody{}) || b.Signature != "" {
		return errors.New("malformed stub")
	}
	r.Stub = true
	copy(r.Hash[:], b.Stub)
	return r.parseMoves()
}

// parseMoves decodes the moves of refs.
func (r *Root) parseMoves() error {
	b := r.body
	if !isSorted(b.Moves, func(m moveBody) string { return m.Name }) {
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
	if !isSorted(r.body.Packs, func(p packBody) string { return string(p.Name) }) {
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

// readRecord reads a blob of at most limit bytes. It cuts a longer one after limit+1
// bytes.
func readRecord(ctx context.Context, b remote.Blobs, name string, limit int) ([]byte, error) {
	buf := make([]byte, min(64<<10, limit+1))
	n, err := b.Get(ctx, name, buf, 0)
	if err != nil {
		return nil, err
	}
	if n < len(buf) || n > limit {
		return buf[:n], nil
	}

	longer := make([]byte, limit+1)
	copy(longer, buf)
	more, err := b.Get(ctx, name, longer[n:], int64(n))
	if err != nil {
		return nil, err
	}
	return longer[:n+more], nil
}

// readTwice reads bytes, and reads them once more if they do not pass check, as
// [retry.Verified] does. It returns the bytes of the last read, even if they do not
// pass.
func readTwice(read func() ([]byte, error), check func([]byte) error) (data []byte, err error) {
	_ = retry.Verified(func() error {
		data, err = read()
		if err == nil && check(data) != nil {
			return remote.ErrDamaged
		}
		return err
	})
	return data, err
}

// creation is a record to create.
type creation struct {
	b        remote.Backend
	o        Options
	name     string
	data     []byte // the same in all attempts
	limit    int    // largest number of bytes of a record of another writer
	readable func([]byte) bool
	create   func(context.Context) error // nil: by the Create of b
}

// createRecord creates the record if it is absent, and returns the stored bytes: its own, or
// those of another writer. It is step 4 of a push in docs/format/remote.md.
//
// If the store refused every attempt and the record is absent, createRecord returns the error
// of the store. If the record has a key that this client lacks, the error matches [ErrLost] and
// [remote.ErrNoKey]. All other errors are [*UnknownError].
func (r *creation) createRecord(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.create == nil {
		r.create = func(ctx context.Context) error { return r.b.Create(ctx, r.name, r.data) }
	}
	given := ctx
	ctx, cancel := context.WithTimeoutCause(given, r.o.Deadline, fmt.Errorf("no answer in %v", r.o.Deadline))
	defer cancel()
	unclear := false
	for try := 0; ; try++ {
		err := r.create(ctx)
		if err == nil {
			return r.data, nil
		}
		clear := isRefused(err)
		unclear = unclear || !clear
		stored, readErr := r.settleOutcome(ctx)
		switch absent := errors.Is(readErr, remote.ErrNotFound); {
		case readErr == nil:
			return stored, nil
		case errors.Is(readErr, remote.ErrNoKey):
			// A root of another writer, perhaps of the one that removed this client.
			return nil, fmt.Errorf("create %s: %w, and it cannot be read: %w", r.name, ErrLost, readErr)
		case clear && !unclear:
			return nil, err
		case clear || !absent:
			return nil, r.unknownError(ctx, err, readErr)
		}
		// The record is absent: retry with the same bytes. The first attempt that
		// arrives counts, and a late one finds the name taken.
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, r.unknownError(ctx, err, nil)
		}
	}
}

// settleOutcome reads the record until the store answers with its bytes or with
// [remote.ErrNotFound]. An unreadable record is no answer.
func (r *creation) settleOutcome(ctx context.Context) ([]byte, error) {
	for try := 0; ; try++ {
		stored, err := readRecord(ctx, r.b, r.name, r.limit)
		switch {
		case err == nil && (bytes.Equal(stored, r.data) || r.readable(stored)):
			return stored, nil
		case err == nil:
			err = damageError(r.name, errors.New("cannot be read"))
		case errors.Is(err, remote.ErrNotFound), isRefused(err):
			return nil, err
		}
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, err
		}
	}
}

// unknownError returns the error for an unknown outcome.
func (r *creation) unknownError(ctx context.Context, err, readErr error) error {
	if readErr != nil && !errors.Is(readErr, remote.ErrNotFound) {
		err = fmt.Errorf("%w; then %w", err, readErr)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return &UnknownError{Name: r.name, Err: err}
}

// MaxInline is the largest [InlineSize] of a root. With more, a writer puts the entries
// of the root, and its own, into an index file.
const MaxInline = 16 << 10

// State is the content of a root with its tables resolved: the state of the remote. It
// never changes, and callers must not change anything that its fields refer to.
type State struct {
	Seq  uint64 // number of the root; 0 for an empty log
	Hash Hash   // of its stored bytes; for Seq 0, that of kist.json
	Time time.Time
	Who  string
	Host string

	// Floor is the number of a root. A writer that began its packs before that root
	// must not name them in a later one.
	Floor uint64

	DefaultBranch string                // full name of the default branch, or ""
	Refs          map[string]object.Key // by full name; check the names before use
	Indexes       []File                // the live index files, sorted by name
	Packs         []Inline              // packs whose entries lie in the root, sorted by name
	Condemned     map[string]uint64     // full name of a file, see [CheckFileName] → root that condemned it
	Records       *record.Set           // of commits and contents

	// Implausible are records without effect: see [record.Record.Plausible]. Merging a
	// record of the same name replaces them.
	Implausible []record.Record

	// Lost are objects that refs reach, but that the remote may lack. The value is the name
	// of the user who accepted the loss and pushed commits that need the object. An
	// object that is in a live pack is not lost.
	Lost map[object.Key]string

	Read, Write, GC []string // features, see [Act]

	Policy
	Keys Keys // of an encrypted remote

	tableSet
	extra  extra
	back   []Hash // of earlier roots, see chain.go
	stored []byte // the bytes of the root, or nil
}

// tableSet has the tables of a state.
type tableSet struct{ refs, indexes, condemned, records, lost table }

// File names an index file or a state file.
type File struct {
	Name pack.Name
	Size int64    // bytes
	Sum  [32]byte // SHA-256
}

// Inline is a pack whose entries lie in a root.
type Inline struct {
	pack.Info
	Entries []pack.Entry // sorted by key
}

// InlineSize returns the number of bytes that packs take in a root.
func InlineSize(packs []Inline) int {
	size := 0
	for _, p := range packs {
		size += len(pack.AppendEntries(nil, p.Entries)) + inlineOverhead
	}
	return size
}

// tables returns the tables in the order of tableKinds.
func (s *State) tables() [5]*table {
	return [5]*table{&s.refs, &s.indexes, &s.condemned, &s.records, &s.lost}
}

// Position returns the position of the state's root.
func (s *State) Position() Position { return Position{s.Seq, s.Hash} }

// Live returns the live packs: the packs that live index files or inline entries name,
// except the condemned ones. Indexed has the packs of each index file in s.Indexes.
func (s *State) Live(indexed ...[]pack.Info) map[pack.Name]struct{} {
	live := make(map[pack.Name]struct{})
	add := func(name pack.Name) {
		if _, condemned := s.Condemned[name.Path()]; !condemned {
			live[name] = struct{}{}
		}
	}
	for _, packs := range indexed {
		for _, p := range packs {
			add(p.Name)
		}
	}
	for _, p := range s.Packs {
		add(p.Name)
	}
	return live
}

// NamedFiles returns the full names of the state files and of the copies of the live keyset.
func (s *State) NamedFiles() (names []string) {
	for _, f := range s.StateFiles() {
		names = append(names, StateName(f.Name))
	}
	if s.Keys != (Keys{}) {
		names = append(names, s.Keys.Keyset.Copies()...)
	}
	return names
}

// StateFiles returns the state files of the tables.
func (s *State) StateFiles() (files []File) {
	for _, t := range s.tables() {
		if t.base != nil {
			files = append(files, t.base.file)
		}
	}
	return files
}

// Policy is what a root requires from all later writers.
type Policy struct {
	// SingleWriter is true if the store cannot distinguish two writers: a writer must
	// know that it is the only one. It is never switched off.
	SingleWriter bool

	// Signed is true if every root must be signed. It is never switched off.
	Signed bool

	Lock remote.Lock // of all files that a writer stores
}

// RefChange moves, creates or deletes a ref. A zero key stands for a ref that does not
// exist.
type RefChange struct {
	Name     string // full
	Old, New object.Key
}

// Change is the difference between a root and the one before it.
type Change struct {
	Refs []RefChange // each ref at most once; Old must be as in the state
	Head string      // full name of the new default branch; "" keeps it

	// Confirm has the full names of refs whose value the writer found up to date at Time. See
	// [State.Confirmed].
	Confirm []string

	Records []record.Record // they do not replace records of a later generation

	Lost, Found []object.Key // objects that State.Lost gets, and that leave it

	AddPacks   []Inline    // new packs
	AddIndexes []File      // new index files, already on the remote
	Merged     []pack.Name // packs of the state's Packs whose entries are now in AddIndexes

	// Condemn has the full names of packs, index and state files, and of keysets that no root names,
	// that are no longer live. A state file of the state is replaced by a new one with the same entries. Delist has the
	// names of condemned files that were deleted; it raises the floor. The collector ensures that the rules for both hold.
	Condemn []string
	Delist  []string

	// Policy confirms SingleWriter if it is set, and switches Signed on. It replaces Lock unless
	// Lock.Age is 0; a negative age removes it. All later states keep all three.
	Policy

	Who, Host string // lines of at most 1024 bytes
	Time      time.Time
}
