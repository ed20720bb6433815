package main

import (
	"context"
	"errors"
	"path/filepath"
)

func kist() tool {
	return tool{name: kistTool, ask: "--version", version: word(2), open: openKist, places: []string{here, onFolder, onServer, onDemand, onSSH, onSlowSSH}}
}

// encryptedTool is the name of kist with an encrypted remote. It is compared with kist, and is no peer of it.
const encryptedTool = "encrypted"

// encrypted returns kist with an encrypted remote.
func encrypted(kist tool) tool {
	kist.name, kist.settings, kist.places = encryptedTool, "kist with encrypted remotes", []string{onFolder, onServer}
	kist.open = func(ctx context.Context, o opening) (repository, error) {
		return openKistWith(ctx, o, "--encrypted", "--no-recovery")
	}
	return kist
}

type kistRepository struct {
	guest
	addOptions []string // of 'remote add'
}

func openKist(ctx context.Context, o opening) (repository, error) {
	return openKistWith(ctx, o)
}

// openKistWith is openKist with options for the remote, or for init if there is none.
func openKistWith(ctx context.Context, o opening, options ...string) (kistRepository, error) {
	o.env = append(append([]string{}, o.env...), "KIST_AUTHOR_NAME=Bench", "KIST_AUTHOR_EMAIL=bench@chest.example")
	if o.remote != nil && o.remote.ssh != nil {
		o.env = append(o.env, "KIST_SSH_COMMAND="+o.remote.ssh.command)
	}
	o.runner = &runner{o.env}
	k := kistRepository{guest{o, ".kist"}, options}
	if o.remote == nil {
		return k, k.begin(ctx, k.command(append([]string{"init", "-q"}, options...)...))
	}
	return k, k.begin(ctx, k.command("init", "-q"), k.addRemote("origin", o.remote))
}

func (k kistRepository) addRemote(name string, at *prefix) command {
	return k.command(append([]string{"remote", "add", "-q", name, at.kistURL()}, k.addOptions...)...)
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
	if k.remote != nil {
		return k.run(ctx, command{dir: filepath.Dir(to), args: []string{k.program, "clone", "-q", k.remote.kistURL(), to}})
	}
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("restore", "-q", "--to", to)) })
}

func (k kistRepository) push(ctx context.Context) (Sample, error) {
	return k.toOther(ctx, "pushed", k.command("push", "-q", "pushed"))
}

// toOther runs a command on a new remote of some name, which it removes afterwards.
func (k kistRepository) toOther(ctx context.Context, name string, c command) (Sample, error) {
	return k.inside(func() (s Sample, err error) {
		to := k.remote.beside("-" + name)
		if _, err := k.output(ctx, k.addRemote(name, to)); err != nil {
			return s, err
		}
		s, err = k.run(ctx, c)
		_, removeErr := k.output(ctx, k.command("remote", "remove", "-q", name))
		return s, errors.Join(err, removeErr, to.remove(ctx))
	})
}

func (k kistRepository) fetch(ctx context.Context) (Sample, error) {
	return k.inside(func() (Sample, error) { return k.run(ctx, k.command("fetch", "-q")) })
}

func (k kistRepository) compact(ctx context.Context) (Sample, error) {
	return k.inside(func() (Sample, error) {
		return k.run(ctx, k.command("gc", "-q", "--repack", "--prune", "now", "--max-waste", "0"))
	})
}
