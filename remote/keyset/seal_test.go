package keyset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"
	"golang.org/x/crypto/ssh"
)

// Each recipient alone opens the keyset, whatever the others are.
func TestEachRecipientOpens(t *testing.T) {
	log := installPlugin(t)
	hybrid, x25519, inPlugin := newHybrid(t), newX25519(t), newX25519(t)
	ed, rsa := newSSH(t, ssh.KeyAlgoED25519, ""), newSSH(t, ssh.KeyAlgoRSA, "")
	pluginKey := plugin.EncodeRecipient("kisttest", []byte(inPlugin.String()))
	recipients := []Recipient{
		recipient("hybrid", hybrid.Recipient()), recipient("x25519", x25519.Recipient().String()), recipient("ed", ed.public),
		recipient("rsa", rsa.public), recipient("plugin", pluginKey), locked(t, "passphrase", "secret"),
	}
	places := map[string]Places{
		"hybrid": opens(t, hybrid), "x25519": {Own: secretFile(t, x25519.String())}, "ed": {SSH: []string{ed.path}}, "rsa": {SSH: []string{rsa.path}},
		"plugin":     {Own: secretFile(t, plugin.EncodeIdentity("kisttest", []byte(inPlugin.String())))},
		"passphrase": {Passphrase: PassphraseSource{File: secretFile(t, "secret\nmore\n")}},
	}

	for _, some := range [][]Recipient{recipients, recipients[:1], recipients[1:2], recipients[2:3], recipients[4:5], recipients[3:], recipients[5:]} {
		k := newKeyset(t, some...)
		f, err := k.Seal(Plugins{Allowed: []string{"kisttest"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range some {
			got := open(t, f, places[r.Name])
			opener, ok := got.Opener()
			if r.Name == "plugin" {
				if ok {
					t.Errorf("the opener of a plugin is %q", opener.Name)
				}
			} else if opener.Name != r.Name {
				t.Errorf("%s is opened by %q", r.Name, opener.Name)
			}
			got.opener = ""
			if !sameKeyset(got, k) {
				t.Errorf("%s reads another keyset", r.Name)
			}
		}
	}
	if len(log()) == 0 {
		t.Error("the plugin did not run")
	}
}

// sameKeyset compares keysets with their keys.
func sameKeyset(a, b *Keyset) bool {
	one, err1 := a.encode()
	two, err2 := b.encode()
	return err1 == nil && err2 == nil && bytes.Equal(one, two) && reflect.DeepEqual(a.locked(), b.locked())
}

// A plugin runs only with permission. The error names the recipient, and nobody is left out.
func TestSealAsksBeforePlugins(t *testing.T) {
	log := installPlugin(t)
	missing := plugin.EncodeRecipient("missing", []byte("x"))
	key := plugin.EncodeRecipient("kisttest", []byte(newX25519(t).String()))
	broken := plugin.EncodeRecipient("kisttest", []byte("x"))
	t.Setenv("AGEDEBUG", "plugin")

	for what, c := range map[string]struct {
		key     string
		allowed []string
		want    error
	}{
		"forbidden": {key, []string{"other"}, ErrPluginForbidden},
		"missing":   {missing, []string{"missing"}, exec.ErrNotFound},
		"failing":   {broken, []string{"kisttest"}, nil},
	} {
		k := newKeyset(t, recipient("anna", newHybrid(t).Recipient()), recipient("token", c.key))
		ran := len(log())
		_, err := k.Seal(Plugins{Allowed: c.allowed})
		failed := new(*PluginError)
		if !errors.As(err, failed) || (*failed).Recipient != "token" || !errors.Is(err, c.want) && c.want != nil {
			t.Errorf("%s: error %v", what, err)
		}
		if what == "forbidden" && len(log()) > ran {
			t.Error("a forbidden plugin ran")
		}
	}
	if os.Getenv("AGEDEBUG") != "" {
		t.Error("AGEDEBUG is set while a plugin runs")
	}
}

// Hardware keys with a public form need no plugin.
func TestTaggedRecipients(t *testing.T) {
	const classic = "age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e"
	k := newKeyset(t, recipient("key", classic))
	if f := seal(t, k); len(f.envelopes) != 1 || f.envelopes[0].kind != Classic || f.envelopes[0].stanzas[0].Type != "p256tag" {
		t.Error("a tagged key has no stanza of its kind")
	}
}

// The largest keysets fit, and a larger one is refused.
func TestSizes(t *testing.T) {
	var hybrids, classics []Recipient
	for i := range MaxRecipients {
		hybrids = append(hybrids, recipient(fmt.Sprint("h", i), newHybrid(t).Recipient()))
		classics = append(classics, recipient(fmt.Sprint("c", i), newX25519(t).Recipient().String()))
	}
	for what, list := range map[string][]Recipient{"hybrid": hybrids, "classic": classics} {
		f := seal(t, newKeyset(t, list...))
		t.Logf("%d %s recipients: %d bytes", len(list), what, len(f.data))
	}
	mixed := append(hybrids[:MaxRecipients-1:MaxRecipients-1], classics[0])
	if _, err := newKeyset(t, mixed...).Seal(Plugins{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d hybrid recipients and a classic one: error %v", MaxRecipients-1, err)
	}
	seal(t, newKeyset(t, append(hybrids[:120:120], classics[:80]...)...))
}

// A keyset whose envelopes differ is damaged, if somebody can open both.
func TestEnvelopesMustAgree(t *testing.T) {
	hybrid, x25519 := newHybrid(t), newX25519(t)
	k := newKeyset(t, recipient("hybrid", hybrid.Recipient()), recipient("x25519", x25519.Recipient().String()))
	one, two := seal(t, k), seal(t, newKeyset(t, k.Recipients...))
	mixed, err := build(testRemote, 1, []envelope{one.envelopes[0], two.envelopes[1]}, nil)
	if err != nil {
		t.Fatal(err)
	}

	both := Places{Own: secretFile(t, x25519.String()+"\n"+hybrid.Secret()+"\n")}
	if _, err := NewIdentities(both).Open(t.Context(), mixed); !errors.Is(err, ErrDamaged) {
		t.Errorf("two keysets in one: error %v", err)
	}
	open(t, one, both)
	open(t, mixed, opens(t, hybrid)) // this identity cannot know
}

// The lines before the envelopes must be those of the content.
func TestFirstLinesMustAgree(t *testing.T) {
	hybrid := newHybrid(t)
	f := seal(t, newKeyset(t, recipient("hybrid", hybrid.Recipient())))
	for _, c := range []struct {
		remote [16]byte
		serial uint64
		want   bool
	}{{testRemote, 1, true}, {testRemote, 2, false}, {testRepository, 1, false}} {
		changed, err := build(c.remote, c.serial, f.envelopes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewIdentities(opens(t, hybrid)).Open(t.Context(), changed); (err == nil) != c.want || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("serial %d of %x: error %v", c.serial, c.remote, err)
		}
	}
}

// An envelope of somebody else for the same recipients is no keyset.
func TestForeignContent(t *testing.T) {
	hybrid := newHybrid(t)
	r, err := age.ParseHybridRecipient(hybrid.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "hello\n", strings.Repeat("a", 70000)} {
		var data bytes.Buffer
		w, err := age.Encrypt(&data, r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write([]byte(content))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := build(testRemote, 1, []envelope{{kind: Hybrid, armored: toArmor(data.Bytes())}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewIdentities(opens(t, hybrid)).Open(t.Context(), f); !errors.Is(err, ErrDamaged) {
			t.Errorf("%.10q: error %v", content, err)
		}
	}
}
