package objecttest

import (
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// ErrFault is the error of a [Fault] without Err.
var ErrFault = errors.New("injected fault")

// Op is a method of [object.ReadWriter].
type Op uint8

// The methods.
const (
	Any Op = iota // all methods
	Get
	Missing
	Put
	ops
)

// Fault describes a call that fails.
type Fault struct {
	Op    Op    // the method that fails
	N     int   // number of the failing call of Op; 1 is the next call
	After bool  // the call takes effect and then fails, as if the reply was lost; false: no effect
	Stays bool  // all later calls of Op fail too
	Err   error // the error of the call; nil stands for ErrFault
}

// Faulty passes calls on to another store and fails on demand. It
// is safe for concurrent use.
type Faulty struct {
	rw object.ReadWriter

	mu     sync.Mutex
	calls  [ops]int
	faults []plannedFault
}

type plannedFault struct {
	Fault
	at int // number of the first failing call, counted like Faulty.calls
}

// NewFaulty returns a wrapper of rw without faults.
func NewFaulty(rw object.ReadWriter) *Faulty { return &Faulty{rw: rw} }

// Fail adds a fault.
func (f *Faulty) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault.Err == nil {
		fault.Err = ErrFault
	}
	f.faults = append(f.faults, plannedFault{fault, f.calls[fault.Op] + fault.N})
}

// Heal removes all faults.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Calls returns the number of calls of op, including failed ones.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// next counts a call. It returns the errors with which the call fails before or after its effect.
func (f *Faulty) next(op Op) (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[Any]++
	f.calls[op]++
	for _, fault := range f.faults {
		now := f.calls[fault.Op]
		if fault.Op != Any && fault.Op != op || now < fault.at || now > fault.at && !fault.Stays {
			continue
		}
		if fault.After {
			after = fault.Err
		} else {
			before = fault.Err
		}
	}
	return before, after
}

// Get implements [object.Reader].
func (f *Faulty) Get(ctx context.Context, key object.Key) ([]byte, error) {
	return call(f, Get, func() ([]byte, error) { return f.rw.Get(ctx, key) })
}

// Missing implements [object.Reader].
func (f *Faulty) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return call(f, Missing, func() ([]object.Key, error) { return f.rw.Missing(ctx, keys) })
}

// Put implements [object.Writer].
func (f *Faulty) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	return call(f, Put, func() (object.ID, error) { return f.rw.Put(ctx, kind, data) })
}

func call[T any](f *Faulty, op Op, do func() (T, error)) (T, error) {
	var none T
	before, after := f.next(op)
	if before != nil {
		return none, before
	}
	result, err := do()
	if err == nil && after != nil {
		return none, after
	}
	return result, err
}
