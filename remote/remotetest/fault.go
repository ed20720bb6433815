package remotetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrFault is matched by the errors of faults, but for those that are
// [*remote.Error] already.
var ErrFault = errors.New("injected fault")

// How is the way in which a call fails.
type How uint8

// The ways.
const (
	Before     How = iota // the call takes no effect
	After                 // it takes effect, but its reply is lost
	Short                 // Get and List: half of the reply comes; else as Before
	Stuck                 // it takes no effect and returns when its context ends
	StuckAfter            // it takes effect and returns when its context ends
	Wrong                 // Get: one byte of the reply is wrong, and there is no error
)

// Fault says which call fails, and how.
type Fault struct {
	Op    Op     // of what
	Name  string // and names, or prefixes of List, that begin so
	N     int    // the N-th such call from now on; 0 and 1 are the next
	How   How
	Stays bool // all later calls fail too

	Byte int // of Wrong: which byte of the reply, counted around its end

	// Err is the error: nil for a temporary one, a [*remote.Error] to be
	// returned as it is, or else the kind of one.
	Err error

	// Do, if it is not nil, is called before the call or, if How is After,
	// after it; with Do and without Err the call does not fail.
	Do func()
}

// Rates are the probabilities, from 0 to 1, that a call fails.
type Rates struct {
	Before, After, Short float64

	Slow  float64       // that it takes longer by Delay; it may fail as well
	Delay time.Duration // ends with the context

	Hide float64 // that an entry of List is not in it

	Ops []Op  // which calls; empty: all
	Err error // as in Fault
}

// faults decides which calls fail.
type faults struct {
	mu      sync.Mutex
	calls   [ops]int
	planned []*plannedFault
	hidden  []string
	rates   Rates
	rng     *rand.Rand
}

type plannedFault struct {
	Fault
	seen int // calls it is about
}

// Fail adds a fault.
func (f *faults) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = append(f.planned, &plannedFault{Fault: fault})
}

// Random has calls fail at random, the same for the same seed and sequence of
// calls.
func (f *faults) Random(seed uint64, rates Rates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates, f.rng = rates, rand.New(rand.NewPCG(seed, 1))
}

// Hide keeps names that begin so out of all lists.
func (f *faults) Hide(prefixes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden = append(f.hidden, prefixes...)
}

// Heal forgets all faults, rates and what is hidden.
func (f *faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned, f.hidden, f.rates, f.rng = nil, nil, Rates{}, nil
}

// Calls returns how many calls of op there were, failed ones included.
func (f *faults) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// A strike is what happens to a call.
type strike struct {
	how   How
	err   error // nil: it does not fail
	do    func()
	delay time.Duration
	byte  int
}

// next counts a call and does what is to be done before it: an error is to be
// returned at once.
func (f *faults) next(ctx context.Context, op Op, name string) (strike, error) {
	s := f.decide(op, name)
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
	if s.how == Short && op != Get && op != List {
		s.how = Before
	}
	if s.do != nil && s.how != After {
		s.do()
		s.do = nil
	}
	switch {
	case s.err != nil && s.how == Before:
		return s, s.err
	case s.how == Stuck:
		<-ctx.Done()
		return s, ctx.Err()
	}
	return s, nil
}

// after does what is to be done after a call, which returned err, and returns
// what is to be returned.
func (s strike) after(ctx context.Context, err error) error {
	if s.do != nil {
		s.do()
	}
	switch {
	case err != nil:
		return err
	case s.how == StuckAfter:
		<-ctx.Done()
		return ctx.Err()
	}
	return s.err
}

func (f *faults) decide(op Op, name string) (s strike) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[Any]++
	f.calls[op]++
	var found *plannedFault
	for _, fault := range f.planned {
		if fault.Op != Any && fault.Op != op || !strings.HasPrefix(name, fault.Name) {
			continue
		}
		fault.seen++
		if now := max(fault.N, 1); found == nil && (fault.seen == now || fault.seen > now && fault.Stays) {
			found = fault
		}
	}
	if f.rng != nil && has(f.rates.Ops, op) {
		s = f.roll(op, name)
	}
	if found != nil {
		s.how, s.do, s.err, s.byte = found.How, found.Do, nil, found.Byte
		if (found.Do == nil || found.Err != nil) && found.How != Wrong {
			s.err = faultError(op, name, found.Err)
		}
	}
	return s
}

// roll decides at random. The lock must be held.
func (f *faults) roll(op Op, name string) (s strike) {
	slow, fate := f.rng.Float64(), f.rng.Float64()
	if slow < f.rates.Slow {
		s.delay = f.rates.Delay
	}
	for how, rate := range []float64{Before: f.rates.Before, After: f.rates.After, Short: f.rates.Short} {
		if fate < rate {
			s.how, s.err = How(how), faultError(op, name, f.rates.Err)
			return s
		}
		fate -= rate
	}
	return s
}

// hides reports whether a list is to lack a name.
func (f *faults) hides(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng != nil && f.rng.Float64() < f.rates.Hide {
		return true
	}
	return slices.ContainsFunc(f.hidden, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
