package volume

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// TestTableSorted checks that sorted returns records in the order of their keys, also if
// the first bytes of their IDs are equal.
func TestTableSorted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	table := newTable()
	var want []object.Key
	for i := range 3 * tableChunk {
		key := object.Key{Kind: object.Kind(1 + rnd.IntN(4))}
		key.ID[0] = byte(rnd.IntN(2) * 255)
		key.ID[6+rnd.IntN(26)] = byte(rnd.IntN(256))
		key.ID[30], key.ID[31] = byte(i), byte(i>>8)
		want = append(want, key)
		table.addRecord(addedObject{id: key.ID, kind: key.Kind})
	}
	slices.SortFunc(want, object.Key.Compare)
	for i, number := range table.sortedNumbers() {
		if got := table.keyOf(table.recordAt(int(number))); got != want[i] {
			t.Fatalf("record %d is %s, want %s", i, got, want[i])
		}
	}
}
