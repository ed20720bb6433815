package optimise_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/optimise"
)

const depth = 8

// place is where objects are written to, by their stored values.
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

// add adds an object, and wants its value to hold it.
func (p *place) add(o *optimise.Object) {
	p.Helper()
	patched := o.Fit(p.takes)
	id, isPatch := frame.Base(o.Value)
	if patched != isPatch {
		p.Fatalf("patched %v, and the value is %v", patched, isPatch)
	}
	base := object.Key{Kind: o.Key.Kind, ID: id}
	var data []byte
	var err error
	if isPatch {
		if !p.takes(base) {
			p.Fatalf("a patch of %s, which is not here, or too deep", base)
		}
		data, err = frame.DecodePatch(nil, o.Value, len(o.Data), p.data[base])
		p.patches++
		p.depths[o.Key] = p.depths[base] + 1
	} else {
		data, err = frame.Decode(nil, o.Value, len(o.Data))
		p.depths[o.Key] = 0
	}
	if err != nil || object.Sum(data) != o.Key.ID {
		p.Fatalf("%s: %v, %d bytes, want %d", o.Key, err, len(data), len(o.Data))
	}
	p.data[o.Key] = data
	p.bytes += len(o.Value)
}

// texts returns versions of some texts, the versions of each next to each other.
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

// pass runs objects, given by their data and stored values, through Run. Write
// reports whether a new place begins.
func pass(t testing.TB, list [][]byte, stored func(i int) ([]byte, bool), write func(i int, o *optimise.Object) bool) {
	t.Helper()
	n := 0
	err := optimise.Run(t.Context(), depth, func(ctx context.Context, next func(*optimise.Object) error) error {
		for i, data := range list {
			o := &optimise.Object{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data}
			o.Stored, o.Best = stored(i)
			if err := next(o); err != nil {
				return err
			}
		}
		return nil
	}, func(_ context.Context, o *optimise.Object) (bool, error) {
		if o.Key.ID != object.Sum(list[n]) {
			t.Fatalf("object %d is not the one that was read then", n)
		}
		n++
		return write(n-1, o), nil
	})
	if err != nil || n != len(list) {
		t.Fatalf("%d of %d were written: %v", n, len(list), err)
	}
}

func unknown(int) ([]byte, bool) { return nil, false }

// TestRun wants versions to become patches, and patches to stay as they are.
func TestRun(t *testing.T) {
	list := texts(rand.New(rand.NewPCG(1, 1)), 5, 40)
	p := newPlace(t)
	values := make([][]byte, len(list))
	pass(t, list, unknown, func(i int, o *optimise.Object) bool {
		p.add(o)
		values[i] = o.Value
		return false
	})
	if p.patches < 160 || p.bytes > 5000*40 {
		t.Errorf("%d patches, %d bytes", p.patches, p.bytes)
	}
	again := newPlace(t)
	pass(t, list, func(i int) ([]byte, bool) { return values[i], true }, func(i int, o *optimise.Object) bool {
		again.add(o)
		if string(o.Value) != string(values[i]) {
			t.Errorf("object %d is stored differently", i)
		}
		return false
	})
}

// TestRunPlaces begins a new place now and then: no patch is made from what is in
// another one, and what comes next are patches again.
func TestRunPlaces(t *testing.T) {
	n := 8000 // more than is on the way
	if testing.Short() {
		n = 3000
	}
	list := texts(rand.New(rand.NewPCG(2, 1)), 1, n)
	values := make([][]byte, len(list))
	for round := range 2 {
		p := newPlace(t)
		patches := 0
		pass(t, list, func(i int) ([]byte, bool) { return values[i], round > 0 }, func(i int, o *optimise.Object) bool {
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
			t.Errorf("round %d: %d patches", round, patches)
		}
	}
}

// TestRunFails wants errors to end it.
func TestRunFails(t *testing.T) {
	fails := errors.New("it fails")
	list := texts(rand.New(rand.NewPCG(3, 1)), 1, 3000)
	for _, at := range []string{"read", "write"} {
		n := 0
		err := optimise.Run(t.Context(), depth, func(ctx context.Context, next func(*optimise.Object) error) error {
			for i, data := range list {
				if at == "read" && i == 2000 {
					return fails
				}
				if err := next(&optimise.Object{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data}); err != nil {
					return err
				}
			}
			return nil
		}, func(_ context.Context, o *optimise.Object) (bool, error) {
			if n++; at == "write" && n == 100 {
				return false, fails
			}
			return false, nil
		})
		if !errors.Is(err, fails) {
			t.Errorf("%s: %v", at, err)
		}
	}
}
