package tree

import (
	"slices"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// A replacement means that a[aLo:aHi] became b[bLo:bHi]. Lists of replacements
// are sorted, and their items neither overlap nor touch.
type replacement struct{ aLo, aHi, bLo, bHi int }

// diffSeq compares two sequences of symbols below n. It first aligns the
// symbols that each sequence has exactly once (patience diff), so that a
// change does not affect distant parts. It compares the stretches between
// these anchors with the bounded search of package lcs. Time is O(N log N) for
// N symbols, at most maxAnchorDepth times.
func diffSeq(a, b []int32, n int) []replacement {
	d := seqDiff{a: a, b: b, counts: make([]symbolCount, n)}
	d.diffRange(0, len(a), 0, len(b), 0)
	return d.out
}

// maxAnchorDepth limits the recursion into stretches between anchors.
const maxAnchorDepth = 32

// exactBelow is the number of symbols below which package lcs always finds the
// shortest edit.
const exactBelow = 100

type seqDiff struct {
	a, b   []int32
	counts []symbolCount // by symbol; all zero between uses
	out    []replacement
}

type symbolCount struct{ inA, inB, atB int32 }

func (d *seqDiff) addReplacement(aLo, aHi, bLo, bHi int) {
	if aLo == aHi && bLo == bHi {
		return
	}
	if k := len(d.out) - 1; k >= 0 && d.out[k].aHi == aLo && d.out[k].bHi == bLo {
		d.out[k].aHi, d.out[k].bHi = aHi, bHi
		return
	}
	d.out = append(d.out, replacement{aLo, aHi, bLo, bHi})
}

func (d *seqDiff) diffRange(aLo, aHi, bLo, bHi, depth int) {
	for aLo < aHi && bLo < bHi && d.a[aLo] == d.b[bLo] {
		aLo, bLo = aLo+1, bLo+1
	}

	aEnd, bEnd := aHi, bHi
	for aLo < aEnd && bLo < bEnd && d.a[aEnd-1] == d.b[bEnd-1] {
		aEnd, bEnd = aEnd-1, bEnd-1
	}

	if aLo == aEnd || bLo == bEnd {
		d.addReplacement(aLo, aEnd, bLo, bEnd)
		return
	}
	if aEnd-aLo+bEnd-bLo > exactBelow && depth < maxAnchorDepth {
		if anchors := d.findAnchors(aLo, aEnd, bLo, bEnd); len(anchors) > 0 {
			for _, at := range anchors {
				d.diffRange(aLo, at.a, bLo, at.b, depth+1)
				aLo, bLo = at.a+1, at.b+1
			}
			d.diffRange(aLo, aEnd, bLo, bEnd, depth+1)
			return
		}
	}

	d.searchLCS(aLo, aEnd, bLo, bEnd)
}

// countSymbols counts the symbols of both stretches; clearCounts undoes it.
func (d *seqDiff) countSymbols(aLo, aHi, bLo, bHi int) {
	for _, s := range d.a[aLo:aHi] {
		d.counts[s].inA++
	}
	for i, s := range d.b[bLo:bHi] {
		d.counts[s].inB++
		d.counts[s].atB = int32(bLo + i)
	}
}

func (d *seqDiff) clearCounts(aLo, aHi, bLo, bHi int) {
	for _, s := range d.a[aLo:aHi] {
		d.counts[s] = symbolCount{}
	}
	for _, s := range d.b[bLo:bHi] {
		d.counts[s] = symbolCount{}
	}
}

type anchor struct{ a, b int }

// findAnchors returns the longest run of symbols that both stretches have exactly
// once and in the same order.
func (d *seqDiff) findAnchors(aLo, aHi, bLo, bHi int) []anchor {
	d.countSymbols(aLo, aHi, bLo, bHi)
	defer d.clearCounts(aLo, aHi, bLo, bHi)

	// Patience sorting: piles[k] is the candidate with the lowest place in b
	// that ends a run of k+1. Each candidate refers to the one before it in
	// its run.
	var (
		candidates    []anchor
		before, piles []int32
	)
	for i, s := range d.a[aLo:aHi] {
		c := d.counts[s]
		if c.inA != 1 || c.inB != 1 {
			continue
		}
		k, _ := slices.BinarySearchFunc(piles, int(c.atB), func(p int32, b int) int { return candidates[p].b - b })
		at, prev := int32(len(candidates)), int32(-1)
		if k > 0 {
			prev = piles[k-1]
		}
		candidates, before = append(candidates, anchor{aLo + i, int(c.atB)}), append(before, prev)
		if k == len(piles) {
			piles = append(piles, at)
		} else {
			piles[k] = at
		}
	}

	if len(piles) == 0 {
		return nil
	}

	run := make([]anchor, len(piles))
	for k, at := len(piles)-1, piles[len(piles)-1]; k >= 0; k, at = k-1, before[at] {
		run[k] = candidates[at]
	}

	return run
}

// searchLCS compares two stretches with package lcs. It leaves out symbols that
// only one stretch has. They cannot match, and would use up the limit of the
// search.
func (d *seqDiff) searchLCS(aLo, aHi, bLo, bHi int) {
	d.countSymbols(aLo, aHi, bLo, bHi)
	var as, bs []rune
	var aAt, bAt []int
	for i, s := range d.a[aLo:aHi] {
		if d.counts[s].inB > 0 {
			as, aAt = append(as, s), append(aAt, aLo+i)
		}
	}

	for i, s := range d.b[bLo:bHi] {
		if d.counts[s].inA > 0 {
			bs, bAt = append(bs, s), append(bAt, bLo+i)
		}
	}

	d.clearCounts(aLo, aHi, bLo, bHi)

	// The matches lie between the replacements. A match may fall apart where
	// symbols were left out.
	match := func(i, j, n int) {
		for k := range n {
			d.addReplacement(aLo, aAt[i+k], bLo, bAt[j+k])
			aLo, bLo = aAt[i+k]+1, bAt[j+k]+1
		}
	}

	i, j := 0, 0
	for _, r := range lcs.DiffRunes(as, bs) {
		match(i, j, r.Start-i)
		i, j = r.End, r.ReplEnd
	}

	match(i, j, len(as)-i)
	d.addReplacement(aLo, aHi, bLo, bHi)
}
