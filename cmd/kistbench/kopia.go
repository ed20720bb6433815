package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func kopia() tool {
	return tool{
		name: "kopia", open: openKopia, places: []string{here, onServer}, settings: "compression zstd-fastest; by default there is none",
		ask: "--version", version: func(printed string) string {
			if first := word(0)(printed); !strings.HasPrefix(first, "v0-") { // v0-unofficial
				return first
			}
			return ""
		},
	}
}

type kopiaRepository struct{ opening }

func openKopia(ctx context.Context, o opening) (repository, error) {
	o.runner = &runner{append(append([]string{}, o.env...), "KOPIA_PASSWORD=bench", "KOPIA_CHECK_FOR_UPDATES=false")}
	k := kopiaRepository{o}
	if err := os.MkdirAll(k.folders()[0], 0o777); err != nil {
		return nil, err
	}
	for _, c := range []command{
		k.command("main", k.location("create", "main")...),
		k.command("main", "policy", "set", "--global", "--compression=zstd-fastest"),
	} {
		if _, err := k.output(ctx, c); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// command returns a command with the configuration of a machine.
func (k kopiaRepository) command(machine string, args ...string) command {
	log := "--log-dir=" + filepath.Join(k.dir, machine, "log")
	config := "--config-file=" + filepath.Join(k.dir, machine, "config")
	return command{dir: k.data, args: append([]string{k.program, config, log}, args...)}
}

// location returns the arguments that create the repository, or connect to it.
func (k kopiaRepository) location(verb, machine string) []string {
	cache := "--cache-directory=" + filepath.Join(k.dir, machine, "cache")
	if k.remote == nil {
		return []string{"repository", verb, "filesystem", "--path", k.folders()[0], cache}
	}
	args := []string{"repository", verb, "s3", "--bucket", k.remote.bucket, "--prefix", k.remote.name + "/", "--region", region(),
		"--endpoint", k.remote.host, "--access-key", os.Getenv("AWS_ACCESS_KEY_ID"), "--secret-access-key", os.Getenv("AWS_SECRET_ACCESS_KEY"), cache}
	if !k.remote.secure {
		args = append(args, "--disable-tls")
	}
	return args
}

func (k kopiaRepository) save(ctx context.Context, _ string) (Sample, error) {
	return k.run(ctx, k.command("main", "snapshot", "create", k.data))
}

// restore restores from a server on another machine. It connects first, which is not measured.
func (k kopiaRepository) restore(ctx context.Context, to string) (Sample, error) {
	machine := "main"
	if k.remote != nil {
		machine = "other"
		if _, err := k.output(ctx, k.command(machine, k.location("connect", machine)...)); err != nil {
			return Sample{}, err
		}
	}
	out, err := k.output(ctx, k.command("main", "snapshot", "list", "--json"))
	if err != nil {
		return Sample{}, err
	}
	var snapshots []struct{ ID string }
	if err := json.Unmarshal(out, &snapshots); err != nil {
		return Sample{}, fmt.Errorf("kopia snapshot list --json: %w", err)
	}
	if len(snapshots) == 0 {
		return Sample{}, errors.New("kopia snapshot list: no snapshots")
	}
	return k.run(ctx, k.command(machine, "snapshot", "restore", snapshots[len(snapshots)-1].ID, to))
}

func (k kopiaRepository) folders() []string { return []string{filepath.Join(k.dir, "repository")} }
