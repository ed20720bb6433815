package chunker

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
)

var testParams = map[string]Params{
	"small":       small,
	"default":     DefaultParams(testPolynomial),
	"one size":    {testPolynomial, 64, 64, 64},
	"window":      {testPolynomial, 64, 256, 1 << 20},
	"one step":    {testPolynomial, step, 4 * step, 8 * step},
	"tight":       {testPolynomial, 1000, 1024, 1025},
	"sparse cuts": {testPolynomial, 64, 1 << 16, 1 << 16},
}

func TestChunksAreWithinBounds(t *testing.T) {
	for pname, p := range testParams {
		c := mustNew(t, p)
		for name, data := range inputs() {
			sizes := split(t, c, bytes.NewReader(data), data)
			for i, size := range sizes {
				if size < 1 || size > p.Max || size < p.Min && i < len(sizes)-1 {
					t.Errorf("%s, %s: chunk %d of %d has %d bytes, want %d to %d", pname, name, i, len(sizes), size, p.Min, p.Max)
				}
			}
		}
	}
}

// TestSameAsRestic checks that the chunks, cut with four lanes, equal those of restic/chunker.
func TestSameAsRestic(t *testing.T) {
	for pname, p := range testParams {
		c := mustNew(t, p)
		for name, data := range inputs() {
			got, want := split(t, c, bytes.NewReader(data), data), splitRestic(t, p, data)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %d chunks, want %d, of other sizes", pname, name, len(got), len(want))
			}
		}
	}
}

func TestShortInput(t *testing.T) {
	c := mustNew(t, small)
	for _, n := range []int{1, 63, 64, 65, small.Min - 1, small.Min} {
		data := make([]byte, n) // in zeros, each place is a cut
		if sizes := split(t, c, bytes.NewReader(data), data); !slices.Equal(sizes, []int{n}) {
			t.Errorf("chunks of %d bytes: %d, want one", n, sizes)
		}
	}
	if sizes := split(t, c, bytes.NewReader(nil), nil); sizes != nil {
		t.Errorf("chunks of empty input: %d, want none", sizes)
	}
	c.rabin = nil // a search for a cut would panic
	data := random(1, small.Min-1)
	split(t, c, bytes.NewReader(data), data)
}

// TestInsertion checks that an insertion changes only the chunks around it.
func TestInsertion(t *testing.T) {
	c := mustNew(t, small)
	base := random(1, 1<<20)
	ends := cutSet(split(t, c, bytes.NewReader(base), base))
	for _, at := range []int{0, 1, 1000, len(base) / 2, len(base)} {
		for _, n := range []int{1, 100, 10_000} {
			data := slices.Concat(base[:at], random(2, n), base[at:])
			lost := len(ends)
			for end := range cutSet(split(t, c, bytes.NewReader(data), data)) {
				if end > at {
					end -= n
				}
				if ends[end] {
					lost--
				}
			}
			if lost > 12 {
				t.Errorf("%d bytes inserted at %d moved %d of %d cuts, want at most 12", n, at, lost, len(ends))
			}
		}
	}
}

func cutSet(sizes []int) map[int]bool {
	set := map[int]bool{}
	end := 0
	for _, size := range sizes {
		end += size
		set[end] = true
	}
	return set
}

// TestReaders checks that the chunks do not depend on the sizes of a reader's reads.
func TestReaders(t *testing.T) {
	c := mustNew(t, small)
	for name, data := range inputs() {
		want := split(t, c, bytes.NewReader(data), data)
		readers := map[string]io.Reader{
			"one byte at a time": iotest.OneByteReader(bytes.NewReader(data)),
			"half at a time":     iotest.HalfReader(bytes.NewReader(data)),
			"EOF with data":      iotest.DataErrReader(bytes.NewReader(data)),
			"odd sizes":          &oddReader{data: data},
			"empty reads": io.MultiReader(&emptyReader{30}, bytes.NewReader(data[:len(data)/2]),
				&emptyReader{30}, bytes.NewReader(data[len(data)/2:]), &emptyReader{30}),
		}
		for rname, r := range readers {
			if got := split(t, c, r, data); !slices.Equal(got, want) {
				t.Errorf("%s, %s: %d chunks, want %d, of other sizes", name, rname, len(got), len(want))
			}
		}
	}
}

// oddReader returns 1, 2, 3, … bytes.
type oddReader struct {
	data []byte
	n    int
}

func (r *oddReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	r.n++
	n := copy(p[:min(r.n, len(p))], r.data)
	r.data = r.data[n:]
	return n, nil
}

// emptyReader returns no bytes and no error a number of times, and then io.EOF.
type emptyReader struct{ times int }

func (r *emptyReader) Read([]byte) (int, error) {
	if r.times == 0 {
		return 0, io.EOF
	}
	r.times--
	return 0, nil
}

func TestErrors(t *testing.T) {
	c := mustNew(t, small)
	data := random(1, 100_000)
	want := split(t, c, bytes.NewReader(data), data)
	broken := errors.New("broken")

	// If the reader fails, Split emits the chunks before the last cut, and not the rest.
	var got []int
	emit := func(chunk []byte) error { got = append(got, len(chunk)); return nil }
	err := c.Split(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), emit)
	if err != broken || !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("failing reader: %v after %d chunks, want its error after %d", err, len(got), len(want)-1)
	}
	if err := c.Split(&emptyReader{1 << 30}, emit); err != io.ErrNoProgress {
		t.Errorf("reader without progress: %v, want ErrNoProgress", err)
	}
	if err := c.Split(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(io.ErrUnexpectedEOF)), emit); err != io.ErrUnexpectedEOF {
		t.Errorf("reader that ends early: %v, want ErrUnexpectedEOF", err)
	}
	calls := 0
	err = c.Split(bytes.NewReader(data), func([]byte) error {
		if calls++; calls == 3 {
			return io.EOF // Split returns it like any other error
		}
		return nil
	})
	if err != io.EOF || calls != 3 {
		t.Errorf("failing emit: %v after %d calls, want EOF after 3", err, calls)
	}
	split(t, c, bytes.NewReader(data), data) // c stays usable
}

func TestConcurrentSplits(t *testing.T) {
	c := mustNew(t, small)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			data := random(byte(i), 100_000+i)
			var first []int
			for range 5 {
				var sizes []int
				var joined []byte
				err := c.Split(bytes.NewReader(data), func(chunk []byte) error {
					sizes = append(sizes, len(chunk))
					joined = append(joined, chunk...)
					return nil
				})
				if err != nil || !bytes.Equal(joined, data) || first != nil && !slices.Equal(sizes, first) {
					t.Errorf("stream %d: %d chunks with %d bytes, %v; want the input and equal cuts", i, len(sizes), len(joined), err)
				}
				first = sizes
			}
		})
	}
	wg.Wait()
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("some bytes"), uint16(3), uint8(2), uint8(0))
	f.Add(make([]byte, 5000), uint16(5000), uint8(0), uint8(1))
	f.Add(random(1, 20_000), uint16(7), uint8(4), uint8(100))
	f.Fuzz(func(t *testing.T, data []byte, repeat uint16, avgBits, minParts uint8) {
		for range repeat % 64 {
			if len(data) > 1<<17 {
				break
			}
			data = append(data, data[:len(data)/2]...)
		}
		p := Params{Polynomial: testPolynomial, Avg: 64 << (avgBits % 9)}
		p.Min = max(64, p.Avg*int(minParts)/255)
		p.Max = 8 * p.Avg
		c := mustNew(t, p)
		got := split(t, c, bytes.NewReader(data), data)
		if want := splitRestic(t, p, data); !slices.Equal(got, want) {
			t.Fatalf("%d chunks, want %d, of other sizes", len(got), len(want))
		}
	})
}
