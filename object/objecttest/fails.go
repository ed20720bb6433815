package objecttest

import (
	"runtime"
	"sync"
	"testing"
)

// Fails runs a check and reports whether it fails. The test t does not fail. The check may
// fail only by Error, Errorf and Fatalf.
func Fails(t testing.TB, check func(testing.TB)) bool {
	r := &recorder{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { check(r) })
	wg.Wait()
	return r.failed
}

// recorder is a testing.TB that only notes that a check failed.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Error(...any) { r.recordFailure() }

func (r *recorder) Errorf(string, ...any) { r.recordFailure() }

func (r *recorder) Fatalf(string, ...any) { r.recordFailure(); runtime.Goexit() }

func (r *recorder) recordFailure() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}
