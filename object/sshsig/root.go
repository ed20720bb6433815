package sshsig

import (
	"context"
	"fmt"
	"time"
)

// SignRoot returns the signature of a root of a remote.
func (s *Signer) SignRoot(ctx context.Context, message []byte) ([]byte, error) {
	return s.Sign(ctx, RootNamespace, message)
}

// VerifyRoot returns an error, a [*ResultError], unless a key that the user trusts at a time made the
// signature of a root.
func (a *AllowedSigners) VerifyRoot(message, signature []byte, at time.Time) error {
	return a.Check(RootNamespace, message, signature, at).AsError()
}

// ResultError is the error for a signature that is not good.
type ResultError struct{ Result }

func (e *ResultError) Error() string {
	if e.Err == nil {
		return "no signature"
	}
	if e.Fingerprint == "" {
		return fmt.Sprintf("signature %s: %v", e.Status, e.Err)
	}
	return fmt.Sprintf("signature %s, key %s: %v", e.Status, e.Fingerprint, e.Err)
}

// Unwrap returns the reason.
func (e *ResultError) Unwrap() error { return e.Err }

// AsError returns nil if r is good, and otherwise a [*ResultError].
func (r Result) AsError() error {
	if r.Status == Good {
		return nil
	}
	return &ResultError{r}
}
