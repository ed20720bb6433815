package jsonform

import "github.com/kist-vcs/kist/object/sshsig"

// Signature is the result of the check of a signature.
type Signature struct {
	Status      sshsig.Verdict `json:"status" doc:"the result of its check" values:"good|unknown-key|expired|bad|none"`
	Principal   string         `json:"principal,omitempty" doc:"who signed, as your allowed signers say"`
	Fingerprint string         `json:"fingerprint,omitempty" doc:"the hash of the key"`
}

func NewSignature(r sshsig.Result) *Signature {
	return &Signature{r.Status, r.Principal, r.Fingerprint}
}
