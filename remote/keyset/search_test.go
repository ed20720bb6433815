package keyset

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"
	"golang.org/x/crypto/ssh"

	"github.com/kist-vcs/kist/object/disk"
)

// lockedFileOf returns an identity file that a passphrase locks.
func lockedFileOf(t testing.TB, text, passphrase string, armored bool) string {
	t.Helper()
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	r.SetWorkFactor(testWork)
	var data bytes.Buffer
	w, err := age.Encrypt(&data, r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if armored {
		return secretFile(t, string(toArmor(data.Bytes())))
	}
	return secretFile(t, data.String())
}

// The first place with a fitting identity wins. No later place is read, asked or run.
func TestOrderOfSearch(t *testing.T) {
	log := installPlugin(t)
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	mine, inPlugin := newHybrid(t), newX25519(t)
	sshKey := newSSH(t, ssh.KeyAlgoED25519, "secret")
	k := newKeyset(t, recipient("mine", mine.Recipient()), recipient("ssh", sshKey.public),
		recipient("plugin", plugin.EncodeRecipient("kisttest", []byte(inPlugin.String()))), locked(t, "passphrase", "secret"))
	f, err := k.Seal(Plugins{Allowed: []string{"kisttest"}})
	if err != nil {
		t.Fatal(err)
	}
	sealed := len(log())
	t.Setenv("AGEDEBUG", "plugin")

	const absent = "absent file"
	mineFile, otherFile := secretFile(t, mine.Secret()), secretFile(t, newHybrid(t).Secret())
	lockedMine := lockedFileOf(t, mine.Secret(), "secret", true)
	pluginText := plugin.EncodeIdentity("kisttest", []byte(inPlugin.String()))
	pluginFile := secretFile(t, pluginText)
	for what, c := range map[string]struct {
		places Places
		want   string   // name of the recipient
		asked  []string // for which files
		run    bool     // the plugin
	}{
		"named":                        {Places{Named: []string{mineFile}, Configured: []string{absent}}, "mine", nil, false},
		"named, the second":            {Places{Named: []string{otherFile, mineFile}, Configured: []string{pluginFile}}, "mine", nil, false},
		"configured":                   {Places{Named: []string{otherFile}, Configured: []string{mineFile, lockedMine}}, "mine", nil, false},
		"own":                          {Places{Configured: []string{otherFile}, Own: mineFile, SSH: []string{sshKey.path}}, "mine", nil, false},
		"ssh":                          {Places{Own: otherFile, SSH: []string{absent, sshKey.path}}, "ssh", []string{sshKey.path}, false},
		"no own file":                  {Places{Own: absent, SSH: []string{sshKey.path}}, "ssh", []string{sshKey.path}, false},
		"passphrase":                   {Places{Own: otherFile}, "passphrase", []string{""}, false},
		"locked file":                  {Places{Named: []string{lockedMine}, Own: mineFile}, "mine", []string{lockedMine}, false},
		"plugin":                       {Places{Named: []string{pluginFile}, Own: mineFile}, "", nil, true},
		"plugin after others":          {Places{Named: []string{secretFile(t, pluginText+"\n"+mine.Secret())}}, "mine", nil, false},
		"named ssh":                    {Places{Named: []string{sshKey.path}, Own: mineFile}, "ssh", []string{sshKey.path}, false},
		"a lock that fits nothing":     {Places{Named: []string{lockedFileOf(t, newHybrid(t).Secret(), "secret", false)}, Own: mineFile}, "mine", []string{"*"}, false},
		"a locked plugin and identity": {Places{Named: []string{lockedFileOf(t, pluginText+"\n# mine\n\n"+mine.Secret(), "secret", false)}}, "mine", []string{"*"}, false},
	} {
		ask := &dialog{passphrase: "secret"}
		c.places.Passphrase.Dialog = ask
		before := len(log())
		got, err := NewIdentities(c.places).Open(t.Context(), f)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if opener, _ := got.Opener(); opener.Name != c.want {
			t.Errorf("%s: opened by %q, want %q", what, opener.Name, c.want)
		}
		if !slices.Equal(ask.asked, c.asked) && !(len(c.asked) == 1 && c.asked[0] == "*" && len(ask.asked) == 1) {
			t.Errorf("%s: asked for %q, want %q", what, ask.asked, c.asked)
		}
		if run := len(log()) > before; run != c.run {
			t.Errorf("%s: the plugin ran: %t, want %t", what, run, c.run)
		}
	}

	commands := Places{Own: mineFile, Passphrase: PassphraseSource{Command: "touch " + ran}}
	open(t, f, commands)
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the command for a passphrase ran")
	}
	if os.Getenv("AGEDEBUG") != "" {
		t.Error("AGEDEBUG is set while a plugin runs")
	}
	if sealed != 1 {
		t.Errorf("the plugin ran %d times to seal", sealed)
	}
}

// A process asks once, for whatever keysets it opens.
func TestAskOnce(t *testing.T) {
	one, two := locked(t, "one", "secret"), locked(t, "two", "secret")
	first, second := newKeyset(t, one), newKeyset(t, two)
	ask := &dialog{passphrase: "secret"}
	search := NewIdentities(Places{Passphrase: PassphraseSource{Dialog: ask}})
	next, err := first.Rotate(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keyset{first, second, next, first} {
		if _, err := search.Open(t.Context(), seal(t, k)); err != nil {
			t.Fatal(err)
		}
	}
	if len(ask.asked) != 1 {
		t.Errorf("asked %d times", len(ask.asked))
	}

	wrong := &dialog{passphrase: "wrong"}
	search = NewIdentities(Places{Passphrase: PassphraseSource{Dialog: wrong}})
	for range 3 {
		if _, err := search.Open(t.Context(), seal(t, first)); !errors.Is(err, ErrPassphrase) || !errors.Is(err, ErrNoIdentity) {
			t.Errorf("a wrong passphrase: error %v", err)
		}
	}
	if len(wrong.asked) != 1 {
		t.Errorf("asked %d times for a wrong passphrase", len(wrong.asked))
	}
}

func TestPassphraseSources(t *testing.T) {
	k := newKeyset(t, locked(t, "passphrase", "secret"))
	f := seal(t, k)
	ended := errors.New("ended")
	for what, c := range map[string]struct {
		source PassphraseSource
		want   error
	}{
		"file":                        {PassphraseSource{File: secretFile(t, "secret\nmore")}, nil},
		"file without end":            {PassphraseSource{File: secretFile(t, "secret")}, nil},
		"file of Windows":             {PassphraseSource{File: secretFile(t, "secret\r\n")}, nil},
		"file before the others":      {PassphraseSource{File: secretFile(t, "secret\n"), Command: "echo wrong", Dialog: &dialog{err: ended}}, nil},
		"command":                     {PassphraseSource{Command: "echo secret; echo more"}, nil},
		"command before the dialog":   {PassphraseSource{Command: "echo wrong", Dialog: &dialog{passphrase: "secret"}}, ErrPassphrase},
		"command in the shell":        {PassphraseSource{Command: `x=sec; printf '%s' "${x}ret"`}, nil},
		"command with endless output": {PassphraseSource{Command: "echo secret; head -c 1000000 /dev/zero"}, nil},
		"failing command":             {PassphraseSource{Command: "echo secret; exit 3"}, errAny},
		"silent command":              {PassphraseSource{Command: "true"}, ErrPassphrase},
		"empty first line":            {PassphraseSource{File: secretFile(t, "\nsecret\n")}, ErrPassphrase},
		"missing file":                {PassphraseSource{File: "absent file"}, fs.ErrNotExist},
		"spaces count":                {PassphraseSource{File: secretFile(t, "secret \n")}, ErrPassphrase},
		"dialog":                      {PassphraseSource{Dialog: &dialog{passphrase: "secret"}}, nil},
		"empty answer":                {PassphraseSource{Dialog: &dialog{}}, ErrPassphrase},
		"an end of the dialog":        {PassphraseSource{Dialog: &dialog{err: ended}}, ended},
		"nothing":                     {PassphraseSource{}, ErrNoIdentity},
	} {
		_, err := NewIdentities(Places{Passphrase: c.source}).Open(t.Context(), f)
		if c.want == errAny && err != nil && !strings.Contains(err.Error(), "exit 3;") {
			continue
		}
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: error %v, want %v", what, err, c.want)
		}
	}
}

// A locked identity costs its memory once, however many copies of a keyset have it.
func TestUnlockOnce(t *testing.T) {
	k := newKeyset(t, locked(t, "passphrase", "secret"))
	s := NewIdentities(Places{Passphrase: PassphraseSource{File: secretFile(t, "wrong\n")}})
	var found []candidate
	for range 2 {
		f := seal(t, k)
		if _, err := s.Open(t.Context(), f); !errors.Is(err, ErrPassphrase) {
			t.Errorf("error %v, want %v", err, ErrPassphrase)
		}
		list, err := s.fromKeyset(f)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d locked identities, %v", len(list), err)
		}
		found = append(found, list...)
	}
	if found[0] != found[1] {
		t.Error("two copies of a keyset have two locked identities")
	}
}

var errAny = errors.New("any error")

// The error counts identities, and says whether a passphrase was missing.
func TestNoIdentity(t *testing.T) {
	sshKey := newSSH(t, ssh.KeyAlgoED25519, "secret")
	f := seal(t, newKeyset(t, recipient("anna", newHybrid(t).Recipient()), recipient("ssh", sshKey.public), locked(t, "passphrase", "secret")))
	two := secretFile(t, newHybrid(t).Secret()+"\n"+newX25519(t).String())
	missing := secretFile(t, plugin.EncodeIdentity("missing", []byte("x")))

	for what, c := range map[string]struct {
		places         Places
		tried, unasked int
		failed         int
	}{
		"none":                           {Places{}, 0, 1, 0},
		"two":                            {Places{Own: two}, 2, 1, 0},
		"two, and a locked key of ssh":   {Places{Own: two, SSH: []string{sshKey.path}}, 2, 2, 0},
		"two, and an unlocked one":       {Places{Own: two, SSH: []string{newSSH(t, ssh.KeyAlgoED25519, "").path}}, 3, 1, 0},
		"a locked file":                  {Places{Own: lockedFileOf(t, newHybrid(t).Secret(), "x", true)}, 0, 2, 0},
		"a plugin that is not installed": {Places{Named: []string{missing}}, 1, 1, 2},
	} {
		_, err := NewIdentities(c.places).Open(t.Context(), f)
		none := new(*NoIdentityError)
		if !errors.As(err, none) {
			t.Errorf("%s: error %v", what, err)
			continue
		}
		if got := *none; got.Tried != c.tried || got.Unasked != c.unasked || len(got.Failed) != c.failed {
			t.Errorf("%s: %d tried, %d unasked, failed: %v", what, got.Tried, got.Unasked, got.Failed)
		}
		if failed := new(*PluginError); c.failed > 0 && !errors.As(err, failed) {
			t.Errorf("%s: no error of the plugin in %v", what, err)
		}
	}
}

// Kist refuses identities that others can use. Keys of ssh count only if they are needed.
func TestModes(t *testing.T) {
	mine := newHybrid(t)
	sshKey := newSSH(t, ssh.KeyAlgoED25519, "")
	f := seal(t, newKeyset(t, recipient("mine", mine.Recipient()), recipient("ssh", sshKey.public)))
	loose := func(path string, mode fs.FileMode) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		path = secretFile(t, string(data))
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}

	own := secretFile(t, mine.Secret())
	unused := newSSH(t, ssh.KeyAlgoED25519, "")
	for what, c := range map[string]struct {
		places Places
		ok     bool
	}{
		"0600":                {Places{Own: own}, true},
		"0400":                {Places{Own: loose(own, 0o400)}, true},
		"0700":                {Places{Own: loose(own, 0o700)}, true},
		"0640":                {Places{Own: loose(own, 0o640)}, false},
		"0604":                {Places{Named: []string{loose(own, 0o604)}}, false},
		"0620":                {Places{Configured: []string{loose(own, 0o620)}}, false},
		"a needed key of ssh": {Places{SSH: []string{loose(sshKey.path, 0o644)}}, false},
		"another key of ssh":  {Places{SSH: []string{loose(unused.path, 0o644), sshKey.path}}, true},
		"a named key of ssh":  {Places{Named: []string{loose(unused.path, 0o644)}, SSH: []string{sshKey.path}}, false},
		"one that is not due": {Places{Own: own, SSH: []string{loose(sshKey.path, 0o644)}}, true},
	} {
		_, err := NewIdentities(c.places).Open(t.Context(), f)
		bad := new(*ModeError)
		if (err == nil) != c.ok || err != nil && !errors.As(err, bad) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// A bad file is an error that shows none of its text.
func TestBadIdentityFiles(t *testing.T) {
	mine := newHybrid(t)
	f := seal(t, newKeyset(t, recipient("mine", mine.Recipient())))
	const secret = "QQQQ"
	work21 := "age-encryption.org/v1\n-> scrypt AAAAAAAAAAAAAAAAAAAAAA 21\n" + strings.Repeat("A", 43) + "\n--- " + strings.Repeat("A", 43) + "\n"

	for what, c := range map[string]struct {
		text string
		line int
	}{
		"empty":              {"", 0},
		"comments only":      {"# " + secret + "\n\n", 0},
		"a slip":             {mine.Secret() + "\nAGE-SECRET-KEY-PQ-1" + secret + "\n", 2},
		"a slip in classic":  {"AGE-SECRET-KEY-1" + secret, 1},
		"a recipient":        {mine.Recipient() + secret, 1},
		"a plugin":           {"AGE-PLUGIN-" + secret, 1},
		"other text":         {"\n# x\n" + secret, 3},
		"a bad PEM":          {"-----BEGIN OPENSSH PRIVATE KEY-----\n" + secret + "\n-----END OPENSSH PRIVATE KEY-----\n", 0},
		"a bad armor":        {"-----BEGIN AGE ENCRYPTED FILE-----\n" + secret + "=\n-----END AGE ENCRYPTED FILE-----\n", 0},
		"too long":           {strings.Repeat(secret, maxIdentityFile/4+1), 0},
		"a lock of 2 GiB":    {work21, 0},
		"no passphrase lock": {string(dearmorOf(t, f)), 0},
	} {
		path := secretFile(t, c.text)
		ask := &dialog{passphrase: "x"}
		_, err := NewIdentities(Places{Named: []string{path}, Passphrase: PassphraseSource{Dialog: ask}}).Open(t.Context(), f)
		bad := new(*IdentityFileError)
		if !errors.As(err, bad) || (*bad).File != path || (*bad).Line != c.line {
			t.Errorf("%s: error %v", what, err)
		} else if strings.Contains((*bad).Err.Error(), secret) {
			t.Errorf("%s: the error shows the text: %v", what, err)
		}
		if len(ask.asked) > 0 {
			t.Errorf("%s: asked for a passphrase", what)
		}
	}

	if _, err := NewIdentities(Places{Named: []string{"absent file"}}).Open(t.Context(), f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file that the user named: error %v", err)
	}
}

func dearmorOf(t testing.TB, f *File) []byte {
	t.Helper()
	return f.envelopes[0].data
}

// A keyset's locked identity never runs a plugin, whatever is in it.
func TestLockedIdentityRunsNothing(t *testing.T) {
	log := installPlugin(t)
	victim := newX25519(t)
	text := plugin.EncodeIdentity("kisttest", []byte(victim.String()))
	data, err := os.ReadFile(lockedFileOf(t, text+"\n", "secret", true))
	if err != nil {
		t.Fatal(err)
	}
	r := recipient("evil", plugin.EncodeRecipient("kisttest", []byte(victim.String())))
	r.Locked = data
	f, err := newKeyset(t, r).Seal(Plugins{Allowed: []string{"kisttest"}})
	if err != nil {
		t.Fatal(err)
	}

	ran := len(log())
	_, err = NewIdentities(Places{Passphrase: PassphraseSource{File: secretFile(t, "secret")}}).Open(t.Context(), f)
	if !errors.Is(err, ErrNoIdentity) || !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v", err)
	}
	if len(log()) != ran {
		t.Error("the plugin ran")
	}
}

// Locked keys of ssh open with the passphrase: in the new form, and in the old form with the public key beside it.
func TestLockedSSH(t *testing.T) {
	for _, kind := range []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSA} {
		key := newSSH(t, kind, "secret")
		f := seal(t, newKeyset(t, recipient("ssh", key.public)))
		open(t, f, Places{SSH: []string{key.path}, Passphrase: PassphraseSource{Command: "echo secret"}})
		if _, err := NewIdentities(Places{SSH: []string{key.path}, Passphrase: PassphraseSource{Command: "echo wrong"}}).Open(t.Context(), f); !errors.Is(err, ErrPassphrase) {
			t.Errorf("%s: error %v", kind, err)
		}
	}

	// Made by ssh-keygen -m PEM -t rsa -b 2048 -N secret.
	pem, err := os.ReadFile(filepath.Join("testdata", "old-rsa.pem"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join("testdata", "old-rsa.pub"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	f := seal(t, newKeyset(t, recipient("ssh", keys[0].Key)))
	path := secretFile(t, string(pem))
	places := Places{Named: []string{path}, Passphrase: PassphraseSource{Command: "echo secret"}}
	if _, err := NewIdentities(places).Open(t.Context(), f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the public key: error %v", err)
	}
	if err := os.WriteFile(path+".pub", public, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, f, places)
}

func TestOwn(t *testing.T) {
	installPlugin(t)
	one, two, three := newHybrid(t), newX25519(t), newHybrid(t)
	sshKey := newSSH(t, ssh.KeyAlgoED25519, "secret")
	pluginText := plugin.EncodeIdentity("kisttest", []byte(newX25519(t).String()))
	ask := &dialog{passphrase: "secret"}
	search := NewIdentities(Places{
		Named:      []string{secretFile(t, one.Secret()+"\n"+pluginText), sshKey.path},
		Configured: []string{lockedFileOf(t, two.String(), "secret", true)}, Own: secretFile(t, three.Secret()),
		SSH: []string{newSSH(t, ssh.KeyAlgoED25519, "").path}, Passphrase: PassphraseSource{Dialog: ask},
	})

	plugins, err := search.Plugins()
	if err != nil || !slices.Equal(plugins.Allowed, []string{"kisttest"}) || len(ask.asked) > 0 {
		t.Errorf("Plugins: %v, %v, asked for %q", plugins.Allowed, err, ask.asked)
	}
	own, err := search.Own(t.Context())
	want := []string{one.Recipient(), two.Recipient().String(), three.Recipient(), sshKey.public}
	slices.Sort(want)
	if err != nil || !slices.Equal(own.Recipients, want) || !slices.Equal(own.Plugins, []string{"kisttest"}) {
		t.Errorf("Own: %q, %v", own, err)
	}
	if own, err := NewIdentities(Places{Own: "absent file"}).Own(t.Context()); err != nil || len(own.Recipients) > 0 {
		t.Errorf("without a file: %q, %v", own, err)
	}
}

func TestCreate(t *testing.T) {
	i := newHybrid(t)
	path := filepath.Join(t.TempDir(), "a", "kist", "identities")
	if err := Create(path, i.File(testDate)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("mode of the folder %v, %v", dir.Mode(), err)
	}
	open(t, seal(t, newKeyset(t, recipient("mine", i.Recipient()))), Places{Own: path})

	var file *fs.PathError
	if err := Create(path, []byte("x")); !errors.Is(err, fs.ErrExist) || !errors.As(err, &file) || file.Path != path {
		t.Errorf("a second time: error %v", err)
	}
	entries, err := disk.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

func TestPaper(t *testing.T) {
	i := newHybrid(t)
	if len(i.Secret()) != 77 || strings.ReplaceAll(i.Paper(), " ", "") != i.Secret() {
		t.Errorf("%d characters", len(i.Secret()))
	}
	lower := strings.ToLower(i.Paper())
	for _, text := range []string{i.Secret(), i.Paper(), lower, strings.ReplaceAll(lower, " ", "\r\n\t"), "  " + lower[:30] + strings.ToUpper(lower[30:]) + "\n"} {
		got, err := ParsePaper(text)
		if err != nil || got.Secret() != i.Secret() {
			t.Errorf("%q: error %v", text, err)
		}
	}

	// Each wrong, missing or additional character is noticed.
	for at := range i.Secret() {
		for _, bad := range []string{i.Secret()[:at] + i.Secret()[at+1:], i.Secret()[:at] + "2" + i.Secret()[at+1:], i.Secret()[:at] + "B" + i.Secret()[at:]} {
			if bad == i.Secret() {
				continue
			}
			if got, err := ParsePaper(bad); !errors.Is(err, ErrIdentity) {
				t.Errorf("changed at %d: %v, error %v", at, got, err)
			} else if strings.Contains(err.Error(), bad[20:40]) {
				t.Error("the error shows the text")
			}
		}
	}
}
