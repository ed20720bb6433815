package objecttest

import (
	"os"
	"os/exec"
	"testing"
)

// Skip skips t, for example because a program is missing. If KIST_TEST_NOSKIP is 1, Skip fails
// t instead.
func Skip(t testing.TB, reason ...any) {
	t.Helper()
	if os.Getenv("KIST_TEST_NOSKIP") == "1" {
		t.Fatal(reason...)
	}
	t.Skip(reason...)
}

// NeedProgram returns the path of a program on PATH. Without the program, it skips t.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, err)
	}
	return path
}

// NeedServer returns the URL of a server, which an environment variable has. Without the variable,
// it skips t.
func NeedServer(t testing.TB, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		Skip(t, variable+" names no server; 'make test' starts one")
	}
	return url
}
