package chunker

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"testing"

	restic "github.com/restic/chunker"
)

func TestValidate(t *testing.T) {
	const pol = testPolynomial
	tests := []struct {
		name string
		p    Params
		ok   bool
	}{
		{"default", DefaultParams(pol), true},
		{"least", Params{pol, 64, 64, 64}, true},
		{"greatest", Params{pol, 16 << 20, 16 << 20, 16 << 20}, true},
		{"for 64 KiB", ParamsFor(pol, 64<<10), true},
		{"for 4 MiB", ParamsFor(pol, 4<<20), true},
		{"zero", Params{}, false},
		{"minimum too small", Params{pol, 63, 64, 64}, false},
		{"minimum negative", Params{pol, -1, 64, 64}, false},
		{"maximum too large", Params{pol, 64, 64, 16<<20 + 1}, false},
		{"average not a power of two", Params{pol, 64, 100, 1000}, false},
		{"average 0", Params{pol, 64, 0, 1000}, false},
		{"average below the minimum", Params{pol, 256, 128, 1000}, false},
		{"average above the maximum", Params{pol, 64, 1024, 1000}, false},
		{"polynomial of a lower degree", Params{0x1da3358b4dc173 &^ (1 << 53), 64, 64, 64}, false},
		{"polynomial of a higher degree", Params{pol | 1<<54, 64, 64, 64}, false},
		{"reducible polynomial", Params{pol &^ 1, 64, 64, 64}, false},
		{"another reducible polynomial", Params{pol ^ 2, 64, 64, 64}, false},
	}

	for _, test := range tests {
		err := test.p.Validate()
		if (err == nil) != test.ok {
			t.Errorf("%s: Validate: %v, want valid = %t", test.name, err, test.ok)
		}
		if _, newErr := New(test.p); (newErr == nil) != test.ok {
			t.Errorf("%s: New: %v, want valid = %t", test.name, newErr, test.ok)
		}
	}
}

func TestIrreducibleSameAsRestic(t *testing.T) {
	rnd := mathrand.New(mathrand.NewPCG(1, 2))
	found := 0
	for range 1500 {
		p := 1<<degree | rnd.Uint64N(1<<degree)
		got, want := irreducible(p), restic.Pol(p).Irreducible()
		if got != want {
			t.Errorf("irreducible(%#x) = %t, want %t", p, got, want)
		}
		if got {
			found++
		}
	}
	if found < 10 {
		t.Errorf("%d of 1500 polynomials are irreducible, want at least 10", found)
	}
}

func TestRandomPolynomial(t *testing.T) {
	seen := map[uint64]bool{}
	for range 5 {
		pol, err := RandomPolynomial(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := DefaultParams(pol).Validate(); err != nil {
			t.Error(err)
		}
		seen[pol] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d different polynomials of 5, want all", len(seen))
	}
	first, _ := RandomPolynomial(bytes.NewReader(random(1, 4096)))
	second, _ := RandomPolynomial(bytes.NewReader(random(1, 4096)))
	if first != second || first == 0 {
		t.Errorf("polynomials of the same bytes: %#x and %#x, want equal ones", first, second)
	}
	if _, err := RandomPolynomial(bytes.NewReader(nil)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("RandomPolynomial without random bytes: %v, want ErrUnexpectedEOF", err)
	}
}
