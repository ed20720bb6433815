package keyset

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
	"golang.org/x/crypto/ssh"

	"github.com/kist-vcs/kist/chunker"
)

// testWork is the cost of passphrases in tests.
const testWork = 4

var (
	testRemote     = [16]byte{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}
	testRepository = [16]byte{0x20, 0x21, 0x22, 0x23}
	testDate       = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	testChunker    = chunker.DefaultParams(0x3da3358b4dc173)
)

// TestMain runs a plugin of age if a test gave the program the name of one.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "age-plugin-"); ok {
		os.Exit(runPlugin(name))
	}
	os.Exit(m.Run())
}

// runPlugin is a plugin whose recipients and identities hold an X25519 identity, in clear. The plugin writes a line to the file
// KIST_TEST_PLUGIN_LOG.
func runPlugin(name string) int {
	p, err := plugin.New(name)
	if err != nil {
		return 1
	}
	log := func(text string) {
		f, err := os.OpenFile(os.Getenv("KIST_TEST_PLUGIN_LOG"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, _ = f.WriteString(text + "\n")
			f.Close()
		}
	}

	p.HandleRecipient(func(data []byte) (age.Recipient, error) {
		log("recipient")
		i, err := age.ParseX25519Identity(string(data))
		if err != nil {
			return nil, err
		}
		return pluginStanzas{i}, nil
	})

	p.HandleIdentity(func(data []byte) (age.Identity, error) {
		log("identity")
		i, err := age.ParseX25519Identity(string(data))
		if err != nil {
			return nil, err
		}
		return pluginStanzas{i}, nil
	})
	return p.Main()
}

// pluginStanzas gives stanzas a type of their own.
type pluginStanzas struct{ identity *age.X25519Identity }

func (p pluginStanzas) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	stanzas, err := p.identity.Recipient().Wrap(fileKey)
	for _, s := range stanzas {
		s.Type = "kisttest"
	}
	return stanzas, []string{"postquantum"}, err
}

func (p pluginStanzas) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, _, err := p.WrapWithLabels(fileKey)
	return stanzas, err
}

func (p pluginStanzas) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	var own []*age.Stanza
	for _, s := range stanzas {
		if s.Type == "kisttest" {
			own = append(own, &age.Stanza{Type: "X25519", Args: s.Args, Body: s.Body})
		}
	}
	if len(own) == 0 {
		return nil, age.ErrIncorrectIdentity
	}
	return p.identity.Unwrap(own)
}

// installPlugin puts the plugin kisttest into the search path. The function returns the lines that it has written.
func installPlugin(t *testing.T) (log func() []string) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "age-plugin-kisttest")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "log")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KIST_TEST_PLUGIN_LOG", file)
	return func() []string {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		return strings.Fields(string(data))
	}
}

func newHybrid(t testing.TB) Identity {
	t.Helper()
	i, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func newX25519(t testing.TB) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func newKeyset(t testing.TB, recipients ...Recipient) *Keyset {
	t.Helper()
	k, err := New(testRemote, testRepository, testChunker, recipients...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func seal(t testing.TB, k *Keyset) *File {
	t.Helper()
	f, err := k.Seal(Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func recipient(name, key string) Recipient { return Recipient{Name: name, Key: key, Added: testDate} }

// locked returns a recipient that a passphrase opens.
func locked(t testing.TB, name, passphrase string) Recipient {
	t.Helper()
	i := newHybrid(t)
	data, err := i.lock([]byte(passphrase), testWork)
	if err != nil {
		t.Fatal(err)
	}
	r := recipient(name, i.Recipient())
	r.Locked = data
	return r
}

// secretFile writes a file that only the user can read.
func secretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "identities")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, f *File, places Places) *Keyset {
	t.Helper()
	k, err := NewIdentities(places).Open(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// opens returns places with an identity.
func opens(t testing.TB, i Identity) Places {
	t.Helper()
	return Places{Own: secretFile(t, i.Secret())}
}

// dialog answers with a passphrase, and counts questions.
type dialog struct {
	passphrase string
	err        error
	asked      []string // for which file
}

func (d *dialog) Passphrase(_ context.Context, of string) ([]byte, error) {
	d.asked = append(d.asked, of)
	return []byte(d.passphrase), d.err
}

func (d *dialog) Request(string, string, bool) (string, error) { return "", errors.New("not expected") }

func (d *dialog) Confirm(string, string, string, string) (bool, error) {
	return false, errors.New("not expected")
}

func (d *dialog) Show(string, string) error { return errors.New("not expected") }

// sshPair is a key of ssh for tests.
type sshPair struct {
	public string // a line of authorized_keys
	path   string
}

// oldRSA returns the key in testdata: to make one takes long.
var oldRSA = sync.OnceValues(func() (any, error) {
	data, err := os.ReadFile(filepath.Join("testdata", "old-rsa.pem"))
	if err != nil {
		return nil, err
	}
	return ssh.ParseRawPrivateKeyWithPassphrase(data, []byte("secret"))
})

// newSSH makes the file of a key of ssh, locked unless the passphrase is empty.
func newSSH(t testing.TB, kind, passphrase string) sshPair {
	t.Helper()
	var private any
	var err error
	switch kind {
	case ssh.KeyAlgoED25519:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case ssh.KeyAlgoRSA:
		private, err = oldRSA()
	}
	if err != nil {
		t.Fatal(err)
	}

	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	return sshPair{public, secretFile(t, string(pem.EncodeToMemory(block)))}
}
