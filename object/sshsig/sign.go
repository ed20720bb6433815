package sshsig

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// KeySources says where a user's ssh keys are.
type KeySources struct {
	Agent  string // the socket of an ssh agent; empty: there is none
	Folder string // the user's .ssh folder, with the keys of usual names; empty: there is none
	Home   string // what ~ stands for at the beginning of a path

	// Passphrase returns the passphrase of a locked key file. Nil: there is nobody to ask.
	Passphrase func(ctx context.Context, file string) ([]byte, error)

	// ListWait and SignWait bound the time of an agent's answers. A signature may need a touch of a
	// key, or a confirmation. Default: 5 seconds, and 2 minutes.
	ListWait, SignWait time.Duration
}

// The errors of a [Signer], which are the causes of a [*KeyError].
var (
	ErrNoKey       = errors.New("no ssh key to sign with")
	ErrLocked      = errors.New("the key file is locked, and there is nobody to ask for its passphrase")
	ErrPassphrase  = errors.New("wrong passphrase")
	ErrOpen        = errors.New("others can read the key file")
	ErrSecurityKey = errors.New("only an agent can sign with it")
	ErrAgent       = errors.New("ssh agent")
	ErrSilent      = fmt.Errorf("%w: no answer", ErrAgent)
	ErrKeyFile     = errors.New("not a key file that kist can read")
)

// KeyError is the error for a key that cannot sign.
type KeyError struct {
	Key string // as the user named it; empty: none was named
	Err error
}

func (e *KeyError) Error() string {
	if e.Key == "" {
		return "sign: " + e.Err.Error()
	}
	return fmt.Sprintf("sign with %q: %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

// Signer signs with one key of a user. It looks for the key when it first signs, and asks for a
// passphrase at most once. It is safe for concurrent use.
type Signer struct {
	keys KeySources
	name string

	mu     sync.Mutex
	public ssh.PublicKey // nil: not found yet
	sign   func(ctx context.Context, data []byte) (*ssh.Signature, error)
}

// NewSigner returns a signer with a key: the path of a private or public key, or of a certificate,
// or a public key itself, as in "ssh-ed25519 AAAA…" or "key::ssh-ed25519 AAAA…". If an agent has
// the key, the agent signs, otherwise the private key file does. An empty name stands for
// id_ed25519, id_ecdsa or id_rsa in the user's folder, or else for the first key of the agent.
func NewSigner(keys KeySources, name string) *Signer {
	if keys.ListWait == 0 {
		keys.ListWait = 5 * time.Second
	}
	if keys.SignWait == 0 {
		keys.SignWait = 2 * time.Minute
	}
	return &Signer{keys: keys, name: name}
}

// Sign returns the signature of a message in a namespace, in binary form. Errors are [*KeyError],
// or those of ctx.
func (s *Signer) Sign(ctx context.Context, namespace string, message []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.makeSignature(ctx, namespace, message)
	if err != nil {
		return nil, s.asError(ctx, err)
	}
	return made.Encode(), nil
}

// asError returns the error of a key, or that of ctx.
func (s *Signer) asError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &KeyError{s.name, err}
}

// FindKey returns an error if there is no key to sign with. It asks for the passphrase of a key that needs it. Errors
// are those of [Signer.Sign].
func (s *Signer) FindKey(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.findOnce(ctx); err != nil {
		return s.asError(ctx, err)
	}
	return nil
}

// findOnce finds the key, unless that is done.
func (s *Signer) findOnce(ctx context.Context) error {
	if s.public != nil {
		return nil
	}
	return s.findKey(ctx)
}

func (s *Signer) makeSignature(ctx context.Context, namespace string, message []byte) (*Signature, error) {
	if err := s.findOnce(ctx); err != nil {
		return nil, err
	}
	made, err := s.sign(ctx, toSign(namespace, message))
	if err != nil {
		return nil, err
	}

	// An agent is another program: nothing that it answers is believed.
	signature, err := Parse((&Signature{namespace, s.public, *made}).Encode())
	if err == nil {
		err = signature.Verify(namespace, message)
	}
	return signature, err
}

// findKey finds the key, and the way to sign with it.
func (s *Signer) findKey(ctx context.Context) error {
	if text, isKey := strings.CutPrefix(s.name, "key::"); isKey || isKeyName(s.name) && strings.Contains(s.name, " ") {
		key, err := parseKeyText(text)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKeyFile, err)
		}
		return s.usePublicKey(ctx, key, "")
	}
	if s.name != "" {
		return s.findFile(ctx, s.keys.keyPath(s.name))
	}

	if s.keys.Folder != "" {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			err := s.findFile(ctx, filepath.Join(s.keys.Folder, name))
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return s.findAny(ctx)
}

// keyPath returns the path of a key file.
func (k KeySources) keyPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && k.Home != "" {
		return filepath.Join(k.Home, rest)
	}
	return name
}

// findAny takes the first key of the agent.
func (s *Signer) findAny(ctx context.Context) error {
	if s.keys.Agent == "" {
		return ErrNoKey
	}
	return s.keys.askAgent(ctx, s.keys.ListWait, func(a agent.ExtendedAgent) error {
		list, err := a.List()
		if err != nil {
			return err
		}
		for _, k := range list {
			if key, err := parseKey(k.Blob); err == nil {
				s.public, s.sign = key, s.byAgent(key)
				return nil
			}
		}
		return ErrNoKey
	})
}

// findFile reads a key file: public, private, or a certificate.
func (s *Signer) findFile(ctx context.Context, path string) error {
	private := strings.TrimSuffix(strings.TrimSuffix(path, ".pub"), "-cert")
	if path != private {
		data, err := readFile(path, false)
		if err != nil {
			return err
		}
		key, err := parseKeyText(string(data))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKeyFile, err)
		}
		return s.usePublicKey(ctx, key, private)
	}

	if data, err := readFile(path+".pub", false); err == nil {
		if key, err := parseKeyText(string(data)); err == nil {
			return s.usePublicKey(ctx, key, path)
		}
	}
	signer, err := s.keys.loadKey(ctx, path, func(key ssh.PublicKey) bool {
		return s.findInAgent(ctx, key) == nil
	})
	if err != nil {
		return err
	}
	return s.useSigner(signer)
}

// findInAgent takes a key if the agent has it. Of a certificate, the agent may also have only the
// key.
func (s *Signer) findInAgent(ctx context.Context, key ssh.PublicKey) error {
	if s.keys.Agent == "" {
		return fmt.Errorf("%w: there is none", ErrAgent)
	}
	return s.keys.askAgent(ctx, s.keys.ListWait, func(a agent.ExtendedAgent) error {
		list, err := a.List()
		if err != nil {
			return err
		}
		for _, want := range []ssh.PublicKey{key, plainKey(key)} {
			for _, k := range list {
				if string(k.Blob) == string(want.Marshal()) {
					s.public, s.sign = key, s.byAgent(want)
					return nil
				}
			}
		}
		return errors.New("it does not have the key")
	})
}

// usePublicKey takes a public key, with the agent or a private key file. An empty private stands for none.
func (s *Signer) usePublicKey(ctx context.Context, key ssh.PublicKey, private string) error {
	err := s.findInAgent(ctx, key)
	switch {
	case err == nil, ctx.Err() != nil, private == "":
		return err
	case isSecurityKey(key):
		return fmt.Errorf("%w: %w", ErrSecurityKey, err)
	}
	signer, err := s.keys.loadKey(ctx, private, func(ssh.PublicKey) bool { return false })
	if err != nil {
		return err
	}
	if !sameKey(signer.key, plainKey(key)) {
		return fmt.Errorf("%w: %q has another key than its public file", ErrKeyFile, private)
	}
	if err := s.useSigner(signer); err != nil {
		return err
	}
	s.public = key // perhaps a certificate
	return nil
}

// private is a private key, or the public key of one that the agent has.
type private struct {
	key    ssh.PublicKey
	signer ssh.AlgorithmSigner // nil: the agent signs
}

func (s *Signer) useSigner(p private) error {
	if err := checkKey(p.key); err != nil {
		return fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	s.public, s.sign = p.key, s.byAgent(p.key)
	if p.signer != nil {
		s.sign = func(_ context.Context, data []byte) (*ssh.Signature, error) {
			return p.signer.SignWithAlgorithm(rand.Reader, data, signatureFormat(p.key))
		}
	}
	return nil
}

// loadKey reads a private key file. If the file is locked and the agent has its key, the passphrase is
// not needed.
func (k KeySources) loadKey(ctx context.Context, file string, inAgent func(ssh.PublicKey) bool) (p private, err error) {
	data, err := readFile(file, true)
	if err != nil {
		return p, err
	}
	raw, err := ssh.ParseRawPrivateKey(data)
	if locked := (*ssh.PassphraseMissingError)(nil); errors.As(err, &locked) {
		if locked.PublicKey != nil && inAgent(locked.PublicKey) {
			return private{key: locked.PublicKey}, nil
		}
		if k.Passphrase == nil {
			return p, ErrLocked
		}
		phrase, err := k.Passphrase(ctx, file)
		if err != nil {
			return p, err
		}
		raw, err = ssh.ParseRawPrivateKeyWithPassphrase(data, phrase)
		clear(phrase)
		if errors.Is(err, x509.IncorrectPasswordError) {
			return p, ErrPassphrase
		}
		if err != nil {
			return p, fmt.Errorf("%w: %w", ErrKeyFile, err)
		}
	} else if err != nil {
		return p, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}

	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	able, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return p, ErrKeyFile
	}
	return private{signer.PublicKey(), able}, nil
}

// byAgent returns a function that lets the agent sign with a key.
func (s *Signer) byAgent(key ssh.PublicKey) func(ctx context.Context, data []byte) (*ssh.Signature, error) {
	var flags agent.SignatureFlags
	if signatureFormat(key) == ssh.KeyAlgoRSASHA512 {
		flags = agent.SignatureFlagRsaSha512
	}
	return func(ctx context.Context, data []byte) (made *ssh.Signature, err error) {
		err = s.keys.askAgent(ctx, s.keys.SignWait, func(a agent.ExtendedAgent) error {
			made, err = a.SignWithFlags(key, data, flags)
			return err
		})
		return made, err
	}
}

// askAgent connects to the agent and calls f. It ends the connection after a time, or with ctx. Errors
// match [ErrAgent], or are those of ctx.
func (k KeySources) askAgent(ctx context.Context, wait time.Duration, f func(agent.ExtendedAgent) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, wait, ErrSilent)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(limited, "unix", k.Agent)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAgent, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(limited, func() { conn.Close() })
	defer stop()

	err = f(agent.NewClient(conn))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && limited.Err() != nil:
		return ErrSilent
	case err != nil && !errors.Is(err, ErrNoKey):
		return fmt.Errorf("%w: %w", ErrAgent, err)
	}
	return err
}

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 64 << 10

// readFile reads a key file. A secret one must not be readable by other users.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, ErrKeyFile
	case secret && info.Mode().Perm()&0o077 != 0:
		return nil, ErrOpen
	}
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}
