// Package model is a model of the protocol by which any number of processes
// share a remote (docs/format/remote.md), small enough to be explored
// completely: every state that any interleaving of their steps reaches, within
// bounds, is looked at for lost data.
//
// Three machines have a part of the protocol each: store*.go packs, refs, and
// the collector; index*.go index files; log*.go the names of roots. runs.go has
// the bounds within which they are explored, mutations.go the ways to weaken the
// protocol, by the names that comments of rootlog and transfer use.
// docs/decisions/protocol-model.md tells how to work with it.
//
// Nothing but its test uses this package.
package model

// machine is a part of the protocol as a state machine. States are values: what
// they refer to is never changed.
type machine[S any] interface {
	start() S

	// next calls emit for each step that is possible in s, with the name of
	// the step and the state that it leads to.
	next(s *S, emit func(step string, to S))

	// violation says what is wrong with s; "" if nothing is.
	violation(s *S) string

	// encode appends the canonical form of s to dst. States that differ only
	// in which of two processes of a kind is which have the same.
	encode(dst []byte, s *S) []byte

	// reached has the milestones that s is at. A run that misses some of
	// them has explored nothing of interest.
	reached(s *S) milestones

	// describe has s for people, with the same number of parts for all states.
	describe(s *S) []Part
}

// milestones is a set of what the states of a run are there to reach.
type milestones uint16

// The milestones.
const (
	pushed milestones = 1 << iota
	pushedAfterReplan
	held
	expired
	repacked
	merged // index files
	delisted
	acknowledged // a push, to its writer
	cutOff       // the first root of the log
	stubbed      // the first root of the log
	restored     // the remote, from a backup
)

func (m milestones) String() string {
	return letters(uint(m), "pushed", "pushed after planning again", "held", "expired", "repacked", "merged", "delisted",
		"acknowledged", "cut off", "stubbed", "restored")
}

// Part is something of a state that is shown in a line of its own.
type Part struct{ What, Text string }

// Options say how a machine is explored.
type Options struct {
	Cap int // stop when there are more states than this; 0: explore all

	// First stops at the first violation, and explores breadth first, so that
	// the trace to it is one of the shortest. It takes more memory.
	First bool
}

// Result is what exploring a machine has shown.
type Result struct {
	States     int
	Capped     bool // there are more states
	Violations int  // states that violate something; what follows from them is not explored
	Violation  string
	Reached    milestones
	Trace      []Step // to the first violation, if only that was asked for
}

// Step is a step of a trace and the state that it led to.
type Step struct {
	Name  string
	State []Part
}

// node is a state of a trace, and how it was reached.
type node[S any] struct {
	state  S
	step   string
	parent int
}

// explore looks at each state that m can reach once; depth first, because that
// takes little memory for states to be looked at.
func explore[S any](m machine[S], o Options) Result {
	var (
		result Result
		now    S
		at     int // number of now in nodes
		key    []byte
		seen   = map[string]struct{}{}
		stack  []S
		nodes  []node[S] // in place of stack, if o.First
	)
	emit := func(step string, to S) {
		stack = append(stack, to) // at once: what is passed to encode by reference would be allocated
		last := len(stack) - 1
		key = m.encode(key[:0], &stack[last])
		_, known := seen[string(key)]
		if !known {
			seen[string(key)] = struct{}{}
		}
		if known || o.First {
			stack = stack[:last]
		}
		if !known && o.First {
			nodes = append(nodes, node[S]{to, step, at})
		}
	}
	emit("start", m.start())
	for ; len(stack) > 0 || at < len(nodes); at++ {
		if o.First {
			now = nodes[at].state
		} else {
			last := len(stack) - 1
			now, stack = stack[last], stack[:last]
		}
		if wrong := m.violation(&now); wrong != "" {
			result.Violations++
			if result.Violations == 1 {
				result.Violation = wrong
			}
			if o.First {
				result.Trace = trace(m, nodes, at)
				break
			}
			continue
		}
		result.Reached |= m.reached(&now)
		m.next(&now, emit)
		if o.Cap > 0 && len(seen) > o.Cap {
			result.Capped = true
			break
		}
	}
	result.States = len(seen)
	return result
}

// trace has the steps from the first node to one of them.
func trace[S any](m machine[S], nodes []node[S], to int) []Step {
	step := Step{nodes[to].step, m.describe(&nodes[to].state)}
	if to == 0 {
		return []Step{step}
	}
	return append(trace(m, nodes, nodes[to].parent), step)
}
