package rootlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/remote"
)

// Signing says how roots are signed and verified. With the zero Signing, no root can be appended to a log whose
// roots must be signed.
type Signing struct {
	// Signer signs the new roots of a log whose roots must be signed; with All, those of each log. It may be nil.
	Signer Signer
	All    bool

	// Verifier must accept each new root: Head returns an error that matches ErrUnsigned
	// if one is not signed. Nil: signatures are not checked.
	Verifier Verifier
}

// signs reports whether this program signs a new root that must be signed, or need not be.
func (s Signing) signs(must bool) bool { return s.Signer != nil && (must || s.All) }

// Signer signs roots.
type Signer interface {
	// FindKey returns an error if there is no key to sign with.
	FindKey(ctx context.Context) error

	// SignRoot returns a signature of message, of at most 8 KiB.
	SignRoot(ctx context.Context, message []byte) ([]byte, error)
}

// Verifier verifies the signatures of roots.
type Verifier interface {
	// VerifyRoot returns an error unless a key that is trusted at a time made a signature of message. The
	// time is that of the root, or of an earlier one if that is later.
	VerifyRoot(message, signature []byte, at time.Time) error
}

const (
	maxSignature  = 8 << 10
	signedPurpose = "kist root 1\n"
)

// UnsignedError is the error for a root without a good signature. It matches [ErrUnsigned].
type UnsignedError struct {
	Seq uint64
	Err error // the reason of the [Verifier]; nil: there is no signature
}

func (e *UnsignedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %v", RootName(e.Seq), ErrUnsigned)
	}
	return fmt.Sprintf("%s: %v: %v", RootName(e.Seq), ErrUnsigned, e.Err)
}

// Is makes errors.Is(err, ErrUnsigned) true.
func (e *UnsignedError) Is(target error) bool { return target == ErrUnsigned }

// Unwrap returns the reason.
func (e *UnsignedError) Unwrap() error { return e.Err }

// SignError is the error for a new root that cannot be signed.
type SignError struct {
	Seq uint64
	Err error // the reason of the [Signer]
}

func (e *SignError) Error() string {
	return fmt.Sprintf("%s has to be signed: %v", RootName(e.Seq), e.Err)
}

// Unwrap returns the reason.
func (e *SignError) Unwrap() error { return e.Err }

// CheckSigner returns an error if the root with change c after base has to be signed, and there is no key for it:
// [ErrNoSigner] or a [*SignError]. A writer asks before it sends anything.
func (l *Log) CheckSigner(ctx context.Context, base *State, c *Change) error {
	signed := base.Signed || c.Signed
	switch {
	case signed && l.o.Sign.Signer == nil:
		return ErrNoSigner
	case !l.o.Sign.signs(signed):
		return nil
	}
	if err := l.o.Sign.Signer.FindKey(ctx); err != nil {
		return &SignError{Seq: base.Seq + 1, Err: err}
	}
	return nil
}

// messageOf returns the bytes that the signature of a root signs: the purpose, the ID of the remote, and the
// hash of header and body without the signature.
func (l *Log) messageOf(body rootBody, more extra) ([]byte, error) {
	body.Signature = ""
	encoded, err := body.encodeBody(more)
	if err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(l.id.Remote)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(remote.AppendHeader(nil, remote.TypeRoot, remote.Version1), encoded...))
	return append(append([]byte(signedPurpose), id...), sum[:]...), nil
}

// sign adds a signature to a new root that has one.
func (l *Log) sign(ctx context.Context, body *rootBody, more extra) error {
	if !l.o.Sign.signs(body.Signed) {
		return nil
	}
	message, err := l.messageOf(*body, more)
	if err != nil {
		return err
	}
	signature, err := l.o.Sign.Signer.SignRoot(ctx, message)
	if err != nil {
		return &SignError{Seq: body.Seq, Err: err}
	}
	if len(signature) == 0 {
		return asInvalid(errors.New("empty signature"))
	}
	body.Signature = cbor.ByteString(signature)
	return nil
}

// MustBeSigned reports whether the policy of a root requires that it is signed. It is false for a stub.
func (r *Root) MustBeSigned() bool { return r.body != nil && r.body.Signed }

// Signed returns the signature of a root and the bytes that it signs. Without a signature, both are nil.
func (l *Log) Signed(r *Root) (message, signature []byte, err error) {
	if r.body == nil || r.body.Signature == "" {
		return nil, nil, nil
	}
	message, err = l.messageOf(*r.body, r.extra)
	return message, []byte(r.body.Signature), err
}

// verify returns an [*UnsignedError] if a root has no signature that the verifier accepts at a time.
func (l *Log) verify(r *Root, at time.Time) error {
	message, signature, err := l.Signed(r)
	if err == nil && signature != nil {
		err = l.o.Sign.Verifier.VerifyRoot(message, signature, at)
	}
	if err != nil || signature == nil {
		return &UnsignedError{Seq: r.Seq, Err: err}
	}
	return nil
}

// checkSigned checks the signatures of all roots after the remembered one, and that each follows the one
// before. At first contact, it checks the roots that were read: the last one, and all others whose policy
// requires a signature. The last one attests the earlier ones, whose hashes it has.
//
// A root does not count as older than any root before it, so that a false date does not make the signature
// of an expired key good.
func (s *sight) checkSigned(ctx context.Context, top uint64, remembered *Position) error {
	if s.l.o.Sign.Verifier == nil {
		return nil
	}
	if remembered == nil {
		return s.checkSignedSeen(top)
	}

	var at time.Time
	before := s.seen[remembered.Seq]
	if before != nil && before.root != nil {
		at = before.root.Time
	}
	for next := remembered.Seq + 1; next <= top; {
		batch := &sight{l: s.l, seen: map[uint64]*found{next - 1: before}}
		end := min(top, next+mostAhead-1)
		var seqs []uint64
		for seq := next; seq <= end; seq++ {
			seqs = append(seqs, seq)
		}
		if err := batch.readRoots(ctx, seqs...); err != nil {
			return err
		}
		for _, seq := range seqs {
			f := batch.seen[seq]
			switch {
			case f == nil:
				return damageError(RootName(seq), fmt.Errorf("it is gone, and there is %s", RootName(top)))
			case f.err != nil:
				return f.err
			case before != nil && f.root.Prev != before.hash:
				return damageError(RootName(seq), fmt.Errorf("it does not follow %s", RootName(seq-1)))
			}
			if f.root.Time.After(at) {
				at = f.root.Time
			}
			if err := s.l.verify(f.root, at); err != nil {
				return err
			}
			before = f
		}
		next = end + 1
	}
	if before != nil && top > remembered.Seq && before.hash != s.seen[top].hash {
		return damageError(RootName(top), errors.New("it has changed"))
	}
	return nil
}

// checkSignedSeen checks signatures at first contact.
func (s *sight) checkSignedSeen(top uint64) error {
	var at time.Time
	for _, seq := range slices.Sorted(maps.Keys(s.seen)) {
		f := s.seen[seq]
		if seq > top || f == nil || f.root == nil || f.root.body == nil {
			continue
		}
		if f.root.Time.After(at) {
			at = f.root.Time
		}
		if seq != top && !f.root.MustBeSigned() {
			continue
		}
		if err := s.l.verify(f.root, at); err != nil {
			return err
		}
	}
	return nil
}
