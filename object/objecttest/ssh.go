package objecttest

import (
	"bufio"
	"fmt"
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
	NeedProgram(t, "ssh-agent")
	socket, stop, err := LaunchSSHAgent()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return socket
}

// LaunchSSHAgent is StartSSHAgent for scripts. The caller calls stop.
func LaunchSSHAgent() (socket string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "a") // the path of a socket must be short
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "s")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	}

	// The agent prints the name of its socket once it listens.
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return "", nil, fmt.Errorf("ssh-agent: %q, %w", line, err)
	}
	return socket, stop, nil
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
