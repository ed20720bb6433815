package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// testProcess is the environment of the process of the tests, from its start. A later look at the umask
// would change it for a moment, and a process that starts at that moment would inherit the change.
var testProcess *cli.Env

// run runs kist in the process of the test, which saves the start of a process. A command that
// hangs fails the test. If the shell is apart, or its program is not kist, run starts a process.
func (s *shell) run(args ...string) outcome {
	s.Helper()
	if s.apart || s.program != "kist" {
		return s.runProcess(args...)
	}

	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	hang := time.AfterFunc(2*commandTime, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("kist %q does not stop when its context ends", args))
	})
	defer hang.Stop()

	var stdout, stderr bytes.Buffer
	o := outcome{args: args, status: cli.Run(ctx, s.environment(&stdout, &stderr), args)}
	o.stdout, o.stderr = stdout.String(), stderr.String()
	if ctx.Err() != nil {
		s.Fatalf("hangs: %v", o)
	}
	return o
}

// environment returns the environment of a command in the process of the test. Its variables are those
// of a process.
func (s *shell) environment(stdout, stderr io.Writer) *cli.Env {
	variables := s.variables()
	env := &cli.Env{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		Getenv: func(name string) string { return valueOf(variables, name) },
		Dir:    s.dir, Clock: cli.Clock{Now: time.Now}, Hostname: testProcess.Hostname, Username: func() string { return "anna" }, Random: rand.Reader,
		Terminal: cli.Terminal{Width: func() int { return 80 }},
		Programs: cli.Programs{Environ: append(variables, "PWD="+s.dir)},
		Owners:   s.owners, Umask: testProcess.Umask, Commands: testProcess.Commands,
	}

	env.Strict = true
	if env.Owners == nil {
		env.Owners = []int{os.Geteuid()}
	}
	if s.hasty {
		env.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	return env
}

// valueOf returns the value of a variable. The last setting counts.
func valueOf(variables []string, name string) string {
	for _, setting := range slices.Backward(variables) {
		if value, ok := strings.CutPrefix(setting, name+"="); ok {
			return value
		}
	}
	return ""
}

// here runs kist in the process of the test, where it retries without waiting unless the shell is
// patient.
func (s *shell) here(args ...string) outcome {
	s.Helper()
	other := *s
	other.apart, other.hasty = false, !s.patient
	return other.run(args...)
}

// succeeds runs kist as here does. The command must succeed. succeeds returns its output.
func (s *shell) succeeds(args ...string) string {
	s.Helper()
	o := s.here(args...)
	if o.status != 0 {
		s.Fatalf("%v", o)
	}
	return o.stdout
}
