package model

// machine models a part of the protocol as a state machine. A state is immutable,
// and so is everything that it refers to.
type machine[S any] interface {
	start() S

	// next calls emit for each possible step, with its name and the new state.
	next(s *S, emit func(step string, to S))

	// violation names the damage in s, or returns "".
	violation(s *S) string

	// encode appends the canonical form of s to dst. It is the same for states
	// that differ only in the order of two processes of one kind.
	encode(dst []byte, s *S) []byte

	// reached returns the milestones of s. A run must reach its milestones, so it
	// cannot pass because nothing happens.
	reached(s *S) milestones

	// describe returns s as text. All states have the same number of parts.
	describe(s *S) []part
}

// milestones is a set of events that a run must reach.
type milestones uint32

// The milestones.
const (
	pushed milestones = 1 << iota
	pushedAfterReplan
	held
	expired
	repacked
	merged // index files
	delisted
	acknowledged // a writer knows that its push succeeded
	cutOff       // the first root is removed
	stubbed      // the first root is a stub
	restored     // the store is restored from a backup
	rotated      // an epoch of keys has begun
	changedTwice // two changes of keys are in the log
	keysetDeleted
	keptAlone     // only a keep ref reaches what a clone has given away
	reliedOnAway  // a commit relies on content that is away
	promiseBroken // somebody deleted a keep ref, and content that was away is lost
)

func (m milestones) String() string {
	return bitNames(uint(m), "pushed", "pushed after planning again", "held", "expired", "repacked", "merged", "delisted",
		"acknowledged", "cut off", "stubbed", "restored", "rotated", "changed twice", "keyset deleted",
		"kept alone", "relied on away content", "promise broken")
}

// part is one line of a state in a trace.
type part struct{ what, text string }

// options configure an exploration.
type options struct {
	cap int // the largest number of states; 0 means no limit

	// first stops at the first violation. The search is breadth first then, so the
	// trace is one of the shortest. It takes more memory.
	first bool
}

// result is the result of an exploration.
type result struct {
	states     int
	capped     bool // there are more states
	violations int  // states with damage; their successors are not explored
	violation  string
	reached    milestones
	trace      []traceStep // to the first violation, if options.first is set
}

// traceStep is a step of a trace and the state after it.
type traceStep struct {
	name  string
	state []part
}

// node is a state of a trace, with the step before it.
type node[S any] struct {
	state  S
	step   string
	parent int
}

// explore visits each reachable state of m once. It goes depth first, because that
// keeps few states in memory.
func explore[S any](m machine[S], o options) result {
	var (
		found result
		now   S
		at    int // number of now in nodes
		key   []byte
		seen  = map[string]struct{}{}
		stack []S
		nodes []node[S] // replaces stack if o.first is set
	)

	emit := func(step string, to S) {
		stack = append(stack, to) // a reference to the parameter instead would allocate
		last := len(stack) - 1
		key = m.encode(key[:0], &stack[last])
		_, known := seen[string(key)]
		if !known {
			seen[string(key)] = struct{}{}
		}
		if known || o.first {
			stack = stack[:last]
		}
		if !known && o.first {
			nodes = append(nodes, node[S]{to, step, at})
		}
	}

	emit("start", m.start())
	for ; len(stack) > 0 || at < len(nodes); at++ {
		if o.first {
			now = nodes[at].state
		} else {
			last := len(stack) - 1
			now, stack = stack[last], stack[:last]
		}
		if wrong := m.violation(&now); wrong != "" {
			found.violations++
			if found.violations == 1 {
				found.violation = wrong
			}
			if o.first {
				found.trace = trace(m, nodes, at)
				break
			}
			continue
		}

		found.reached |= m.reached(&now)
		m.next(&now, emit)
		if o.cap > 0 && len(seen) > o.cap {
			found.capped = true
			break
		}
	}

	found.states = len(seen)
	return found
}

// trace returns the steps from the first node to the given one.
func trace[S any](m machine[S], nodes []node[S], to int) []traceStep {
	step := traceStep{nodes[to].step, m.describe(&nodes[to].state)}
	if to == 0 {
		return []traceStep{step}
	}
	return append(trace(m, nodes, nodes[to].parent), step)
}
