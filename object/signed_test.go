package object_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// signable is a commit or a tag.
type signable interface {
	Encode() ([]byte, error)
	ToSign() ([]byte, error)
}

// signerSeed is the secret key of the vectors: 32 bytes of the value 1.
var signerSeed = bytes.Repeat([]byte{1}, ed25519.SeedSize)

// signatureOf returns an SSHSIG by the key of the vectors, made without package sshsig.
func signatureOf(kind object.Kind, message []byte) string {
	text := func(parts ...string) (out []byte) {
		for _, p := range parts {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
		}
		return out
	}

	key := ed25519.NewKeyFromSeed(signerSeed)
	public := text("ssh-ed25519", string(key.Public().(ed25519.PublicKey)))
	namespace := "kist-" + kind.String()
	hash := sha512.Sum512(message)
	signed := append([]byte("SSHSIG"), text(namespace, "", "sha512", string(hash[:]))...)
	made := text("ssh-ed25519", string(ed25519.Sign(key, signed)))
	return "SSHSIG\x00\x00\x00\x01" + string(text(string(public), namespace, "", "sha512", string(made)))
}

// withSignature sets the signature of a node.
func withSignature(node signable, signature []byte) signable {
	switch n := node.(type) {
	case *object.Commit:
		with := *n
		with.Signature = signature
		return &with
	case *object.Tag:
		with := *n
		with.Signature = signature
		return &with
	}
	panic("neither a commit nor a tag")
}

// sign returns a node with a signature by the key of the vectors.
func sign(t testing.TB, node signable) signable {
	t.Helper()
	message, err := node.ToSign()
	if err != nil {
		t.Fatal(err)
	}
	return withSignature(node, []byte(signatureOf(object.Kind(message[2]), message)))
}

// TestSigned checks the bytes that a key signs, and that a signature changes only the version and
// its own field.
func TestSigned(t *testing.T) {
	for _, node := range []signable{&object.Commit{Tree: sum("a")}, fullCommit(), &object.Tag{Target: sum("c"), Name: "v"}, fullTag()} {
		plain := mustEncode(t, node)
		signed := sign(t, node)
		message, err := signed.ToSign()
		if err != nil {
			t.Fatal(err)
		}

		if want := with(plain, 3, 2); !bytes.Equal(message, want) {
			t.Errorf("%T: the signed bytes are\n%x, want\n%x", node, message, want)
		}
		data := mustEncode(t, signed)
		if plain[3] != 1 || data[3] != 2 {
			t.Errorf("%T: version %d without and %d with a signature", node, plain[3], data[3])
		}
		if links, err := object.Links(object.Kind(data[2]), data); err != nil || len(links) == 0 {
			t.Errorf("%T: links %v, %v", node, links, err)
		}

		var got any
		if data[2] == byte(object.KindTag) {
			got, err = object.DecodeTag(data)
		} else {
			got, err = object.DecodeCommit(data)
		}
		clear(data) // got must not share it
		if diff := cmp.Diff(signed, got, cmpEmpty); err != nil || diff != "" {
			t.Errorf("%T: %v\n%s", node, err, diff)
		}
		if err := object.Check(object.Kind(plain[2]), mustEncode(t, withSignature(node, make([]byte, object.MaxSignatureSize)))); err != nil {
			t.Errorf("%T with the largest signature: %v", node, err)
		}
	}
}
