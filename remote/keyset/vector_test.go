package keyset

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/remote/crypt"
)

var update = flag.Bool("update", false, "write the test vectors instead of reading them; age uses random numbers, so they all change")

// The vectors: a keyset, its content, and the identities that open it. The page of the format describes them.
const (
	vectorKeyset     = "vector.keyset"
	vectorContent    = "vector.json"
	vectorHybrid     = "vector-hybrid.txt"
	vectorClassic    = "vector-classic.txt"
	vectorSSH        = "vector-ssh.pem"
	vectorPassphrase = "vector-passphrase.txt"
)

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// vectorPlaces returns the places that open the vector, by the names of the recipients.
func vectorPlaces(t testing.TB) map[string]Places {
	file := func(name string) string { return secretFile(t, string(readVector(t, name))) }
	return map[string]Places{
		"hybrid": {Own: file(vectorHybrid)}, "classic": {Own: file(vectorClassic)}, "ssh": {SSH: []string{file(vectorSSH)}},
		"passphrase": {Passphrase: PassphraseSource{File: file(vectorPassphrase)}},
	}
}

func TestVector(t *testing.T) {
	if *update {
		writeVector(t)
	}
	f, err := Parse(readVector(t, vectorKeyset))
	if err != nil {
		t.Fatal(err)
	}
	for name, places := range vectorPlaces(t) {
		k := open(t, f, places)
		line, err := k.encode()
		if err != nil || !bytes.Equal(line, readVector(t, vectorContent)) {
			t.Errorf("%s: the content is %s, %v", name, line, err)
		}
		if opener, _ := k.Opener(); opener.Name != name {
			t.Errorf("%s: opened by %q", name, opener.Name)
		}
	}
}

// Stock age opens the envelopes and the locked identity, so a keyset outlives kist.
func TestStockAge(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"age", "age-plugin-batchpass"} {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), "filippo.io/age/cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("AGE_PASSPHRASE", string(bytes.TrimSpace(readVector(t, vectorPassphrase))))
	age := func(input []byte, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "age"), append(args, "--decrypt")...)
		cmd.Stdin = bytes.NewReader(input)
		return cmd.Output()
	}

	// As a person does it: from the line after a title to the end of the age file.
	data := readVector(t, vectorKeyset)
	after := func(title string) []byte {
		const end = "-----END AGE ENCRYPTED FILE-----\n"
		_, rest, ok := bytes.Cut(data, []byte("\n"+title+"\n"))
		text, _, ends := bytes.Cut(rest, []byte(end))
		if !ok || !ends {
			t.Fatalf("the vector has no %s", title)
		}
		return append(bytes.Clone(text), end...)
	}
	unlocked, err := age(after(lockedLine), "-j", "batchpass")
	if err != nil {
		t.Fatalf("the locked identity: %v", err)
	}

	for name, c := range map[string]struct {
		title    string
		identity []byte
	}{
		"hybrid":     {"envelope hybrid", readVector(t, vectorHybrid)},
		"classic":    {"envelope classic", readVector(t, vectorClassic)},
		"ssh":        {"envelope classic", readVector(t, vectorSSH)},
		"passphrase": {"envelope hybrid", unlocked},
	} {
		got, err := age(after(c.title), "--identity", secretFile(t, string(c.identity)))
		if err != nil || !bytes.Equal(got, readVector(t, vectorContent)) {
			t.Errorf("%s: age wrote %s, %v", name, got, err)
		}
		if _, err := age(after(c.title), "--identity", secretFile(t, newHybrid(t).Secret())); err == nil {
			t.Errorf("%s: age opens the envelope with a foreign identity", name)
		}
	}
}

// writeVector makes the vectors.
func writeVector(t *testing.T) {
	hybrid, x25519 := newHybrid(t), newX25519(t)
	sshKey := newSSH(t, "ssh-ed25519", "")
	passphrase := locked(t, "passphrase", "correct horse")
	private, err := os.ReadFile(sshKey.path)
	if err != nil {
		t.Fatal(err)
	}

	k := newKeyset(t, recipient("hybrid", hybrid.Recipient()), recipient("classic", x25519.Recipient().String()), recipient("ssh", sshKey.public), passphrase)
	k.Serial, k.Epochs = 3, nil
	for i := range 2 {
		secret := make([]byte, crypt.KeySize)
		for j := range secret {
			secret[j] = byte(i*crypt.KeySize + j)
		}
		key, err := crypt.ParseKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		k.Epochs = append(k.Epochs, Epoch{key, uint64(12 * i)})
	}
	k.Removed = []Removed{{"old laptop", testDate, 1}}
	content, err := k.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		vectorKeyset: seal(t, k).data, vectorContent: content, vectorHybrid: hybrid.File(testDate), vectorClassic: []byte(x25519.String() + "\n"),
		vectorSSH: private, vectorPassphrase: []byte("correct horse\n"),
	} {
		if err := os.WriteFile(filepath.Join("testdata", name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
