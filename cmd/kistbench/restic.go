package main

import (
	"context"
	"path/filepath"
)

func restic() tool {
	return tool{name: "restic", ask: "version", version: word(1), open: openRestic, places: []string{here, onServer, onDemand}}
}

type resticRepository struct{ opening }

func openRestic(ctx context.Context, o opening) (repository, error) {
	o.runner = &runner{append(append([]string{}, o.env...), "RESTIC_PASSWORD=bench", "AWS_DEFAULT_REGION="+region())}
	r := resticRepository{o}
	_, err := r.output(ctx, r.command("cache", "init"))
	return r, err
}

// command returns a command with its cache in a folder of the given name.
func (r resticRepository) command(cache string, args ...string) command {
	at := filepath.Join(r.dir, "repository")
	if r.remote != nil {
		at = r.remote.resticURL()
	}
	return command{dir: r.data, args: append([]string{r.program, "-q", "-r", at, "--cache-dir", filepath.Join(r.dir, cache)}, args...)}
}

func (r resticRepository) save(ctx context.Context, _ string) (Sample, error) {
	return r.run(ctx, r.command("cache", "backup", "."))
}

func (r resticRepository) restore(ctx context.Context, to string) (Sample, error) {
	cache := "cache"
	if r.remote != nil {
		cache = "cache-of-restore"
	}
	return r.run(ctx, r.command(cache, "restore", "latest", "--target", to))
}

func (r resticRepository) folders() []string { return []string{filepath.Join(r.dir, "repository")} }
