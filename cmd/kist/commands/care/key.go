package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/transfer"
)

func NewKey(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key COMMAND",
		Short: "decide who can read an encrypted remote",
		Long: `An encrypted remote has recipients: public keys whose owners can read and write
it. A public key is that of kist or age (age1pq..., age1...) or of ssh
(ssh-ed25519, ssh-rsa). Its secret half is an identity, a file that only you can
read. kist looks for identities in the files of KIST_IDENTITY, in those of
key.identity in your own configuration, in ~/.config/kist/identities, and in
~/.ssh/id_ed25519 and id_rsa. Then it takes a passphrase, from the file of
KIST_PASSWORD_FILE, the command KIST_PASSWORD_COMMAND, or the terminal.

'kist remote add --encrypted' makes an encrypted remote. 'kist help encrypt' has
more.`,
		Example: `  kist key new
  kist key add origin colleague.pub
  kist key list origin
  kist key remove origin old-laptop`,
	}
	cli.OpensRepository(cmd)
	cmd.AddCommand(newKeyNew(env), newKeyList(env), newKeyAdd(env), newKeyRemove(env), newKeyRotate(env), newKeyExport(env))
	return cmd
}

// newIdentityJSON is what key new prints with --json.
type newIdentityJSON struct {
	File      string `json:"file" doc:"the file with the identity"`
	Recipient string `json:"recipient" doc:"the public key"`
}

func newKeyNew(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new [FILE]",
		Short: "make an identity",
		Long: `Makes an identity, writes it to FILE, by default ~/.config/kist/identities, and
prints its public key, a long line. Give that to somebody who can read a remote:
'kist key add' adds it. An existing file is never overwritten.`,
		Example: `  kist key new >colleague.pub
  kist key new nightly.key`,
		Args: cli.Arguments(0, 1),
	}
	env.Prints(cmd, "", newIdentityJSON{})
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runKeyNew(env, args) }
	return cmd
}

func runKeyNew(env *cli.Env, args []string) error {
	path, err := cli.IdentityFile(env)
	if len(args) > 0 {
		path, err = env.Path(args[0]), nil
	}
	if err != nil {
		return err
	}
	made, err := keyset.NewIdentity()
	if err != nil {
		return err
	}
	if err := keyset.Create(path, made.File(env.Now().UTC())); err != nil {
		if errors.Is(err, os.ErrExist) {
			err = cli.Hintf(err, "an identity is never overwritten: name another file")
		}
		return err
	}
	if env.Global.JSON {
		env.JSON(newIdentityJSON{path, made.Recipient()})
		return nil
	}
	env.Info("wrote your identity to %s, which only you may read; your public key:", cli.QuoteArg(path))
	env.Printf("%s\n", made.Recipient())
	return nil
}

// recipientJSON is a recipient of an encrypted remote.
type recipientJSON struct {
	Name       string `json:"name" doc:"the name"`
	Recipient  string `json:"recipient" doc:"the public key"`
	Added      string `json:"added" doc:"the day on which it was added"`
	Kind       string `json:"kind" doc:"the kind of key" values:"hybrid,classic"`
	Passphrase bool   `json:"passphrase" doc:"true if a passphrase opens it"`
	You        bool   `json:"you" doc:"true if your identity is that of it"`
}

// epochJSON describes the files that are encrypted with the key of an epoch.
type epochJSON struct {
	Epoch   uint32   `json:"epoch" doc:"the number of the key"`
	Root    uint64   `json:"root" doc:"the change of the remote that began its use"`
	Files   int      `json:"files" doc:"the number of packs, index and state files that are encrypted with it"`
	Bytes   int64    `json:"bytes" doc:"their size"`
	Removed []string `json:"removed" doc:"the removed recipients who can read them"`
}

// keysetJSON is what the key commands print with --json.
type keysetJSON struct {
	Remote     string          `json:"remote" doc:"the name of the remote"`
	Serial     uint64          `json:"serial" doc:"the number of changes of the keys"`
	Recipients []recipientJSON `json:"recipients" doc:"who can read the remote"`
	Epochs     []epochJSON     `json:"epochs" doc:"the keys, the oldest first"`
}

func newKeysetJSON(name string, k *keyset.Keyset, uses []keyset.Use) keysetJSON {
	out := keysetJSON{Remote: name, Serial: k.Serial, Recipients: []recipientJSON{}, Epochs: []epochJSON{}}
	you, known := k.Opener()
	for _, r := range k.Recipients {
		out.Recipients = append(out.Recipients, recipientJSON{
			Name: r.Name, Recipient: r.Key, Added: r.Added.Format(time.DateOnly), Kind: string(r.Kind()),
			Passphrase: len(r.Locked) > 0, You: known && r.Key == you.Key,
		})
	}
	for _, u := range uses {
		out.Epochs = append(out.Epochs, epochJSON{u.Epoch, u.Root, u.Files, u.Bytes, append([]string{}, u.Removed...)})
	}
	return out
}

func newKeyList(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [REMOTE]",
		Short: "list who can read an encrypted remote",
		Long: `Lists the recipients of an encrypted remote. For each of its keys, it shows the
size of the files that are encrypted with it, and the removed recipients who can
still read these. It reads a few bytes of each file of the remote.`,
		Example:           `  kist key list origin`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", keysetJSON{})
	env.InRepository(cmd, runKeyList)
	env.Transfer.Register(cmd)
	return cmd
}

func runKeyList(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	name, err := share.FetchRemote(env, r, args)
	if err != nil {
		return err
	}
	opened, err := share.OpenRemote(ctx, env, r, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	k, _, err := opened.Keyset(ctx)
	if err != nil {
		return err
	}
	uses, err := transfer.KeyUses(ctx, opened)
	if err != nil {
		return err
	}
	printKeyset(env, newKeysetJSON(name, k.Keyset, uses))
	return nil
}

// printKeyset prints recipients and epochs.
func printKeyset(env *cli.Env, k keysetJSON) {
	if env.Global.JSON {
		env.JSON(k)
		return
	}
	kinds := map[string]int{}
	for _, r := range k.Recipients {
		kinds[r.Kind]++
		note := ""
		if r.You {
			note = ", you"
		}
		if r.Passphrase {
			note += ", a passphrase"
		}
		env.Printf("%s  %s  since %s%s\n", cli.Printable(r.Name), shortKey(r.Recipient), r.Added, note)
	}
	for _, e := range k.Epochs {
		env.Printf("epoch %d: %s, %s%s\n", e.Epoch, readable.Plural(uint64(e.Files), "file", "files"), readable.FormatSize(uint64(e.Bytes)), readableBy(e.Removed))
	}
	if len(kinds) > 1 {
		env.PrintOutcome("some keys are not safe against quantum computers: the weaker ones decide for the remote\n")
	}
}

// shortKey returns a public key in at most 30 characters.
func shortKey(key string) string {
	if len(key) <= 30 {
		return key
	}
	return key[:16] + "…" + key[len(key)-10:]
}

// readableBy returns text about removed recipients.
func readableBy(removed []string) string {
	if len(removed) == 0 {
		return ""
	}
	quoted := make([]string, len(removed))
	for i, name := range removed {
		quoted[i] = cli.QuoteArg(name)
	}
	return ", readable by removed " + strings.Join(quoted, ", ")
}

// changeKeys changes the keyset of a remote and prints the result.
func changeKeys(ctx context.Context, env *cli.Env, r *kist.Repository, name string, change func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error)) error {
	opened, err := share.OpenRemote(ctx, env, r, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	plugins, err := env.Identities().Plugins()
	if err != nil {
		return err
	}
	k, err := transfer.ChangeKeyset(ctx, opened, plugins, change)
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(newKeysetJSON(name, k.Keyset, nil))
	}
	return nil
}

type keyAddOptions struct {
	name       string
	passphrase bool
}

func newKeyAdd(env *cli.Env) *cobra.Command {
	var o keyAddOptions
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] REMOTE [KEY]",
		Short: "let somebody read an encrypted remote",
		Long: `Adds a recipient: KEY is a public key, or a file with one or more, such as
id_ed25519.pub. Whoever has the identity can then read and write everything on
the remote, older content too. With --passphrase, whoever knows a new
passphrase can.`,
		Example: `  kist key add origin colleague.pub
  kist key add origin --name nightly age1pq1...
  kist key add origin --passphrase`,
		Args:              cli.Arguments(1, 2, "REMOTE"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(share.Remotes)),
	}
	env.Prints(cmd, "", keysetJSON{})
	env.InRepository(cmd, o.run, cli.ExitBusy)
	env.Transfer.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the `NAME` of the recipient; default: the comment of a key of ssh")
	flags.BoolVar(&o.passphrase, "passphrase", false, "a passphrase, not a key")
	return cmd
}

func (o *keyAddOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.passphrase == (len(args) == 2) {
		return cli.Usagef("name a KEY, or use --passphrase")
	}
	if _, err := registry.Find(r, args[0]); err != nil {
		return err
	}
	added, err := o.newRecipients(ctx, env, args[1:])
	if err != nil {
		return err
	}
	err = changeKeys(ctx, env, r, args[0], func(k *keyset.Keyset, _ uint64) (*keyset.Keyset, error) {
		named := make([]keyset.Recipient, 0, len(added))
		for _, r := range added {
			if o.name == "" {
				r.Name = freeName(r.Name, slices.Concat(k.Recipients, named))
			}
			named = append(named, r)
		}
		return k.Add(named...)
	})
	if err == nil {
		env.PrintOutcome("%s can read %s now, older content too\n", readable.Plural(uint64(len(added)), "recipient more", "recipients more"), cli.QuoteArg(args[0]))
	}
	return err
}

// newRecipients returns the recipients to add.
func (o *keyAddOptions) newRecipients(ctx context.Context, env *cli.Env, args []string) (list []keyset.Recipient, err error) {
	now := env.Now().UTC().Truncate(time.Second)
	if o.passphrase {
		secret, err := newPassphrase(ctx, env)
		if err != nil {
			return nil, err
		}
		name := cmp.Or(o.name, passphraseName)
		r, err := keyset.PassphraseRecipient(name, secret, now)
		return []keyset.Recipient{r}, err
	}
	keys, err := ReadRecipients(env, args[0])
	if err != nil {
		return nil, err
	}
	if o.name != "" && len(keys) > 1 {
		return nil, cli.Usagef("%s has %d keys, and --name is for one", cli.QuoteArg(args[0]), len(keys))
	}
	for _, key := range keys {
		list = append(list, keyset.Recipient{Name: cmp.Or(o.name, key.Name, "recipient"), Key: key.Key, Added: now})
	}
	return list, nil
}

func newKeyRemove(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove REMOTE NAME",
		Aliases: []string{"rm"},
		Short:   "remove a recipient of an encrypted remote",
		Long: `Removes the recipient NAME, and begins a new key for everything from now on. The
recipient can read no later content. A push under way notices the removal within
ten seconds, and sends its content again. Older content the recipient can read,
and may have copied.`,
		Example:           `  kist key remove origin old-laptop`,
		Args:              cli.Arguments(2, 2, "REMOTE", "NAME"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(share.Remotes)),
	}
	env.Prints(cmd, "", keysetJSON{})
	env.InRepository(cmd, runKeyRemove, cli.ExitBusy)
	env.Transfer.Register(cmd)
	return cmd
}

func runKeyRemove(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	now := env.Now().UTC().Truncate(time.Second)
	err := changeKeys(ctx, env, r, args[0], func(k *keyset.Keyset, root uint64) (*keyset.Keyset, error) {
		if you, ok := k.Opener(); ok && you.Name == args[1] {
			err := cli.Failf(cli.ExitFailed, "refused", "%s is the key with which you read %s", cli.QuoteArg(args[1]), cli.QuoteArg(args[0]))
			return nil, cli.Hintf(err, "another recipient can remove it")
		}
		return k.Remove(args[1], root, now)
	})
	if err != nil {
		return err
	}
	env.PrintOutcome(`%s cannot read later content, except files that a push under way still sends; older content it can read, and may have copied
left to do:
  withdraw its credentials for the store
  'kist remote gc --rekey %[2]s' encrypts older content with the new key
`, cli.QuoteArg(args[1]), cli.ShellWord(args[0]))
	return nil
}

func newKeyRotate(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate REMOTE",
		Short: "begin a new key for an encrypted remote",
		Long: `Begins a new key, with which everything is encrypted from now on. The recipients
stay the same. Older content stays encrypted with the former keys, until
'kist remote gc --rekey'.`,
		Example:           `  kist key rotate origin`,
		Args:              cli.Arguments(1, 1, "REMOTE"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", keysetJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		err := changeKeys(ctx, env, r, args[0], (*keyset.Keyset).Rotate)
		if err == nil {
			env.PrintOutcome("everything is encrypted with a new key from now on\n")
		}
		return err
	}, cli.ExitBusy)
	env.Transfer.Register(cmd)
	return cmd
}

// exportedJSON is what key export prints with --json.
type exportedJSON struct {
	File   string `json:"file" doc:"the file"`
	Serial uint64 `json:"serial" doc:"the number of changes of the keys"`
}

func newKeyExport(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export REMOTE FILE",
		Short: "save the keys of an encrypted remote",
		Long: `Saves the keys of today, encrypted to the recipients, in FILE. With it and an
identity, such as the recovery key, 'kist verify --remote REMOTE --repair
--keyset FILE' restores a remote whose keys are lost. FILE is no secret: nobody
can read it without an identity.`,
		Example: `  kist key export origin origin.keyset`,
		Args:    cli.Arguments(2, 2, "REMOTE", "FILE"),
	}
	env.Prints(cmd, "", exportedJSON{})
	env.InRepository(cmd, runKeyExport)
	env.Transfer.Register(cmd)
	return cmd
}

func runKeyExport(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	opened, err := share.OpenRemote(ctx, env, r, args[0])
	if err != nil {
		return err
	}
	defer opened.Close()
	k, _, err := opened.Keyset(ctx)
	if err != nil {
		return err
	}
	path := env.Path(args[1])
	if err := keyset.Create(path, k.File.Bytes()); err != nil {
		return fmt.Errorf("export keys: %w", err)
	}
	if env.Global.JSON {
		env.JSON(exportedJSON{path, k.Serial})
	}
	env.PrintOutcome("saved the keys of %s in %s\n", cli.QuoteArg(args[0]), cli.QuoteArg(args[1]))
	return nil
}
