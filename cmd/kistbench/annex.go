package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const annexTool = "git-annex"

func annex() tool {
	return tool{
		name: annexTool, ask: "version", version: word(2), open: openAnnex, places: []string{onDemand},
		settings: "all files in S3, 8 jobs; the repository behind git's program for web servers",
	}
}

// annexRepository is a repository of git-annex for a copy of the folder, because git-annex puts symlinks in the place of files.
type annexRepository struct {
	gitRepository
	annex string // the program
}

func openAnnex(ctx context.Context, o opening) (repository, error) {
	a := annexRepository{annex: o.program}
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	copied := filepath.Join(o.dir, "copy")
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return nil, err
	}
	if _, err := o.output(ctx, command{args: []string{"cp", "-R", o.data, copied}}); err != nil {
		return nil, err
	}
	o.program, o.data = program, copied
	g, err := openGit(ctx, o)
	if err != nil {
		return nil, err
	}
	a.gitRepository = g.(gitRepository)
	return a, nil
}

// annexAllow are arguments of git that let git-annex talk to a server on the same machine.
var annexAllow = []string{"config", "annex.security.allowed-ip-addresses", "all"}

// annexJobs is the number of simultaneous transfers.
const annexJobs = "-J8"

// annexCommand returns a command of git-annex in a folder.
func (a annexRepository) annexCommand(dir string, args ...string) command {
	return command{dir: dir, args: append([]string{a.annex}, args...)}
}

// save adds the files, commits, and copies the content to S3.
func (a annexRepository) save(ctx context.Context, message string) (Sample, error) {
	host, port, err := net.SplitHostPort(a.remote.host)
	if err != nil {
		return Sample{}, err
	}
	protocol := "http"
	if a.remote.secure {
		protocol = "https"
	}
	return a.inside(func() (Sample, error) {
		return a.run(ctx, a.annexCommand(a.data, "init", "-q", "bench"), a.command(annexAllow...),
			a.annexCommand(a.data, "initremote", "-q", "s3", "type=S3", "encryption=none", "host="+host, "port="+port, "protocol="+protocol,
				"requeststyle=path", "signature=v2", "bucket="+a.remote.bucket, "fileprefix="+a.remote.name+"/"),
			a.annexCommand(a.data, "add", "-q", annexJobs, "."), a.command("commit", "-q", "-m", message),
			a.annexCommand(a.data, "copy", "-q", annexJobs, "--to", "s3"))
	})
}

// openParts clones the repository without content.
func (a annexRepository) openParts(ctx context.Context, dir string, late time.Duration) (parts, Sample, error) {
	bare := filepath.Join(a.dir, "bare")
	if _, err := a.output(ctx, command{args: []string{a.program, "clone", "-q", "--mirror", filepath.Join(a.dir, ".git"), bare}}); err != nil {
		return parts{}, Sample{}, err
	}
	server, err := serveGit(ctx, a.runner, a.program, bare, late)
	if err != nil {
		return parts{}, Sample{}, err
	}
	run := func(ctx context.Context, commands ...command) (Sample, error) {
		return server.countTransfers(func() (Sample, error) { return a.run(ctx, commands...) })
	}
	s, err := run(ctx, command{dir: dir, args: []string{a.program, "clone", "-q", server.url(), "."}}, a.annexCommand(dir, "init", "-q", "clone"), command{dir: dir, args: append([]string{a.program}, annexAllow...)}, a.annexCommand(dir, "enableremote", "-q", "s3"))
	read := func(ctx context.Context, path string) (Sample, error) {
		return run(ctx, command{dir: dir, args: []string{a.program, "checkout", "-q", "--", path}}, a.annexCommand(dir, "get", "-q", annexJobs, "--", path))
	}
	return parts{read, server.close}, s, err
}
