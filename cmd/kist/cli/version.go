package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
)

// The version of kist and the day of its release. They stand only here: the Makefile, the manual
// pages and the packages take them from these lines. docs/releasing.md has the steps of a release.
const (
	version  = "0.9.0"
	released = "2026-11-27"
)

// revision is the commit of this build, if the linker sets it.
var revision = ""

func newVersion(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "show the version of kist",
		Long: `Prints the versions of kist, of the Go that built it, and of the repository
format that it writes, and the system that it was built for. With --json:
version, commit, go, os, arch and format.`,
		Example: `  kist version
  kist version --json`,
		Args: noArguments,
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

func runVersion(env *Env) error {
	if env.global.json {
		env.json(versionJSON{version, buildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, kist.FormatVersion})
		return nil
	}
	env.printf("kist %s\nrepository format %d\n", versionString(), kist.FormatVersion)
	return nil
}

// versionString describes this build on one line.
func versionString() string {
	text := version
	if commit := buildCommit(); commit != "" {
		text += " " + commit[:min(len(commit), 8)]
	}
	return fmt.Sprintf("%s (%s, %s/%s)", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildCommit returns the commit of this build, or "". It is unknown in a build from an archive.
func buildCommit() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = setting.Value
			}
		}
	}
	return cmp.Or(revision, commit)
}
