package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// partSource reads parts of an index in memory, and counts them.
type partSource struct {
	t            testing.TB
	data         []byte
	calls, bytes int
}

func (s *partSource) read(_ context.Context, parts []Part) ([][]byte, error) {
	s.calls++
	pieces := make([][]byte, len(parts))
	for i, p := range parts {
		if i > 0 && p.Off < parts[i-1].Off {
			s.t.Fatal("parts are not sorted")
		}
		s.bytes += p.Size
		pieces[i] = s.data[p.Off:][:p.Size]
		if err := p.Check(pieces[i]); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// openParts opens an encoded index in parts.
func openParts(t testing.TB, data []byte) (*Parts, *partSource) {
	t.Helper()
	s := &partSource{t: t, data: data}
	x, err := OpenParts(data[:HeaderSize], data[len(data)-TrailerSize:], 0, int64(len(data)), s.read)
	if err != nil {
		t.Fatal(err)
	}
	return x, s
}

// skew makes the IDs of records unlike hashes.
func skew(recs []Record, rng *rand.Rand) {
	for i := range recs {
		id := &recs[i].Key.ID
		switch rng.IntN(3) {
		case 0:
			id[0] /= 64
		case 1:
			copy(id[:], "the same.")
		}
	}
	sortRecords(recs)
}

// TestPartsFindAll checks that Parts and Reader find the same records, of hashes and of skewed IDs, one by one and
// in batches.
func TestPartsFindAll(t *testing.T) {
	for seed, n := range []int{0, 1, 2, 31, 32, 33, 64, 65, 1000, 5000, 40_000} {
		for _, skewed := range []bool{false, true} {
			t.Run(fmt.Sprint(n, skewed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 7))
				recs := randomRecords(uint64(seed), n)
				if skewed {
					skew(recs, rng)
				}
				data := encode(t, recs)
				x, _ := openParts(t, data)
				checkSameFound(t, open(t, data), x, rng, recs)
				checkKinds(t, open(t, data), x)
			})
		}
	}
}

// checkSameFound looks for keys in recs, and for keys that resemble them.
func checkSameFound(t *testing.T, whole *Reader, x *Parts, rng *rand.Rand, recs []Record) {
	t.Helper()
	for _, count := range []int{0, 1, 1, 1, 2, 10, 300} {
		var keys []object.Key
		for range count {
			key := object.Key{Kind: object.Kind(rng.IntN(8)), ID: randomID(rng)}
			if len(recs) > 0 && rng.IntN(3) > 0 {
				key = recs[rng.IntN(len(recs))].Key
				switch rng.IntN(4) {
				case 0:
					key.ID[31]++
				case 1:
					key.Kind = object.Kind(1 + rng.IntN(5))
				}
			}
			keys = append(keys, key)
		}
		slices.SortFunc(keys, object.Key.Compare)

		found, err := x.Find(t.Context(), keys)
		if err != nil || len(found) != len(keys) {
			t.Fatalf("Find: %d records, %v; want %d", len(found), err, len(keys))
		}
		for i, key := range keys {
			want, ok, err := whole.Find(key)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				want = Record{Key: key, Index: -1}
			}
			if found[i] != want {
				t.Fatalf("Find(%s) = %+v, want %+v", key, found[i], want)
			}
		}
	}
}

// checkKinds compares all records of each kind.
func checkKinds(t *testing.T, whole *Reader, x *Parts) {
	t.Helper()
	for kind := object.Kind(0); kind < 8; kind++ {
		got, complete, err := x.OfKind(t.Context(), kind)
		if err != nil || !complete {
			t.Fatalf("OfKind(%s): complete %v, %v", kind, complete, err)
		}
		var want []Record
		for r, err := range whole.Prefix(kind, nil, 0) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, r)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("OfKind(%s): %d records, want %d", kind, len(got), len(want))
		}
	}
}

// TestPartsReads checks that a look-up takes two reads, and few bytes.
func TestPartsReads(t *testing.T) {
	const n = 200_000
	recs := randomRecords(3, n)
	for i := range recs {
		recs[i].Key.Kind = object.KindChunk
	}
	sortRecords(recs)
	x, source := openParts(t, encode(t, recs))
	rng := rand.New(rand.NewPCG(5, 5))
	const finds = 500
	for i := range finds {
		key := object.Key{Kind: object.KindChunk, ID: randomID(rng)}
		if i%2 == 0 {
			key = recs[rng.IntN(n)].Key
		}
		if _, err := x.Find(t.Context(), []object.Key{key}); err != nil {
			t.Fatal(err)
		}
	}
	// An absent key next to a border of blocks takes one more.
	if source.calls > 2*finds+finds/10 || source.bytes > finds*2300 {
		t.Errorf("%d reads of %d bytes, want about 2 of 1,950 bytes for each of %d look-ups", source.calls, source.bytes, finds)
	}
}

// TestPartsReadNodes checks that a look-up of a node takes one read, and after ReadNodes none, and that one of a chunk takes one then.
func TestPartsReadNodes(t *testing.T) {
	const n, finds = 100_000, 50
	recs := randomRecords(6, n)
	for i := range recs {
		recs[i].Key.Kind = object.KindChunk
		if i%4 == 0 {
			recs[i].Key.Kind = object.KindTree
		}
	}
	sortRecords(recs)
	data := encode(t, recs)
	x, source := openParts(t, data)
	table := 8 * (n + blockRecords - 1) / blockRecords
	if err := x.ReadNodes(t.Context(), 48*n/4+table); err != nil || source.calls > 0 {
		t.Errorf("ReadNodes of more than the most bytes: %d reads, %v; want none", source.calls, err)
	}
	find := func(x *Parts, kind object.Kind) {
		rng := rand.New(rand.NewPCG(7, uint64(kind)))
		for i := 0; i < finds; {
			r := recs[rng.IntN(n)]
			if r.Key.Kind != kind {
				continue
			}
			if i++; i%2 == 0 {
				r.Key.ID[31]++
			}
			found, err := x.Find(t.Context(), []object.Key{r.Key})
			if err != nil || found[0].Index >= 0 != (i%2 == 1) {
				t.Fatalf("Find(%s) = %+v, %v", r.Key, found, err)
			}
		}
	}
	find(x, object.KindTree)
	if source.calls > finds+2 || source.bytes > finds*(48<<10) {
		t.Errorf("%d reads of %d bytes for %d look-ups of trees, want one of 40 KiB for each", source.calls, source.bytes, finds)
	}

	kept := &keptParts{source: source, parts: map[int64][]byte{}}
	x, err := OpenParts(data[:HeaderSize], data[len(data)-TrailerSize:], 0, int64(len(data)), kept.read)
	if err != nil {
		t.Fatal(err)
	}
	source.calls, source.bytes = 0, 0
	if err := x.ReadNodes(t.Context(), len(data)/3); err != nil || source.calls != 1 {
		t.Errorf("ReadNodes: %d reads, %v; want one", source.calls, err)
	}
	find(x, object.KindTree)
	if source.calls != 1 {
		t.Errorf("%d reads for trees after ReadNodes, want none", source.calls-1)
	}
	find(x, object.KindChunk)
	if source.calls > 1+finds+2 || source.bytes > len(data)/3+finds*1700 {
		t.Errorf("%d reads of %d bytes for %d look-ups of chunks, want one of 1,540 bytes for each", source.calls-1, source.bytes, finds)
	}
}

// keptParts keeps the parts that it reads, and pieces of tables in one part.
type keptParts struct {
	source *partSource
	parts  map[int64][]byte // by offset
	table  Part
}

func (k *keptParts) read(ctx context.Context, parts []Part) ([][]byte, error) {
	pieces := make([][]byte, len(parts))
	var absent []Part
	for i, p := range parts {
		at := p.Off - k.table.Off
		switch data := k.parts[p.Off]; {
		case p.block < 0 && at >= 0 && at+int64(p.Size) <= int64(k.table.Size):
			pieces[i] = k.parts[k.table.Off][at:][:p.Size]
		case data != nil && p.block >= 0:
			pieces[i] = data
		default:
			absent = append(absent, p)
		}
	}
	if len(absent) == 0 {
		return pieces, nil
	}

	read, err := k.source.read(ctx, absent)
	if err != nil {
		return nil, err
	}

	for i := range parts {
		if pieces[i] != nil {
			continue
		}
		pieces[i], k.parts[parts[i].Off] = read[0], read[0]
		if parts[i].block < 0 {
			k.table = parts[i]
		}
		read = read[1:]
	}
	return pieces, nil
}

// TestPartsBadTable checks that every record is found whatever the table says, and in how many reads.
func TestPartsBadTable(t *testing.T) {
	const n = 40_000
	recs := randomRecords(4, n)
	good := encode(t, recs)
	blocks, table, filter, _, _ := sections(n)
	rng := rand.New(rand.NewPCG(6, 6))
	fills := map[string]func(i int) uint64{
		"zeros":      func(int) uint64 { return 0 },
		"ones":       func(int) uint64 { return 1<<64 - 1 },
		"random":     func(int) uint64 { return rng.Uint64() },
		"descending": func(i int) uint64 { return uint64(int(blocks)-i) << 40 },
		"one off":    func(i int) uint64 { return binary.BigEndian.Uint64(good[table+int64(max(0, i-1))*entrySize:]) },
	}
	for name, fill := range fills {
		data := slices.Clone(good)
		for i := range int(filter-table) / entrySize {
			binary.BigEndian.PutUint64(data[int(table)+i*entrySize:], fill(i))
		}
		x, source := openParts(t, data)
		const finds = 200
		for i := range finds {
			want := recs[rng.IntN(n)]
			if i%2 > 0 {
				want = Record{Key: object.Key{Kind: want.Key.Kind, ID: randomID(rng)}, Index: -1}
			}
			found, err := x.Find(t.Context(), []object.Key{want.Key})
			if err != nil || found[0] != want {
				t.Fatalf("%s: Find = %+v, %v; want %+v", name, found, err, want)
			}
		}
		if most := finds * 20; source.calls > most {
			t.Errorf("%s: %d reads, want at most %d", name, source.calls, most)
		}
	}
}

// TestPartsHostile checks that blocks with impossible content end every search, and cost no more than a bisection.
func TestPartsHostile(t *testing.T) {
	const n = 40_000
	data := encode(t, randomRecords(8, n))
	rng := rand.New(rand.NewPCG(8, 8))
	blocks, _, filter, _, _ := sections(n)
	for i := headerSize; i < int(filter); i++ {
		data[i] = byte(rng.Uint32())
	}
	x, source := openParts(t, data)
	x.read = func(_ context.Context, parts []Part) ([][]byte, error) { // as if all checksums matched
		source.calls++
		pieces := make([][]byte, len(parts))
		for i, p := range parts {
			pieces[i] = data[p.Off:][:p.Size]
		}
		return pieces, nil
	}
	const finds = 200
	for range finds {
		key := object.Key{Kind: object.Kind(1 + rng.IntN(5)), ID: randomID(rng)}
		if found, err := x.Find(t.Context(), []object.Key{key}); err != nil || found[0].Index >= n {
			t.Fatalf("Find = %+v, %v", found, err)
		}
	}
	if most := finds * 25; source.calls > most {
		t.Errorf("%d reads of %d blocks, want at most %d", source.calls, blocks, most)
	}
}

// TestPartsDamaged checks that a damaged block is an error, and that its absence from a sparse copy is noticed.
func TestPartsDamaged(t *testing.T) {
	recs := randomRecords(9, 3000)
	data := encode(t, recs)
	x, _ := openParts(t, data)
	const bad = 40
	data[headerSize+bad*blockSize+7] ^= 1
	for i := range recs {
		found, err := x.Find(t.Context(), []object.Key{recs[i].Key})
		var damage *CorruptError
		switch {
		case errors.As(err, &damage) && errors.Is(err, object.ErrCorrupt) && damage.Block == bad:
		case err != nil, i/blockRecords == bad, found[0] != recs[i]:
			t.Fatalf("Find of record %d: %+v, %v", i, found, err)
		}
	}

	for _, p := range []Part{x.blockPart(0), x.blockPart(bad), x.tablePart(window{from: 3, to: 9})} {
		piece := data[p.Off:][:p.Size]
		if hole := p == x.blockPart(bad); p.IsHole(piece) != hole {
			t.Errorf("IsHole of %+v: %t, want %t", p, !hole, hole)
		}
		if !p.IsHole(make([]byte, p.Size)) {
			t.Errorf("IsHole of zeros in the place of %+v: false, want true", p)
		}
	}
}

// TestPartsOfFewCommits checks that the records of a kind with few are read at once.
func TestPartsOfFewCommits(t *testing.T) {
	recs := randomRecords(10, 20_000)
	for i := range recs {
		recs[i].Key.Kind = object.KindChunk
		if i%20 == 0 {
			recs[i].Key.Kind = object.KindCommit
		}
	}
	sortRecords(recs)
	x, source := openParts(t, encode(t, recs))
	first, last := x.blocksOf(object.KindCommit)
	found, err := x.Find(t.Context(), []object.Key{recs[len(recs)-1].Key})
	if err != nil || found[0].Index != len(recs)-1 {
		t.Fatalf("Find = %+v, %v", found, err)
	}
	if want := (last - first + 1) * blockSize; source.bytes < want-blockSize || !x.whole[object.KindCommit].Load() {
		t.Errorf("%d bytes were read, want at least %d: all commits", source.bytes, want)
	}
}
