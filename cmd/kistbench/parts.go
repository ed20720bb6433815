package main

import (
	"context"
	"errors"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// parted is a repository from which parts of the last version can be read without the rest.
type parted interface {
	// openParts makes a clone without content, or a mount, in an empty folder. Late is the delay of a server of its own.
	openParts(ctx context.Context, dir string, late time.Duration) (parts, Sample, error)
}

// parts is a clone without content, or a mount.
type parts struct {
	// read reads the file or folder at a path into the folder of openParts.
	read  func(ctx context.Context, path string) (Sample, error)
	close func() error
}

// Parts of the set mixed.
var (
	onePart    = filepath.Join("d01", "note-001234.txt")
	folderPart = "d02"
	largePart  = filepath.Join("film", "film.mov")
)

// lateness is the delay of each answer and connection of a server.
const lateness = 20 * time.Millisecond

// readParts measures the way to parts of a version: a clone or mount without content, and then one file, a folder, the same
// folder again, and a large file. The answers of servers are late meanwhile.
func (e *event) readParts(ctx context.Context, late time.Duration) (err error) {
	save := func(c *contestant) (Sample, error) { return c.save(ctx, "bench") }
	if err := e.each(ctx, workFirst, 0, save); err != nil {
		return err
	}
	if e.server.relay != nil {
		e.server.relay.delay.Store(int64(late))
		defer e.server.relay.delay.Store(0)
	}

	opened := map[string]parts{}
	defer func() {
		for _, p := range opened {
			err = errors.Join(err, p.close())
		}
	}()
	at := func(c *contestant) string { return filepath.Join(c.dir, "parts") }
	err = e.each(ctx, workLazy, 0, func(c *contestant) (Sample, error) {
		x, ok := c.repository.(parted)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		if err := os.MkdirAll(at(c), 0o777); err != nil {
			return Sample{}, err
		}
		p, s, err := x.openParts(ctx, at(c), late)
		if err == nil {
			opened[c.name] = p
		}
		return s, err
	})
	for _, step := range []struct{ work, path string }{{workOpen, onePart}, {workPart, folderPart}, {workAgain, folderPart}, {workLarge, largePart}} {
		if err != nil {
			return err
		}
		err = e.each(ctx, step.work, 0, func(c *contestant) (Sample, error) {
			to := filepath.Join(at(c), step.path)
			if err := errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o777)); err != nil {
				return Sample{}, err
			}
			p, ok := opened[c.name]
			if !ok {
				return Sample{}, errors.ErrUnsupported
			}
			s, err := p.read(ctx, step.path)
			if err == nil {
				err = sameContent(filepath.Join(e.path, step.path), to)
			}
			return s, err
		})
	}
	return err
}

// nothing is the close of parts without a process.
func nothing() error { return nil }

func (k kistRepository) openParts(ctx context.Context, dir string, _ time.Duration) (parts, Sample, error) {
	s, err := k.run(ctx, command{args: []string{k.program, "clone", "-q", "--lazy", "-n", k.remote.kistURL(), dir}})
	read := func(ctx context.Context, path string) (Sample, error) {
		return k.run(ctx, command{dir: dir, args: []string{k.program, "restore", "-q", "--source", "origin/main", "--", path}})
	}
	return parts{read, nothing}, s, err
}

func (r resticRepository) openParts(ctx context.Context, dir string, _ time.Duration) (parts, Sample, error) {
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return parts{}, Sample{}, errors.ErrUnsupported
	}
	at := filepath.Join(r.dir, "mounted")
	if err := os.Mkdir(at, 0o777); err != nil {
		return parts{}, Sample{}, err
	}
	version, began := filepath.Join(at, "snapshots", "latest"), time.Now()
	unmount, err := r.mountVersion(ctx, r.command("cache-of-parts", "mount", at), at, version)
	read := func(ctx context.Context, path string) (Sample, error) {
		return r.run(ctx, command{args: []string{"cp", "-R", filepath.Join(version, path), filepath.Join(dir, path)}})
	}
	return parts{read, unmount}, Sample{Seconds: time.Since(began).Seconds()}, err
}

// gitServer serves a repository of git over HTTP, as git's own program for web servers does. A relay counts and delays.
type gitServer struct {
	*relay
	server *httptest.Server
}

// serveGit serves the bare repository at dir.
func serveGit(ctx context.Context, r *runner, program, dir string, late time.Duration) (*gitServer, error) {
	programs, err := r.output(ctx, command{args: []string{program, "--exec-path"}})
	if err != nil {
		return nil, err
	}
	g := &gitServer{}
	g.server = httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	if g.relay, err = newRelay(g.server.Listener.Addr().String()); err != nil {
		g.server.Close()
		return nil, err
	}
	g.delay.Store(int64(late))
	return g, nil
}

func (g *gitServer) url() string { return "http://" + g.Addr().String() + "/" }

func (g *gitServer) close() error {
	err := g.relay.Close()
	g.server.CloseClientConnections()
	g.server.Close()
	return err
}

// openParts clones a copy of the repository that a web server of its own serves.
func (g gitRepository) openParts(ctx context.Context, dir string, late time.Duration) (parts, Sample, error) {
	bare := filepath.Join(g.dir, "bare")
	for _, args := range [][]string{
		{"clone", "-q", "--bare", filepath.Join(g.dir, ".git"), bare},
		{"-C", bare, "config", "uploadpack.allowFilter", "true"},
		{"-C", bare, "repack", "-a", "-d", "-q"},
	} {
		if _, err := g.output(ctx, command{args: append([]string{g.program}, args...)}); err != nil {
			return parts{}, Sample{}, err
		}
	}
	server, err := serveGit(ctx, g.runner, g.program, bare, late)
	if err != nil {
		return parts{}, Sample{}, err
	}
	git := func(args ...string) command { return command{dir: dir, args: append([]string{g.program}, args...)} }
	run := func(ctx context.Context, commands ...command) (Sample, error) {
		return server.countTransfers(func() (Sample, error) { return g.run(ctx, commands...) })
	}
	s, err := run(ctx, git("clone", "-q", "--filter=blob:none", "--sparse", server.url(), "."))
	read := func(ctx context.Context, path string) (Sample, error) {
		bring := git("restore", "-q", "--source=HEAD", "--ignore-skip-worktree-bits", "--", path) // by itself, one request for each file
		if path != folderPart {
			return run(ctx, bring)
		}
		return run(ctx, git("sparse-checkout", "add", path), bring)
	}
	return parts{read, server.close}, s, err
}
