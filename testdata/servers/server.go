package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTime = 3 * time.Minute // limit for a server's first answer; usually seconds, but machines can be slow
	stopTime  = 5 * time.Second // limit for a server to end after SIGTERM
)

// server is a server that tests find by environment variables.
type server struct {
	name     string   // of the server and its program
	variable string   // the environment variable with the server's URL
	hidden   []string // environment variables to remove
	args     func(address, data string) []string
	env      []string                      // the environment of the server
	prepare  func(data string) error       // fills the data folder before the start; may be nil
	answers  func(address string) error    // returns nil when the server is ready
	set      func(address string) []string // returns the environment variables for tests

	address string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	log     string        // the file with the server's output
}

func minio() *server {
	const bucket, user, password = "kist-test", "kist-test", "kist-test-secret"
	return &server{
		name:     "minio",
		variable: "KIST_TEST_S3",
		hidden:   []string{"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"},
		args: func(address, data string) []string {
			return []string{"server", data, "--address", address}
		},
		env:     []string{"MINIO_ROOT_USER=" + user, "MINIO_ROOT_PASSWORD=" + password, "MINIO_BROWSER=off", "MINIO_UPDATE=off"},
		prepare: func(data string) error { return os.MkdirAll(filepath.Join(data, bucket), 0o755) },
		answers: func(address string) error {
			reply, err := (&http.Client{Timeout: time.Second}).Get("http://" + address + "/minio/health/ready")
			if err != nil {
				return err
			}
			reply.Body.Close()
			if reply.StatusCode != http.StatusOK {
				return errors.New(reply.Status)
			}
			return nil
		},
		set: func(address string) []string {
			return []string{
				"KIST_TEST_S3=s3://" + bucket + "?endpoint=http://" + address,
				"AWS_ACCESS_KEY_ID=" + user, "AWS_SECRET_ACCESS_KEY=" + password, "AWS_REGION=us-east-1",
			}
		},
	}
}

func ferretdb() *server {
	return &server{
		name:     "ferretdb",
		variable: "KIST_TEST_MONGODB",
		args:     func(address, data string) []string { return []string{address, data} },
		answers: func(address string) error {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				conn.Close()
			}
			return err
		},
		set: func(address string) []string {
			return []string{"KIST_TEST_MONGODB=mongodb://" + address + "/kist_test"}
		},
	}
}

// start starts the server and returns when it answers. If another process took
// the port meanwhile, start retries with another port.
func (s *server) start(ctx context.Context, binaries, dir string) error {
	data := filepath.Join(dir, s.name)
	s.log = data + ".log"
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if s.prepare != nil {
		if err := s.prepare(data); err != nil {
			return err
		}
	}
	for range 3 {
		err := s.try(ctx, filepath.Join(binaries, s.name), data)
		if err == nil {
			return nil
		}
		s.stop()
		if log, _ := os.ReadFile(s.log); !strings.Contains(string(log), "in use") {
			return fmt.Errorf("%s did not start: %w\n%s", s.name, err, log)
		}
	}
	return fmt.Errorf("%s found no free port", s.name)
}

func (s *server) try(ctx context.Context, binary, data string) error {
	var err error
	if s.address, err = freeAddress(); err != nil {
		return err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(binary, s.args(s.address, data)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = data, log, log
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + data, "TMPDIR=" + os.TempDir()}, s.env...)
	s.cmd.SysProcAttr = attached()
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) {
		cmd.Wait()
		close(ended)
	}(s.cmd)
	deadline := time.After(startTime)
	for {
		err := s.answers(s.address)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.cmd.ProcessState)
		case <-deadline:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// freeAddress returns an address of the loopback interface with a free port. The
// port is below the range from which systems choose ports, so that no other
// process gets it by chance before the server listens.
func freeAddress() (string, error) {
	const lowest, highest = 10_000, 32_000
	var err error
	for range 100 {
		var free net.Listener
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest))
		if free, err = net.Listen("tcp", address); err == nil {
			return address, free.Close()
		}
	}
	return "", err
}

// stop ends the server, if it runs. It prints the log if the server had ended by itself.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	select {
	case <-s.ended:
		log, _ := os.ReadFile(s.log)
		fmt.Fprintf(os.Stderr, "servers: %s ended: %s\n%s", s.name, s.cmd.ProcessState, log)
	default:
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(stopTime):
			s.cmd.Process.Kill()
			<-s.ended
		}
	}
	s.cmd = nil
}

// settings returns the environment variables by which tests find the server.
func (s *server) settings() []string { return s.set(s.address) }

// environ returns environ with the settings of the server.
func (s *server) environ(environ []string) []string {
	hidden := s.hidden
	for _, set := range s.settings() {
		name, _, _ := strings.Cut(set, "=")
		hidden = append(hidden, name)
	}
	return append(without(environ, hidden...), s.settings()...)
}
