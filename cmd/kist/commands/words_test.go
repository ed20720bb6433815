package commands

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// wantMessage runs a command that fails. It checks the first line of the error, the hint, and that
// each of the internals appears only with -v.
func wantMessage(t *testing.T, env *cli.Env, stderr *bytes.Buffer, args, message, hint string, internals ...string) {
	t.Helper()
	for _, verbose := range []bool{false, true} {
		line := strings.Fields(args)
		if verbose {
			line = append(line, "-v")
		}
		stderr.Reset()
		if status := cli.Run(t.Context(), env, line); status == cli.ExitOK {
			t.Fatalf("kist %s: no error", args)
		}
		first, rest, _ := strings.Cut(stderr.String(), "\n")
		if !strings.HasPrefix(first, "error: "+message) || !strings.Contains(rest, "hint: "+hint) {
			t.Errorf("kist %s:\n%swant error %q, hint %q", args, stderr, message, hint)
		}
		for _, text := range internals {
			if strings.Contains(stderr.String(), text) != verbose {
				t.Errorf("kist %s, -v %v, internals %q:\n%s", args, verbose, text, stderr)
			}
		}
	}
}

// withRepository returns an environment with a repository that has a staged file.
func withRepository(t *testing.T, vars map[string]string) (env *cli.Env, stderr *bytes.Buffer) {
	t.Helper()
	env, _, stderr = testEnv(t)
	env.Getenv = func(name string) string { return vars[name] }
	env.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if err := os.WriteFile(filepath.Join(env.Dir, "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"init -q", "add file"} {
		if status := cli.Run(t.Context(), env, strings.Fields(args)); status != cli.ExitOK {
			t.Fatalf("kist %s: %s", args, stderr)
		}
	}
	return env, stderr
}

func TestMissingBucket(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	env, stderr := withRepository(t, map[string]string{
		"AWS_ACCESS_KEY_ID": remotetest.FakeS3AccessKey, "AWS_SECRET_ACCESS_KEY": remotetest.FakeS3SecretKey,
	})
	for _, args := range []string{"remote add origin", "ls-remote"} {
		wantMessage(t, env, stderr, args+" s3://nowhere/photos?endpoint="+f.Endpoint(),
			`bucket "nowhere" does not exist at 127.0.0.1:`, "check the URL; ", "detail: ", "remote does not exist")
	}
}

func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	env, stderr := withRepository(t, map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
	for _, url := range []string{
		"s3://bucket/photos?endpoint=" + server.URL,
		"mongodb://" + server.Listener.Addr().String() + "/photos?tls=true&serverSelectionTimeoutMS=1000",
	} {
		wantMessage(t, env, stderr, "ls-remote "+url, "the certificate of ", "to trust it: AWS_CA_BUNDLE=FILE for S3", "detail: ", `"kist.json"`)
	}
}

// gc names the process that holds the lock. That process is this test binary, with the variable set.
func TestBusyLock(t *testing.T) {
	const variable = "KIST_TEST_LOCK"
	if path := os.Getenv(variable); path != "" {
		lock, err := disk.Lock(t.Context(), path, disk.Exclusive, 0)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked")
		io.Copy(io.Discard, os.Stdin)
		lock.Unlock()
		return
	}

	env, stderr := withRepository(t, nil)
	path := filepath.Join(env.Dir, ".kist", "maintenance.lock")
	holder := exec.Command(os.Args[0], "-test.run=^TestBusyLock$")
	holder.Env = append(os.Environ(), variable+"="+path)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer stdin.Close()
	if _, err := io.ReadFull(stdout, make([]byte, len("locked"))); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	wantMessage(t, env, stderr, "gc",
		"another kist process holds the lock: process "+strconv.Itoa(holder.Process.Pid)+", since "+info.ModTime().Format(time.DateTime),
		"run the command again when that process has ended", "maintenance.lock", "maintain object store")
}

// A commit fails if its branch moves meanwhile. The test moves the branch from within Getenv.
func TestMovedDuringCommit(t *testing.T) {
	env, stderr := withRepository(t, nil)
	var other func()

	env.Getenv = func(name string) string {
		if f := other; name == "KIST_AUTHOR_NAME" && f != nil {
			other = nil
			f()
		}
		return ""
	}

	run := func(args ...string) int { return cli.Run(t.Context(), env, args) }
	if run("commit", "-qm", "one") != cli.ExitOK {
		t.Fatal(stderr)
	}

	for _, args := range []string{"commit -m mine", "commit -v -m mine"} {
		stderr.Reset()

		other = func() {
			if run("commit", "-qm", "theirs", "--allow-empty") != cli.ExitOK {
				t.Error(stderr)
			}
		}

		if err := os.WriteFile(filepath.Join(env.Dir, "file"), []byte(args), 0o644); err != nil {
			t.Fatal(err)
		}
		run("add", "file")
		if status := run(strings.Fields(args)...); status != cli.ExitMoved {
			t.Fatalf("exit status %d: %s", status, stderr)
		}

		want := `error: branch "main" moved during this command, from `
		if got := stderr.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "hint: another kist process changed it") {
			t.Errorf("kist %s:\n%s", args, got)
		}
		if strings.Contains(stderr.String(), "refs/heads/main is at") != strings.Contains(args, "-v") {
			t.Errorf("kist %s, internals:\n%s", args, stderr)
		}
	}
}
