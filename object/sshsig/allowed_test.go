package sshsig_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/sshsig"
)

// TestAllowedSigners compares the judgements of kist with those of ssh-keygen.
func TestAllowedSigners(t *testing.T) {
	dir := t.TempDir()
	key := objecttest.SSHKey(t, filepath.Join(dir, "key"), "-t", "ed25519")
	other := objecttest.SSHKey(t, filepath.Join(dir, "other"), "-t", "ed25519")
	k, o := publicKey(t, key), publicKey(t, other)
	data, err := sshsig.NewSigner(sshsig.KeySources{}, key).Sign(context.Background(), sshsig.CommitNamespace, []byte(message))
	if err != nil {
		t.Fatal(err)
	}

	const (
		good, unknown, expired = sshsig.Good, sshsig.UnknownKey, sshsig.Expired
		anna                   = "anna@chest.example"
	)
	for _, c := range []struct {
		name, file string
		want       sshsig.Verdict
		who        string
	}{
		{"plain", anna + " " + k, good, anna},
		{"with a comment and blanks", "# team\n\n  " + anna + "   " + k + " Anna's key", good, anna},
		{"other key", anna + " " + o, unknown, ""},
		{"second line", anna + " " + o + "\n" + anna + " " + k, good, anna},
		{"several principals", "bob@chest.example," + anna + " " + k, good, "bob@chest.example," + anna},
		{"a pattern", "*@chest.example " + k, good, "*@chest.example"},
		{"quoted", `"` + anna + `" ` + k, good, anna},
		{"namespace", anna + ` namespaces="kist-commit" ` + k, good, anna},
		{"namespaces", anna + ` namespaces="git,kist-*" ` + k, good, anna},
		{"other namespace", anna + ` namespaces="git" ` + k, unknown, ""},
		{"negated namespace", anna + ` namespaces="kist-*,!kist-commit" ` + k, unknown, ""},
		{"letter case of options", anna + ` NameSpaces="kist-commit" ` + k, good, anna},
		{"valid", anna + ` valid-after="20260101",valid-before="20270101Z" ` + k, good, anna},
		{"valid to the second", anna + ` valid-after="20260601120000Z",valid-before="202606011201Z" ` + k, good, anna},
		{"not yet valid", anna + ` valid-after="20260601120001Z" ` + k, expired, anna},
		{"no longer valid", anna + ` valid-before="20260601" ` + k, expired, anna},
		{"expired, and valid on another line", anna + ` valid-before="20250101" ` + k + "\n" + anna + ` valid-after="20250101" ` + k, good, anna},
		{"authority without a certificate", anna + " cert-authority " + k, unknown, ""},
		{"all options", anna + ` namespaces="kist-commit",valid-after="20260101",valid-before="20270101" ` + k, good, anna},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			got := allowed(t, c.file).Check(sshsig.CommitNamespace, []byte(message), data, someTime)
			if got.Status != c.want || got.Principal != c.who {
				t.Errorf("%+v, want %s by %q", got, c.want, c.who)
			}
			out, err := keygenVerify(t, c.file+"\n", anna, sshsig.CommitNamespace, data, someTime)
			if (err == nil) != (c.want == good) {
				t.Errorf("ssh-keygen judges otherwise: %v\n%s", err, out)
			}
		})
	}
}

// TestAllowedErrors reads files that could mean less trust than a reader that guesses gives.
func TestAllowedErrors(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI49108CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
	good := publicKeyOfVectors()
	for name, line := range map[string]string{
		"no key":                     "anna",
		"no key after options":       `anna namespaces="x"`,
		"broken base64":              "anna ssh-ed25519 AAAA!",
		"cut off":                    "anna ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI",
		"key of another name":        "anna ecdsa-sha2-nistp256 " + strings.Fields(good)[1],
		"odd key":                    "anna " + key,
		"unknown option":             "anna no-touch-required " + good,
		"unknown option with value":  `anna only="x" ` + good,
		"option twice":               `anna namespaces="a",namespaces="b" ` + good,
		"option without a value":     "anna namespaces " + good,
		"option without quotes":      "anna valid-before=20260101 " + good,
		"value for cert-authority":   `anna cert-authority="yes" ` + good,
		"empty option":               `anna cert-authority,,namespaces="a" ` + good,
		"comma at the end":           "anna cert-authority, " + good,
		"no namespaces":              `anna namespaces="" ` + good,
		"no date":                    `anna valid-before="tomorrow" ` + good,
		"month 13":                   `anna valid-before="20261301" ` + good,
		"seven digits":               `anna valid-before="2026010" ` + good,
		"dates in the wrong order":   `anna valid-after="20270101",valid-before="20260101" ` + good,
		"open quote":                 `anna namespaces="a ` + good,
		"open quote of a principal":  `"anna ` + good,
		"empty principal":            `"" ` + good,
		"control character":          "an\x1bna " + good,
		"quote in a value":           `anna namespaces="a"b" ` + good,
		"line too long":              strings.Repeat("a", 100_000) + " " + good,
		"options behind the options": `anna cert-authority namespaces="a" ` + good,
	} {
		_, err := sshsig.ParseAllowedSigners([]byte("# first\n"+line+"\n"), time.UTC)
		var bad *sshsig.AllowedError
		if !errors.As(err, &bad) || bad.Line != 2 {
			t.Errorf("%s: %v, want an error for line 2", name, err)
		}
	}

	if _, err := sshsig.ParseAllowedSigners(bytes.Repeat([]byte("#"), sshsig.MaxAllowedSigners+1), time.UTC); !errors.Is(err, sshsig.ErrTooLarge) {
		t.Errorf("too many bytes: %v", err)
	}
	if _, err := sshsig.ParseAllowedSigners([]byte(strings.Repeat("a "+good+"\n", 10_001)), time.UTC); !errors.Is(err, sshsig.ErrTooLarge) {
		t.Errorf("too many lines: %v", err)
	}

	// Keys of other kinds fit no signature, and others in a team may have them.
	allowed(t, "anna ssh-dss AAAAB3NzaC1kc3M=", "anna webauthn-sk-ecdsa-sha2-nistp256@openssh.com AAAA", "anna ssh-mldsa-87 AAAA comment")
}

func publicKeyOfVectors() string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(wire("ssh-ed25519", string(key.Public().(ed25519.PublicKey))))
}

// wire encodes texts as SSH does.
func wire(parts ...string) (out []byte) {
	for _, p := range parts {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
	}
	return out
}

// TestPatternsAreCheap matches a pattern that takes exponential time in a simple matcher.
func TestPatternsAreCheap(t *testing.T) {
	name := strings.Repeat("a", 2000)
	a := allowed(t, `anna namespaces="`+strings.Repeat("*a", 1000)+`*b" `+publicKeyOfVectors())
	message := []byte("message")
	if got := a.Check(name, message, signedBy(name, message), someTime); got.Status != sshsig.UnknownKey || !errors.Is(got.Err, sshsig.ErrNamespaces) {
		t.Errorf("%+v", got)
	}
}

// signedBy returns a signature by the key of the vectors.
func signedBy(namespace string, message []byte) []byte {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	hash := sha512.Sum512(message)
	made := ed25519.Sign(key, append([]byte("SSHSIG"), wire(namespace, "", "sha512", string(hash[:]))...))
	public := wire("ssh-ed25519", string(key.Public().(ed25519.PublicKey)))
	return signature(string(public), namespace, "", "sha512", string(wire("ssh-ed25519", string(made))))
}

func signature(parts ...string) []byte {
	return append([]byte("SSHSIG\x00\x00\x00\x01"), wire(parts...)...)
}

// TestForged checks signatures that no program makes.
func TestForged(t *testing.T) {
	valid := signedBy(sshsig.CommitNamespace, []byte(message))
	if _, err := sshsig.Parse(valid); err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	public := string(wire("ssh-ed25519", string(key.Public().(ed25519.PublicKey))))
	made := string(wire("ssh-ed25519", strings.Repeat("s", 64)))
	rsaKey := string(wire("ssh-rsa", "\x01\x00\x01", "\x00"+strings.Repeat("\xff", 256)))
	huge := string(wire("ssh-rsa", "\x01\x00\x01", "\x00"+strings.Repeat("\xff", 2100)))

	for name, data := range map[string][]byte{
		"nothing":                 {},
		"version 2":               append([]byte("SSHSIG\x00\x00\x00\x02"), valid[10:]...),
		"no namespace":            signature(public, "", "", "sha512", made),
		"reserved field":          signature(public, "n", "x", "sha512", made),
		"hash SHA-256":            signature(public, "n", "", "sha256", made),
		"hash of another name":    signature(public, "n", "", "SHA512", made),
		"RSA with SHA-1":          signature(rsaKey, "n", "", "sha512", string(wire("ssh-rsa", strings.Repeat("s", 256)))),
		"RSA with SHA-256":        signature(rsaKey, "n", "", "sha512", string(wire("rsa-sha2-256", strings.Repeat("s", 256)))),
		"RSA of 16800 bits":       signature(huge, "n", "", "sha512", string(wire("rsa-sha2-512", strings.Repeat("s", 2100)))),
		"other kind of key":       signature(public, "n", "", "sha512", string(wire("ecdsa-sha2-nistp256", "s"))),
		"bytes behind it":         signature(public, "n", "", "sha512", made+"x"),
		"bytes behind the key":    signature(public+"x", "n", "", "sha512", made),
		"DSA":                     signature(string(wire("ssh-dss", "\x01", "\x01", "\x01", "\x01")), "n", "", "sha512", made),
		"no key":                  signature("", "n", "", "sha512", made),
		"a length beyond the end": append([]byte("SSHSIG\x00\x00\x00\x01"), 0xff, 0xff, 0xff, 0xff),
		"too large":               signature(public, strings.Repeat("n", sshsig.MaxSize), "", "sha512", made),
		"SHA-256 of the key":      signature(fmt.Sprint(sha256.Sum256([]byte(public))), "n", "", "sha512", made),
	} {
		if s, err := sshsig.Parse(data); !errors.Is(err, sshsig.ErrFormat) {
			t.Errorf("%s: %+v, %v; want ErrFormat", name, s, err)
		}
		if got := allowed(t, "anna "+publicKeyOfVectors()).Check("n", nil, data, someTime); got.Status == sshsig.Good {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := sshsig.Parse(signature(rsaKey, "n", "", "sha512", string(wire("rsa-sha2-512", strings.Repeat("s", 256))))); err != nil {
		t.Errorf("the form of a signature by RSA: %v", err)
	}
}

// TestSecurityKey checks the signature of a key in hardware, which counts only with a touch.
func TestSecurityKey(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	public := string(wire("sk-ssh-ed25519@openssh.com", string(key.Public().(ed25519.PublicKey)), "ssh:"))
	line := "anna sk-ssh-ed25519@openssh.com " + base64.StdEncoding.EncodeToString([]byte(public))
	for name, c := range map[string]struct {
		flags byte
		want  sshsig.Verdict
	}{
		"touched": {1, sshsig.Good}, "with a PIN": {5, sshsig.Good}, "not touched": {0, sshsig.Bad},
	} {
		hash := sha512.Sum512([]byte(message))
		signed := append([]byte("SSHSIG"), wire(sshsig.CommitNamespace, "", "sha512", string(hash[:]))...)
		app, sum := sha256.Sum256([]byte("ssh:")), sha256.Sum256(signed)
		tail := []byte{c.flags, 0, 0, 0, 7}
		made := ed25519.Sign(key, bytes.Join([][]byte{app[:], tail, sum[:]}, nil))
		data := signature(public, sshsig.CommitNamespace, "", "sha512", string(wire("sk-ssh-ed25519@openssh.com", string(made)))+string(tail))

		got := allowed(t, line).Check(sshsig.CommitNamespace, []byte(message), data, someTime)
		if got.Status != c.want || got.KeyType != "ED25519-SK" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
		// ssh-keygen does not ask for a touch.
		if out, err := keygenVerify(t, line+"\n", "anna", sshsig.CommitNamespace, data, someTime); err != nil {
			t.Errorf("%s: ssh-keygen judges otherwise: %v\n%s", name, err, out)
		}
	}
}

// TestCertificates compares the judgements of certificates with those of ssh-keygen.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ca := objecttest.SSHKey(t, filepath.Join(dir, "ca"), "-t", "ed25519")
	for i, c := range []struct {
		name   string
		cert   []string // options of ssh-keygen -s
		line   string   // before the key of the authority
		strict bool     // ssh-keygen is less strict than kist
		want   sshsig.Verdict
		who    string
	}{
		{"valid", []string{"-n", "anna", "-V", "20260101:20270101"}, "* cert-authority", false, sshsig.Good, "anna"},
		{"for ever", []string{"-n", "anna"}, "* cert-authority", false, sshsig.Good, "anna"},
		{"two names", []string{"-n", "anna,bob"}, "a*,*b cert-authority", false, sshsig.Good, "anna,bob"},
		{"one name counts", []string{"-n", "root,anna"}, "anna cert-authority", false, sshsig.Good, "anna"},
		{"other name", []string{"-n", "bob"}, "anna cert-authority", false, sshsig.UnknownKey, ""},
		{"negated name", []string{"-n", "anna"}, "*,!anna cert-authority", true, sshsig.UnknownKey, ""},
		{"no name", nil, "anna cert-authority", false, sshsig.UnknownKey, ""},
		{"of a host", []string{"-h", "-n", "anna"}, "anna cert-authority", false, sshsig.UnknownKey, ""},
		{"over", []string{"-n", "anna", "-V", "20250101:20260101"}, "anna cert-authority", false, sshsig.Expired, "anna"},
		{"later", []string{"-n", "anna", "-V", "20270101:20280101"}, "anna cert-authority", false, sshsig.Expired, "anna"},
		{"line over", []string{"-n", "anna"}, `anna cert-authority,valid-before="20260101"`, false, sshsig.Expired, "anna"},
		{"no authority", []string{"-n", "anna"}, "anna", false, sshsig.UnknownKey, ""},
		{"forced command", []string{"-n", "anna", "-O", "force-command=ls"}, "anna cert-authority", true, sshsig.UnknownKey, ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			key := objecttest.SSHKey(t, filepath.Join(dir, fmt.Sprint("key", i)), "-t", "ed25519")
			objecttest.RunSSH(t, "", append(append([]string{"ssh-keygen", "-q", "-s", ca, "-I", "id"}, c.cert...), key+".pub")...)
			data, err := sshsig.NewSigner(sshsig.KeySources{}, key+"-cert.pub").Sign(context.Background(), sshsig.CommitNamespace, []byte(message))
			if err != nil {
				t.Fatal(err)
			}

			file := c.line + " " + publicKey(t, ca)
			got := allowed(t, file).Check(sshsig.CommitNamespace, []byte(message), data, someTime)
			if got.Status != c.want || got.Principal != c.who {
				t.Errorf("%+v, want %s by %q", got, c.want, c.who)
			}
			out, err := keygenVerify(t, file+"\n", "anna", sshsig.CommitNamespace, data, someTime)
			if (err == nil) != (c.want == sshsig.Good) && !c.strict {
				t.Errorf("ssh-keygen judges otherwise: %v\n%s", err, out)
			}
			if got := allowed(t, "anna "+publicKey(t, key)).Check(sshsig.CommitNamespace, []byte(message), data, someTime); got.Status != sshsig.UnknownKey {
				t.Errorf("a line with the plain key: %+v", got)
			}
		})
	}
}

// FuzzAllowedSigners looks for lines that stop the reader of allowed signers.
func FuzzAllowedSigners(f *testing.F) {
	f.Add([]byte("anna " + publicKeyOfVectors()))
	f.Add([]byte(`*@x,!b cert-authority,namespaces="a,b*",valid-after="20260101",valid-before="202701010000Z" ` + publicKeyOfVectors()))
	f.Add([]byte("# comment\n\n\"a b\" " + publicKeyOfVectors() + " comment\n"))
	data := signedBy(sshsig.RootNamespace, []byte(message))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := sshsig.ParseAllowedSigners(text, time.UTC)
		if err != nil {
			return
		}
		if got := a.Check(sshsig.RootNamespace, []byte(message), data, someTime); got.Status == sshsig.Good && !bytes.Contains(text, []byte(strings.Fields(publicKeyOfVectors())[1])) {
			t.Fatalf("%+v without the key", got)
		}
	})
}
