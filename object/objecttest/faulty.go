package objecttest

import (
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// ErrFault is the error of a call that a [Faulty] fails.
var ErrFault = errors.New("injected fault")

// Op is a method of [object.ReadWriter].
type Op uint8

// The methods.
const (
	Get Op = iota
	Missing
	Put
	ops
)

// Faulty passes calls on to another store, counts them, and fails some on demand. It is safe for
// concurrent use.
type Faulty struct {
	rw object.ReadWriter

	mu    sync.Mutex
	calls [ops]int
	fails [ops]int // number of the call that fails, counted like calls; 0: none
}

// NewFaulty returns a wrapper of rw without faults.
func NewFaulty(rw object.ReadWriter) *Faulty { return &Faulty{rw: rw} }

// Fail makes the n-th call of op from now on fail, without an effect. 1 is the next call.
func (f *Faulty) Fail(op Op, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[op] = f.calls[op] + n
}

// Calls returns the number of calls of op, including failed ones.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// countCall counts a call, and returns the error with which it fails.
func (f *Faulty) countCall(op Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[op]++; f.calls[op] == f.fails[op] {
		return ErrFault
	}
	return nil
}

// Get implements [object.Reader].
func (f *Faulty) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := f.countCall(Get); err != nil {
		return nil, err
	}
	return f.rw.Get(ctx, key)
}

// Missing implements [object.Reader].
func (f *Faulty) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	if err := f.countCall(Missing); err != nil {
		return nil, err
	}
	return f.rw.Missing(ctx, keys)
}

// Put implements [object.Writer].
func (f *Faulty) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	if err := f.countCall(Put); err != nil {
		return object.ID{}, err
	}
	return f.rw.Put(ctx, kind, data)
}
