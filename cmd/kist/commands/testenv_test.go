package commands

import (
	"bytes"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/cli/clitest"
)

// testEnv returns the environment of clitest with all commands.
func testEnv(t *testing.T) (env *cli.Env, stdout, stderr *bytes.Buffer) {
	env, stdout, stderr = clitest.NewEnv(t)
	env.Commands = All
	return env, stdout, stderr
}
