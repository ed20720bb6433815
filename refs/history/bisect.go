package history

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Suspect is a commit that may be the first bad one.
type Suspect struct {
	ID      object.ID
	Parents []object.ID // the parents with which the walk went on; other commits than suspects do not matter
	Same    bool        // the commit changed nothing of interest, so it is never chosen
	Skip    bool        // the commit cannot be tested
}

// Halving is the result of [Halve].
type Halving struct {
	Next    object.ID   // the commit to test next; zero: all suspects have Same or Skip
	Left    int         // suspects that remain after the test in the worse case
	Steps   int         // further tests, roughly
	Skipped []object.ID // suspects with Skip, among them all that may be the first bad commit
}

// Halve chooses the suspect whose test halves the suspects best. The test of a commit
// divides them into reached ones and others. Suspects are in the order of
// [Walk]: the newest, the bad commit, comes first. Of equally good ones Halve chooses the
// oldest, and like git, it is content with one very near the half.
//
// Neighbours of an untestable commit often cannot be tested either. So if the best commit
// has Skip, Halve chooses one somewhere else.
func Halve(suspects []Suspect) Halving {
	h := newHalver(suspects)
	best := h.chooseBest()
	if best < 0 {
		return Halving{}
	}

	var out Halving
	if h.skips {
		ranked := h.rankSuspects()
		var open []int
		for _, i := range ranked {
			if h.list[i].Skip {
				out.Skipped = append(out.Skipped, h.list[i].ID)
			} else {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		best = chooseElsewhere(open, h.list[ranked[0]].Skip)
	}

	out.Next = h.list[best].ID
	out.Left = max(0, h.total-h.weight[best]-1)
	if h.total >= 3 {
		power := bits.Len(uint(h.total)) - 1
		out.Steps = power
		if whole := 1 << power; whole >= 3*(h.total-whole) {
			out.Steps--
		}
	}
	return out
}

// chooseElsewhere returns the first of open, or if the best suspect cannot be tested, one further back.
// The choice depends on the number of suspects, so each further skip leads to another place.
// The last of open is the bad commit.
func chooseElsewhere(open []int, bestSkipped bool) int {
	if !bestSkipped || len(open) < 2 {
		return open[0]
	}
	n := len(open) - 1
	return open[(n*n*7919+n)/3%n]
}

// halver weighs suspects. A suspect's weight is the number of suspects without Same that it
// reaches, itself included.
type halver struct {
	list    []Suspect // the oldest first
	parents [][]int   // places in list
	weight  []int     // negative: not known yet
	total   int       // suspects without Same
	skips   bool      // there are suspects with Skip
}

func newHalver(suspects []Suspect) *halver {
	h := &halver{list: slices.Clone(suspects), parents: make([][]int, len(suspects)), weight: make([]int, len(suspects))}
	slices.Reverse(h.list)
	place := make(map[object.ID]int, len(h.list))
	for i, s := range h.list {
		place[s.ID] = i
		if !s.Same {
			h.total++
		}
		h.skips = h.skips || s.Skip
	}
	for i, s := range h.list {
		for _, p := range s.Parents {
			if at, ok := place[p]; ok {
				h.parents[i] = append(h.parents[i], at)
			}
		}
		h.weight[i] = -1
	}
	return h
}

// chooseBest returns the place of the best suspect, negative if all have Same. It weighs merges
// first, because their weight needs a walk of its own, and stops at a suspect near the half.
// If there are suspects with Skip, it weighs all.
func (h *halver) chooseBest() int {
	for i, parents := range h.parents {
		if len(parents) > 1 {
			h.weight[i] = h.countReached(i)
			if !h.skips && h.nearHalf(i) {
				return i
			}
		} else if len(parents) == 0 {
			h.weight[i] = h.ownWeight(i)
		}
	}

	for left := true; left; {
		left = false
		for i, parents := range h.parents {
			if h.weight[i] >= 0 {
				continue
			}
			if h.weight[parents[0]] < 0 { // only if a clock was wrong
				left = true
				continue
			}
			h.weight[i] = h.weight[parents[0]] + h.ownWeight(i)
			if !h.skips && h.nearHalf(i) {
				return i
			}
		}
	}

	best := -1
	for i := range h.list {
		if !h.list[i].Same && (best < 0 || h.smallerPart(i) > h.smallerPart(best)) {
			best = i
		}
	}
	return best
}

// ownWeight returns what a suspect adds to its own weight.
func (h *halver) ownWeight(i int) int {
	if h.list[i].Same {
		return 0
	}
	return 1
}

// countReached counts the suspects without Same that a suspect reaches.
func (h *halver) countReached(start int) int {
	seen := make([]bool, len(h.list))
	seen[start] = true
	n := 0
	for stack := []int{start}; len(stack) > 0; {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n += h.ownWeight(i)
		for _, p := range h.parents[i] {
			if !seen[p] {
				seen[p] = true
				stack = append(stack, p)
			}
		}
	}
	return n
}

// nearHalf reports whether the weight of a suspect is half of the total, to the next whole
// number or to a thousandth.
func (h *halver) nearHalf(i int) bool {
	off := max(2*h.weight[i]-h.total, h.total-2*h.weight[i])
	return !h.list[i].Same && (off <= 1 || off < h.total/1024)
}

// smallerPart returns the number of suspects in the smaller part.
func (h *halver) smallerPart(i int) int { return min(h.weight[i], h.total-h.weight[i]) }

// rankSuspects returns the places of the suspects without Same, the best first. It needs all
// weights, which chooseBest knows only if there are suspects with Skip.
func (h *halver) rankSuspects() []int {
	var order []int
	for i := range h.list {
		if !h.list[i].Same {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(h.smallerPart(b)-h.smallerPart(a), h.list[a].ID.Compare(h.list[b].ID))
	})
	return order
}
