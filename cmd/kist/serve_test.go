package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// servedProcess is a running kist serve process.
type servedProcess struct {
	*exec.Cmd
	url    string
	stderr *bytes.Buffer
}

// serve starts kist serve, and waits until it prints its URL.
func (s *shell) serve(args ...string) *servedProcess {
	s.Helper()
	ctx, stop := context.WithTimeout(context.Background(), commandTime)
	s.Cleanup(stop)
	p := &servedProcess{Cmd: s.command(ctx, append([]string{"serve", "--json"}, args...)...), stderr: &bytes.Buffer{}}
	p.Stderr = p.stderr
	stdout, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { p.Process.Kill(); p.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var v struct{ URL string }
	if err == nil {
		err = json.Unmarshal(line, &v)
	}
	if err != nil {
		p.Process.Kill()
		p.Wait()
		s.Fatalf("kist serve prints %q, %v: %s", line, err, p.stderr)
	}
	p.url = v.URL
	return p
}

// end sends a signal and checks that the server ends without an error.
func (p *servedProcess) end(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil || p.stderr.Len() > 0 {
		t.Errorf("kist serve: %v: %s", err, p.stderr)
	}
}

func wantBody(t *testing.T, client *http.Client, url, want string) {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(body) != want {
		t.Errorf("%s returns %s, %.200q, %v, want %q", url, res.Status, body, err, want)
	}
}

func TestServe(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"a.txt": "first\n"})
	s.kist("add", ".")
	s.kist("commit", "-m", "one")
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := s.serve("--listen", "127.0.0.1:0")
		wantBody(t, http.DefaultClient, p.url+"files/a.txt", "first\n")
		p.end(t, sig)
	}

	// The server shows commits of other processes, and survives their gc.
	p := s.serve("--listen", "127.0.0.1:0")
	s.write(map[string]string{"a.txt": "second\n"})
	s.kist("commit", "-a", "-m", "two")
	wantBody(t, http.DefaultClient, p.url+"files/a.txt", "second\n")
	s.kist("gc", "--prune", "now", "--repack")
	wantBody(t, http.DefaultClient, p.url+"files/a.txt?rev=HEAD~1", "first\n")
	s.kist("verify")
	p.end(t, syscall.SIGTERM)

	// A second server finds the address in use.
	p = s.serve("--listen", "127.0.0.1:0")
	taken := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/")
	if o := s.exits(1, "serve", "--listen", taken); !strings.Contains(o.stderr, "in use") {
		t.Errorf("want an error about the address: %v", o)
	}
	p.end(t, syscall.SIGTERM)

	// A server that gets a signal completes a download before it ends.
	s.write(map[string]string{"large": strings.Repeat("0123456789abcdef", 4<<20/16)})
	s.kist("add", ".")
	s.kist("commit", "-m", "three")
	p = s.serve("--listen", "127.0.0.1:0")
	res, err := http.Get(p.url + "files/large")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p.Process.Signal(syscall.SIGTERM)
	if n, err := io.Copy(io.Discard, res.Body); n != 4<<20 || err != nil {
		t.Errorf("the download has %d bytes, %v, want %d", n, err, 4<<20)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// A server of a lazy clone fetches for its users only if serve.fetch is true.
func TestServeAway(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	first := strings.Repeat("first\n", 1000)
	s.kist("init")
	s.write(map[string]string{"a.txt": first})
	s.kist("add", ".")
	s.kist("commit", "-m", "one")
	s.kist("tag", "v1")
	s.write(map[string]string{"a.txt": "second\n"})
	s.kist("commit", "-a", "-m", "two")
	store, lazy := t.TempDir(), s.in(t.TempDir())
	s.kist("remote", "add", "origin", store)
	s.kist("push", "origin", "main", "v1")
	s.kist("clone", "--lazy", store, lazy.dir)

	p := lazy.serve("--listen", "127.0.0.1:0")
	wantBody(t, http.DefaultClient, p.url+"files/a.txt", "second\n")
	for _, path := range []string{"files/a.txt?rev=v1", "dav/tags/v1/a.txt", "tree/?rev=v1"} {
		res, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "this server does not fetch it") {
			t.Errorf("%s: %s, %v, %.200q", path, res.Status, err, body)
		}
	}
	p.Process.Kill()
	p.Wait()

	lazy.kist("config", "serve.fetch", "true")
	p = lazy.serve("--listen", "127.0.0.1:0")
	wantBody(t, http.DefaultClient, p.url+"files/a.txt?rev=v1", first)
	p.end(t, syscall.SIGTERM)
	lazy.kist("verify")
}

func TestServeSocket(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"a.txt": "first\n"})
	s.kist("add", ".")
	s.kist("commit", "-m", "one")
	dir, err := os.MkdirTemp("", "kist") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for range 2 {
		p := s.serve("--listen", "unix:"+socket)
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v, want mode 0600", info, err)
		}
		wantBody(t, client, "http://localhost/files/a.txt", "first\n")
		client.CloseIdleConnections()
		p.Process.Kill() // leaves the socket, and the next server replaces it
		p.Wait()
	}
	if o := s.exits(1, "serve", "--listen", "unix:"+s.path("a.txt")); !strings.Contains(o.stderr, "in use") {
		t.Errorf("want an error about the file: %v", o)
	}
}

// TestServeOtherUser checks that another user of the machine cannot read the repository.
func TestServeOtherUser(t *testing.T) {
	needsRoot(t)
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"a.txt": "first\n"})
	s.kist("add", ".")
	s.kist("commit", "-m", "one")
	p := s.serve("--listen", "127.0.0.1:0")
	wantBody(t, http.DefaultClient, p.url+"files/a.txt", "first\n")

	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/"))
	script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%s && printf 'GET /files/a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 && cat <&3`, port)
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "403 Forbidden") || strings.Contains(string(out), "first") {
		t.Errorf("the other user gets %s, %v, want 403 Forbidden", out, err)
	}
	p.end(t, syscall.SIGTERM)
}

// TestServeRefuses checks that serve refuses options that are invalid or give access to all.
func TestServeRefuses(t *testing.T) {
	s := newShell(t)
	hash := s.command(t.Context(), "serve", "--hash", "anna") // needs no repository
	hash.Stdin = strings.NewReader("anna's password\n")
	out, err := hash.Output()
	line := string(out)
	if err != nil || !strings.HasPrefix(line, "anna:$2a$") || strings.Contains(line, "password") {
		t.Errorf("serve --hash prints %q, %v", line, err)
	}
	s.kist("init")
	s.write(map[string]string{"users": line, "plain": "anna:anna\n"})
	for _, args := range [][]string{
		{"--listen", ":0"}, {"--listen", "0.0.0.0:0"}, {"--listen", "[::]:0", "--tls-cert", "x"}, {"--listen", "192.0.2.1:0", "--users", "users"}, {"--listen", ":0", "--proxy", "10.0.0.1"},
		{"--listen", "127.0.0.1:0", "--user-header", "Remote-User"}, {"--listen", "x"}, {"--listen", "unix:"}, {"--proxy", "everywhere"}, {"--max-upload", "much"},
		{"--users", "users", "--user-header", "Remote-User"},
	} {
		if o := s.run(append([]string{"serve"}, args...)...); o.status != 2 {
			t.Errorf("want exit status 2: %v", o)
		}
	}
	if o := s.exits(1, "serve", "--listen", "127.0.0.1:0", "--users", "plain"); strings.Contains(o.stderr, "anna:anna") || !strings.Contains(o.stderr, "line 1") {
		t.Errorf("want an error that names line 1 without its password: %v", o)
	}
}
