package index

import (
	"math/rand/v2"
	"testing"
)

// An entry is the same after Pack and Unpack. Pack refuses what Set refuses.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var unpacker Unpacker
	for range 1000 {
		want, got := randomEntry(r), randomEntry(r)
		want.Name = "a name"
		packed, ok := Pack([]byte("before"), &want)
		if !ok {
			t.Fatalf("%+v is refused", want)
		}
		unpacker.Unpack(&got, want.Name, packed[len("before"):])
		if got != want {
			t.Fatalf("unpacked %+v, want %+v", got, want)
		}
	}

	bad := file(1)
	bad.Mode = 0o100644
	if packed, ok := Pack([]byte("before"), &bad); ok || string(packed) != "before" {
		t.Errorf("an entry that Set refuses became %q", packed)
	}
}
