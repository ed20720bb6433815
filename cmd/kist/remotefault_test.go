package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// closed is an address without a server. A fixed port is safer than one that was
// free a moment ago: another process may take that one.
const closed = "127.0.0.1:1"

// fakeKeys returns the environment with the keys of a fake S3.
func fakeKeys(f *remotetest.FakeS3) []string {
	var env []string
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		env = append(env, name+"="+f.Getenv(name))
	}
	return env
}

// with returns a copy of the shell with more environment variables, which override
// the present ones.
func (s *shell) with(env ...string) *shell {
	other := *s
	other.env = slices.Concat(s.env, env)
	return &other
}

// here runs kist in this process, where it retries without waiting.
func (s *shell) here(args ...string) outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), commandTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.command(ctx) // for its environment
	env := s.environment(&stdout, &stderr)
	env.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	env.Getenv = func(name string) string {
		value := ""
		for _, setting := range cmd.Env {
			if v, ok := strings.CutPrefix(setting, name+"="); ok {
				value = v // the last counts
			}
		}
		return value
	}
	o := outcome{args: args, status: cli.Run(ctx, env, args), stdout: stdout.String(), stderr: stderr.String()}
	if ctx.Err() != nil {
		s.Fatalf("hangs: %v", o)
	}
	return o
}

// succeeds runs kist in this process, which must succeed, and returns its output.
func (s *shell) succeeds(args ...string) string {
	s.Helper()
	o := s.here(args...)
	if o.status != 0 {
		s.Fatalf("%v", o)
	}
	return o.stdout
}

// newFake returns a fake S3 and a shell that finds its keys.
func newFake(t testing.TB, seed uint64) (*remotetest.FakeS3, *shell) {
	f := remotetest.NewFakeS3(t, seed)
	return f, newShell(t).with(fakeKeys(f)...)
}
