package repack_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/repack"
)

const depth = 8

// place keeps objects that it decoded from their new stored values.
type place struct {
	testing.TB
	data   map[object.Key][]byte
	depths map[object.Key]int

	patches, bytes int
}

func newPlace(t testing.TB) *place {
	return &place{TB: t, data: map[object.Key][]byte{}, depths: map[object.Key]int{}}
}

func (p *place) takes(base object.Key) bool {
	d, ok := p.depths[base]
	return ok && d < depth
}

// add adds an object, and checks that its value decodes to it.
func (p *place) add(o *repack.Object) {
	p.Helper()
	patched := o.Fit(p.takes)
	id, isPatch := frame.Base(o.Value)
	if patched != isPatch {
		p.Fatalf("Fit = %t, but the value is a patch: %t", patched, isPatch)
	}
	base := object.Key{Kind: o.Key.Kind, ID: id}
	var data []byte
	var err error
	if isPatch {
		if !p.takes(base) {
			p.Fatalf("patch of %s, which is in another place or too deep", base)
		}
		data, err = frame.DecodePatch(nil, o.Value, len(o.Data), p.data[base])
		p.patches++
		p.depths[o.Key] = p.depths[base] + 1
	} else {
		data, err = frame.Decode(nil, o.Value, len(o.Data))
		p.depths[o.Key] = 0
	}
	if err != nil || object.Sum(data) != o.Key.ID {
		p.Fatalf("decode %s: %v, %d bytes, want %d", o.Key, err, len(data), len(o.Data))
	}
	p.data[o.Key] = data
	p.bytes += len(o.Value)
}

// texts returns versions of count texts. The versions of a text follow each other.
func texts(rng *rand.Rand, count, versions int) (list [][]byte) {
	for range count {
		text := make([]byte, 5000)
		for i := range text {
			text[i] = "etaoinsh rdlu\n"[rng.IntN(14)]
		}
		for v := range versions {
			copy(text[rng.IntN(4900):], fmt.Sprintf("version %d has this here", v))
			list = append(list, append([]byte(nil), text...))
		}
	}
	return list
}

// pass runs objects through Run. List has their data, and stored returns their stored values.
// Write reports whether a new place begins.
func pass(t testing.TB, list [][]byte, stored func(i int) ([]byte, bool), write func(i int, o *repack.Object) bool) {
	t.Helper()
	n := 0
	err := repack.Run(t.Context(), depth, func(ctx context.Context, next func(*repack.Object) error) error {
		for i, data := range list {
			o := &repack.Object{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data}
			o.Stored, o.Best = stored(i)
			if err := next(o); err != nil {
				return err
			}
		}
		return nil
	}, func(_ context.Context, o *repack.Object) (bool, error) {
		if o.Key.ID != object.Sum(list[n]) {
			t.Fatalf("write of object %d: %s, want the order of reading", n, o.Key)
		}
		n++
		return write(n-1, o), nil
	})
	if err != nil || n != len(list) {
		t.Fatalf("%d of %d objects were written, error %v", n, len(list), err)
	}
}

func unknown(int) ([]byte, bool) { return nil, false }

// TestRun checks that versions become patches, and that a second run keeps the patches.
func TestRun(t *testing.T) {
	list := texts(rand.New(rand.NewPCG(1, 1)), 5, 40)
	p := newPlace(t)
	values := make([][]byte, len(list))
	pass(t, list, unknown, func(i int, o *repack.Object) bool {
		p.add(o)
		values[i] = o.Value
		return false
	})
	if p.patches < 160 || p.bytes > 5000*40 {
		t.Errorf("%d patches, %d bytes; want at least 160, at most %d bytes", p.patches, p.bytes, 5000*40)
	}
	again := newPlace(t)
	pass(t, list, func(i int) ([]byte, bool) { return values[i], true }, func(i int, o *repack.Object) bool {
		again.add(o)
		if string(o.Value) != string(values[i]) {
			t.Errorf("second run: object %d has another value", i)
		}
		return false
	})
}

// TestRunPlaces checks that no patch has its base in another place, and that later objects in
// a new place become patches again.
func TestRunPlaces(t *testing.T) {
	n := 8000 // more than are between read and write
	if testing.Short() {
		n = 3000
	}
	list := texts(rand.New(rand.NewPCG(2, 1)), 1, n)
	values := make([][]byte, len(list))
	for round := range 2 {
		p := newPlace(t)
		patches := 0
		pass(t, list, func(i int) ([]byte, bool) { return values[i], round > 0 }, func(i int, o *repack.Object) bool {
			p.add(o)
			values[i] = o.Value
			full := i%(2500+100*round) == 2000
			if full {
				patches += p.patches
				p = newPlace(t)
			}
			return full
		})
		if patches += p.patches; patches < n/4 {
			t.Errorf("round %d: %d patches, want at least %d", round, patches, n/4)
		}
	}
}

// TestRunFails checks that Run returns the errors of read and write.
func TestRunFails(t *testing.T) {
	failed := errors.New("failed")
	list := texts(rand.New(rand.NewPCG(3, 1)), 1, 3000)
	for _, at := range []string{"read", "write"} {
		n := 0
		err := repack.Run(t.Context(), depth, func(ctx context.Context, next func(*repack.Object) error) error {
			for i, data := range list {
				if at == "read" && i == 2000 {
					return failed
				}
				if err := next(&repack.Object{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data}); err != nil {
					return err
				}
			}
			return nil
		}, func(_ context.Context, o *repack.Object) (bool, error) {
			if n++; at == "write" && n == 100 {
				return false, failed
			}
			return false, nil
		})
		if !errors.Is(err, failed) {
			t.Errorf("Run with a failing %s: %v, want its error", at, err)
		}
	}
}
