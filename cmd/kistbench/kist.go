package main

import (
	"context"
	"path/filepath"
)

func kist() tool {
	return tool{name: kistTool, ask: "--version", version: word(2), open: openKist, remote: true}
}

type kistRepository struct{ guest }

func openKist(ctx context.Context, o opening) (repository, error) {
	return openKistWith(ctx, o)
}

// openKistWith is openKist with options for init.
func openKistWith(ctx context.Context, o opening, options ...string) (kistRepository, error) {
	o.env = append(append([]string{}, o.env...), "KIST_AUTHOR_NAME=Bench", "KIST_AUTHOR_EMAIL=bench@chest.example")
	o.runner = &runner{o.env}
	k := kistRepository{guest{o, ".kist"}}
	commands := []command{k.command(append([]string{"init", "-q"}, options...)...)}
	if o.server != nil {
		commands = append(commands, k.command("remote", "add", "-q", "origin", o.server.kistURL()))
	}
	return k, k.begin(ctx, commands...)
}

// beside returns the opening of another repository for the same folder.
func (k kistRepository) beside(name string) opening {
	o := k.opening
	o.dir = filepath.Join(k.dir, name)
	return o
}

func (k kistRepository) command(args ...string) command {
	return command{dir: k.data, args: append([]string{k.program}, args...)}
}

func (k kistRepository) save(ctx context.Context, message string) (Sample, error) {
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("backup", "-q", "-m", message)) })
}

func (k kistRepository) status(ctx context.Context) (Sample, error) {
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("status")) })
}

func (k kistRepository) log(ctx context.Context) (Sample, error) {
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("log", "-n", "1")) })
}

func (k kistRepository) restore(ctx context.Context, to string) (Sample, error) {
	if k.server != nil {
		return k.run(ctx, command{dir: filepath.Dir(to), args: []string{k.program, "clone", "-q", k.server.kistURL(), to}})
	}
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("restore", "-q", "--to", to)) })
}

func (k kistRepository) compact(ctx context.Context) (Sample, error) {
	return k.inside(func() (Sample, error) {
		return k.run(ctx, k.command("gc", "-q", "--repack", "--prune", "now", "--max-waste", "0"))
	})
}
