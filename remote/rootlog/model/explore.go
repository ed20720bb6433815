// Package model is a model of the protocol by which any number of processes
// share a remote (docs/format/remote.md), small enough to be explored
// completely: every state that any interleaving of their steps reaches, within
// bounds, is looked at for lost data.
//
// Three machines have a part of the protocol each: store.go packs, refs, and
// the collector; index.go index files; log.go the names of roots. runs.go has the
// bounds within which they are explored, mutations.go the ways to weaken the
// protocol, by the names that comments of rootlog and transfer use.
// docs/decisions/protocol-model.md tells how to work with it.
//
// Nothing but its test uses this package.
package model

import "slices"

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
	describe(s *S) []part
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

// part is something of a state that is shown in a line of its own.
type part struct{ what, text string }

// Options say how a machine is explored.
type Options struct {
	Cap   int  // stop when there are more states than this; 0: explore all
	First bool // stop at the first violation
	Trace bool // remember how each state was reached; takes memory
}

// Result is what exploring a machine has shown.
type Result struct {
	States     int
	Capped     bool // there are more states
	Violations int  // states that violate something; what follows from them is not explored
	Violation  string
	Reached    milestones
	Trace      []Step // to the first violation
}

// Step is a step of a trace and the state that it led to.
type Step struct {
	Name  string
	parts []part
}

// explore looks at each state that m can reach once, depth first.
func explore[S any](m machine[S], o Options) Result {
	type visit struct {
		state S
		node  int
	}
	type node struct {
		state  S
		step   string
		parent int
	}
	var (
		result Result
		now    visit
		key    []byte
		seen   = map[string]struct{}{}
		stack  []visit
		nodes  []node // of the trace
	)
	emit := func(step string, to S) {
		stack = append(stack, visit{state: to}) // on the stack first: what is passed to encode by reference would be allocated
		top := &stack[len(stack)-1]
		key = m.encode(key[:0], &top.state)
		if _, ok := seen[string(key)]; ok {
			stack = stack[:len(stack)-1]
			return
		}
		seen[string(key)] = struct{}{}
		if o.Trace {
			top.node = len(nodes)
			nodes = append(nodes, node{to, step, now.node})
		}
	}
	emit("start", m.start())
	for len(stack) > 0 {
		now = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if wrong := m.violation(&now.state); wrong != "" {
			result.Violations++
			if result.Violations == 1 {
				result.Violation = wrong
				for at := now.node; o.Trace; at = nodes[at].parent {
					result.Trace = append(result.Trace, Step{nodes[at].step, m.describe(&nodes[at].state)})
					if at == 0 {
						break
					}
				}
				slices.Reverse(result.Trace)
			}
			if o.First {
				break
			}
			continue
		}
		result.Reached |= m.reached(&now.state)
		m.next(&now.state, emit)
		if o.Cap > 0 && len(seen) > o.Cap {
			result.Capped = true
			break
		}
	}
	result.States = len(seen)
	return result
}
