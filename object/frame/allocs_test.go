//go:build !race

package frame

import "testing"

// TestNoAllocations checks that a round trip allocates nothing. The race detector allocates.
func TestNoAllocations(t *testing.T) {
	enc := NewEncoder(Fastest)
	data := text(100_000)
	value := make([]byte, 0, len(data)+AppendSlack(len(data)))
	back := make([]byte, 0, len(data)+DecodeSlack)
	allocs := testing.AllocsPerRun(50, func() {
		value = enc.Append(value[:0], data)
		back, _ = Decode(back[:0], value, len(data))
	})
	if allocs >= 1 {
		t.Errorf("%.1f allocations for each round trip, want none", allocs)
	}
}
