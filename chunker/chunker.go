// Package chunker cuts byte streams into chunks at places that depend on the
// content (content-defined chunking), so that an insertion changes the chunks
// around it and no others. It is the only package that knows restic/chunker.
//
// A stream is cut where a Rabin fingerprint of the last 64 bytes ends in zeros (M. O. Rabin,
// Fingerprinting by Random Polynomials, 1981). It depends on a polynomial, a secret of the
// repository. The chunks are those of restic/chunker with the same parameters, but this
// package searches for cuts itself (docs/decisions/chunk-size.md has the reasons).
package chunker

import (
	"fmt"
	"io"
	"math/bits"
	"sync"

	restic "github.com/restic/chunker"
)

const (
	// readSize is the number of bytes that are read at a time: enough for few calls, and
	// few enough for the processor's cache.
	readSize = 256 << 10

	// pooledMemory is the number of bytes that all calls of [Chunker.SplitBuffers] may use,
	// unless minBlocks blocks are more.
	pooledMemory = 32 << 20
	minBlocks    = 3
)

// Chunker cuts streams. It is safe for concurrent use. It keeps its memory for the next
// stream.
type Chunker struct {
	params    Params
	rabin     func() *rabin // made by the first search for a cut
	blockSize int
	plain     sync.Pool // of *block, for Split
	pool      *pool     // for SplitBuffers
}

// New returns a Chunker, or the error of [Params.Validate].
func New(p Params) (*Chunker, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	c := &Chunker{params: p, rabin: sync.OnceValue(func() *rabin { return newRabin(p) })}
	// The end of one block, at most a chunk, is copied to the next.
	c.blockSize = max(2*p.Max, 4*readSize)
	c.plain.New = func() any { return &block{data: make([]byte, c.blockSize), users: 1} }
	c.pool = newPool(c.blockSize, max(minBlocks, pooledMemory/c.blockSize))
	return c, nil
}

// Params returns the parameters of c.
func (c *Chunker) Params() Params { return c.params }

// Split reads r to its end and calls emit for each chunk, in order. A chunk is valid until
// emit returns. Emit may change it but not append to it. Chunks are never empty, so empty
// input has no chunk. Split returns the first error of emit or of r, except [io.EOF],
// unchanged. If r fails, Split emits the chunks before the last cut.
//
// Concurrent calls do not wait for each other. Each uses a few MiB, and less for short input.
func (c *Chunker) Split(r io.Reader, emit func(chunk []byte) error) error {
	b := c.plain.Get().(*block)
	defer c.plain.Put(b)
	s := splitter{c: c, r: r, buf: b.data}
	return s.splitAll(func() { s.moveTo(s.buf) }, emit)
}

// splitter cuts one stream. buf[start:end] has the bytes after the last cut.
type splitter struct {
	c       *Chunker
	r       io.Reader
	buf     []byte
	start   int   // of the chunk
	from    int   // no cut lies before it; it may be less than start+Min
	end     int   // of the bytes read
	readErr error // the error that ended the reading, perhaps io.EOF
}

// splitAll calls emit for each chunk, and full if buf is full. Full calls moveTo.
func (s *splitter) splitAll(full func(), emit func(chunk []byte) error) error {
	for {
		chunk, err := s.nextChunk()
		switch {
		case err == io.EOF:
			return nil
		case err == nil && chunk == nil:
			full()
		case err == nil:
			err = emit(chunk)
		}
		if err != nil {
			return err
		}
	}
}

// nextChunk returns the next chunk, a part of buf. It returns nil, nil if buf is full: then the
// caller calls moveTo. At the end of the input, the error is io.EOF.
func (s *splitter) nextChunk() ([]byte, error) {
	p := &s.c.params
	for {
		if s.end-s.start >= p.Min {
			limit := min(s.end, s.start+p.Max)
			cut := s.c.rabin().findCut(s.buf, max(s.from, s.start+p.Min), limit)
			if cut < 0 && limit == s.start+p.Max {
				cut = limit
			}
			if cut >= 0 {
				return s.cutAt(cut), nil
			}
			s.from = limit + 1
		}
		switch {
		case s.readErr == io.EOF && s.start < s.end:
			return s.cutAt(s.end), nil
		case s.readErr != nil:
			return nil, s.readErr
		case s.end == len(s.buf):
			return nil, nil
		}
		s.readMore()
	}
}

func (s *splitter) cutAt(at int) []byte {
	chunk := s.buf[s.start:at:at]
	s.start, s.from = at, 0
	return chunk
}

// readMore reads readSize bytes, or up to the end of buf or of the input.
func (s *splitter) readMore() {
	goal := min(s.end+readSize, len(s.buf))
	for empty := 0; s.end < goal && s.readErr == nil; {
		var n int
		n, s.readErr = s.r.Read(s.buf[s.end:goal])
		s.end += n
		if n > 0 {
			empty = 0
		} else if empty++; empty == 100 && s.readErr == nil {
			s.readErr = io.ErrNoProgress
		}
	}
}

// moveTo moves the bytes after the last cut to the start of a buffer, which may be the same
// one.
func (s *splitter) moveTo(buf []byte) {
	s.end = copy(buf, s.buf[s.start:s.end])
	s.from = max(0, s.from-s.start)
	s.start = 0
	s.buf = buf
}

// Limits of [Params], in bytes.
const (
	MinSize = window   // the smallest minimum
	MaxSize = 16 << 20 // the largest maximum
)

// DefaultAverage is the average of [DefaultParams], in bytes.
const DefaultAverage = 256 << 10

// degree is the degree of every polynomial.
const degree = 53

// Params determine the places of the cuts. Streams share chunks only if they are cut with the
// same parameters.
type Params struct {
	Polynomial uint64 // irreducible over GF(2), of degree 53

	// Bytes of a chunk. Only the last chunk of a stream may be shorter than Min. After
	// Min bytes, the next cut follows after Avg bytes on average. So a chunk has Min+Avg bytes
	// on average. Avg is a power of two.
	Min, Avg, Max int
}

// DefaultParams returns the parameters of new repositories.
func DefaultParams(polynomial uint64) Params { return ParamsFor(polynomial, DefaultAverage) }

// ParamsFor returns parameters for an average in bytes, a power of two. The minimum is a
// quarter of it. The maximum is eight times as large, but at most MaxSize.
func ParamsFor(polynomial uint64, avg int) Params {
	return Params{Polynomial: polynomial, Min: avg / 4, Avg: avg, Max: min(8*avg, MaxSize)}
}

// Validate returns an error if p is invalid.
func (p Params) Validate() error {
	switch {
	case p.Avg < 1 || p.Avg&(p.Avg-1) != 0:
		return fmt.Errorf("average chunk size %d is not a power of two", p.Avg)
	case p.Min < MinSize:
		return fmt.Errorf("minimum chunk size %d is below %d", p.Min, MinSize)
	case p.Max > MaxSize:
		return fmt.Errorf("maximum chunk size %d is above %d", p.Max, MaxSize)
	case p.Min > p.Avg || p.Avg > p.Max:
		return fmt.Errorf("chunk sizes %d, %d, %d (minimum, average, maximum) are not in order", p.Min, p.Avg, p.Max)
	case bits.Len64(p.Polynomial) != degree+1:
		return fmt.Errorf("polynomial %#x is not of degree %d", p.Polynomial, degree)
	case !irreducible(p.Polynomial):
		return fmt.Errorf("polynomial %#x is not irreducible", p.Polynomial)
	}
	return nil
}

// irreducible tests a polynomial over GF(2) of degree 53. Since 53 is prime, the polynomial
// divides x^(2^53) - x if and only if its factors have degree 1 or 53. Neither factor of
// degree 1 (x and x+1) divides it if it ends in 1 and has an odd number of terms. (Restic's
// test, for any degree, takes 0.7 ms, and every command would have to wait for it.)
func irreducible(p uint64) bool {
	if p&1 == 0 || bits.OnesCount64(p)%2 == 0 {
		return false
	}
	f := uint64(2) // x
	for range degree {
		f = square(f, p)
	}
	return f == 2
}

// square returns f*f modulo p.
func square(f, p uint64) (sq uint64) {
	for i := degree - 1; i >= 0; i-- {
		sq <<= 1
		sq ^= p & -(sq >> degree)
		sq ^= f & -(f >> i & 1)
	}
	return sq
}

// RandomPolynomial returns an irreducible polynomial of degree 53, chosen by random bytes
// from r. The same bytes give the same polynomial.
func RandomPolynomial(r io.Reader) (uint64, error) {
	pol, err := restic.DerivePolynomial(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("choose a polynomial: %w", err)
	}
	return uint64(pol), nil
}
