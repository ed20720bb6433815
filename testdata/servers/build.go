package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// build builds the servers from the module in source, unless the programs in binaries are from
// the same source. A lock lets only one process build at a time.
func build(ctx context.Context, source, binaries string) error {
	lock, err := os.OpenFile(filepath.Join(binaries, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return &os.PathError{Op: "lock", Path: lock.Name(), Err: err}
	}
	want, err := sum(source, "go.mod", "go.sum", "ferretdb/main.go")
	if err != nil {
		return err
	}
	stamp := filepath.Join(binaries, "built-from")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	os.Remove(stamp)
	fmt.Fprintln(os.Stderr, "servers: building FerretDB and MinIO for the tests; the first time this takes two to four minutes")
	for _, target := range []struct{ name, pkg string }{
		{"ferretdb", "./ferretdb"},
		{"minio", "github.com/minio/minio"},
	} {
		began := time.Now()
		if err := goBuild(ctx, source, filepath.Join(binaries, target.name), target.pkg); err != nil {
			return fmt.Errorf("build %s: %w", target.name, err)
		}
		fmt.Fprintf(os.Stderr, "servers: built %s in %s\n", target.name, time.Since(began).Round(time.Second))
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}

func goBuild(ctx context.Context, source, binary, pkg string) error {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	cmd := exec.CommandContext(ctx, tool, "build", "-v", "-ldflags", "-s -w", "-o", binary+".new", pkg)
	p := newProgress(os.Stderr, filepath.Base(binary))
	cmd.Dir, cmd.Stdout, cmd.Stderr = source, p, p
	cmd.Env = without(os.Environ(), "GOFLAGS", "GOOS", "GOARCH")
	cmd.Env = append(cmd.Env, "GOFLAGS=-buildvcs=false")
	err := cmd.Run()
	p.clear()
	if err != nil {
		os.Remove(binary + ".new")
		return err
	}
	return os.Rename(binary+".new", binary) // a running server keeps its old file
}

// sum returns a text that identifies the contents of files and the system to build for.
func sum(dir string, names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	return fmt.Sprintln(strings.Join([]string{runtime.GOOS, runtime.GOARCH, fmt.Sprintf("%x", h.Sum(nil))}, " ")), nil
}
