// Package sshsig makes and checks SSHSIG signatures, as 'ssh-keygen -Y sign' and git with
// gpg.format=ssh make them. Trust comes from a file of allowed signers.
//
// https://cvsweb.openbsd.org/src/usr.bin/ssh/PROTOCOL.sshsig describes the format.
package sshsig

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/kist-vcs/kist/object"
)

// The namespaces of kist. A signature counts only in the namespace that it was made for, so a
// signed commit is never taken for a signed root.
const (
	CommitNamespace = "kist-commit"
	TagNamespace    = "kist-tag"
	RootNamespace   = "kist-root"
)

// MaxSize is the largest size of a binary signature, in bytes.
const MaxSize = object.MaxSignatureSize

const (
	magic   = "SSHSIG"
	version = 1
	hash    = "sha512"

	armorBegin = "-----BEGIN SSH SIGNATURE-----"
	armorEnd   = "-----END SSH SIGNATURE-----"
	armorWidth = 70 // characters on a line of ssh-keygen
)

// ErrFormat is matched by the error for bytes that are no signature, or one of a kind that kist
// does not accept.
var ErrFormat = errors.New("not an ssh signature")

// ErrMismatch is matched by the error for a signature that does not fit its message.
var ErrMismatch = errors.New("the signature does not fit")

// Signature is an SSHSIG.
type Signature struct {
	Namespace string
	key       ssh.PublicKey // a certificate, or a plain key
	made      ssh.Signature
}

// body is what follows the magic text of a signature.
type body struct {
	Version   uint32
	Key       []byte
	Namespace string
	Reserved  string
	Hash      string
	Made      []byte
}

// signedBody is what follows the magic text in the bytes that a key signs.
type signedBody struct {
	Namespace string
	Reserved  string
	Hash      string
	Sum       []byte
}

// Parse reads a binary signature. It accepts exactly the bytes that [Signature.Encode] returns.
// Errors match [ErrFormat].
func Parse(data []byte) (*Signature, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(data))
	}
	rest, found := bytes.CutPrefix(data, []byte(magic))
	if !found {
		return nil, fmt.Errorf("%w: other magic", ErrFormat)
	}
	var b body
	if err := ssh.Unmarshal(rest, &b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}

	switch {
	case b.Version != version:
		return nil, fmt.Errorf("%w: version %d", ErrFormat, b.Version)
	case b.Namespace == "":
		return nil, fmt.Errorf("%w: no namespace", ErrFormat)
	case b.Reserved != "":
		return nil, fmt.Errorf("%w: a field that this program does not know", ErrFormat)
	case b.Hash != hash:
		return nil, fmt.Errorf("%w: hash %.32q", ErrFormat, b.Hash)
	}

	s := &Signature{Namespace: b.Namespace}
	var err error
	if s.key, err = parseKey(b.Key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := ssh.Unmarshal(b.Made, &s.made); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := s.checkMade(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !bytes.Equal(s.Encode(), data) {
		return nil, fmt.Errorf("%w: another encoding", ErrFormat)
	}
	return s, nil
}

// Encode returns the binary form of s.
func (s *Signature) Encode() []byte {
	return append([]byte(magic), ssh.Marshal(body{version, s.key.Marshal(), s.Namespace, "", hash, ssh.Marshal(s.made)})...)
}

// ParseArmored reads a signature between lines of hyphens, as ssh-keygen writes it. Errors match
// [ErrFormat].
func ParseArmored(text []byte) (*Signature, error) {
	if len(text) > 2*MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(text))
	}
	inner, found := strings.CutPrefix(strings.TrimSpace(string(text)), armorBegin)
	inner, ended := strings.CutSuffix(inner, armorEnd)
	if !found || !ended {
		return nil, fmt.Errorf("%w: other armor", ErrFormat)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(inner), ""))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return Parse(data)
}

// Armored returns s between lines of hyphens, with the line breaks of ssh-keygen.
func (s *Signature) Armored() []byte {
	text := base64.StdEncoding.EncodeToString(s.Encode())
	lines := []string{armorBegin}
	for line := range slices.Chunk([]byte(text), armorWidth) {
		lines = append(lines, string(line))
	}
	return []byte(strings.Join(append(lines, armorEnd, ""), "\n"))
}

// Fingerprint returns the hash of the key, as ssh-keygen -l shows it. That of a certificate is
// the one of its key.
func (s *Signature) Fingerprint() string { return ssh.FingerprintSHA256(plainKey(s.key)) }

// KeyType returns the algorithm of the key, as in "ED25519".
func (s *Signature) KeyType() string {
	name := strings.TrimPrefix(plainKey(s.key).Type(), "ssh-")
	name, _, _ = strings.Cut(name, "@")
	name = strings.Replace(name, "sk-ssh-", "sk-", 1)
	if curve := strings.Index(name, "-sha2-"); curve > 0 {
		name = name[:curve]
	}
	name = strings.ToUpper(name)
	if sk, found := strings.CutPrefix(name, "SK-"); found {
		name = sk + "-SK"
	}
	return name
}

// Verify returns an error that matches [ErrMismatch] unless the key of s signed the message in
// the namespace.
func (s *Signature) Verify(namespace string, message []byte) error {
	if s.Namespace != namespace {
		return fmt.Errorf("%w: it was made for %q", ErrMismatch, s.Namespace)
	}
	if err := plainKey(s.key).Verify(toSign(namespace, message), &s.made); err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return nil
}

// toSign returns the bytes that a key signs.
func toSign(namespace string, message []byte) []byte {
	sum := sha512.Sum512(message)
	return append([]byte(magic), ssh.Marshal(signedBody{namespace, "", hash, sum[:]})...)
}

// checkMade checks the algorithm of the signature. RSA counts only with SHA-512.
func (s *Signature) checkMade() error {
	if s.made.Format != signatureFormat(s.key) {
		return fmt.Errorf("a signature of the kind %.64q by a key of the kind %q", s.made.Format, s.key.Type())
	}
	if !isSecurityKey(s.key) && len(s.made.Rest) > 0 {
		return errors.New("bytes behind the signature")
	}
	return nil
}
