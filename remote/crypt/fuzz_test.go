package crypt

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// FuzzOpen opens any bytes as a blob. They are authentic only if they are the stored bytes.
func FuzzOpen(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.name == rootName1, vector(f, v.name, v.plain), uint32(0), uint32(100))
	}
	f.Add(false, []byte{}, uint32(100_000), uint32(5))
	f.Add(true, bytes.Repeat([]byte{0xff}, 200), uint32(100_000), uint32(5))
	f.Fuzz(func(t *testing.T, root bool, stored []byte, off, n uint32) {
		v := vectors[0]
		if root {
			v = vectors[1]
		}
		m := remotetest.NewMemory()
		m.Set(v.name, stored)
		s := New(m, Options{Keys: testKeys(t, 1)})
		honest := vector(t, v.name, v.plain)

		for _, at := range []int64{0, int64(off)} {
			p := make([]byte, n%(1<<20))
			got, err := s.Get(context.Background(), v.name, p, at)
			switch {
			case len(p) == 0:
			case err == nil && !bytes.Equal(p[:got], pattern(v.plain)[min(at, int64(v.plain)):min(at+int64(len(p)), int64(v.plain))]):
				t.Errorf("%d bytes at %d are not the stored ones", got, at)
			case err == nil && (len(stored) < 64 || !bytes.Equal(stored[:64], honest[:64])):
				t.Errorf("another header is authentic")
			case err != nil && !errors.Is(err, remote.ErrDamaged) && !errors.Is(err, remote.ErrNewerFormat) && !errors.Is(err, remote.ErrNoKey):
				t.Errorf("error %v", err)
			}
		}
	})
}

// FuzzParsePin checks that a pin has one form only.
func FuzzParsePin(f *testing.F) {
	f.Add(Pin{Remote: counted[[16]byte](0x10), Key: Fingerprint{1}}.String())
	f.Add("00:11")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePin(text); err == nil && p.String() != text {
			t.Fatalf("%q is written as %q", text, p)
		}
	})
}
