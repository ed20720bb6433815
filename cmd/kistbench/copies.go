package main

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// copier is a repository whose remote in a folder can be copied and published.
type copier interface {
	// copyRemote copies the remote to a new one, which it removes afterwards.
	copyRemote(ctx context.Context) (Sample, error)
	// cloneFrom writes the last version into the empty folder to, from the remote behind a web server. CA is the file with its certificate.
	cloneFrom(ctx context.Context, server, ca, to string) (Sample, error)
}

// copyRemotes measures copies of remotes in folders. The floor is cp of kist's.
func (e *event) copyRemotes(ctx context.Context) error {
	err := e.each(ctx, workCopy, 0, func(c *contestant) (Sample, error) {
		r, ok := c.repository.(copier)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		return r.copyRemote(ctx)
	})
	if err != nil {
		return err
	}
	for _, c := range e.contestants {
		if c.name != kistTool {
			continue
		}
		if err := e.settle(ctx); err != nil {
			return err
		}
		target := filepath.Join(e.dir, "copied")
		floor, err := e.runner.run(ctx, command{args: []string{"cp", "-R", c.remote.name, target}})
		if err := errors.Join(err, os.RemoveAll(target)); err != nil {
			return err
		}
		floor.Round = e.round
		e.report.add(e.set, workCopy, floorTool, floor)
	}
	return nil
}

// cloneByWeb measures clones of remotes in folders by HTTPS, from Go's file server. Copied checks the result.
func (e *event) cloneByWeb(ctx context.Context, target string, copied func(func() (Sample, error)) (Sample, error)) error {
	return e.each(ctx, workWeb, 0, func(c *contestant) (Sample, error) {
		r, ok := c.repository.(copier)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		server := httptest.NewTLSServer(http.FileServer(http.Dir(c.remote.name)))
		defer server.Close()
		ca := filepath.Join(e.dir, "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
			return Sample{}, err
		}
		return copied(func() (Sample, error) { return r.cloneFrom(ctx, server.URL, ca, target) })
	})
}

func (k kistRepository) copyRemote(ctx context.Context) (Sample, error) {
	return k.toOther(ctx, "copied", k.command("remote", "copy", "-q", "origin", "copied"))
}

func (k kistRepository) cloneFrom(ctx context.Context, server, ca, to string) (Sample, error) {
	r := &runner{append(append([]string{}, k.env...), "KIST_HTTP_CA="+ca)}
	return r.run(ctx, command{dir: filepath.Dir(to), args: []string{k.program, "clone", "-q", server, to}})
}
