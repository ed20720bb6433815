package frame

import "sync"

// maxIdle is how many are kept for the next who needs one.
const maxIdle = 16

// idle keeps unused values that take long to make. A [sync.Pool] would lose
// them in every other garbage collection. While the heap is small, an
// encoder's tables would be rebuilt more often than used, and each rebuild
// would bring the next collection nearer. It is safe for concurrent use.
type idle[T any] struct {
	make func() T

	mu   sync.Mutex
	list []T
}

// get returns the value that was put last, or a new one.
func (p *idle[T]) get() T {
	p.mu.Lock()
	if n := len(p.list); n > 0 {
		x := p.list[n-1]
		clear(p.list[n-1:])
		p.list = p.list[:n-1]
		p.mu.Unlock()
		return x
	}
	p.mu.Unlock()
	return p.make()
}

// put keeps x for the next, unless enough are kept already.
func (p *idle[T]) put(x T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < maxIdle {
		p.list = append(p.list, x)
	}
}
