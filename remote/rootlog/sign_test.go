package rootlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// testSigner signs with a hash of its name and the message. It trusts itself, until a time if that is set.
type testSigner struct {
	name  string
	until time.Time
	lost  error // the key is lost
}

func (s *testSigner) FindKey(context.Context) error { return s.lost }

func (s *testSigner) SignRoot(_ context.Context, message []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(s.name), message...))
	return sum[:], nil
}

func (s *testSigner) VerifyRoot(message, signature []byte, at time.Time) error {
	good, _ := s.SignRoot(ctx, message)
	switch {
	case !bytes.Equal(good, signature):
		return errors.New("bad signature")
	case !s.until.IsZero() && at.After(s.until):
		return errors.New("key expired")
	}
	return nil
}

// withKeys opens the log of l again, with a signer and a verifier, which may be nil.
func withKeys(t *testing.T, m *remotetest.Memory, l *Log, s, v *testSigner) *Log {
	t.Helper()
	o := Options{Rand: newRandom(t.Name() + "again"), Sleep: noWait}
	if s != nil {
		o.Sign.Signer, o.Sign.All = s, true
	}
	if v != nil {
		o.Sign.Verifier = v
	}
	return reopen(t, m, l.id, o)
}

// The signature signs the purpose, the ID of the remote, and the root without the signature.
func TestSignedMessage(t *testing.T) {
	m := remotetest.NewMemory()
	l := withKeys(t, m, newLog(t, m), &testSigner{name: "Ann"}, nil)
	s := mustAppend(t, l, grow(t, l, 1), Change{Time: noon, Policy: Policy{Signed: true}})
	root, err := l.At(ctx, s.Seq)
	if err != nil {
		t.Fatal(err)
	}

	var f map[string]any
	data := m.Data(RootName(s.Seq))
	if err := decoding.Unmarshal(data[remote.HeaderSize:len(data)-sha256.Size], &f); err != nil {
		t.Fatal(err)
	}
	signed := with(f, "signature", nil)
	sum := sha256.Sum256(signed[:len(signed)-sha256.Size])
	id, _ := hex.DecodeString(l.id.Remote)
	want := slices.Concat([]byte("kist root 1\n"), id, sum[:])
	message, signature, err := l.Signed(root)
	if err != nil || !bytes.Equal(message, want) || !bytes.Equal(signature, f["signature"].([]byte)) {
		t.Errorf("message %x, signature %x, %v; want message %x", message, signature, err, want)
	}
	if !slices.Equal(s.Write, []string{"signed"}) || !s.Signed || f["signed"] != true {
		t.Errorf("features %q, signed %t", s.Write, s.Signed)
	}
}

// Once roots are signed, every writer signs, collectors included.
func TestSignedIsSticky(t *testing.T) {
	m := remotetest.NewMemory()
	without := newLog(t, m)
	base := grow(t, without, 1)
	if _, err := without.Append(ctx, base, Change{Time: noon, Policy: Policy{Signed: true}}); !errors.Is(err, ErrNoSigner) {
		t.Errorf("switched on without a key: %v", err)
	}
	l := withKeys(t, m, without, &testSigner{name: "Ann"}, nil)
	s := mustAppend(t, l, base, Change{Time: noon, Policy: Policy{Signed: true}})
	for _, c := range []Change{move("main", 1, 2), {Time: noon, Condemn: []string{name(1).Path()}}} {
		if _, err := without.Append(ctx, s, c); !errors.Is(err, ErrNoSigner) {
			t.Errorf("change without a key: %v", err)
		}
		if s = mustAppend(t, l, s, c); !s.Signed || !slices.Contains(s.Write, "signed") {
			t.Errorf("root %d is not signed", s.Seq)
		}
	}
}

// A reader that requires signatures wants one on each root since the remembered one.
func TestRequireSigned(t *testing.T) {
	ann, eve := &testSigner{name: "Ann"}, &testSigner{name: "Eve"}
	m := remotetest.NewMemory()
	plain := newLog(t, m)
	l := withKeys(t, m, plain, ann, nil)
	begin := grow(t, plain, 3)
	s := mustAppend(t, l, begin, Change{Time: noon, Policy: Policy{Signed: true}})
	first := s.Position()
	for range 150 {
		s = mustAppend(t, l, s, Change{Time: noon})
	}
	reader := withKeys(t, m, plain, nil, ann)
	unsigned := func(what string, remembered *Position, want uint64) {
		t.Helper()
		_, err := reader.Head(ctx, remembered)
		e, ok := errors.AsType[*UnsignedError](err)
		if !ok || !errors.Is(err, ErrUnsigned) || e.Seq != want {
			t.Errorf("%s: %v, want root %d unsigned", what, err, want)
		}
	}

	for _, remembered := range []*Position{nil, &first, {s.Seq, s.Hash}} {
		if got := mustHead(t, reader, remembered); got.Hash != s.Hash {
			t.Errorf("head %v", got.Position())
		}
	}
	before := Position{2, mustAt(t, plain, 2).Hash}
	unsigned("roots before the policy", &before, 3)

	// Anybody who can write appends a root: by another key, in the middle too, or by none.
	backup := m.Snapshot()
	by := withKeys(t, m, plain, eve, nil)
	s = mustAppend(t, by, s, Change{Time: noon})
	unsigned("another key", &first, s.Seq)
	unsigned("another key, first contact", nil, s.Seq)
	for range 3 {
		s = mustAppend(t, l, s, Change{Time: noon})
	}
	unsigned("another key, and signed roots after it", &first, s.Seq-3)

	m.Restore(backup)
	head := mustHead(t, plain, nil)
	head.Signed = false // as a program does that does not know signatures, and ignores the feature
	head.Write = nil
	forged := mustAppend(t, plain, head, Change{Time: noon})
	unsigned("no signature", &first, forged.Seq)
	unsigned("no signature, first contact", nil, forged.Seq)
}

func mustAt(t *testing.T, l *Log, seq uint64) *Root {
	t.Helper()
	root, err := l.At(ctx, seq)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// A root with a false date is not older than the roots before it: the key of its author has expired.
func TestFalseDateOfSignature(t *testing.T) {
	ann, old := &testSigner{name: "Ann"}, &testSigner{name: "Ann", until: noon.Add(time.Hour)}
	m := remotetest.NewMemory()
	plain := newLog(t, m)
	l := withKeys(t, m, plain, ann, nil)
	s := mustAppend(t, l, grow(t, l, 1), Change{Time: noon})
	good := s.Position()
	reader := withKeys(t, m, plain, nil, old)
	if _, err := reader.Head(ctx, nil); err != nil {
		t.Errorf("before it expires: %v", err)
	}

	s = mustAppend(t, l, s, Change{Time: noon.Add(2 * time.Hour)})
	remembered := s.Position()
	mustAppend(t, l, s, Change{Time: noon})
	for _, at := range []*Position{&good, &remembered, nil} {
		if _, err := reader.Head(ctx, at); !errors.Is(err, ErrUnsigned) {
			t.Errorf("a false date: %v", err)
		}
	}
}

// A writer signs the roots that must be signed, and with All every root. It asks for its key before it sends anything.
func TestWhichRootsAreSigned(t *testing.T) {
	lost := errors.New("the key is lost")
	required := Change{Time: noon, Policy: Policy{Signed: true}}
	for _, c := range []struct {
		name     string
		sign     Signing
		base     bool // the policy of the root before
		change   Change
		want     bool
		checking error
	}{
		{"no key", Signing{}, false, Change{Time: noon}, false, nil},
		{"a key", Signing{Signer: &testSigner{}}, false, Change{Time: noon}, false, nil},
		{"a key for all", Signing{Signer: &testSigner{}, All: true}, false, Change{Time: noon}, true, nil},
		{"a lost key", Signing{Signer: &testSigner{lost: lost}}, false, Change{Time: noon}, false, nil},
		{"a lost key for all", Signing{Signer: &testSigner{lost: lost}, All: true}, false, Change{Time: noon}, true, lost},
		{"required before", Signing{Signer: &testSigner{}}, true, Change{Time: noon}, true, nil},
		{"required from now on", Signing{Signer: &testSigner{}}, false, required, true, nil},
		{"required, a lost key", Signing{Signer: &testSigner{lost: lost}}, true, Change{Time: noon}, true, lost},
		{"required, no key", Signing{}, true, Change{Time: noon}, false, ErrNoSigner},
		{"required from now on, no key", Signing{}, false, required, false, ErrNoSigner},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := remotetest.NewMemory()
			before := withKeys(t, m, newLog(t, m), &testSigner{}, nil)
			base := mustAppend(t, before, grow(t, before, 1), Change{Time: noon, Policy: Policy{Signed: c.base}})
			l := reopen(t, m, before.id, Options{Rand: newRandom(t.Name() + "new"), Sleep: noWait, Sign: c.sign})

			err := l.CheckSigner(ctx, base, &c.change)
			if !errors.Is(err, c.checking) || errors.Is(err, lost) && cannotSign(err) != base.Seq+1 {
				t.Errorf("check: %v, want %v", err, c.checking)
			}
			if errors.Is(c.checking, ErrNoSigner) {
				if _, err := l.Append(ctx, base, c.change); !errors.Is(err, ErrNoSigner) {
					t.Errorf("appended: %v", err)
				}
				return
			}
			root := mustAt(t, l, mustAppend(t, l, base, c.change).Seq)
			_, signature, err := l.Signed(root)
			if err != nil || (signature != nil) != c.want || root.MustBeSigned() != (c.base || c.change.Signed) {
				t.Errorf("signature %x, must be signed %t, %v; want a signature: %t", signature, root.MustBeSigned(), err, c.want)
			}
		})
	}
}

// cannotSign returns the number of the root that cannot be signed.
func cannotSign(err error) uint64 {
	e, _ := errors.AsType[*SignError](err)
	if e == nil {
		return 0
	}
	return e.Seq
}
