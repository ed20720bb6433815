// Package chunker cuts byte streams into chunks at places that depend on the
// content (content-defined chunking), so that an insertion changes the chunks
// around it and no others. It is the only package that knows restic/chunker.
//
// A cut is where a Rabin fingerprint over the last 64 bytes, modulo a
// polynomial that is a secret of the repository, ends in zeros (M. O. Rabin,
// Fingerprinting by Random Polynomials, 1981). The chunks are those of
// restic/chunker with the same parameters; the search for cuts is this
// package's own (docs/decisions/chunk-size.md has the reasons).
package chunker

import (
	"fmt"
	"io"
	"math/bits"

	restic "github.com/restic/chunker"
)

// Limits of [Params], in bytes.
const (
	MinSize = window   // the least minimum
	MaxSize = 16 << 20 // the greatest maximum
)

// DefaultAverage is the average of [DefaultParams], in bytes.
const DefaultAverage = 256 << 10

// degree is the degree of every polynomial.
const degree = 53

// Params decide where cuts are. Streams that are to share chunks must be cut
// with the same parameters.
type Params struct {
	Polynomial uint64 // irreducible over GF(2), of degree 53

	// Bytes of a chunk. Only the last chunk of a stream may be shorter than
	// Min. Avg, a power of two, is the average distance from Min on to the
	// next cut, so chunks are Min+Avg bytes on average.
	Min, Avg, Max int
}

// DefaultParams returns the parameters of new repositories.
func DefaultParams(polynomial uint64) Params { return ParamsFor(polynomial, DefaultAverage) }

// ParamsFor returns parameters for an average in bytes, a power of two:
// a quarter of it as the minimum and eight times as the maximum.
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

// irreducible tests a polynomial over GF(2) of degree 53, which is prime. It
// divides x^(2^53) - x if and only if its factors are of degree 1 or 53, and
// is divided by none of degree 1 (x and x+1) if it ends in 1 and has an odd
// number of terms. (Restic's test, for any degree, takes 0.7 ms, and every
// command would have to wait for it.)
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

// RandomPolynomial returns an irreducible polynomial of degree 53 chosen with
// random bytes from r; the same bytes give the same polynomial.
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
