package main

import (
	"context"
	"path/filepath"
)

func git() tool {
	return tool{
		name: "git", ask: "--version", version: word(2), open: openGit, places: []string{here, onDemand},
		settings: "core.compression=1, its fastest; gc.auto=0, so that only a gc that is measured runs",
	}
}

type gitRepository struct{ guest }

func openGit(ctx context.Context, o opening) (repository, error) {
	o.runner = &runner{append(append([]string{}, o.env...), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Bench", "GIT_AUTHOR_EMAIL=bench@chest.example", "GIT_COMMITTER_NAME=Bench", "GIT_COMMITTER_EMAIL=bench@chest.example")}
	g := gitRepository{guest{o, ".git"}}
	return g, g.begin(ctx, g.command("init", "-q"), g.command("config", "core.compression", "1"), g.command("config", "gc.auto", "0"))
}

func (g gitRepository) command(args ...string) command {
	return command{dir: g.data, args: append([]string{g.program}, args...)}
}

func (g gitRepository) save(ctx context.Context, message string) (Sample, error) {
	commit := g.command("commit", "-q", "-m", message)
	commit.allowed = 1 // nothing to commit
	return g.inside(func() (Sample, error) { return g.run(ctx, g.command("add", "-A", "-f", "."), commit) })
}

func (g gitRepository) status(ctx context.Context) (Sample, error) {
	return g.inside(func() (Sample, error) { return g.run(ctx, g.command("status")) })
}

func (g gitRepository) restore(ctx context.Context, to string) (Sample, error) {
	checkout := command{dir: to, args: []string{g.program, "--git-dir", filepath.Join(g.dir, ".git"), "--work-tree", to, "checkout", "-q", "-f", "HEAD", "--", "."}}
	checkout.env = []string{"GIT_INDEX_FILE=" + filepath.Join(g.dir, "index-of-restore")}
	return g.run(ctx, checkout)
}

func (g gitRepository) compact(ctx context.Context) (Sample, error) {
	return g.inside(func() (Sample, error) { return g.run(ctx, g.command("gc", "-q", "--prune=now")) })
}
