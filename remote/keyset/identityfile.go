package keyset

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
	"golang.org/x/crypto/ssh"
)

// candidate is an identity that may open a keyset.
type candidate interface {
	// unwrap returns the file key of an envelope. The error matches age.ErrIncorrectIdentity if the identity is not that
	// of a recipient, errNoPassphrase if it is locked and nobody can unlock it, and ErrPassphrase after a wrong
	// passphrase. A [*fatalError] ends the search.
	unwrap(ctx context.Context, e *envelope) ([]byte, error)

	// key returns the public key, "" if it is unknown.
	key() string
}

// silent is an identity in memory. Its use asks nothing, and runs no program.
type silent struct {
	identity func() age.Identity // a function, as in [Identity]
	public   string
}

func (s silent) unwrap(_ context.Context, e *envelope) ([]byte, error) {
	return s.identity().Unwrap(e.stanzas)
}

func (s silent) key() string { return s.public }

// silentOf returns the candidate for an identity of age. It is nil for a kind of ssh keys that age does not
// support.
func silentOf(identity age.Identity) *silent {
	s := &silent{identity: func() age.Identity { return identity }}
	switch identity := identity.(type) {
	case *age.HybridIdentity:
		s.public = identity.Recipient().String()
	case *age.X25519Identity:
		s.public = identity.Recipient().String()
	default:
		return nil
	}
	return s
}

// pluginIdentity is an identity that a plugin of age uses.
type pluginIdentity struct {
	plugin *plugin.Identity
}

func (p *pluginIdentity) unwrap(_ context.Context, e *envelope) ([]byte, error) {
	silencePlugins()
	fileKey, err := p.plugin.Unwrap(e.stanzas)
	if err != nil && !errors.Is(err, age.ErrIncorrectIdentity) {
		err = &PluginError{Plugin: p.plugin.Name(), Err: err}
	}
	return fileKey, err
}

func (p *pluginIdentity) key() string { return "" }

// lockedFile is a file of identities that a passphrase unlocks. Which identities it has is unknown before.
type lockedFile struct {
	path   string
	data   []byte // an age file, without armor
	search *Identities
	once   once

	unlocked []candidate
	opened   candidate // the one that opened an envelope
}

func (l *lockedFile) unwrap(ctx context.Context, e *envelope) ([]byte, error) {
	if err := l.once.do(func() error { return l.unlock(ctx) }); err != nil {
		return nil, err
	}
	return firstOf(ctx, l.unlocked, e, func(c candidate) { l.opened = c })
}

func (l *lockedFile) key() string {
	if l.opened == nil {
		return ""
	}
	return l.opened.key()
}

func (l *lockedFile) unlock(ctx context.Context) error {
	text, err := l.search.openLocked(ctx, l.data, l.path)
	if err != nil {
		return err
	}
	defer clear(text)
	l.unlocked, err = l.search.parseLines(l.path, text)
	return err
}

// firstOf returns the file key that the first fitting candidate unwraps.
func firstOf(ctx context.Context, list []candidate, e *envelope, found func(candidate)) ([]byte, error) {
	result := age.ErrIncorrectIdentity
	for _, c := range list {
		fileKey, err := c.unwrap(ctx, e)
		if err == nil {
			found(c)
			return fileKey, nil
		}
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			result = err
		}
	}
	return nil, result
}

// sshKey is a private key of ssh. It is unlocked when its tag is in a keyset.
type sshKey struct {
	path    string
	public  ssh.PublicKey
	pem     []byte
	bad     error // a reason not to use the key, which counts only if its tag is in a keyset
	search  *Identities
	once    once
	private *silent // after unlock
}

func (k *sshKey) key() string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.public))) }

// isIn reports whether the tag of the key is in an envelope.
func (k *sshKey) isIn(e *envelope) bool {
	tag := sshTag(k.public)
	for _, s := range e.stanzas {
		if s.Type == k.public.Type() && len(s.Args) > 0 && s.Args[0] == tag {
			return true
		}
	}
	return false
}

func (k *sshKey) unwrap(ctx context.Context, e *envelope) ([]byte, error) {
	if !k.isIn(e) {
		return nil, age.ErrIncorrectIdentity
	}
	if k.bad != nil {
		return nil, &fatalError{k.bad}
	}
	if err := k.once.do(func() error { return k.unlock(ctx) }); err != nil {
		return nil, err
	}
	return k.private.unwrap(ctx, e)
}

func (k *sshKey) unlock(ctx context.Context) error {
	if k.private != nil {
		return nil // it was not locked
	}
	private, err := ssh.ParseRawPrivateKey(k.pem)
	if locked := new(*ssh.PassphraseMissingError); errors.As(err, locked) {
		var passphrase []byte
		if passphrase, err = k.search.passphrase(ctx, k.path); err != nil {
			return err
		}
		private, err = ssh.ParseRawPrivateKeyWithPassphrase(k.pem, passphrase)
		if errors.Is(err, x509.IncorrectPasswordError) {
			return ErrPassphrase
		}
	}
	if err != nil {
		return &IdentityFileError{File: k.path, Err: ErrIdentity}
	}
	identity, err := sshIdentity(private)
	if err != nil {
		return &IdentityFileError{File: k.path, Err: ErrIdentity}
	}
	k.private = &silent{identity: func() age.Identity { return identity }, public: k.key()}
	clear(k.pem)
	k.pem = nil
	return nil
}

// readIdentityFile reads a file of identities in any form. Plugins run for the identities, so the file must be the user's
// own.
func (s *Identities) readIdentityFile(path string) ([]candidate, error) {
	data, mode, err := readSecretFile(path)
	if err != nil {
		return nil, err
	}
	if err := checkMode(path, mode); err != nil {
		clear(data)
		return nil, err
	}

	trimmed := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(trimmed, []byte("age-encryption.org/")):
		return []candidate{&lockedFile{path: path, data: data, search: s}}, nil
	case bytes.HasPrefix(trimmed, []byte(armor.Header)):
		if data, err = dearmor(trimmed); err != nil {
			return nil, &IdentityFileError{File: path, Err: fmt.Errorf("%w: %w", ErrIdentity, err)}
		}
		return []candidate{&lockedFile{path: path, data: data, search: s}}, nil
	case bytes.HasPrefix(trimmed, []byte("-----BEGIN ")):
		key, err := s.parseSSH(path, data)
		if err != nil {
			return nil, err
		}
		return []candidate{key}, nil
	}
	defer clear(data)
	return s.parseLines(path, data)
}

// parseLines parses identities, one on each line. Plugins come last, because they may ask. No error shows the text of
// a line.
func (s *Identities) parseLines(path string, text []byte) (list []candidate, err error) {
	var plugins []candidate
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		c, err := s.parseLine(string(line))
		if err != nil {
			return nil, &IdentityFileError{File: path, Line: number, Err: err}
		}
		if _, ok := c.(*pluginIdentity); ok {
			plugins = append(plugins, c)
		} else {
			list = append(list, c)
		}
	}
	if list = append(list, plugins...); len(list) == 0 {
		return nil, &IdentityFileError{File: path, Err: fmt.Errorf("%w: no line has one", ErrIdentity)}
	}
	return list, nil
}

func (s *Identities) parseLine(line string) (candidate, error) {
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		p, err := plugin.NewIdentity(line, clientUI(s.places.Passphrase.Dialog))
		if err != nil {
			return nil, ErrIdentity
		}
		return &pluginIdentity{p}, nil
	case strings.HasPrefix(strings.ToUpper(line), hybridPrefix): // perhaps typed from paper
		i, err := ParsePaper(line)
		if err != nil {
			return nil, ErrIdentity
		}
		return silentOf(i.native()), nil
	default:
		i, err := age.ParseX25519Identity(line)
		if err != nil {
			return nil, ErrIdentity
		}
		return silentOf(i), nil
	}
}

// parseSSH returns the key in a PEM file. A locked key in an old form needs the public key in the file beside it.
func (s *Identities) parseSSH(path string, pem []byte) (*sshKey, error) {
	k := &sshKey{path: path, pem: pem, search: s}
	private, err := ssh.ParseRawPrivateKey(pem)
	missing := new(*ssh.PassphraseMissingError)
	switch {
	case err == nil:
		identity, err := sshIdentity(private)
		if err != nil {
			return nil, &IdentityFileError{File: path, Err: err}
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			return nil, &IdentityFileError{File: path, Err: ErrIdentity}
		}
		k.public = signer.PublicKey()
		k.private = &silent{identity: func() age.Identity { return identity }, public: k.key()}
		clear(pem)
		k.pem = nil
		return k, nil
	case !errors.As(err, missing):
		return nil, &IdentityFileError{File: path, Err: ErrIdentity}
	case (*missing).PublicKey != nil:
		k.public = (*missing).PublicKey
	default:
		if k.public, err = readPublic(path + ".pub"); err != nil {
			return nil, err
		}
	}
	if t := k.public.Type(); t != ssh.KeyAlgoED25519 && t != ssh.KeyAlgoRSA {
		return nil, &IdentityFileError{File: path, Err: fmt.Errorf("%w: a key of the type %s", ErrIdentity, t)}
	}
	return k, nil
}

// sshIdentity returns age's form of a private key, which must be of the type Ed25519 or RSA.
func sshIdentity(private any) (age.Identity, error) {
	switch key := private.(type) {
	case *ed25519.PrivateKey:
		return agessh.NewEd25519Identity(*key)
	case ed25519.PrivateKey:
		return agessh.NewEd25519Identity(key)
	case *rsa.PrivateKey:
		return agessh.NewRSAIdentity(key)
	}
	return nil, fmt.Errorf("%w: a key of another type than Ed25519 and RSA", ErrIdentity)
}

func readPublic(path string) (ssh.PublicKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecipientSize))
	if err != nil {
		return nil, err
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, &IdentityFileError{File: path, Err: ErrRecipient}
	}
	return public, nil
}

// sshTag returns the argument that age gives the stanzas for a key of ssh: 32 bits of its hash.
func sshTag(key ssh.PublicKey) string {
	sum := sha256.Sum256(key.Marshal())
	return base64.RawStdEncoding.EncodeToString(sum[:4])
}
