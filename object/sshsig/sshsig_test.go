package sshsig_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/sshsig"
)

// keyTypes are the options of ssh-keygen for each kind of key that kist signs with.
var keyTypes = map[string][]string{
	"ED25519": {"-t", "ed25519"},
	"ECDSA":   {"-t", "ecdsa", "-b", "256"},
	"ECDSA 2": {"-t", "ecdsa", "-b", "384"},
	"ECDSA 3": {"-t", "ecdsa", "-b", "521"},
	"RSA":     {"-t", "rsa", "-b", "2048"},
}

const message = "the message\n"

var someTime = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// allowed returns the allowed signers that a file with lines has.
func allowed(t testing.TB, lines ...string) *sshsig.AllowedSigners {
	t.Helper()
	a, err := sshsig.ParseAllowedSigners([]byte(strings.Join(lines, "\n")), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func publicKey(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func write(t testing.TB, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keygenVerify asks ssh-keygen whether a signature is good, at a time.
func keygenVerify(t testing.TB, signers, principal, namespace string, signature []byte, at time.Time) (string, error) {
	t.Helper()
	dir := t.TempDir()
	s, err := sshsig.Parse(signature)
	if err != nil {
		return "", err
	}
	file := write(t, filepath.Join(dir, "sig"), string(s.Armored()))
	list := write(t, filepath.Join(dir, "allowed"), signers)
	return objecttest.TrySSH(t, message, "ssh-keygen", "-Y", "verify", "-f", list, "-I", principal, "-n", namespace, "-s", file,
		"-O", "verify-time="+at.Format("20060102150405"))
}

// TestSSHKeygen signs with each kind of key, in kist by file and by agent, and in ssh-keygen. Each
// accepts the signatures of the other.
func TestSSHKeygen(t *testing.T) {
	objecttest.NeedProgram(t, "ssh-keygen")
	ctx := context.Background()
	agent := objecttest.StartSSHAgent(t)
	for name, options := range keyTypes {
		t.Run(strings.ReplaceAll(name, " ", ""), func(t *testing.T) {
			dir := t.TempDir()
			key := objecttest.SSHKey(t, filepath.Join(dir, "key"), options...)
			onlyPublic := write(t, filepath.Join(dir, "public.pub"), publicKey(t, key))
			objecttest.AddToSSHAgent(t, agent, key)
			line := "anna@chest.example " + publicKey(t, key)

			signatures := map[string][]byte{}
			for way, signer := range map[string]*sshsig.Signer{
				"file":        sshsig.NewSigner(sshsig.KeySources{}, key),
				"public file": sshsig.NewSigner(sshsig.KeySources{}, key+".pub"),
				"agent":       sshsig.NewSigner(sshsig.KeySources{Agent: agent}, onlyPublic),
				"literal":     sshsig.NewSigner(sshsig.KeySources{Agent: agent}, publicKey(t, key)),
				"key::":       sshsig.NewSigner(sshsig.KeySources{Agent: agent}, "key::"+publicKey(t, key)),
			} {
				data, err := signer.Sign(ctx, sshsig.CommitNamespace, []byte(message))
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				signatures[way] = data
				out, err := keygenVerify(t, line, "anna@chest.example", sshsig.CommitNamespace, data, someTime)
				if err != nil || !strings.HasPrefix(out, "Good ") {
					t.Errorf("%s: ssh-keygen: %v\n%s", way, err, out)
				}
			}

			armored := objecttest.RunSSH(t, message, "ssh-keygen", "-q", "-Y", "sign", "-n", sshsig.CommitNamespace, "-f", key)
			s, err := sshsig.ParseArmored([]byte(armored))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(s.Armored()); got != armored {
				t.Errorf("armored again:\n%s\nwant\n%s", got, armored)
			}
			signatures["ssh-keygen"] = s.Encode()

			want := strings.Fields(objecttest.RunSSH(t, "", "ssh-keygen", "-l", "-f", key))[1]
			for way, data := range signatures {
				got := allowed(t, line).Check(sshsig.CommitNamespace, []byte(message), data, someTime)
				if got.Status != sshsig.Good || got.Principal != "anna@chest.example" || got.Fingerprint != want || got.KeyType != strings.Fields(name)[0] {
					t.Errorf("%s: %+v, want the fingerprint %s", way, got, want)
				}
				for what, result := range map[string]sshsig.Result{
					"another message":   allowed(t, line).Check(sshsig.CommitNamespace, []byte("another"), data, someTime),
					"another namespace": allowed(t, line).Check(sshsig.TagNamespace, []byte(message), data, someTime),
					"a flipped bit":     allowed(t, line).Check(sshsig.CommitNamespace, []byte(message), flipped(data, len(data)-1), someTime),
					"a byte more":       allowed(t, line).Check(sshsig.CommitNamespace, []byte(message), append(bytes.Clone(data), 0), someTime),
				} {
					if result.Status != sshsig.Bad || result.Principal != "" {
						t.Errorf("%s, with %s: %+v", way, what, result)
					}
				}
				if got := allowed(t).Check(sshsig.CommitNamespace, []byte(message), data, someTime); got.Status != sshsig.UnknownKey || got.Fingerprint != want {
					t.Errorf("%s: %+v, want an unknown key", way, got)
				}
			}
		})
	}
}

func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 1
	return data
}

// TestRefused checks signatures of ssh-keygen that kist does not accept.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	key := objecttest.SSHKey(t, filepath.Join(dir, "key"), "-t", "ed25519")
	small := objecttest.SSHKey(t, filepath.Join(dir, "small"), "-t", "rsa", "-b", "1024")
	for name, args := range map[string][]string{
		"SHA-256":   {"-f", key, "-O", "hashalg=sha256"},
		"small RSA": {"-f", small},
	} {
		armored := objecttest.RunSSH(t, message, append([]string{"ssh-keygen", "-q", "-Y", "sign", "-n", sshsig.CommitNamespace}, args...)...)
		if _, err := sshsig.ParseArmored([]byte(armored)); !errors.Is(err, sshsig.ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
}

// TestFlips checks that no changed byte leaves a good signature.
func TestFlips(t *testing.T) {
	key := objecttest.SSHKey(t, filepath.Join(t.TempDir(), "key"), "-t", "ed25519")
	data, err := sshsig.NewSigner(sshsig.KeySources{}, key).Sign(context.Background(), sshsig.RootNamespace, []byte(message))
	if err != nil {
		t.Fatal(err)
	}
	a := allowed(t, "anna "+publicKey(t, key))
	if got := a.Check(sshsig.RootNamespace, []byte(message), data, someTime); got.Status != sshsig.Good {
		t.Fatalf("%+v", got)
	}
	for i := range data {
		if got := a.Check(sshsig.RootNamespace, []byte(message), flipped(data, i), someTime); got.Status != sshsig.Bad {
			t.Errorf("byte %d: %+v", i, got)
		}
		if got := a.Check(sshsig.RootNamespace, []byte(message), data[:i], someTime); got.Status == sshsig.Good {
			t.Errorf("%d bytes: %+v", i, got)
		}
	}
}

// TestVectors checks the signed nodes of testdata/vectors, whose key is public.
func TestVectors(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
	a := allowed(t, "vectors namespaces=\"kist-commit\" "+key, "tags namespaces=\"kist-t*\" "+key)
	for kind, who := range map[object.Kind]string{object.KindCommit: "vectors", object.KindTag: "tags"} {
		data, err := os.ReadFile(filepath.Join("../../testdata/vectors", kind.String()+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct{ Name, Hex, Reason string }
		if err := json.Unmarshal(data, &vectors); err != nil {
			t.Fatal(err)
		}

		found := 0
		for _, v := range vectors {
			if !strings.HasSuffix(v.Name, "signed") || v.Reason != "" {
				continue
			}
			found++
			node, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			store := objecttest.NewMemory()
			id, err := store.Put(context.Background(), kind, node)
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.CheckNode(context.Background(), store, object.Key{Kind: kind, ID: id})
			if err != nil || got.Status != sshsig.Good || got.Principal != who {
				t.Errorf("%s %q: %+v, %v", kind, v.Name, got, err)
			}
		}
		if found != 2 {
			t.Errorf("%d signed vectors of a %s", found, kind)
		}
	}
}

// TestMovedSignature gives the signature of a commit to another commit.
func TestMovedSignature(t *testing.T) {
	ctx := context.Background()
	key := objecttest.SSHKey(t, filepath.Join(t.TempDir(), "key"), "-t", "ed25519")
	a := allowed(t, "anna "+publicKey(t, key))
	store := objecttest.NewMemory()
	check := func(c signable) sshsig.Verdict {
		t.Helper()
		data, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		kind := object.Kind(data[2])
		id, err := store.Put(ctx, kind, data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.CheckNode(ctx, store, object.Key{Kind: kind, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}

	signed := object.Commit{Tree: object.Sum([]byte("tree")), Message: "mine", Committer: object.Stamp{Name: "Anna", Time: object.TimeOf(someTime)}}
	if got := check(&signed); got != sshsig.None {
		t.Errorf("without a signature: %s", got)
	}
	if err := sshsig.SignCommit(ctx, sshsig.NewSigner(sshsig.KeySources{}, key), &signed); err != nil {
		t.Fatal(err)
	}
	if got := check(&signed); got != sshsig.Good {
		t.Errorf("signed: %s", got)
	}
	for name, change := range map[string]func(c *object.Commit){
		"message": func(c *object.Commit) { c.Message = "not mine" },
		"tree":    func(c *object.Commit) { c.Tree = object.Sum([]byte("other")) },
		"parents": func(c *object.Commit) { c.Parents = []object.ID{object.Sum([]byte("parent"))} },
		"author":  func(c *object.Commit) { c.Author.Name = "Bob" },
		"time":    func(c *object.Commit) { c.Committer.Time.Sec-- },
		"zone":    func(c *object.Commit) { c.Committer.Zone = 60 },
		"host":    func(c *object.Commit) { c.Host = "elsewhere" },
	} {
		moved := signed
		change(&moved)
		if got := check(&moved); got != sshsig.Bad {
			t.Errorf("with another %s: %s", name, got)
		}
	}

	if got := check(&object.Tag{Target: object.Sum([]byte("c")), Name: "v1", Signature: signed.Signature}); got != sshsig.Bad {
		t.Errorf("a commit's signature in a tag: %s", got)
	}
}

// signable is a commit or a tag.
type signable interface{ Encode() ([]byte, error) }

// FuzzParse checks that a decoded signature encodes to the same bytes.
func FuzzParse(f *testing.F) {
	for _, data := range seeds(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sshsig.Parse(data)
		if err != nil {
			if !errors.Is(err, sshsig.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), data) {
			t.Fatal("it encodes to other bytes")
		}
		again, err := sshsig.ParseArmored(s.Armored())
		if err != nil || !bytes.Equal(again.Encode(), data) {
			t.Fatalf("armored: %v", err)
		}
		_ = s.Verify(s.Namespace, data)
		_, _ = s.Fingerprint(), s.KeyType()
	})
}

// FuzzParseArmored looks for inputs that stop the decoder of the armor.
func FuzzParseArmored(f *testing.F) {
	for _, data := range seeds(f) {
		if s, err := sshsig.Parse(data); err == nil {
			f.Add(s.Armored())
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := sshsig.ParseArmored(text); err == nil {
			if _, err := sshsig.Parse(s.Encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// seeds returns a signature of each kind in testdata, and damaged ones.
func seeds(f *testing.F) (list [][]byte) {
	files, err := filepath.Glob("testdata/*.sig")
	if err != nil || len(files) == 0 {
		f.Fatalf("no signatures in testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		s, err := sshsig.ParseArmored(text)
		if err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		data := s.Encode()
		list = append(list, data, data[:len(data)/2], append(bytes.Clone(data), 0))
	}
	return append(list, []byte("SSHSIG"), fmt.Appendf(nil, "SSHSIG\x00\x00\x00\x01\xff\xff\xff\xff"))
}
