// Package dir is a remote in a folder that all who share it can reach: on a
// disk, or a network file system. A blob is a file; while it is written it is
// a file in the folder tmp, which is then linked to its name, for a link is
// made at most once. What a call has stored is on disk when it returns, with
// the folders above it.
//
// Nothing in the folder is reached through symbolic links; the folder itself
// may be. Files that a program or a file system leaves there under names that
// are no blob's are ignored. What lies there is described in
// docs/format/remote.md.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/remote"
)

// Backend is a folder as a [remote.Backend].
type Backend struct {
	root string // absolute

	// durable has the folders, relative to root, whose entries in the folders
	// above them this process knows to be on disk.
	durable sync.Map

	own atomic.Bool // the folder is known to be a remote's, or empty

	// But for tests: linkat, renameNew, (*os.File).ReadAt.
	link, rename move
	readAt       func(f *os.File, p []byte, off int64) (int, error)
}

// Open opens the folder a path or a URL of the scheme file is of. A relative
// path is relative to env.Dir; nothing else of env is used. If there is only
// the folder above it, the folder is made by the first write; until then reads
// are remote.ErrNoStore. To a folder that is no remote and has other files in
// it, writes are remote.ErrUnsupported.
func Open(ctx context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	b, err := open(ctx, rawURL, env.Dir)
	if err != nil {
		return nil, fail("open", "", err)
	}
	return b, nil
}

func open(ctx context.Context, rawURL, dir string) (*Backend, error) {
	root, err := parse(rawURL, dir)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	err = checkFolder(root)
	if errors.Is(err, fs.ErrNotExist) {
		err = checkFolder(filepath.Dir(root))
	}
	if err != nil {
		return nil, noStore(err)
	}
	return &Backend{root: root, link: linkat, rename: renameNew, readAt: (*os.File).ReadAt}, nil
}

func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: errNotFolder}
	}
	return err
}

// parse returns the absolute path that a URL or path stands for.
func parse(rawURL, dir string) (string, error) {
	bad := func(reason string) (string, error) {
		return "", &kindError{remote.ErrURL, fmt.Errorf("%q: %s", remote.Redact(rawURL), reason)}
	}
	path := rawURL
	if i := strings.Index(rawURL, "://"); i >= 0 && strings.EqualFold(rawURL[:i], "file") {
		u, err := url.Parse(rawURL)
		switch {
		case err != nil:
			return bad("it cannot be parsed")
		case u.Host != "" || u.User != nil:
			return bad("write file:///path, with three slashes")
		case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
			return bad("'?' and '#' in the path are written %3F and %23")
		}
		path = u.Path
	}
	switch {
	case path == "":
		return bad("there is no path in it")
	case strings.ContainsRune(path, 0):
		return bad("no path has a NUL in it")
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case !filepath.IsAbs(dir):
		return bad("it is not known what the path is relative to")
	}
	return filepath.Join(dir, path), nil
}

// check says whether name can be stored here, given what the package remote
// says of it: tmp is the store's own.
func check(op, name string, err error) error {
	if err == nil && (name == temps || strings.HasPrefix(name, temps+"/")) {
		err = &remote.Error{Op: op, Name: name, Kind: remote.ErrName, Err: errors.New("that folder is for files that are being written")}
	}
	return err
}

// Close implements [remote.Backend]. There is nothing to close.
func (b *Backend) Close() error { return nil }
