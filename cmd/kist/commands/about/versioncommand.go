package about

import (
	"runtime"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/spf13/cobra"
)

func NewVersion(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "show the version of kist",
		Long: `Prints the versions of kist, of the Go that built it, and of the repository
format that it writes, and the system that it was built for. With --json:
version, commit, go, os, arch and format.`,
		Example: `  kist version
  kist version --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return runVersion(env) },
	}
}

// versionJSON is what version prints with --json.
type versionJSON struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Format  int    `json:"format"`
}

func runVersion(env *cli.Env) error {
	if env.Global.JSON {
		env.JSON(versionJSON{cli.Version, cli.BuildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, kist.FormatVersion})
		return nil
	}
	env.Printf("kist %s\nrepository format %d\n", cli.VersionString(), kist.FormatVersion)
	return nil
}
