package sshsig_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/sshsig"
)

// sign signs a message with a key.
func sign(keys sshsig.KeySources, name string) ([]byte, error) {
	return sshsig.NewSigner(keys, name).Sign(context.Background(), sshsig.CommitNamespace, []byte(message))
}

// TestLockedKey signs with a key file that has a passphrase.
func TestLockedKey(t *testing.T) {
	dir := t.TempDir()
	key := objecttest.SSHKey(t, filepath.Join(dir, "key"), "-t", "ed25519", "-N", "correct horse")
	a := allowed(t, "anna "+publicKey(t, key))
	asked := 0
	phrase := func(text string) func(context.Context, string) ([]byte, error) {
		return func(_ context.Context, file string) ([]byte, error) {
			if asked++; file != key {
				t.Errorf("asked for %q", file)
			}
			return []byte(text), nil
		}
	}

	signer := sshsig.NewSigner(sshsig.KeySources{Passphrase: phrase("correct horse")}, key)
	for range 2 {
		data, err := signer.Sign(context.Background(), sshsig.CommitNamespace, []byte(message))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Check(sshsig.CommitNamespace, []byte(message), data, someTime); got.Status != sshsig.Good {
			t.Errorf("%+v", got)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}

	refused := errors.New("no terminal")
	for _, c := range []struct {
		phrase func(context.Context, string) ([]byte, error)
		want   error
	}{
		{nil, sshsig.ErrLocked},
		{phrase("wrong"), sshsig.ErrPassphrase},
		{func(context.Context, string) ([]byte, error) { return nil, refused }, refused},
	} {
		for _, name := range []string{key, key + ".pub"} {
			if _, err := sign(sshsig.KeySources{Passphrase: c.phrase}, name); !errors.Is(err, c.want) || !errors.As(err, new(*sshsig.KeyError)) {
				t.Errorf("%v, want %v", err, c.want)
			}
		}
	}

	// With the key in an agent, nobody is asked, even without the public file.
	agents := serveAgent(t, keyringOf(t, key, "correct horse"))
	for range 2 {
		if _, err := sign(sshsig.KeySources{Agent: agents}, key); err != nil {
			t.Error(err)
		}
		_ = os.Remove(key + ".pub")
	}
}

// TestDefaultKey signs without a name of a key.
func TestDefaultKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := sign(sshsig.KeySources{Folder: dir}, ""); !errors.Is(err, sshsig.ErrNoKey) {
		t.Errorf("no key: %v", err)
	}
	inAgent := objecttest.SSHKey(t, filepath.Join(t.TempDir(), "key"), "-t", "ed25519")
	keys := sshsig.KeySources{Folder: dir, Home: dir, Agent: serveAgent(t, keyringOf(t, inAgent, ""))}
	wantBy := func(file, name string) {
		t.Helper()
		data, err := sign(keys, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := allowed(t, "anna "+publicKey(t, file)).Check(sshsig.CommitNamespace, []byte(message), data, someTime); got.Status != sshsig.Good {
			t.Errorf("%+v", got)
		}
	}

	wantBy(inAgent, "")
	wantBy(objecttest.SSHKey(t, filepath.Join(dir, "id_rsa"), "-t", "rsa", "-b", "2048"), "")
	wantBy(objecttest.SSHKey(t, filepath.Join(dir, "id_ed25519"), "-t", "ed25519"), "")
	wantBy(filepath.Join(dir, "id_rsa"), "~/id_rsa.pub")
	if _, err := sign(sshsig.KeySources{Folder: dir, Agent: serveAgent(t, agent.NewKeyring())}, publicKey(t, inAgent)); !errors.Is(err, sshsig.ErrAgent) {
		t.Errorf("a key that the agent does not have: %v", err)
	}
}

// TestBadKeyFiles names files that cannot sign.
func TestBadKeyFiles(t *testing.T) {
	dir := t.TempDir()
	key := objecttest.SSHKey(t, filepath.Join(dir, "key"), "-t", "ed25519")
	open := objecttest.SSHKey(t, filepath.Join(dir, "open"), "-t", "ed25519")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	mixed := write(t, filepath.Join(dir, "mixed"), readFile(t, key))
	write(t, mixed+".pub", publicKey(t, open))

	for name, c := range map[string]struct {
		key  string
		want error
	}{
		"missing":                {filepath.Join(dir, "none"), fs.ErrNotExist},
		"missing public":         {filepath.Join(dir, "none.pub"), fs.ErrNotExist},
		"readable by a group":    {open, sshsig.ErrOpen},
		"a FIFO":                 {fifo, sshsig.ErrKeyFile},
		"a folder":               {dir, sshsig.ErrKeyFile},
		"no key":                 {write(t, filepath.Join(dir, "text"), "text"), sshsig.ErrKeyFile},
		"no public key":          {write(t, filepath.Join(dir, "text.pub"), "text"), sshsig.ErrKeyFile},
		"too large":              {write(t, filepath.Join(dir, "large"), strings.Repeat("a", 1<<20)), sshsig.ErrKeyFile},
		"small RSA":              {objecttest.SSHKey(t, filepath.Join(dir, "rsa"), "-t", "rsa", "-b", "1024"), sshsig.ErrKeyFile},
		"a security key":         {write(t, filepath.Join(dir, "sk.pub"), "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29cAAAABHNzaDo="), sshsig.ErrSecurityKey},
		"another public key":     {mixed, sshsig.ErrKeyFile},
		"public key, no agent":   {publicKey(t, key), sshsig.ErrAgent},
		"a text that is no key":  {"ssh-ed25519 AAAA", sshsig.ErrKeyFile},
		"key:: and a text":       {"key::text", sshsig.ErrKeyFile},
		"certificate of no file": {filepath.Join(dir, "none-cert.pub"), fs.ErrNotExist},
	} {
		if _, err := sign(sshsig.KeySources{}, c.key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// keyringOf returns an agent in this process, with the key of a file.
func keyringOf(t *testing.T, file, phrase string) agent.Agent {
	t.Helper()
	raw, err := ssh.ParseRawPrivateKey([]byte(readFile(t, file)))
	if phrase != "" {
		raw, err = ssh.ParseRawPrivateKeyWithPassphrase([]byte(readFile(t, file)), []byte(phrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		t.Fatal(err)
	}
	return ring
}

// listen accepts connections to a socket, and calls serve with each.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return socket
}

func serveAgent(t *testing.T, a agent.Agent) string {
	return listen(t, func(conn net.Conn) {
		defer conn.Close()
		_ = agent.ServeAgent(a, conn)
	})
}

// oddAgent lists the key of an agent, and answers requests to sign in its own way.
type oddAgent struct {
	agent.ExtendedAgent
	sign func(key ssh.PublicKey, data []byte) (*ssh.Signature, error)
}

func (a *oddAgent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	return a.sign(key, data)
}

func (a *oddAgent) SignWithFlags(key ssh.PublicKey, data []byte, _ agent.SignatureFlags) (*ssh.Signature, error) {
	return a.sign(key, data)
}

// TestOddAgents signs by agents that do something wrong.
func TestOddAgents(t *testing.T) {
	dir := t.TempDir()
	key := objecttest.SSHKey(t, filepath.Join(dir, "key"), "-t", "rsa", "-b", "2048")
	public := write(t, filepath.Join(dir, "public.pub"), publicKey(t, key))
	raw, err := ssh.ParsePrivateKey([]byte(readFile(t, key)))
	if err != nil {
		t.Fatal(err)
	}
	signer := raw.(ssh.AlgorithmSigner)
	ring := keyringOf(t, key, "").(agent.ExtendedAgent)

	for name, c := range map[string]struct {
		sign func(key ssh.PublicKey, data []byte) (*ssh.Signature, error)
		want error
	}{
		"SHA-1": {func(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
			return signer.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSA)
		}, sshsig.ErrFormat},
		"SHA-256": {func(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
			return signer.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA256)
		}, sshsig.ErrFormat},
		"another message": {func(ssh.PublicKey, []byte) (*ssh.Signature, error) {
			return signer.SignWithAlgorithm(rand.Reader, []byte("other"), ssh.KeyAlgoRSASHA512)
		}, sshsig.ErrMismatch},
		"rubbish": {func(ssh.PublicKey, []byte) (*ssh.Signature, error) {
			return &ssh.Signature{Format: ssh.KeyAlgoRSASHA512, Blob: []byte("x")}, nil
		}, sshsig.ErrMismatch},
		"huge": {func(ssh.PublicKey, []byte) (*ssh.Signature, error) {
			return &ssh.Signature{Format: ssh.KeyAlgoRSASHA512, Blob: make([]byte, 100_000)}, nil
		}, sshsig.ErrFormat},
		"refusal": {func(ssh.PublicKey, []byte) (*ssh.Signature, error) { return nil, errors.New("no") }, sshsig.ErrAgent},
	} {
		socket := serveAgent(t, &oddAgent{ring, c.sign})
		if _, err := sign(sshsig.KeySources{Agent: socket}, public); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestSilentAgent signs by agents that do not answer. The private file, if there is one, signs
// instead of an agent that does not list its keys.
func TestSilentAgent(t *testing.T) {
	key := objecttest.SSHKey(t, filepath.Join(t.TempDir(), "key"), "-t", "ed25519")
	ended := make(chan struct{})
	defer close(ended)
	silent := listen(t, func(net.Conn) { <-ended })
	garbage := listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		<-ended
	})
	slow := serveAgent(t, &oddAgent{keyringOf(t, key, "").(agent.ExtendedAgent), func(ssh.PublicKey, []byte) (*ssh.Signature, error) {
		<-ended
		return nil, errors.New("ended")
	}})

	for name, c := range map[string]struct {
		socket, key string
		want        error
	}{
		"list":           {silent, "", sshsig.ErrSilent},
		"literal":        {silent, publicKey(t, key), sshsig.ErrSilent},
		"with a file":    {silent, key, nil},
		"garbage":        {garbage, "", sshsig.ErrAgent},
		"signature":      {slow, key, sshsig.ErrSilent},
		"no socket":      {"/dev/null", publicKey(t, key), sshsig.ErrAgent},
		"missing socket": {key + "/none", "", sshsig.ErrAgent},
	} {
		keys := sshsig.KeySources{Agent: c.socket, ListWait: 50 * time.Millisecond, SignWait: 50 * time.Millisecond}
		if c.socket == slow {
			keys.ListWait = time.Minute
		}
		if _, err := sign(keys, c.key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}

	// The user can stop a wait.
	ctx, cancel := context.WithCancel(context.Background())
	asked := listen(t, func(net.Conn) { cancel(); <-ended })
	if _, err := sshsig.NewSigner(sshsig.KeySources{Agent: asked, ListWait: time.Hour}, "").Sign(ctx, sshsig.TagNamespace, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestRoots signs and verifies a root.
func TestRoots(t *testing.T) {
	key := objecttest.SSHKey(t, filepath.Join(t.TempDir(), "key"), "-t", "ed25519")
	signer := sshsig.NewSigner(sshsig.KeySources{}, key)
	a := allowed(t, `anna valid-before="20270101" `+publicKey(t, key))
	data, err := signer.SignRoot(context.Background(), []byte(message))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.VerifyRoot([]byte(message), data, someTime); err != nil {
		t.Error(err)
	}

	commit, err := sign(sshsig.KeySources{}, key)
	if err != nil {
		t.Fatal(err)
	}
	var nobody *sshsig.AllowedSigners
	for name, c := range map[string]struct {
		err  error
		want sshsig.Verdict
	}{
		"later":               {a.VerifyRoot([]byte(message), data, someTime.AddDate(1, 0, 0)), sshsig.Expired},
		"another message":     {a.VerifyRoot([]byte("other"), data, someTime), sshsig.Bad},
		"none":                {a.VerifyRoot([]byte(message), nil, someTime), sshsig.None},
		"nobody trusted":      {nobody.VerifyRoot([]byte(message), data, someTime), sshsig.UnknownKey},
		"that of a commit":    {a.VerifyRoot([]byte(message), commit, someTime), sshsig.Bad},
		"bytes of no meaning": {a.VerifyRoot([]byte(message), []byte("x"), someTime), sshsig.Bad},
	} {
		var bad *sshsig.ResultError
		if !errors.As(c.err, &bad) || bad.Status != c.want || bad.Error() == "" {
			t.Errorf("%s: %v, want %s", name, c.err, c.want)
		}
	}
}
