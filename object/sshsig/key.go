package sshsig

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// minRSA is the least number of bits of an RSA key.
const minRSA = 2048

// keyTypes are the kinds of keys that kist accepts. DSA is not one.
var keyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// errKeyType is matched by the error for a kind of key that kist does not accept.
var errKeyType = errors.New("no key of a kind that kist accepts")

// parseKey reads a public key or a certificate.
func parseKey(data []byte) (ssh.PublicKey, error) {
	key, err := ssh.ParsePublicKey(data)
	if err != nil {
		return nil, err
	}
	if err := checkKey(plainKey(key)); err != nil {
		return nil, err
	}
	if !bytes.Equal(key.Marshal(), data) {
		return nil, errors.New("a key in another encoding")
	}
	if cert, isCert := key.(*ssh.Certificate); isCert {
		return key, checkKey(cert.SignatureKey)
	}
	return key, nil
}

// checkKey checks the kind and the strength of a plain key.
func checkKey(key ssh.PublicKey) error {
	if !slices.Contains(keyTypes, key.Type()) {
		return fmt.Errorf("%.64q: %w", key.Type(), errKeyType)
	}
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if public, isRSA := k.CryptoPublicKey().(*rsa.PublicKey); isRSA && public.N.BitLen() < minRSA {
			return fmt.Errorf("RSA key of %d bits: %w", public.N.BitLen(), errKeyType)
		}
	}
	return nil
}

// plainKey returns the key of a certificate, or else the key itself.
func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, isCert := key.(*ssh.Certificate); isCert {
		return cert.Key
	}
	return key
}

func isSecurityKey(key ssh.PublicKey) bool { return strings.HasPrefix(plainKey(key).Type(), "sk-") }

// signatureFormat returns the only algorithm that a key signs with.
func signatureFormat(key ssh.PublicKey) string {
	if name := plainKey(key).Type(); name != ssh.KeyAlgoRSA {
		return name
	}
	return ssh.KeyAlgoRSASHA512
}

// sameKey reports whether two keys are equal. A certificate never equals a plain key.
func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// parseKeyText reads a public key as a line of text: kind, base64, and perhaps a comment.
func parseKeyText(line string) (ssh.PublicKey, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	text, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	data, err := decodeBase64(text)
	if err != nil || text == "" {
		return nil, errors.New("no public key")
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, err
	}
	if key.Type() != name {
		return nil, fmt.Errorf("a key of the kind %q that is called %.64q", key.Type(), name)
	}
	return key, nil
}
