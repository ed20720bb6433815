package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
)

// release and revision are the version of this build and the commit that it was
// built from, as far as the linker was given them.
var release, revision = "", ""

func newVersion(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "show the version of kist",
		Long: `Prints the version of kist, what it was built with and for, and the version of
the repository format it writes. With --json: version, commit, go, os, arch and
format.`,
		Example: `  kist version
  kist version --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return runVersion(cmd.Context(), env) },
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

func runVersion(_ context.Context, env *Env) error {
	if env.global.json {
		version, commit := buildVersion()
		env.json(versionJSON{version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, kist.FormatVersion})
		return nil
	}
	env.printf("kist %s\nrepository format %d\n", versionString(), kist.FormatVersion)
	return nil
}

// versionString describes this build on one line.
func versionString() string {
	version, commit := buildVersion()
	if commit != "" {
		version += " " + commit[:min(len(commit), 8)]
	}
	return fmt.Sprintf("%s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion returns the version of this build, "devel" if it has none, and
// the commit it was built from, if that is known.
func buildVersion() (version, commit string) {
	version = release
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if version == "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	if version == "" {
		version = "devel"
	}
	commit = revision
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && commit == "" {
			commit = setting.Value
		}
	}
	return version, commit
}
