package transfer

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// TestOwnIndex adds packs with objects of few keys, and drops some. The index finds each object in a pack that was not dropped, and
// merges its runs.
func TestOwnIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	r := &Remote{o: Options{Dir: dir, Now: time.Now, Rand: rand.NewChaCha8([32]byte{1})}}
	r.cache = &cache{dir: dir}
	r.indexes = &IndexFiles{o: &r.o}
	o := &ownPacks{packs: map[pack.Name]*sentPack{}, planned: map[object.Key]struct{}{}, where: ownIndex{files: r.indexes, limit: 100}}

	want := map[object.Key]pack.Name{}
	for n := range 300 {
		s := &sentPack{info: pack.Info{Size: pack.TargetSize}, file: filepath.Join(dir, "no such note")}
		binary.BigEndian.PutUint32(s.info.Name[:], uint32(n+1))
		keys := map[object.Key]bool{}
		for range 1 + rng.IntN(60) {
			keys[object.Key{Kind: object.KindChunk, ID: object.Sum(binary.BigEndian.AppendUint32(nil, rng.Uint32N(5000)))}] = true
		}
		for key := range keys {
			s.entries = append(s.entries, pack.Entry{Key: key, Pack: s.info, Offset: remote.HeaderSize, Stored: 10, Raw: 10})
			if _, there := want[key]; !there {
				want[key] = s.info.Name
			}
		}
		slices.SortFunc(s.entries, func(a, b pack.Entry) int { return a.Key.Compare(b.Key) })
		if err := o.putSent(s); err != nil {
			t.Fatal(err)
		}
		if n%40 == 39 {
			o.dropPacks(func(s *sentPack) bool { return s.info.Name[3]%7 == 0 })
			for key, name := range want {
				if name[3]%7 == 0 {
					delete(want, key)
				}
			}
		}
	}

	for n := range uint32(5000) {
		key := object.Key{Kind: object.KindChunk, ID: object.Sum(binary.BigEndian.AppendUint32(nil, n))}
		s, err := o.findPack(key)
		if err != nil {
			t.Fatal(err)
		}
		if name, there := want[key]; there != (s != nil) || there && s.info.Name != name {
			t.Fatalf("object %d is in pack %v, want %s", n, s, name)
		}
	}
	if runs := len(o.where.runs); runs < 2 || runs > 2*runTier || o.where.runs[0].tier == 0 {
		t.Errorf("%d runs, the first one of tier %d", runs, o.where.runs[0].tier)
	}

	var infos []pack.Info
	for _, s := range o.packs {
		infos = append(infos, s.info)
	}
	var b bytes.Buffer
	if err := pack.MergeIndex(&b, infos, o.where.sources()...); err != nil {
		t.Fatal(err)
	}
	x, err := pack.OpenIndex(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range x.All() {
		if err != nil || want[e.Key] != e.Pack.Name {
			t.Fatalf("%s is in pack %s, want %s; %v", e.Key, e.Pack.Name, want[e.Key], err)
		}
	}
	if x.Len() != len(want) {
		t.Errorf("an index of %d objects, want %d", x.Len(), len(want))
	}

	o.where.close()
	if left, err := os.ReadDir(r.indexes.copiesDir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
