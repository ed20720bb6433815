package volume

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// table has the objects of a volume that is being written. It takes about 70 bytes for
// each. It is not safe for concurrent use.
type table struct {
	seed    maphash.Seed
	records []*[tableChunk]written
	n       int
	index   []uint32 // open addressing; number of a record + 1, or 0
}

const tableChunk = 1024

// written is the record of an object that was added to the volume.
type written struct {
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

func (t *table) key(w *written) object.Key { return object.Key{Kind: w.kind, ID: w.id} }

// at returns record i.
func (t *table) at(i int) *written { return &t.records[i/tableChunk][i%tableChunk] }

// slot returns the place of key in the index, or the place to add it.
func (t *table) slot(key *object.Key) int {
	mask := len(t.index) - 1
	for i := int(maphash.Bytes(t.seed, key.ID[:])) & mask; ; i = (i + 1) & mask {
		n := t.index[i]
		if n == 0 {
			return i
		}
		if r := t.at(int(n) - 1); r.id == key.ID && r.kind == key.Kind {
			return i
		}
	}
}

// find returns the record of key, or nil. The record may change later.
func (t *table) find(key object.Key) *written {
	if i := t.number(key); i >= 0 {
		return t.at(i)
	}
	return nil
}

// number returns the number of key's record, or -1.
func (t *table) number(key object.Key) int { return int(t.index[t.slot(&key)]) - 1 }

// add adds a record with a new key.
func (t *table) add(w written) {
	if t.n%tableChunk == 0 {
		t.records = append(t.records, new([tableChunk]written))
	}
	if 4*(t.n+1) > 3*len(t.index) {
		t.index = make([]uint32, 2*len(t.index))
		for i := range t.n {
			key := t.key(t.at(i))
			t.index[t.slot(&key)] = uint32(i) + 1
		}
	}
	*t.at(t.n) = w
	key := t.key(&w)
	t.n++
	t.index[t.slot(&key)] = uint32(t.n)
}

// sorted returns the numbers of all records in the order of their keys.
func (t *table) sorted() []uint32 {
	// The keys are scattered in memory, so copies of their first bytes are compared.
	// Equal first bytes are rare.
	type place struct {
		first  uint64
		number uint32
	}
	places := make([]place, t.n)
	for i := range places {
		r := t.at(i)
		places[i] = place{uint64(r.kind)<<56 | binary.BigEndian.Uint64(r.id[:])>>8, uint32(i)}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return t.key(t.at(int(a.number))).Compare(t.key(t.at(int(b.number))))
	})
	order := make([]uint32, t.n)
	for i, p := range places {
		order[i] = p.number
	}
	return order
}
