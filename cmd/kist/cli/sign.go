package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/sshsig"
)

// SignFlags are the options of commands that make commits or tags.
type SignFlags struct {
	wanted *bool // nil: the configuration decides
	key    string
}

// Register adds --sign and --no-sign to a command. The letter is that of --sign. The help
// calls the signed thing by a noun, as in "the commit".
func (o *SignFlags) Register(cmd *cobra.Command, letter, noun string) {
	flags := cmd.Flags()
	flags.VarP(signValue{o}, "sign", letter, "sign "+noun+", with the ssh key `KEY` or by default that of sign.key")
	flags.Lookup("sign").NoOptDefVal = ownKey
	WithoutValue(flags, "no-sign", "do not sign "+noun+", whatever the configuration says", func() error {
		o.wanted, o.key = new(bool), ""
		return nil
	})
}

// ownKey stands for the key of the configuration.
const ownKey = "sign.key"

// signValue is the value of --sign.
type signValue struct{ o *SignFlags }

func (v signValue) String() string { return "" }
func (v signValue) Type() string   { return "KEY" }

func (v signValue) Set(key string) error {
	yes := true
	v.o.wanted, v.o.key = &yes, ""
	if key != ownKey {
		v.o.key = key
	}
	if key == "" {
		return errors.New("names no key")
	}
	return nil
}

// Use names the key for signatures, and demands them.
func (o *SignFlags) Use(key string) error { return signValue{o}.Set(key) }

// Wanted reports whether --sign was given.
func (o *SignFlags) Wanted() bool { return o.wanted != nil && *o.wanted }

// signingOptions returns the user's keys, and the choices of the command.
func (e *Env) signingOptions() kist.Signing {
	o := kist.Signing{
		Keys: sshsig.KeySources{Agent: e.Getenv("SSH_AUTH_SOCK"), Home: e.Getenv("HOME"), Passphrase: e.askPassphrase},
		Key:  e.keyPath(e.Repo.Commits.key), Commits: e.Repo.Commits.wanted, Tags: e.Repo.Tags.wanted, Allowed: e.NeedAllowedSigners,
	}
	if e.Repo.Tags.key != "" {
		o.Key = e.keyPath(e.Repo.Tags.key)
	}
	if o.Keys.Home != "" {
		o.Keys.Folder = filepath.Join(o.Keys.Home, ".ssh")
	}
	if !e.Terminal.Stdin || !e.Terminal.Stderr {
		o.Keys.Passphrase = nil
	}
	return o
}

// keyPath returns the name of a key on the command line, where a path may be relative.
func (e *Env) keyPath(name string) string {
	if name == "" || strings.HasPrefix(name, "~") || strings.Contains(name, " ") || strings.HasPrefix(name, "key::") {
		return name
	}
	return e.Path(name)
}

// askPassphrase asks for the passphrase of a key file on the terminal.
func (e *Env) askPassphrase(ctx context.Context, file string) ([]byte, error) {
	text, err := ReadSecret(e, "passphrase of "+QuotePath(file)+": ")
	if err == nil {
		err = ctx.Err()
	}
	return []byte(text), err
}

// errNoSigners is the error for a check without a file of allowed signers.
var errNoSigners = errors.New("no file of allowed signers is set, so no signature is trusted")

// AllowedSigners returns the signers that the user trusts: those of sign.allowed-signers in the
// user's own configuration, nil if it is not set. A repository cannot name that file.
func (e *Env) AllowedSigners() (*sshsig.AllowedSigners, error) {
	name := e.User.Get(kist.KeyAllowedSigners)
	if name == "" {
		return nil, nil
	}
	fail := func(err error) error {
		return Hintf(Failf(ExitUsage, "config", "allowed signers, %s: %w", QuotePath(name), err), "see 'kist help sign' for the format of the file")
	}
	f, err := os.OpenFile(e.userPath(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return nil, fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fail(err)
	case !info.Mode().IsRegular():
		return nil, fail(errors.New("not a file"))
	case info.Mode().Perm()&0o002 != 0:
		return nil, fail(errors.New("everybody on this machine can change it"))
	}
	data, err := io.ReadAll(io.LimitReader(f, sshsig.MaxAllowedSigners+1))
	if err != nil {
		return nil, fail(err)
	}
	signers, err := sshsig.ParseAllowedSigners(data, e.Now().Location())
	if err != nil {
		return nil, fail(err)
	}
	return signers, nil
}

// NeedAllowedSigners is AllowedSigners for a command that wants trusted signatures.
func (e *Env) NeedAllowedSigners() (*sshsig.AllowedSigners, error) {
	signers, err := e.AllowedSigners()
	if err == nil && signers == nil {
		err = Hintf(Failf(ExitUsage, "config", "%w", errNoSigners), "'kist config --global %s ~/.ssh/allowed_signers' sets it; see 'kist help sign'", kist.KeyAllowedSigners)
	}
	return signers, err
}

// WantGood returns an error unless the signature of a thing is good.
func WantGood(what string, result sshsig.Result) error {
	switch result.Status {
	case sshsig.Good:
		return nil
	case sshsig.None:
		return Failf(ExitFailed, "signature", "%s has no signature", what)
	}
	return Failf(ExitFailed, "signature", "%s has no good signature: %s", what, SignatureText(result))
}

// SignatureText returns the result of a check for a person.
func SignatureText(result sshsig.Result) string {
	key := ""
	if result.Fingerprint != "" {
		key = ", " + result.KeyType + " key " + result.Fingerprint
	}
	switch result.Status {
	case sshsig.Good:
		return "good, by " + Printable(result.Principal) + key
	case sshsig.UnknownKey:
		if errors.Is(result.Err, sshsig.ErrNotAllowed) {
			return "by an unknown key" + key
		}
		return "by an unknown key" + key + ": " + Printable(result.Err.Error())
	case sshsig.Expired:
		return "expired, by " + Printable(result.Principal) + key
	case sshsig.None:
		return "no"
	}
	return "BAD" + key + ": " + Printable(result.Err.Error())
}
