package care

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/keyset"
)

// encryption has the options of 'remote add' for an encrypted remote.
type encryption struct {
	wanted       bool
	recipients   []string
	passphrase   bool
	recoveryFile string
	noRecovery   bool
}

func (e *encryption) register(flags *pflag.FlagSet) {
	flags.BoolVar(&e.wanted, "encrypted", false, "encrypt everything before it leaves this machine")
	flags.StringArrayVar(&e.recipients, "recipient", nil, "with --encrypted: `KEY` can read it, too: a public key, or a file")
	flags.BoolVar(&e.passphrase, "passphrase", false, "with --encrypted: a passphrase can read it, too")
	flags.StringVar(&e.recoveryFile, "recovery-file", "", "with --encrypted: write the recovery key to `FILE`")
	flags.BoolVar(&e.noRecovery, "no-recovery", false, "with --encrypted: make no recovery key")
}

// checkOptions returns an error if the options do not fit together.
func (e *encryption) checkOptions(env *cli.Env) error {
	switch {
	case !e.wanted && (len(e.recipients) > 0 || e.passphrase || e.recoveryFile != "" || e.noRecovery):
		return cli.Usagef("--recipient, --passphrase, --recovery-file and --no-recovery need --encrypted")
	case e.noRecovery && e.recoveryFile != "":
		return cli.Usagef("--recovery-file and --no-recovery exclude each other")
	case e.wanted && !e.noRecovery && e.recoveryFile == "" && (!env.Terminal.Stdout || env.Global.JSON):
		return cli.Hintf(cli.Usagef("the recovery key can be shown only on a terminal"), "--recovery-file writes it to a file; --no-recovery makes none")
	}
	return nil
}

// The names of the recipients whose identity is on paper, or locked with a passphrase.
const (
	recoveryName   = "recovery"
	passphraseName = "passphrase"
)

// makeRemote makes the store of m an encrypted remote.
func (e *encryption) makeRemote(ctx context.Context, env *cli.Env, r *kist.Repository, m registry.Remote) (registry.Remote, error) {
	now := env.Now().UTC().Truncate(time.Second)
	recipients, err := e.ownRecipients(ctx, env, now)
	if err != nil {
		return m, err
	}
	named, err := e.namedRecipients(env, recipients, now)
	if err != nil {
		return m, err
	}
	recipients = append(recipients, named...)
	if e.passphrase {
		secret, err := newPassphrase(ctx, env)
		if err != nil {
			return m, err
		}
		r, err := keyset.PassphraseRecipient(passphraseName, secret, now)
		if err != nil {
			return m, err
		}
		recipients = append(recipients, r)
	}
	if !e.noRecovery {
		recovery, err := e.makeRecovery(env, now)
		if err != nil {
			return m, err
		}
		recipients = append(recipients, keyset.Recipient{Name: recoveryName, Key: recovery.Recipient(), Added: now})
	}
	plugins, err := env.Identities().Plugins()
	if err != nil {
		return m, err
	}
	return registry.MakeEncrypted(ctx, r, m, recipients, plugins)
}

// ownRecipients returns the user's own public keys. It makes an identity for a user who has none, unless a
// passphrase or another recipient can read the remote.
func (e *encryption) ownRecipients(ctx context.Context, env *cli.Env, now time.Time) (list []keyset.Recipient, err error) {
	own, err := env.Identities().Own(ctx)
	if err != nil {
		return nil, err
	}
	if len(own.Recipients) == 0 && len(own.Plugins) == 0 && !e.passphrase && len(e.recipients) == 0 {
		path, err := cli.IdentityFile(env)
		if err != nil {
			return nil, err
		}
		made, err := keyset.NewIdentity()
		if err != nil {
			return nil, err
		}
		if err := keyset.Create(path, made.File(now)); err != nil {
			return nil, err
		}
		env.PrintOutcome("made your identity: %s\n", cli.QuoteArg(path))
		own.Recipients = []string{made.Recipient()}
	}
	base := machineName(env)
	for _, key := range own.Recipients {
		list = append(list, keyset.Recipient{Name: freeName(base, list), Key: key, Added: now})
	}
	return list, nil
}

// machineName returns the name of a recipient for this user on this machine.
func machineName(env *cli.Env) string {
	name := env.Username() + "@" + env.Hostname
	if keyset.CheckName(name) != nil {
		return "me"
	}
	return name
}

// freeName returns name, with a number if a recipient has it already.
func freeName(name string, list []keyset.Recipient) string {
	taken := func(name string) bool {
		return name == recoveryName || name == passphraseName || slices.ContainsFunc(list, func(r keyset.Recipient) bool { return r.Name == name })
	}
	free := name
	for i := 2; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// namedRecipients returns the recipients of --recipient.
func (e *encryption) namedRecipients(env *cli.Env, own []keyset.Recipient, now time.Time) (list []keyset.Recipient, err error) {
	for _, text := range e.recipients {
		keys, err := ReadRecipients(env, text)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			base := key.Name
			if keyset.CheckName(base) != nil {
				base = "recipient"
			}
			list = append(list, keyset.Recipient{Name: freeName(base, slices.Concat(own, list)), Key: key.Key, Added: now})
		}
	}
	return list, nil
}

// ReadRecipients reads the public keys that an argument means: a key itself, or a file with keys.
func ReadRecipients(env *cli.Env, text string) ([]keyset.NamedKey, error) {
	if strings.HasPrefix(text, "age1") || strings.HasPrefix(text, "ssh-") {
		return keyset.ParseRecipients([]byte(text))
	}
	data, err := os.ReadFile(env.Path(text))
	if err != nil {
		return nil, err
	}
	keys, err := keyset.ParseRecipients(data)
	if err == nil && len(keys) == 0 {
		err = cli.Failf(cli.ExitFailed, "", "%s has no public key", cli.QuoteArg(text))
	}
	return keys, err
}

// newPassphrase returns a new passphrase: from KIST_PASSWORD_FILE, KIST_PASSWORD_COMMAND, or typed twice.
func newPassphrase(ctx context.Context, env *cli.Env) ([]byte, error) {
	secret, err := env.ReadPassphrase(ctx, "new passphrase")
	if err != nil || env.Getenv("KIST_PASSWORD_FILE") != "" || env.Getenv("KIST_PASSWORD_COMMAND") != "" {
		return secret, err
	}
	again, err := env.ReadPassphrase(ctx, "the same again")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(secret, again) {
		return nil, cli.Failf(cli.ExitFailed, "", "the two passphrases differ")
	}
	return secret, nil
}

// makeRecovery makes the recovery identity, and shows it or writes it to a file. It does so before the remote exists: an identity
// that opens nothing does no harm, and one that was never shown opens nothing for anybody.
func (e *encryption) makeRecovery(env *cli.Env, now time.Time) (keyset.Identity, error) {
	made, err := keyset.NewIdentity()
	if err != nil {
		return made, err
	}
	if e.recoveryFile == "" {
		env.Printf("recovery key, shown only now; write it down or print it:\n  %s\n", made.Paper())
		return made, nil
	}
	if err := keyset.Create(env.Path(e.recoveryFile), made.File(now)); err != nil {
		return made, err
	}
	env.PrintOutcome("wrote the recovery key to %s: keep it where this machine is not\n", cli.QuoteArg(e.recoveryFile))
	return made, nil
}

// explainMade adds advice to the error for a store that is a remote already.
func explainMade(err error, m registry.Remote) error {
	if !errors.Is(err, registry.ErrMade) {
		return err
	}
	return cli.Hintf(err, "kist never encrypts a remote in place, since its store has seen everything; name an empty place. To use an encrypted remote: 'kist remote add %s URL'", cli.QuoteArg(m.Name))
}
