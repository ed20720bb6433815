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

// kistTool is the tool that all is about.
const kistTool = "kist"

// toolNames are the tools there are, in the order of columns.
var toolNames = []string{kistTool, "restic", "kopia", "borg", "git"}

// tool is a program that keeps versions of folders.
type tool struct {
	name     string
	program  string
	settings string // in which it differs from its defaults, for the reader
	ask      string // the argument that has it print its version
	version  func(printed string) string
	// open makes an empty repository, of which all local files go to dir, for
	// the folder data. With a server it is there, and dir has what is local.
	open func(ctx context.Context, o opening) (repository, error)
	// remote says that it can work with a server.
	remote bool
}

// opening is what a tool gets to make a repository.
type opening struct {
	*runner
	program string
	dir     string // absent or empty
	data    string // the folder to keep versions of
	server  *prefix
}

// repository keeps versions of one folder.
type repository interface {
	// save takes a version of the folder as it is, and with a server sends it.
	save(ctx context.Context, message string) (Sample, error)
	// restore writes the last version into the folder to, which is empty; with
	// a server, as a machine does that has nothing yet.
	restore(ctx context.Context, to string) (Sample, error)
	// folders are those that have what is stored.
	folders() []string
}

// statuser is a repository that can tell what has changed.
type statuser interface {
	status(ctx context.Context) (Sample, error)
}

// compacter is a repository that can make itself smaller.
type compacter interface {
	compact(ctx context.Context) (Sample, error)
}

// errNotFound says that a tool is not there to be measured.
var errNotFound = errors.New("not on PATH, and not given by an option")

// findTools returns the tools to measure, kist first, with a program each, and
// notes those that are missing.
func findTools(ctx context.Context, opts *options, r *runner, report *Report) ([]tool, error) {
	all := []tool{kist(), restic(), kopia(), borg(), git()}
	var found []tool
	for _, t := range all {
		program, given := opts.tools[t.name]
		switch {
		case given && program == "":
			report.skip(t.name, "not wanted")
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
		report.Tools = append(report.Tools, Program{t.name, versionOf(t, string(printed)), t.settings})
	}
	return found, nil
}

// versionOf returns the version of a tool, from what it prints or, if it does
// not know, from what Go's linker noted in it.
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

// word returns the nth word of a text, or nothing.
func word(n int) func(string) string {
	return func(s string) string {
		if words := strings.Fields(s); n < len(words) {
			return words[n]
		}
		return ""
	}
}

// guest is a repository that has to lie in the folder that it is of, as .git
// does. It is put there only while it is at work, so that nobody else finds it.
type guest struct {
	opening
	name string // .git
}

// inside runs work while the repository is in its folder.
func (g guest) inside(work func() (Sample, error)) (Sample, error) {
	at, away := filepath.Join(g.data, g.name), filepath.Join(g.dir, g.name)
	if err := os.Rename(away, at); err != nil {
		return Sample{}, err
	}
	s, err := work()
	return s, errors.Join(err, os.Rename(at, away))
}

func (g guest) folders() []string { return []string{filepath.Join(g.dir, g.name)} }

// begin makes a repository by a command that makes it in the folder, and takes
// it out.
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
