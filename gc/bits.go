package gc

// bits is a set of the numbers below a limit.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

func (b bits) set(i int) { b[i/64] |= 1 << (i % 64) }
