package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"
)

// sshHost is the name under which the ssh of a run knows its server.
const sshHost = "bench.example"

// sshServer is OpenSSH's sshd with keys of its own. No port is open: each ssh starts a server and speaks to it over a pipe,
// which may delay all data.
type sshServer struct {
	command string // the program ssh with its first arguments, as words
}

// newSSHServer makes the keys and settings of a server in a new folder. Trip is the time that a request and its answer
// take more.
func newSSHServer(dir string, trip time.Duration) (*sshServer, error) {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	for _, program := range []string{sshd, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, err
		}
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	if me.Uid == "0" { // sshd wants it then
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}

	at := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"id", "host"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	host, err := os.ReadFile(at("host.pub"))
	if err != nil {
		return nil, err
	}
	proxy := fmt.Sprintf("%s -i -f %s", sshd, at("sshd_config"))
	if trip > 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		proxy = fmt.Sprintf("env %s=%v %s %s", delayVariable, trip/2, self, proxy)
	}
	server := fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\nPidFile none\n",
		at("host"), at("id.pub"))
	client := fmt.Sprintf("User %s\nIdentityFile %s\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile %s\nGlobalKnownHostsFile /dev/null\nBatchMode yes\nProxyCommand %s\n",
		me.Username, at("id"), at("known_hosts"), proxy)
	return &sshServer{"ssh -F " + at("ssh_config")}, errors.Join(
		os.WriteFile(at("known_hosts"), fmt.Appendf(nil, "%s %s", sshHost, host), 0o600),
		os.WriteFile(at("sshd_config"), []byte(server), 0o600),
		os.WriteFile(at("ssh_config"), []byte(client), 0o600),
	)
}

// delayVariable is the environment variable that makes this program call delayed. It has the delay of each direction.
const delayVariable = "KISTBENCH_DELAY"

// delayed runs a program, and passes its input and output on after a delay.
func delayed(delay string, args []string) int {
	os.Unsetenv(delayVariable)
	wait, err := time.ParseDuration(delay)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		passLater(in, os.Stdin, wait)
		in.Close()
	}()
	passLater(os.Stdout, out, wait)
	_ = cmd.Wait() // the other side sees its end
	return 0
}

// passLater copies data. Each piece is written when it is as old as wait, so the rate is not limited.
func passLater(to io.Writer, from io.Reader, wait time.Duration) {
	type piece struct {
		read time.Time
		data []byte
	}
	pieces := make(chan piece, 1<<14)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			pieces <- piece{time.Now(), buf[:n]}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.read.Add(wait)))
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}
