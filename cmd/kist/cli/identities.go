package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/keyset"
)

// IdentityFile returns the user's own file of identities. It need not exist.
func IdentityFile(env *Env) (string, error) {
	dir, err := ConfigHome(env)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "kist", "identities"), nil
}

// Identities returns the search for an identity that opens encrypted remotes. It is the same for the whole command, so
// that a passphrase is asked for once. It reads nothing yet.
func (e *Env) Identities() *keyset.Identities {
	if e.Repo.identities == nil {
		e.Repo.identities = keyset.NewIdentities(e.keyPlaces())
	}
	return e.Repo.identities
}

// keyPlaces returns the places in which this user has identities. None of them comes from the configuration of a repository.
func (e *Env) keyPlaces() keyset.Places {
	p := keyset.Places{Passphrase: keyset.PassphraseSource{
		File: e.userPath(e.Getenv("KIST_PASSWORD_FILE")), Command: e.Getenv("KIST_PASSWORD_COMMAND"), Stderr: e.Stderr,
	}}
	if e.Terminal.Stdin && e.Terminal.Stderr {
		p.Passphrase.Dialog = dialog{e}
	}
	for _, path := range filepath.SplitList(e.Getenv("KIST_IDENTITY")) {
		if path != "" {
			p.Named = append(p.Named, e.userPath(path))
		}
	}
	if e.User != nil {
		for _, path := range e.User.Values(kist.KeyIdentity) {
			p.Configured = append(p.Configured, e.userPath(path))
		}
	}
	if own, err := IdentityFile(e); err == nil {
		p.Own = own
	}
	if home := e.Getenv("HOME"); home != "" {
		for _, name := range []string{"id_ed25519", "id_rsa"} {
			p.SSH = append(p.SSH, filepath.Join(home, ".ssh", name))
		}
	}
	return p
}

// userPath returns the path that the user's environment or configuration means. "~/" stands for the home folder. The result is "" for "".
func (e *Env) userPath(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(e.Getenv("HOME"), rest)
	}
	if path == "" {
		return ""
	}
	return e.Path(path)
}

// ReadPassphrase returns a passphrase from KIST_PASSWORD_FILE, KIST_PASSWORD_COMMAND or the terminal.
func (e *Env) ReadPassphrase(ctx context.Context, prompt string) ([]byte, error) {
	from := e.keyPlaces().Passphrase
	if from.File != "" || from.Command != "" {
		return from.Read(ctx, "")
	}
	if from.Dialog == nil {
		return nil, Hintf(Failf(ExitCredentials, "passphrase", "there is no terminal to ask for a passphrase"), hintPassphrase)
	}
	text, err := ReadSecret(e, prompt+": ")
	if err == nil && text == "" {
		err = Failf(ExitCredentials, "passphrase", "an empty passphrase")
	}
	return []byte(text), err
}

// dialog asks the user at the terminal. It is a [keyset.Dialog].
type dialog struct{ env *Env }

// Passphrase implements [keyset.Dialog].
func (d dialog) Passphrase(_ context.Context, of string) ([]byte, error) {
	prompt := "passphrase: "
	if of != "" {
		prompt = "passphrase of " + QuoteArg(of) + ": "
	}
	text, err := ReadSecret(d.env, prompt)
	return []byte(text), err
}

// Request implements [keyset.Dialog].
func (d dialog) Request(plugin, question string, secret bool) (string, error) {
	prompt := fmt.Sprintf("age-plugin-%s: %s: ", Printable(plugin), Printable(question))
	if secret {
		return ReadSecret(d.env, prompt)
	}
	fmt.Fprint(d.env.Stderr, prompt)
	return readInput(d.env.Stdin)
}

// Confirm implements [keyset.Dialog].
func (d dialog) Confirm(plugin, question, yes, no string) (bool, error) {
	fmt.Fprintf(d.env.Stderr, "age-plugin-%s: %s\n", Printable(plugin), Printable(question))
	if no == "" {
		fmt.Fprintf(d.env.Stderr, "press Enter: %s ", Printable(yes))
		_, err := readInput(d.env.Stdin)
		return true, err
	}
	return Confirm(d.env, fmt.Sprintf("y: %s, n: %s", Printable(yes), Printable(no))), nil
}

// Show implements [keyset.Dialog].
func (d dialog) Show(plugin, message string) error {
	_, err := fmt.Fprintf(d.env.Stderr, "age-plugin-%s: %s\n", Printable(plugin), Printable(message))
	return err
}

// ReadSecret reads a line of standard input, without showing it on a terminal.
func ReadSecret(env *Env, prompt string) (string, error) {
	if env.Terminal.Stdin {
		fmt.Fprint(env.Stderr, prompt)
		defer fmt.Fprintln(env.Stderr)
		if terminal, ok := env.Stdin.(*os.File); ok {
			text, err := term.ReadPassword(int(terminal.Fd()))
			return string(text), err
		}
	}
	return readInput(env.Stdin)
}

// readInput reads a line, without its end.
func readInput(from io.Reader) (string, error) {
	line, err := bufio.NewReader(from).ReadString('\n')
	if line != "" && errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}
