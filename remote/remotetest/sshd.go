package remotetest

import (
	"cmp"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kist-vcs/kist/object/objecttest"
)

// SSHHost is the name under which the ssh of [SSHServer] knows its server.
const SSHHost = "kist.test"

// SSHServer is OpenSSH's sshd with keys of its own. No port is open: the ssh of a test starts a server for each
// connection, and speaks to it over a pipe.
type SSHServer struct {
	Folder string // the keys and settings of both sides
	User   string // who may connect
}

// SSHOptions change a server.
type SSHOptions struct {
	Server string // more settings of sshd, as lines
	Client string // more settings of ssh, as lines
	Start  string // the folder in which sessions start; "": the home folder of the user
	Relay  string // a shell command around the server, with %s for its command; "": none
}

// NewSSHServer returns a server, or skips the test if OpenSSH's server is not installed.
func NewSSHServer(t testing.TB, o SSHOptions) *SSHServer {
	t.Helper()
	sshd := findProgram(t, "sshd", "/usr/sbin/sshd")
	findProgram(t, "ssh", "/usr/bin/ssh")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" { // sshd wants it then
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}

	start := ""
	if o.Start != "" {
		start = " -d " + o.Start
	}
	s := &SSHServer{Folder: t.TempDir(), User: me.Username}
	s.write(t, "authorized_keys", s.makeKey(t, "id"))
	s.write(t, "known_hosts", SSHHost+" "+s.makeKey(t, "host"))
	s.write(t, "sshd_config", fmt.Sprintf(`%s
HostKey %s
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp%s
PidFile none
`, o.Server, s.path("host"), s.path("authorized_keys"), start))
	server := fmt.Sprintf("%s -i -f %s", sshd, s.path("sshd_config"))
	s.write(t, "ssh_config", fmt.Sprintf(`%s
IdentityFile %s
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile %s
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
ProxyCommand %s
`, o.Client, s.path("id"), s.path("known_hosts"), fmt.Sprintf(cmp.Or(o.Relay, "%s"), server)))
	return s
}

// SFTPServer returns the path of OpenSSH's sftp-server, or skips the test if it is not installed.
func SFTPServer(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"} {
		if _, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Skip("no sftp-server of OpenSSH")
	return ""
}

// PlainSSH returns a command, for KIST_SSH_COMMAND, that runs an SFTP server without SSH. It runs the shell command
// relay, with the path of the server in place of %s.
func PlainSSH(t testing.TB, relay string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n"+relay+"\n", SFTPServer(t)), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// findProgram returns the path of a program, or skips the test.
func findProgram(t testing.TB, name, usual string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return objecttest.NeedProgram(t, usual)
}

func (s *SSHServer) path(name string) string { return filepath.Join(s.Folder, name) }

func (s *SSHServer) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeKey makes a key pair, writes the secret key to a file, and returns the public one.
func (s *SSHServer) makeKey(t testing.TB, name string) string {
	t.Helper()
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// Command returns the command, for KIST_SSH_COMMAND, of an ssh that knows the server.
func (s *SSHServer) Command() string { return "ssh -F " + s.path("ssh_config") }

// URL returns the URL of an absolute path on the server.
func (s *SSHServer) URL(path string) string {
	return fmt.Sprintf("ssh://%s@%s/%s", s.User, SSHHost, strings.TrimPrefix(path, "/"))
}
