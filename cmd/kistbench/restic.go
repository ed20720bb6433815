package main

import (
	"context"
	"path/filepath"
	"slices"
)

func restic() tool {
	return tool{name: "restic", ask: "version", version: word(1), open: openRestic, places: []string{here, onServer, onDemand, onSSH, onSlowSSH}}
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
	options := []string{"-q", "--cache-dir", filepath.Join(r.dir, cache)}
	switch {
	case r.remote == nil:
		options = append(options, "-r", filepath.Join(r.dir, "repository"))
	case r.remote.ssh != nil:
		options = append(options, "-r", "sftp:"+sshHost+":"+r.remote.name, "-o", "sftp.command="+r.remote.ssh.command+" "+sshHost+" -s sftp")
	default:
		options = append(options, "-r", r.remote.resticURL())
	}
	return command{dir: r.data, args: slices.Concat([]string{r.program}, options, args)}
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
