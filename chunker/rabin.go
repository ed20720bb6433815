package chunker

import restic "github.com/restic/chunker"

const (
	window = 64         // bytes that a fingerprint covers
	shift  = degree - 8 // moves the top byte of a fingerprint to the bottom
	lanes  = 4          // fingerprints computed at a time
	stride = 1 << 10    // places that a lane looks at before the lanes move on
	step   = lanes * stride
)

// rabin finds cuts. The fingerprint of a window is the polynomial whose
// coefficients are the window's bits, modulo an irreducible one.
type rabin struct {
	// Appending byte b to fingerprint f, whose window begins with byte a,
	// gives (f<<8 | b) ^ mod[f>>shift] ^ out[a].
	mod [256]uint64 // removes the part of f<<8 beyond the degree
	out [256]uint64 // removes a, which the shift moved up by the length of the window

	mask uint64 // bits that are zero at a cut
}

func newRabin(p Params) *rabin {
	r := &rabin{mask: uint64(p.Avg - 1)}
	pol := restic.Pol(p.Polynomial)
	for b := range restic.Pol(256) {
		r.mod[b] = uint64((b << degree).Mod(pol) | b<<degree)
	}
	for b := range r.out {
		out := uint64(b)
		for range window {
			out = out<<8 ^ r.mod[out>>shift]
		}
		r.out[b] = out
	}
	return r
}

// findCut returns the first cut in [from, to], or -1. A cut at n is between buf[:n] and buf[n:].
// It looks at buf[from-window:to].
//
// A fingerprint depends on the one before it, and a processor spends most of its time waiting
// for that. Fingerprints of places far apart do not depend on each other. So four are
// computed side by side, which is three times as fast as one.
func (r *rabin) findCut(buf []byte, from, to int) int {
	for ; to-from >= step; from += step {
		if i := r.findInLanes((*[window + step]byte)(buf[from-window:])); i >= 0 {
			return r.findInOneLane(buf, from+i, from+step) // which of the lanes?
		}
	}
	return r.findInOneLane(buf, from, to)
}

// findInLanes looks at the places after the first window of p, in four lanes. It returns the smallest
// i for which a lane has a cut at its i-th place, or -1.
func (r *rabin) findInLanes(p *[window + step]byte) int {
	var f0, f1, f2, f3 uint64
	for i := range window {
		f0 = (f0<<8 | uint64(p[i])) ^ r.mod[uint8(f0>>shift)]
		f1 = (f1<<8 | uint64(p[i+stride])) ^ r.mod[uint8(f1>>shift)]
		f2 = (f2<<8 | uint64(p[i+2*stride])) ^ r.mod[uint8(f2>>shift)]
		f3 = (f3<<8 | uint64(p[i+3*stride])) ^ r.mod[uint8(f3>>shift)]
	}
	mask := r.mask
	for i := range stride {
		if f0&mask == 0 || f1&mask == 0 || f2&mask == 0 || f3&mask == 0 {
			return i
		}
		f0 = (f0<<8 | uint64(p[i+window])) ^ r.out[p[i]] ^ r.mod[uint8(f0>>shift)]
		f1 = (f1<<8 | uint64(p[i+stride+window])) ^ r.out[p[i+stride]] ^ r.mod[uint8(f1>>shift)]
		f2 = (f2<<8 | uint64(p[i+2*stride+window])) ^ r.out[p[i+2*stride]] ^ r.mod[uint8(f2>>shift)]
		f3 = (f3<<8 | uint64(p[i+3*stride+window])) ^ r.out[p[i+3*stride]] ^ r.mod[uint8(f3>>shift)]
	}
	return -1
}

// findInOneLane is findCut with one lane.
func (r *rabin) findInOneLane(buf []byte, from, to int) int {
	if from > to {
		return -1
	}
	var f uint64
	for _, b := range buf[from-window : from] {
		f = (f<<8 | uint64(b)) ^ r.mod[uint8(f>>shift)]
	}
	in := buf[from:to]
	out := buf[from-window : to-window]
	out = out[:len(in)]
	for i, b := range in {
		if f&r.mask == 0 {
			return from + i
		}
		f = (f<<8 | uint64(b)) ^ r.out[out[i]] ^ r.mod[uint8(f>>shift)]
	}
	if f&r.mask == 0 {
		return to
	}
	return -1
}
