package care

import (
	"context"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// rootSignaturesJSON is what verify prints with --json, --signatures and --remote.
type rootSignaturesJSON struct {
	Good       int                 `json:"good" doc:"the number of good signatures"`
	None       int                 `json:"none" doc:"the number of changes without a signature that need none"`
	Signatures []rootSignatureJSON `json:"signatures" doc:"the changes whose signature is not good, or missing"`
}

// rootSignatureJSON is a change of a remote whose signature is not good, or missing.
type rootSignatureJSON struct {
	Seq  uint64    `json:"seq" doc:"the number of the change"`
	Time time.Time `json:"time" doc:"when it was made, by its author's clock"`
	Who  string    `json:"who" doc:"who made it, as the change itself says"`
	Host string    `json:"host,omitempty" doc:"from where, as the change itself says"`
	*jsonform.Signature

	text string
}

// signedRoot is what a check of the signature of a root needs.
type signedRoot struct {
	of                 rootSignatureJSON
	message, signature []byte
	required           bool // by the policy of the root
}

// verifyRootSignatures checks the signatures of all roots that a remote has. It does not remember the head.
func (o verifyOptions) verifyRootSignatures(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	signers, err := env.NeedAllowedSigners()
	if err != nil {
		return err
	}
	list, err := o.readRootSignatures(ctx, env, r)
	if err != nil {
		return err
	}
	out := judgeRoots(signers, list)
	if env.JSON(out); !env.Global.JSON {
		printRootSignatures(env, out)
	}
	if n := len(out.Signatures); n > 0 {
		return cli.Failf(cli.ExitFailed, "signature", "%s not signed by a trusted key", readable.Plural(uint64(n), "change of "+cli.QuoteArg(o.remote)+" is", "changes of "+cli.QuoteArg(o.remote)+" are"))
	}
	return nil
}

// readRootSignatures reads the signatures of a remote's roots, the oldest first.
func (o verifyOptions) readRootSignatures(ctx context.Context, env *cli.Env, r *kist.Repository) ([]signedRoot, error) {
	name, err := share.RemoteArg(env, r, o.remote)
	if err != nil {
		return nil, err
	}
	opened, err := registry.OpenToInspect(ctx, r, name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()

	p := env.Progress("checking signatures of " + o.remote)
	defer p.Stop()
	var list []signedRoot
	for root, err := range opened.Roots(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if root.Stub { // its signature was removed with its content
			continue
		}
		s, err := newSignedRoot(opened.Log(), root)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		p.SetDone(uint64(len(list)), 0)
	}
	slices.Reverse(list)
	return list, nil
}

func newSignedRoot(l *rootlog.Log, root *rootlog.Root) (signedRoot, error) {
	s := signedRoot{of: rootSignatureJSON{Seq: root.Seq, Time: root.Time.UTC(), Who: root.Who, Host: root.Host}, required: root.MustBeSigned()}
	var err error
	s.message, s.signature, err = l.Signed(root)
	return s, err
}

// judgeRoots checks the signatures of roots, which are in their order. As for a fetch, a root is not older than the roots
// before it, and a signature that was required once is required from then on.
func judgeRoots(signers *sshsig.AllowedSigners, list []signedRoot) rootSignaturesJSON {
	out := rootSignaturesJSON{Signatures: []rootSignatureJSON{}}
	var at time.Time
	required := false
	for _, s := range list {
		if s.of.Time.After(at) {
			at = s.of.Time
		}
		required = required || s.required
		result := signers.Check(sshsig.RootNamespace, s.message, s.signature, at)
		switch {
		case result.Status == sshsig.Good:
			out.Good++
			continue
		case result.Status == sshsig.None && !required:
			out.None++
			continue
		}
		bad := s.of
		bad.Signature, bad.text = jsonform.NewSignature(result), "signature "+cli.SignatureText(result)
		if result.Status == sshsig.None {
			bad.text = "no signature, although the remote requires one"
		}
		out.Signatures = append(out.Signatures, bad)
	}
	return out
}

// printRootSignatures prints the results for a person.
func printRootSignatures(env *cli.Env, out rootSignaturesJSON) {
	for _, s := range out.Signatures {
		env.Printf("change %d of %s, as by %s: %s\n", s.Seq, s.Time.Local().Format(rootTime), cli.Printable(authorOf(s.Who, s.Host)), s.text)
	}
	env.PrintOutcome("%s good, %d not good; %s\n", readable.Plural(uint64(out.Good), "signature is", "signatures are"), len(out.Signatures),
		readable.Plural(uint64(out.None), "earlier change has none", "earlier changes have none"))
}
