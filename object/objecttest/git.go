package objecttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Git runs git in a folder, without the configuration of the user and of the system, and returns its
// output. Env has more variables. Background maintenance is off, because it could run while a test
// copies or removes the folder. If git fails, the error has its error output and wraps an
// [*exec.ExitError].
func Git(dir, stdin string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "maintenance.auto=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C.UTF-8", "TZ=UTC")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %q: %w: %s", args, err, exit.Stderr)
	}
	return string(out), err
}

// GitStatus returns the exit status of git from the error of [Git]. It is -1 if git did not run, or
// was killed.
func GitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
