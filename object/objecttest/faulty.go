package objecttest

import (
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// ErrFault is the error of a [Fault] that has none of its own.
var ErrFault = errors.New("injected fault")

// Op is a method of [object.ReadWriter].
type Op uint8

// The methods.
const (
	Any Op = iota // each call, of whatever method
	Get
	Missing
	Put
	ops
)

// Fault says which call fails, and how.
type Fault struct {
	Op    Op    // of what
	N     int   // the N-th call from now on, 1 being the next
	After bool  // fail after the call took effect, as when a reply is lost; otherwise it takes none
	Stays bool  // all later calls fail too
	Err   error // nil: ErrFault
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
	at int // count of calls of Op at which it strikes
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

// Heal forgets all faults.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Calls returns how many calls of op there were, failed ones included.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// next counts a call and returns the errors to return before or after it.
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
