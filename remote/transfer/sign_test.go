package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// writer signs roots with its name, and trusts such signatures.
type writer struct {
	name string
	lost error // there is no key
}

func (w *writer) FindKey(context.Context) error { return w.lost }

func (w *writer) SignRoot(context.Context, []byte) ([]byte, error) { return []byte(w.name), w.lost }

func (w *writer) VerifyRoot(_, signature []byte, _ time.Time) error {
	if !bytes.Equal(signature, []byte(w.name)) {
		return errors.New("signed by another writer")
	}
	return nil
}

// openSigned opens the remote of p again.
func openSigned(t *testing.T, p *transfertest.Pusher, b remote.Backend, sign rootlog.Signing) {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, p.Dir, func(o *transfer.Options) { o.Sign = sign })
	if err != nil {
		t.Fatal(err)
	}
	p.Remote = r
}

// An operation without a key to sign with ends before it writes anything. Whoever requires signatures makes the remote
// require them of everybody.
func TestSignedRemote(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p, q := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	q.Local, q.ReadWriter = p.Local, p.Local
	ann := &writer{name: "Ann"}
	openSigned(t, p, b, rootlog.Signing{Signer: ann, Verifier: ann})
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	if head := transfertest.NewCollector(t, b).Head(); !head.Signed {
		t.Error("the remote does not require signatures")
	}

	two := q.MakeGrown(2, one)
	lost := errors.New("the key is lost")
	openSigned(t, q, b, rootlog.Signing{Signer: &writer{lost: lost}})
	before := len(b.Names(""))
	push := func() error { _, err := q.PushBranch("main", two); return err }
	for name, err := range map[string]error{
		"push": push(),
		"repair": func() error {
			_, err := collect.Repair(t.Context(), q.Remote, q.Local, collect.RepairOptions{})
			return err
		}(),
		"collect": func() error {
			_, err := collect.PlanGarbage(t.Context(), q.Remote, nil, transfertest.AtOnce)
			return err
		}(),
		"send ahead": func() error {
			_, err := transfer.SendAhead(t.Context(), q.Remote, 1)
			return err
		}(),
		"change keys": changeKeys(t, q.Remote, lost),
	} {
		if e, ok := errors.AsType[*rootlog.SignError](err); !errors.Is(err, lost) || !ok || e.Seq != 2 {
			t.Errorf("%s: %v, want a root that cannot be signed", name, err)
		}
	}
	if len(b.Names("")) != before {
		t.Error("an operation without a key wrote to the remote")
	}

	// A foreign signature stops only who requires signatures.
	openSigned(t, q, b, rootlog.Signing{Signer: &writer{name: "Eve"}})
	if err := push(); err != nil {
		t.Errorf("signed by Eve: %v", err)
	}
	if _, err := p.Remote.Head(t.Context()); !errors.Is(err, rootlog.ErrUnsigned) {
		t.Errorf("the head signed by Eve: %v, want ErrUnsigned", err)
	}
	known, err := p.Remote.KnownHead()
	if err != nil || known.Seq != 1 {
		t.Errorf("remembered %v, %v; want root 1", known, err)
	}
}

// changeKeys changes the keys of a remote. For one in clear, it returns want.
func changeKeys(t *testing.T, r *transfer.Remote, want error) error {
	if !r.IsEncrypted() {
		return &rootlog.SignError{Seq: 2, Err: want}
	}
	_, err := transfer.ChangeKeyset(t.Context(), r, keyset.Plugins{}, func(k *keyset.Keyset, _ uint64) (*keyset.Keyset, error) { return k.Renew() })
	return err
}

// A look at the roots remembers nothing, not even without a Verifier: the next fetch still finds a root without a good signature.
func TestRootsRememberNothing(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	ann := &writer{name: "Ann"}
	openSigned(t, p, b, rootlog.Signing{Signer: ann, Verifier: ann})
	one := p.MakeGrown(1)
	p.MustPush("main", one)

	q := transfertest.NewPusher(t, b)
	q.Local, q.ReadWriter = p.Local, p.Local
	openSigned(t, q, b, rootlog.Signing{Signer: &writer{name: "Eve"}})
	q.MustPush("main", q.MakeGrown(2, one))

	openSigned(t, p, b, rootlog.Signing{})
	n := 0
	for _, err := range p.Remote.Roots(t.Context(), 0) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	openSigned(t, p, b, rootlog.Signing{Verifier: ann})
	if _, err := p.Remote.Head(t.Context()); n < 2 || !errors.Is(err, rootlog.ErrUnsigned) {
		t.Errorf("after a look at %d roots: %v, want ErrUnsigned", n, err)
	}
}
