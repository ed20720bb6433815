package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// defaultReleases are ten consecutive releases of a module.
const defaultReleases = "golang.org/x/tools@v0.24.0,v0.25.0,v0.26.0,v0.27.0,v0.28.0,v0.29.0,v0.30.0,v0.31.0,v0.32.0,v0.33.0"

// releases are folders of a module.
type releases struct {
	versions []string
	dirs     []string
}

// releasesSet returns the releases MODULE@VERSION,VERSION..., and a set with the first one. The
// set's about lets the go command find them in its module cache, or download them.
func releasesSet(ctx context.Context, spec string) (dataSet, *releases) {
	module, list, ok := strings.Cut(spec, "@")
	r := &releases{versions: strings.Split(list, ",")}
	last := len(r.versions) - 1
	return dataSet{
		name:  setVersions,
		title: fmt.Sprintf("%d releases of %s, %s to %s; an update writes only the files that differ", last+1, module, r.versions[0], r.versions[last]),
		about: func(ctx context.Context) (census, error) {
			if !ok || last < 1 {
				return census{}, fmt.Errorf("%q is not MODULE@VERSION,VERSION", spec)
			}
			return r.find(ctx, module)
		},
		make: func(ctx context.Context, dir string) error { return mirror(ctx, r.dirs[0], dir) },
	}, r
}

// find finds the folders of all versions. The census has the largest number of files and bytes of
// a version, and the disk space of all versions together.
func (r *releases) find(ctx context.Context, module string) (all census, err error) {
	for _, version := range r.versions {
		dir, err := download(ctx, module+"@"+version)
		if err != nil {
			return all, fmt.Errorf("go mod download %s@%s: %w", module, version, err)
		}
		held, err := count(dir)
		if err != nil {
			return all, err
		}
		r.dirs = append(r.dirs, dir)
		all = census{max(all.files, held.files), max(all.bytes, held.bytes), all.disk + held.disk}
	}
	return all, nil
}

// download returns the folder of a module in the cache. It uses the environment of the user, which
// configures the source of modules.
func download(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // in no module
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.NewDecoder(bytes.NewReader(out)).Decode(&found); jsonErr != nil {
		return "", errors.Join(err, jsonErr)
	}
	if found.Error != "" {
		return "", errors.New(found.Error)
	}
	return found.Dir, err
}

// releases measures a version of each release, in one folder that is updated from release to
// release. At the end, the folder has the first release again.
func (e *event) releases(ctx context.Context, r *releases) (err error) {
	defer func() { err = errors.Join(err, e.update(ctx, r.dirs[0])) }()
	for i, dir := range r.dirs {
		if err := e.update(ctx, dir); err != nil {
			return err
		}
		work := workNext
		if i == 0 {
			work = workFirst
		}
		err := e.each(ctx, work, i+1, func(c *contestant) (Sample, error) { return c.save(ctx, r.versions[i]) })
		if err != nil {
			return err
		}
	}
	if err := e.compact(ctx); err != nil {
		return err
	}
	return e.restore(ctx)
}
