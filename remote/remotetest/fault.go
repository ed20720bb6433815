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

// ErrFault is matched by the errors of faults, unless [Fault.Err] is a
// [*remote.Error].
var ErrFault = errors.New("injected fault")

// How is the way in which a call fails.
type How uint8

// The ways.
const (
	Before     How = iota // the call takes no effect
	After                 // it takes effect, but its reply is lost
	Short                 // Get and List: half of the reply arrives; other methods: as Before
	Stuck                 // it takes no effect and returns when its context ends
	StuckAfter            // it takes effect and returns when its context ends
	Wrong                 // Get: one byte of the reply is wrong, and there is no error
)

// Fault says which call fails, and how.
type Fault struct {
	Op    Op     // the method
	Name  string // the beginning of the name, or of List's prefix
	N     int    // fail the N-th such call from now on; 0 and 1 mean the next
	How   How
	Stays bool // all later calls fail too

	Byte int // for Wrong: the index of the byte, modulo the length of the reply

	// Err is the error or its kind. A [*remote.Error] is returned unchanged.
	// Nil means a temporary error.
	Err error

	// Do is called before the call, or after it if How is After. With Do and
	// without Err, the call does not fail.
	Do func()
}

// Rates are the probabilities, from 0 to 1, that a call fails.
type Rates struct {
	Before, After, Short float64

	Slow  float64       // the call takes longer by Delay; it may fail, too
	Delay time.Duration // ends with the context

	Hide float64 // an entry is missing in a list

	Ops []Op  // the calls that may fail; empty: all
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
	seen int // matching calls so far
}

// Fail adds a fault.
func (f *faults) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = append(f.planned, &plannedFault{Fault: fault})
}

// Random makes calls fail at random. Equal seeds and equal sequences of calls
// give equal failures.
func (f *faults) Random(seed uint64, rates Rates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates, f.rng = rates, rand.New(rand.NewPCG(seed, 1))
}

// Hide keeps names with these prefixes out of all lists.
func (f *faults) Hide(prefixes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden = append(f.hidden, prefixes...)
}

// Heal removes all faults, rates and hidden prefixes.
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

// A strike is the fault of one call.
type strike struct {
	how   How
	err   error // nil: it does not fail
	do    func()
	delay time.Duration
	byte  int
}

// next counts a call and applies the part of its fault that precedes it. The
// caller returns an error at once.
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

// after applies the fault that follows a call and returns the caller's error.
// Err is the error of the call.
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

// roll chooses a fault at random. The caller holds f.mu.
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

// hides reports whether a list must leave out a name.
func (f *faults) hides(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng != nil && f.rng.Float64() < f.rates.Hide {
		return true
	}
	return slices.ContainsFunc(f.hidden, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
