package remotetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
)

// WebServer publishes a folder on a loopback port, over TLS.
type WebServer struct {
	URL    string // of the folder
	CAFile string // a file with the certificate that clients have to trust
	stop   func() error
}

// NewNginx starts nginx on a folder, until the end of the test. Config is added to its server block. The
// test is skipped without nginx.
func NewNginx(t testing.TB, folder, config string) *WebServer {
	t.Helper()
	program := objecttest.NeedProgram(t, "nginx")
	home := t.TempDir()
	certificate, key, err := writeCertificate(home)
	if err != nil {
		t.Fatal(err)
	}

	// nginx takes over a socket that listens already, so that no port is guessed.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address := listener.Addr().String()

	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the workers read the folders of the test
	}
	var temps bytes.Buffer
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temps, "	%s_temp_path %s;\n", name, filepath.Join(home, name))
	}
	text := fmt.Sprintf(`%[1]sdaemon off;
pid %[2]s/pid;
error_log stderr;
events {}
http {
	access_log off;
%[3]s	server {
		listen %[4]s ssl http2;
		ssl_certificate %[5]s;
		ssl_certificate_key %[6]s;
		root %[7]s;
		%[8]s
	}
}
`, user, home, temps.String(), address, certificate, key, folder, config)
	file := filepath.Join(home, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	cmd := exec.Command(program, "-p", home, "-e", "stderr", "-c", file)
	cmd.Env = append(os.Environ(), "NGINX=3;")
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &WebServer{URL: "https://" + address, CAFile: certificate, stop: func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM {
			return nil // it ended before it handled signals
		}
		return err
	}}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("nginx: %v\n%s", err, &out)
		}
	})
	return s
}

// NewFileServer starts Go's file server on a folder, until the end of the test. Wrap, unless it is nil, goes
// around the server.
func NewFileServer(t testing.TB, folder string, wrap func(http.Handler) http.Handler) *WebServer {
	t.Helper()
	handler := http.FileServer(http.Dir(folder))
	if wrap != nil {
		handler = wrap(handler)
	}
	return NewWebServer(t, handler)
}

// NewWebServer starts a server of HTTP/1 and HTTP/2 with a handler, until the end of the test.
func NewWebServer(t testing.TB, handler http.Handler) *WebServer {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate, err := writePEM(t.TempDir(), "certificate.pem", "CERTIFICATE", server.Certificate().Raw)
	if err != nil {
		t.Fatal(err)
	}
	return &WebServer{URL: server.URL, CAFile: certificate}
}

// writeCertificate writes the certificate of package httptest, and its key, to files in a folder.
func writeCertificate(folder string) (certificate, key string, err error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	if certificate, err = writePEM(folder, "certificate.pem", "CERTIFICATE", pair.Certificate[0]); err != nil {
		return "", "", err
	}
	secret, err := keyBytes(pair)
	if err != nil {
		return "", "", err
	}
	key, err = writePEM(folder, "key.pem", "PRIVATE KEY", secret)
	return certificate, key, err
}

func keyBytes(pair tls.Certificate) ([]byte, error) {
	return x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
}

func writePEM(folder, name, kind string, data []byte) (string, error) {
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600)
}

// Env returns the surroundings to open the server as a remote, with more variables of the environment.
func (s *WebServer) Env(variables map[string]string) remote.Env {
	return remote.Env{
		Getenv: func(name string) string {
			if value, ok := variables[name]; ok || name != "KIST_HTTP_CA" {
				return value
			}
			return s.CAFile
		},
		Now: time.Now, Rand: randReader{},
	}
}

// randReader reads zeros: no test depends on names of other processes.
type randReader struct{}

func (randReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Published reads from a web server what another store has written, so that the tests of
// stores can run on a store that can only be read.
type Published struct {
	remote.Backend // the web server
	Store          remote.Backend
}

func (p *Published) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return p.Store.Put(ctx, name, body, size)
}

func (p *Published) Create(ctx context.Context, name string, data []byte) error {
	return p.Store.Create(ctx, name, data)
}

func (p *Published) Replace(ctx context.Context, name string, data []byte) error {
	return p.Store.(remote.Replacer).Replace(ctx, name, data)
}

func (p *Published) Delete(ctx context.Context, name string) error { return p.Store.Delete(ctx, name) }

func (p *Published) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		for info, err := range p.Store.List(ctx, prefix) {
			info.Modified = info.Modified.Truncate(time.Second) // as in a header
			if !yield(info, err) {
				return
			}
		}
	}
}

// Close closes both.
func (p *Published) Close() error {
	err := p.Backend.Close()
	if closeErr := p.Store.Close(); err == nil {
		err = closeErr
	}
	return err
}
