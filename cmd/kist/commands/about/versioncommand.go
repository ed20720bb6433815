package about

import (
	"runtime"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/spf13/cobra"
)

func NewVersion(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "show the version of kist",
		Long: `Prints the versions of kist, of the Go that built it, and of the repository
format that it writes, and the system that it was built for.`,
		Example: `  kist version
  kist version --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return runVersion(env) },
	}
	env.Prints(cmd, "", versionJSON{})
	return cmd
}

// versionJSON is what version prints with --json.
type versionJSON struct {
	Version string `json:"version" doc:"the version of kist"`
	Commit  string `json:"commit,omitempty" doc:"the commit that it was built from"`
	Go      string `json:"go" doc:"the version of Go that built it"`
	OS      string `json:"os" doc:"the system that it was built for"`
	Arch    string `json:"arch" doc:"the processor that it was built for"`
	Format  int    `json:"format" doc:"the version of the repository format that it writes"`
}

func runVersion(env *cli.Env) error {
	if env.Global.JSON {
		env.JSON(versionJSON{cli.Version, cli.BuildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, kist.FormatVersion})
		return nil
	}
	env.Printf("kist %s\nrepository format %d\n", cli.VersionString(), kist.FormatVersion)
	return nil
}
