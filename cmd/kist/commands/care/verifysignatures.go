package care

import (
	"context"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// signaturesJSON is what verify prints with --json and --signatures.
type signaturesJSON struct {
	Good       int                `json:"good" doc:"the number of good signatures"`
	None       int                `json:"none" doc:"the number of commits and tags without a signature"`
	Signatures []badSignatureJSON `json:"signatures" doc:"the signatures that are not good"`
}

// badSignatureJSON is a signature that is not good.
type badSignatureJSON struct {
	Kind string    `json:"kind" doc:"commit or tag"`
	ID   object.ID `json:"id" doc:"the commit or tag"`
	Name string    `json:"name,omitempty" doc:"the full name of a tag"`
	*jsonform.Signature

	text string
}

// countResult counts a result.
func (s *signaturesJSON) countResult(key object.Key, name string, result sshsig.Result) {
	switch result.Status {
	case sshsig.Good:
		s.Good++
	case sshsig.None:
		s.None++
	default:
		s.Signatures = append(s.Signatures, badSignatureJSON{key.Kind.String(), key.ID, name, jsonform.NewSignature(result), cli.SignatureText(result)})
	}
}

// verifySignatures checks the signatures of all commits and tags that refs reach.
func verifySignatures(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	signers, err := env.NeedAllowedSigners()
	if err != nil {
		return err
	}
	out := signaturesJSON{Signatures: []badSignatureJSON{}}
	check := func(key object.Key, name string) error {
		result, err := signers.CheckNode(ctx, r.Objects(), key)
		if err == nil {
			out.countResult(key, name, result)
		}
		return err
	}

	starts, err := signedTags(ctx, r, check)
	if err != nil {
		return err
	}
	p := env.Progress("checking signatures")
	defer p.Stop()
	done := uint64(0)
	for c, err := range history.Walk(ctx, r.Objects(), starts, history.Options{}) {
		if err == nil {
			err = check(object.Key{Kind: object.KindCommit, ID: c.ID}, "")
		}
		if err != nil {
			return err
		}
		done++
		p.SetDone(done, 0)
	}
	p.Stop()

	env.JSON(out)
	if !env.Global.JSON {
		printSignatures(env, out)
	}
	if n := len(out.Signatures); n > 0 {
		return cli.Failf(cli.ExitFailed, "signature", "%s not good", readable.Plural(uint64(n), "signature is", "signatures are"))
	}
	return nil
}

// signedTags checks the tags that are objects, and returns the commits that refs lead to.
func signedTags(ctx context.Context, r *kist.Repository, check func(key object.Key, name string) error) ([]object.ID, error) {
	list, err := r.Refs().List("refs/")
	if err != nil {
		return nil, err
	}
	var starts []object.ID
	if head, err := r.Refs().Head(); err == nil && !head.Unborn() {
		starts = append(starts, head.ID)
	}
	for _, ref := range list {
		if object.IsLost(r.Objects(), object.Key{Kind: object.KindCommit, ID: ref.ID}) {
			continue
		}
		commit, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if err == nil && commit != ref.ID {
			err = check(object.Key{Kind: object.KindTag, ID: ref.ID}, ref.Name)
		}
		if err != nil {
			return nil, err
		}
		starts = append(starts, commit)
	}
	return starts, nil
}

// printSignatures prints the results for a person.
func printSignatures(env *cli.Env, out signaturesJSON) {
	for _, s := range out.Signatures {
		env.Printf("%s %s%s: signature %s\n", s.Kind, s.ID.Short(), strings.TrimSuffix(" "+cli.Printable(cli.ShortRef(s.Name)), " "), s.text)
	}
	env.PrintOutcome("%s good, %d not good; %s\n", readable.Plural(uint64(out.Good), "signature is", "signatures are"), len(out.Signatures),
		readable.Plural(uint64(out.None), "commit or tag has none", "commits and tags have none"))
}
