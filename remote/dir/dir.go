// Package dir is a remote in a folder on a disk or a network file system. A
// blob is a file. It is written in the folder tmp and then linked to its name,
// because a link is made at most once. When a call returns, the file and its
// parent folders are on disk.
//
// Inside the folder, no symbolic link is followed; the folder itself may be
// one. Files of other programs are ignored if their names cannot be blobs.
// docs/format/remote.md describes the layout.
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

	// durable has the folders, relative to root, whose own entries this
	// process knows to be on disk.
	durable sync.Map

	own atomic.Bool // the folder is known to be a remote's, or empty

	// Replaced by tests: linkat, renameNew, (*os.File).ReadAt.
	link, rename move
	readAt       func(f *os.File, p []byte, off int64) (int, error)
}

// Open opens the folder of a path or a file URL. A relative path is relative
// to env.Dir; nothing else of env is used. If only the parent folder exists,
// the first write makes the folder. Until then, reads return
// remote.ErrNoStore. Writes return remote.ErrUnsupported if the folder is no
// remote and has other files.
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

// parse returns the absolute path for a URL or path.
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

// check returns an error if name cannot be a blob here. Err is the verdict of
// package remote. Names in tmp are reserved.
func check(op, name string, err error) error {
	if err == nil && (name == temps || strings.HasPrefix(name, temps+"/")) {
		err = &remote.Error{Op: op, Name: name, Kind: remote.ErrName, Err: errors.New("that folder is for files that are being written")}
	}
	return err
}

// Close implements [remote.Backend]. There is nothing to close.
func (b *Backend) Close() error { return nil }
