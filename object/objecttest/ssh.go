package objecttest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// SSHKey makes a key with ssh-keygen, and returns the path of its private file. The arguments are
// options, as in "-t", "ed25519". Without -N, the file has no passphrase.
func SSHKey(t testing.TB, file string, args ...string) string {
	t.Helper()
	if !strings.Contains(" "+strings.Join(args, " "), " -N ") {
		args = append(args, "-N", "")
	}
	RunSSH(t, "", append([]string{"ssh-keygen", "-q", "-C", "test", "-f", file}, args...)...)
	return file
}

// RunSSH runs a program of OpenSSH with an input, and returns its output.
func RunSSH(t testing.TB, input string, args ...string) string {
	t.Helper()
	out, err := TrySSH(t, input, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// TrySSH is RunSSH for a program that may fail.
func TrySSH(t testing.TB, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(NeedProgram(t, args[0]), args[1:]...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "SSH_ASKPASS_REQUIRE=never", "TZ=UTC")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// StartSSHAgent starts an ssh agent, and returns its socket. The agent ends with the test.
func StartSSHAgent(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(NeedProgram(t, "ssh-agent"), "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	// The agent prints the name of its socket once it listens.
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("ssh-agent: %q, %v", line, err)
	}
	return socket
}

// AddToSSHAgent adds a key file to an agent.
func AddToSSHAgent(t testing.TB, socket, file string) {
	t.Helper()
	cmd := exec.Command(NeedProgram(t, "ssh-add"), "-q", file)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v\n%s", err, out)
	}
}
