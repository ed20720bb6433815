package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"filippo.io/age/plugin"
)

// Places are the places in which a user has identities, in the order of the search. The caller takes them from the
// environment and the user's own configuration, never from that of a repository.
type Places struct {
	Named      []string // files that the environment names
	Configured []string // files that the configuration names
	Own        string   // the user's file of identities; it may be missing
	SSH        []string // files of ssh keys, which are used only if their tag is in the keyset; they may be missing

	Passphrase PassphraseSource
}

// PassphraseSource says where a passphrase comes from: the first of the file, the command and the dialog that is set.
type PassphraseSource struct {
	File    string // its first line
	Command string // the first line that sh -c prints
	Dialog  Dialog // nil: there is nobody to ask

	Stderr io.Writer // of the command
}

// Dialog asks the user. Its errors end the search.
type Dialog interface {
	// Passphrase asks for a passphrase. Of is the name of the locked file, "" for the passphrase of a remote.
	Passphrase(ctx context.Context, of string) ([]byte, error)

	// Request asks a question of a plugin of age. With secret, the answer is not shown.
	Request(plugin, question string, secret bool) (string, error)

	// Confirm asks a question of a plugin that has two answers; no may be "": then there is only one.
	Confirm(plugin, question, yes, no string) (bool, error)

	// Show shows a message of a plugin.
	Show(plugin, message string) error
}

const maxPassphrase = 64 << 10 // bytes of a file, and of the output of a command

var errNoPassphrase = errors.New("no place to take a passphrase from")

// Read returns the passphrase. The error matches errNoPassphrase if there is no source.
func (s PassphraseSource) Read(ctx context.Context, of string) ([]byte, error) {
	switch {
	case s.File != "":
		return s.readFile()
	case s.Command != "":
		return s.runCommand(ctx)
	case s.Dialog != nil:
		return s.Dialog.Passphrase(ctx, of)
	}
	return nil, errNoPassphrase
}

func (s PassphraseSource) readFile() ([]byte, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, maxPassphrase)
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return cutFirstLine(data[:n], s.File)
}

// runCommand runs the command. Errors do not show it: a careless user may have put a secret there.
func (s PassphraseSource) runCommand(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", s.Command)
	cmd.WaitDelay = time.Second // its children may keep the pipe open
	out := &boundedWriter{make([]byte, 0, maxPassphrase)}
	cmd.Stdout, cmd.Stderr = out, s.Stderr
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		clear(out.data)
		return nil, fmt.Errorf("the command for the passphrase: %w", errors.Join(ctx.Err(), err))
	}
	return cutFirstLine(out.data, "the command for the passphrase")
}

// boundedWriter keeps at most as many bytes as its slice has room for, and drops the others.
type boundedWriter struct{ data []byte }

func (w *boundedWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p[:min(len(p), cap(w.data)-len(w.data))]...)
	return len(p), nil
}

// cutFirstLine returns a copy of the first line, and clears data.
func cutFirstLine(data []byte, from string) ([]byte, error) {
	defer clear(data)
	line, _, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return nil, fmt.Errorf("%w: the first line of %s is empty", ErrPassphrase, from)
	}
	return bytes.Clone(line), nil
}

// clientUI returns age's form of a dialog. Without one, plugins cannot ask.
func clientUI(d Dialog) *plugin.ClientUI {
	if d == nil {
		return &plugin.ClientUI{}
	}
	return &plugin.ClientUI{DisplayMessage: d.Show, RequestValue: d.Request, Confirm: d.Confirm}
}

// maxIdentityFile is the most bytes of a file with identities.
const maxIdentityFile = 256 << 10

// readSecretFile reads a file that only its owner may read or write. The caller clears the result. The error is a
// [*ModeError] if others can use the file.
func readSecretFile(path string) (data []byte, mode fs.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data = make([]byte, maxIdentityFile+1)
	n, err := io.ReadFull(f, data)
	switch {
	case err == nil:
		clear(data)
		return nil, 0, &IdentityFileError{File: path, Err: fmt.Errorf("%w: more than %d bytes", ErrIdentity, maxIdentityFile)}
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, 0, err
	}
	return data[:n], info.Mode(), nil
}

// checkMode returns a [*ModeError] if others than the owner can use a file. It does not look at the owner: root also uses
// the files of users.
func checkMode(path string, mode fs.FileMode) error {
	if mode.Perm()&0o077 != 0 {
		return &ModeError{File: path, Mode: mode}
	}
	return nil
}
