// Package clitest has an environment for tests of commands.
package clitest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// NewEnv returns an environment that does not depend on the machine, and its output streams. It
// has no commands.
func NewEnv(t *testing.T) (env *cli.Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &cli.Env{
		Stdin:    strings.NewReader(""),
		Stdout:   stdout,
		Stderr:   stderr,
		Getenv:   func(string) string { return "" },
		Dir:      t.TempDir(),
		Clock:    cli.Clock{Now: func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }},
		Hostname: "chest.example",
		Username: func() string { return "anna" },
	}, stdout, stderr
}
