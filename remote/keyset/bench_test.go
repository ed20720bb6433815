package keyset

import "testing"

func BenchmarkOpen(b *testing.B) {
	hybrid, x25519 := newHybrid(b), newX25519(b)
	k := newKeyset(b, recipient("hybrid", hybrid.Recipient()), recipient("recovery", newHybrid(b).Recipient()), recipient("x25519", x25519.Recipient().String()))
	data := seal(b, k).Bytes()
	for name, places := range map[string]Places{"hybrid": opens(b, hybrid), "classic": {Own: secretFile(b, x25519.String())}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := Parse(data)
				if err != nil {
					b.Fatal(err)
				}
				open(b, f, places) // with the reading of the file
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	k := newKeyset(b, recipient("hybrid", newHybrid(b).Recipient()), recipient("recovery", newHybrid(b).Recipient()), recipient("x25519", newX25519(b).Recipient().String()))
	b.ReportAllocs()
	for b.Loop() {
		seal(b, k)
	}
}
