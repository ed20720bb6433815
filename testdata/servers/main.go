// Servers starts the servers that tests need, runs a command, and stops them:
//
//	servers go test ./remote/...
//
// The command finds them by KIST_TEST_S3 (MinIO; with AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_REGION) and KIST_TEST_MONGODB (FerretDB). If
// one of these is already set, it stays, and its server does not start.
// Without a command, the servers run until this program is interrupted.
//
// The first run builds the servers into the folder of this program, from the
// sources in ../../testdata/servers. They listen on free ports of the loopback
// interface and keep their data in a temporary folder, which is removed at the
// end. On Linux, they are killed if this program is killed. The exit status is
// that of the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Pdeathsig kills a child when the thread that started it ends. The main thread lives longest.
func init() { runtime.LockOSThread() }

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		status = 1
	}
	os.Exit(status)
}

func run(command []string) (status int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	binaries := filepath.Dir(self)
	wanted := slices.DeleteFunc([]*server{minio(), ferretdb()}, func(s *server) bool { return os.Getenv(s.variable) != "" })
	if len(wanted) > 0 {
		if err := build(ctx, filepath.Join(binaries, "..", "..", "testdata", "servers"), binaries); err != nil {
			return 0, err
		}
	}
	data, err := os.MkdirTemp("", "kist-servers-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(data)
	environ := os.Environ()
	for _, s := range wanted {
		if err := s.start(ctx, binaries, data); err != nil {
			return 0, err
		}
		defer s.stop()
		environ = s.environ(environ)
	}
	if len(command) == 0 {
		for _, s := range wanted {
			for _, set := range s.settings() {
				fmt.Printf("export %s\n", set)
			}
		}
		<-ctx.Done()
		return 0, nil
	}
	return runCommand(command, environ)
}

// runCommand runs a command in the foreground and returns its exit status. The
// terminal sends ^C to the command itself. Other signals are forwarded to it.
func runCommand(command, environ []string) (status int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, environ
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return 0, err
	}
	if s, ok := failed.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return failed.ExitCode(), nil
}

// without returns an environment without some variables.
func without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(set string) bool {
		name, _, _ := strings.Cut(set, "=")
		return slices.Contains(names, name)
	})
}
