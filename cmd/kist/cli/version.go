package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The version of kist and the day of its release. They stand only here: the Makefile, the manual
// pages and the packages take them from these lines. docs/releasing.md has the steps of a release.
const (
	Version  = "0.9.0"
	Released = "2026-11-27"
)

// revision is the commit of this build, if the linker sets it.
var revision = ""

// VersionString describes this build on one line.
func VersionString() string {
	text := Version
	if commit := BuildCommit(); commit != "" {
		text += " " + commit[:min(len(commit), 8)]
	}
	return fmt.Sprintf("%s (%s, %s/%s)", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// BuildCommit returns the commit of this build, or "". It is unknown in a build from an archive.
func BuildCommit() string {
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
