package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kistTool is the name of kist. The other tools are compared with it.
const kistTool = "kist"

// toolNames are the names of all tools, in the order of columns.
var toolNames = []string{kistTool, "restic", "kopia", "borg", "git", annexTool}

// tool is a program that keeps versions of folders.
type tool struct {
	name     string
	program  string
	settings string // that are not the defaults
	ask      string // the argument that prints the version
	version  func(printed string) string
	// open makes an empty repository for the folder data.
	open   func(ctx context.Context, o opening) (repository, error)
	places []string // where its repository or remote can be
}

// opening has the arguments of [tool.open].
type opening struct {
	*runner
	program string
	dir     string  // for all local files of the repository; absent or empty
	data    string  // the folder to keep versions of
	remote  *prefix // nil: the repository is in dir
}

// repository keeps versions of one folder.
type repository interface {
	// save stores a version of the folder, on the remote if there is one.
	save(ctx context.Context, message string) (Sample, error)
	// restore writes the last version into the empty folder to. From a remote, it restores
	// without local data.
	restore(ctx context.Context, to string) (Sample, error)
	// folders returns the folders of the repository.
	folders() []string
}

// statuser is a repository that can list changed files.
type statuser interface {
	status(ctx context.Context) (Sample, error)
}

// exchanger is a repository with remotes.
type exchanger interface {
	// push sends all commits to a new remote, which it removes afterwards.
	push(ctx context.Context) (Sample, error)
	// fetch asks the remote for news. There are none.
	fetch(ctx context.Context) (Sample, error)
}

// compacter is a repository with a gc.
type compacter interface {
	compact(ctx context.Context) (Sample, error)
}

// errNotFound is the reason to skip a tool without a program.
var errNotFound = errors.New("not on PATH, and no option names it")

// findTools returns the tools that have a program, kist first. It notes the others in the report.
func findTools(ctx context.Context, opts *options, r *runner, report *Report) ([]tool, error) {
	all := []tool{kist(), restic(), kopia(), borg(), git(), annex()}
	var found []tool
	for _, t := range all {
		program, given := opts.tools[t.name]
		switch {
		case given && program == "":
			report.skip(t.name, "excluded by an option")
			continue
		case !given:
			program = t.name
		}
		path, err := exec.LookPath(program)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			if t.name == kistTool || given {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			report.skip(t.name, errNotFound.Error())
			continue
		}
		t.program = path
		printed, err := r.output(ctx, command{args: []string{path, t.ask}})
		if err != nil {
			return nil, err
		}
		found = append(found, t)
		if t.name == kistTool {
			found = append(found, encrypted(t))
		}
		for _, t := range found[len(report.Tools):] {
			report.Tools = append(report.Tools, Program{t.name, versionOf(t, string(printed)), t.settings})
		}
	}
	return found, nil
}

// versionOf returns the version of a tool: the one that it prints, or that of its Go module.
func versionOf(t tool, printed string) string {
	version := t.version(strings.TrimSpace(printed))
	if version != "" {
		return version
	}
	if info, err := buildinfo.ReadFile(t.program); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "unknown"
}

// word returns a function that returns word n of a text, or nothing.
func word(n int) func(string) string {
	return func(s string) string {
		if words := strings.Fields(s); n < len(words) {
			return words[n]
		}
		return ""
	}
}

// guest is a repository that must be inside its folder, like .git. It is there only during its own
// work, so that the other tools do not see it.
type guest struct {
	opening
	name string // .git
}

// inside calls work while the repository is in its folder.
func (g guest) inside(work func() (Sample, error)) (Sample, error) {
	at, away := filepath.Join(g.data, g.name), filepath.Join(g.dir, g.name)
	if err := os.Rename(away, at); err != nil {
		return Sample{}, err
	}
	s, err := work()
	return s, errors.Join(err, os.Rename(at, away))
}

func (g guest) folders() []string { return []string{filepath.Join(g.dir, g.name)} }

// begin makes a repository with commands, and moves it out of the folder.
func (g guest) begin(ctx context.Context, commands ...command) error {
	if err := os.MkdirAll(g.dir, 0o777); err != nil {
		return err
	}
	for _, c := range commands {
		if _, err := g.output(ctx, c); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(g.data, g.name), filepath.Join(g.dir, g.name))
}
