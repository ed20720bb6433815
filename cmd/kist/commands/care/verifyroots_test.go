package care

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object/sshsig"
)

// A signature that was required once is required from then on, even if a later root does not say so.
func TestMissingSignatures(t *testing.T) {
	root := func(seq uint64, required bool, signature string) signedRoot {
		return signedRoot{of: rootSignatureJSON{Seq: seq}, required: required, signature: []byte(signature)}
	}
	out := judgeRoots(&sshsig.AllowedSigners{}, []signedRoot{
		root(1, false, ""), root(2, false, "no signature"), root(3, false, ""), root(4, true, ""), root(5, false, ""),
	})
	var seqs []uint64
	var status []sshsig.Verdict
	for _, s := range out.Signatures {
		seqs, status = append(seqs, s.Seq), append(status, s.Status)
	}
	wantStatus := []sshsig.Verdict{sshsig.Bad, sshsig.None, sshsig.None}
	if out.Good != 0 || out.None != 2 || !slices.Equal(seqs, []uint64{2, 4, 5}) || !slices.Equal(status, wantStatus) {
		t.Errorf("%d good, %d without, roots %d are %q", out.Good, out.None, seqs, status)
	}
}
