package kist

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
)

// The keys of signatures.
const (
	KeySignKey        = "sign.key"             // the ssh key, see [sshsig.NewSigner]
	KeySignCommits    = "sign.commits"         // sign all commits that the user makes
	KeySignTags       = "sign.tags"            // sign all tags with a message
	KeySignRoots      = "sign.roots"           // sign all roots that are written to remotes
	KeyAllowedSigners = "sign.allowed-signers" // the file with the keys that the user trusts
)

// signKeys returns the keys of the section sign, sorted by name. The file of allowed signers is
// never one that a repository names: its owner would vouch for himself.
func signKeys() []ConfigKey {
	return []ConfigKey{
		{Name: KeyAllowedSigners, Form: "FILE", Scope: UserOnly, Help: "whose signatures you trust, in the format of ssh-keygen", check: checkTextSetting(checkHomePath)},
		{Name: KeySignCommits, Form: "true or false", Default: "false", Help: "sign all commits that you make", check: checkBoolSetting},
		{Name: KeySignKey, Form: "TEXT", Help: "your ssh key: a file, or a public key that an agent has", check: checkTextSetting(nil)},
		{Name: KeySignRoots, Form: "true or false", Default: "false", Help: "sign every change that you make to a remote", check: checkBoolSetting},
		{Name: KeySignTags, Form: "true or false", Default: "false", Help: "sign all tags with a message", check: checkBoolSetting},
	}
}

// checkHomePath accepts an absolute path, and one from the home folder on. A relative path would
// name a file of the repository in which a command runs.
func checkHomePath(path string) error {
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
		return errors.New("is not an absolute path; it may begin with ~/")
	}
	return nil
}

// Signing says how commits, tags and roots are signed.
type Signing struct {
	Keys    sshsig.KeySources // the places of the user's keys
	Key     string            // in place of [KeySignKey]
	Commits *bool             // in place of [KeySignCommits]
	Tags    *bool             // in place of [KeySignTags]

	// Allowed returns the signers that the user trusts, for remotes whose roots must be signed. Nil: nobody is trusted.
	Allowed func() (*sshsig.AllowedSigners, error)

	signer *sshsig.Signer // set when the repository is opened
}

// SignerOf returns the signer with the user's key. It looks for the key when it first signs.
func SignerOf(r *Repository) *sshsig.Signer { return r.opt.Sign.signer }

// newSigner returns the signer for the key of the options or of the configuration.
func (s Signing) newSigner(c *Config) *sshsig.Signer {
	key, _ := c.Get(KeySignKey)
	return sshsig.NewSigner(s.Keys, cmp.Or(s.Key, key))
}

// SignsCommits reports whether the commits that the user makes are signed.
func SignsCommits(r *Repository) bool { return signs(r, r.opt.Sign.Commits, KeySignCommits) }

// SignsTags reports whether the tags that the user makes are signed.
func SignsTags(r *Repository) bool { return signs(r, r.opt.Sign.Tags, KeySignTags) }

// SignsRoots reports whether all roots that the user writes are signed, and not only those of remotes that require it.
func SignsRoots(r *Repository) bool { return signs(r, nil, KeySignRoots) }

// RequiresSigned reports whether the roots of a remote must be signed by somebody whom the user trusts. Repo may be nil.
func RequiresSigned(user *UserConfig, repo *Config, name string) bool {
	values, _ := lookup(user, repo, "remote."+name+".require-signed")
	return len(values) == 1 && values[0] == "true"
}

// signs returns the choice of the command, or else that of the configuration.
func signs(r *Repository, chosen *bool, key string) bool {
	if chosen != nil {
		return *chosen
	}
	text, _ := r.config.Get(key)
	return text == "true"
}

// SignCommit signs a commit that the user makes, if the user's commits are signed. Otherwise, the
// commit loses a signature that it has: that is of another commit.
func SignCommit(ctx context.Context, r *Repository, c *object.Commit) error {
	c.Signature = nil
	if !SignsCommits(r) {
		return nil
	}
	return sshsig.SignCommit(ctx, SignerOf(r), c)
}
