package volume

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// GetStored returns the stored value of an object (package frame) and the size of the
// object, verified as by [Store.Get]. The value is never a patch: GetStored compresses an
// object that is stored as one. The value is in dst if that is large enough.
func (s *Store) GetStored(ctx context.Context, key object.Key, dst []byte) (value []byte, raw int, err error) {
	err = s.searchKey(ctx, key, func(v *sealedVolume, rec keys.Record) (err error) {
		raw = int(rec.Raw)
		if value, err = v.readStored(rec, dst, nil); err != nil {
			return err
		}
		if _, patched := frame.Base(value); patched {
			var data []byte
			if data, err = v.readObject(rec); err == nil {
				value = s.frame.Append(value[:0], data)
			}
		}
		return err
	})
	if errors.Is(err, object.ErrNotFound) && mayBeAway(s, key) {
		var data []byte
		if data, err = fetchAway(ctx, s, key); err == nil {
			return s.frame.Append(dst[:0], data), len(data), nil
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return value, raw, nil
}

// HasIntact reports whether a volume has an intact copy of an object. It reads and hashes
// the copy. Copies that are known to be damaged do not count, even if they are readable.
func (s *Store) HasIntact(ctx context.Context, key object.Key) bool {
	err := s.searchKey(ctx, key, func(v *sealedVolume, rec keys.Record) error {
		if v.isBad(key) {
			return errors.New("known to be damaged")
		}
		_, err := v.readObject(rec)
		return err
	})
	return err == nil
}

// readStored returns the verified stored value of the object at rec, in buf if that is
// large enough. Its errors are those of readObject. R may be nil: see decodeValue.
func (v *sealedVolume) readStored(rec keys.Record, buf []byte, r *baseReader) ([]byte, error) {
	o, err := v.ensureOpen()
	if err != nil {
		return nil, err
	}
	value, err := o.storedValue(rec, buf)
	if err == nil {
		err = v.verifyValue(rec, value, r)
	}
	if err != nil {
		return nil, v.readError(rec, err)
	}
	return value, nil
}

// PutStored puts an object of raw bytes by its stored value, from [Store.GetStored] or from
// another store. If the store does not have the object, PutStored decodes the value,
// verifies its hash, and checks a node with [object.Check]. Then it stores the value
// unchanged. PutStored does not keep value. A dry run does not check it.
//
// PutStored calls use, if not nil, with the verified bytes of an object that the store did
// not have. Use must not keep or change them.
//
// PutStored returns an [*object.CorruptError] for an invalid value and for a patch. The
// session can go on after it.
func (s *Session) PutStored(ctx context.Context, key object.Key, value []byte, raw int, use func(data []byte)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := object.CheckSize(key.Kind, raw); err != nil {
		return err
	}
	return s.putValue(ctx, key, raw, func() (*buffer, error) {
		err := verify(key, value, raw, func(data []byte) error {
			err := object.Check(key.Kind, data)
			if err == nil && use != nil {
				use(data)
			}
			return err
		})
		if err != nil {
			return nil, &object.CorruptError{Key: key, Err: err}
		}
		return copyValue(value), nil
	})
}

// copyValue returns a copy of a stored value for a writer.
func copyValue(value []byte) *buffer {
	b := takeBuffer(len(value) + ingest.MaxPadding)
	b.b = append(b.b, value...)
	return b
}

// decode returns the verified object of a value that is no patch. The result may be part
// of value.
func decode(key object.Key, value []byte, raw int) ([]byte, error) {
	return decodeTo(nil, key, value, raw)
}

// decodeTo is decode into dst, if that is large enough.
func decodeTo(dst []byte, key object.Key, value []byte, raw int) ([]byte, error) {
	data, ok := frame.Raw(value)
	if !ok {
		if cap(dst) < raw+frame.DecodeSlack {
			dst = make([]byte, 0, raw+frame.DecodeSlack)
		}
		var err error
		if data, err = frame.Decode(dst[:0], value, raw); err != nil {
			return nil, err
		}
	} else if len(data) != raw {
		return nil, fmt.Errorf("%d bytes, want %d", len(data), raw)
	}
	if object.Sum(data) != key.ID {
		return nil, errHash
	}
	return data, nil
}

var errHash = errors.New("the bytes do not have this hash")

// verify checks that value is a stored value of an object of raw bytes, and no patch. It
// calls check, if not nil, with the bytes of the object. Check must not keep them.
func verify(key object.Key, value []byte, raw int, check func(data []byte) error) error {
	if len(value) > raw+frame.MaxOverhead {
		return fmt.Errorf("%d bytes stored as %d", raw, len(value))
	}
	size := 0
	if _, ok := frame.Raw(value); !ok {
		size = raw + frame.DecodeSlack
	}
	dst := takeBuffer(size)
	defer dst.free()
	data, err := decodeTo(dst.b, key, value, raw)
	if err == nil && check != nil {
		err = check(data)
	}
	return err
}

// Buffers for stored values are reused by size, so that small values do not occupy large
// buffers.
const (
	minBufferBits = 10
	maxBufferBits = 25
)

var buffers [maxBufferBits + 1]sync.Pool

// buffer is a byte slice. Its owner returns it with free.
type buffer struct {
	b     []byte
	class int
}

// takeBuffer returns an empty buffer with room for at least n bytes.
func takeBuffer(n int) *buffer {
	class := max(minBufferBits, bits.Len(uint(max(n, 1)-1)))
	if class > maxBufferBits {
		return &buffer{b: make([]byte, 0, n), class: class}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<class), class: class}
}

// free returns the buffer for reuse. The caller must not use it afterwards.
func (b *buffer) free() {
	if b.class <= maxBufferBits && cap(b.b) == 1<<b.class {
		b.b = b.b[:0]
		buffers[b.class].Put(b)
	}
}

// table indexes the objects of a volume that is being written. It takes about 70 bytes for
// each. It is not safe for concurrent use.
type table struct {
	seed    maphash.Seed
	records []*[tableChunk]addedObject
	n       int
	index   []uint32 // open addressing; number of a record + 1, or 0
}

const tableChunk = 1024

// addedObject is the record of an object that was added to the volume.
type addedObject struct {
	id     object.ID
	kind   object.Kind
	placed bool   // file and offset are known
	depth  uint8  // number of patches that it is read through
	file   uint16 // number of the value log
	batch  uint32 // number of the batch it was written in
	offset uint32 // of the value in its log
	stored uint32 // bytes of the stored value
	raw    uint32 // bytes of the object
}

func newTable() *table { return &table{seed: maphash.MakeSeed(), index: make([]uint32, 256)} }

func (t *table) keyOf(w *addedObject) object.Key { return object.Key{Kind: w.kind, ID: w.id} }

// recordAt returns record i.
func (t *table) recordAt(i int) *addedObject { return &t.records[i/tableChunk][i%tableChunk] }

// findSlot returns the place of key in the index, or the place to add it.
func (t *table) findSlot(key *object.Key) int {
	mask := len(t.index) - 1
	for i := int(maphash.Bytes(t.seed, key.ID[:])) & mask; ; i = (i + 1) & mask {
		n := t.index[i]
		if n == 0 {
			return i
		}
		if r := t.recordAt(int(n) - 1); r.id == key.ID && r.kind == key.Kind {
			return i
		}
	}
}

// findRecord returns the record of key, or nil. The record may change later.
func (t *table) findRecord(key object.Key) *addedObject {
	if n := t.index[t.findSlot(&key)]; n > 0 {
		return t.recordAt(int(n) - 1)
	}
	return nil
}

// addRecord adds a record with a new key.
func (t *table) addRecord(w addedObject) {
	if t.n%tableChunk == 0 {
		t.records = append(t.records, new([tableChunk]addedObject))
	}
	if 4*(t.n+1) > 3*len(t.index) {
		t.index = make([]uint32, 2*len(t.index))
		for i := range t.n {
			key := t.keyOf(t.recordAt(i))
			t.index[t.findSlot(&key)] = uint32(i) + 1
		}
	}
	*t.recordAt(t.n) = w
	key := t.keyOf(&w)
	t.n++
	t.index[t.findSlot(&key)] = uint32(t.n)
}

// sortedNumbers returns the numbers of all records in the order of their keys.
func (t *table) sortedNumbers() []uint32 {
	// The keys are scattered in memory, so copies of their first bytes are compared.
	// Equal first bytes are rare.
	type place struct {
		first  uint64
		number uint32
	}
	places := make([]place, t.n)
	for i := range places {
		r := t.recordAt(i)
		places[i] = place{uint64(r.kind)<<56 | binary.BigEndian.Uint64(r.id[:])>>8, uint32(i)}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return t.keyOf(t.recordAt(int(a.number))).Compare(t.keyOf(t.recordAt(int(b.number))))
	})
	order := make([]uint32, t.n)
	for i, p := range places {
		order[i] = p.number
	}
	return order
}
