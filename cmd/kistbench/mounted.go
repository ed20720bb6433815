package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mounter is a repository that can show its versions as folders.
type mounter interface {
	// mounted calls work while the repository is mounted at a folder. Work gets the folder of
	// the last version.
	mounted(ctx context.Context, at string, work func(version string) (Sample, error)) (Sample, error)
}

// A set with more files than listFiles is listed in a mount, and one of its files is requested over
// HTTP. Another set is read in a mount if its files have at least readSize bytes on average.
const (
	listFiles = 10_000
	readSize  = mib / 4
)

// look lists or reads the last version in a mount of each tool that can mount. The page cache is
// empty before. The floor is the same work in the folder itself.
func (e *event) look(ctx context.Context) error {
	var work string
	var then []string // what find does with each file
	switch {
	case e.held.files > listFiles:
		work = workList
	case e.held.bytes >= int64(e.held.files)*readSize:
		work, then = workRead, []string{"-exec", "cat", "{}", "+"}
	default:
		return nil
	}
	if err := e.canMount(); err != nil {
		e.report.skip("mounts of "+e.set, err.Error())
		return nil
	}

	at := filepath.Join(e.dir, "mounted")
	if err := os.Mkdir(at, 0o777); err != nil {
		return err
	}
	defer os.Remove(at)
	walk := func(dir string) (Sample, error) {
		if err := e.forget(); err != nil {
			return Sample{}, err
		}
		return e.runner.run(ctx, command{args: append([]string{"find", "-H", dir, "-type", "f"}, then...)})
	}
	err := e.each(ctx, work, 0, func(c *contestant) (Sample, error) {
		m, ok := c.repository.(mounter)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		return m.mounted(ctx, at, walk)
	})
	if err != nil {
		return err
	}
	floor, err := walk(e.path)
	if err != nil {
		return err
	}
	floor.Round = e.round
	e.report.add(e.set, work, floorTool, floor)
	return nil
}

// canMount returns an error if this machine cannot mount, or cannot empty its page cache.
func (b *bench) canMount() error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return err
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return err
	}
	return b.forget()
}

// dropCaches empties the page cache. Only root may do that.
func dropCaches() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) }

// mountTime is the longest time until a mount is ready.
const mountTime = time.Minute

// withMount calls work while a command has a repository mounted at a folder. Version is the folder
// of the last version.
func (r *runner) withMount(ctx context.Context, c command, at, version string, work func(version string) (Sample, error)) (Sample, error) {
	unmount, err := r.mountVersion(ctx, c, at, version)
	if err != nil {
		return Sample{}, err
	}
	s, err := work(version)
	return s, errors.Join(err, unmount())
}

// mountVersion starts a command that mounts a repository at a folder, and waits until the folder of the last version is there.
func (r *runner) mountVersion(ctx context.Context, c command, at, version string) (unmount func() error, err error) {
	var stderr tail
	cmd := r.prepare(ctx, c)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	unmount = func() error {
		err := exec.Command("fusermount3", "-u", at).Run()
		if err != nil {
			cmd.Process.Kill()
		}
		return errors.Join(err, <-ended)
	}

	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(version); err == nil {
			return unmount, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("%s: the mount ended: %w: %s", c.args[0], err, stderr.String())
		default:
		}
		if time.Since(began) > mountTime {
			return nil, errors.Join(fmt.Errorf("%s: no mount after %v: %s", c.args[0], mountTime, stderr.String()), unmount())
		}
	}
}

func (k kistRepository) mounted(ctx context.Context, at string, work func(version string) (Sample, error)) (Sample, error) {
	return k.inside(func() (Sample, error) {
		return k.runner.withMount(ctx, k.command("mount", at), at, filepath.Join(at, "latest"), work)
	})
}

func (r resticRepository) mounted(ctx context.Context, at string, work func(version string) (Sample, error)) (Sample, error) {
	return r.runner.withMount(ctx, r.command("cache", "mount", at), at, filepath.Join(at, "snapshots", "latest"), work)
}
