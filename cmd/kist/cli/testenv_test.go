package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// testEnv returns an environment that does not depend on the machine, and its output streams.
func testEnv(t *testing.T) (env *Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	vars := map[string]string{}
	return &Env{
		Stdin:    strings.NewReader(""),
		Stdout:   stdout,
		Stderr:   stderr,
		Getenv:   func(name string) string { return vars[name] },
		Dir:      t.TempDir(),
		Clock:    Clock{Now: func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }},
		Hostname: "chest.example",
		Username: func() string { return "anna" },
	}, stdout, stderr
}
