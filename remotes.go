package kist

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// DefaultRemote is the name of the remote that a clone is made from.
const DefaultRemote = "origin"

var (
	// ErrNoRemote is matched by the error for a remote that is not configured.
	ErrNoRemote = errors.New("no such remote")

	// ErrSecret says that a URL holds a password, which the configuration
	// must not.
	ErrSecret = errors.New("the URL holds a password, which kist does not store")

	// ErrInside says that a remote would be a folder in the worktree: it would
	// be lost with it, and versioned.
	ErrInside = errors.New("is in the worktree, where a remote would be versioned, and lost with it")

	// ErrNested says that a remote would lie inside another one, or around it.
	ErrNested = errors.New("a remote cannot lie inside another one, or around it")
)

// Remote is a store that a repository is pushed to or fetched from.
type Remote struct {
	Name string
	URL  string // without secrets

	// SingleWriter says that the store cannot tell two writers apart, and that
	// whoever configured it knows that only one may push at a time.
	SingleWriter bool
}

// Remotes returns the remotes as they are configured, in the order of their
// names.
func (r *Repository) Remotes() []Remote {
	var list []Remote
	for name, c := range r.config.Remote {
		list = append(list, Remote{Name: name, URL: c.URL, SingleWriter: c.SingleWriter})
	}
	slices.SortFunc(list, func(a, b Remote) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Remote returns the remote of a name. A URL that is a path which is not
// absolute begins at the root of the worktree. The error matches ErrNoRemote, or is a
// [*ConfigError] if what is configured cannot be one.
func (r *Repository) Remote(name string) (Remote, error) {
	c, ok := r.config.Remote[name]
	if !ok {
		return Remote{}, fmt.Errorf("%w: %q", ErrNoRemote, remote.Redact(name)) // a URL may stand in its place
	}
	if err := checkRemoteName(name); err != nil { // it becomes the name of a folder
		return Remote{}, &ConfigError{Err: fmt.Errorf("remote %q: %w", name, err)}
	}
	if c.URL == "" {
		return Remote{}, &ConfigError{Err: fmt.Errorf("remote %q has no url", name)}
	}
	m := Remote{Name: name, URL: c.URL, SingleWriter: c.SingleWriter}
	if path, ok := r.folderOf(m.URL); ok && !strings.Contains(m.URL, "://") {
		m.URL = path
	}
	return m, nil
}

// AddRemote adds a remote to the configuration. It does not look at the store.
// The error matches ErrNameTaken, ErrSecret, ErrInside or ErrNested, or is a
// [*refs.NameError].
func (r *Repository) AddRemote(ctx context.Context, add Remote) error {
	if err := r.CheckRemote(add); err != nil {
		return err
	}
	return r.editConfig(ctx, func(c *Config) error {
		if _, taken := c.Remote[add.Name]; taken {
			return fmt.Errorf("remote %q %w", add.Name, ErrNameTaken)
		}
		if err := c.setAt(add.URL, "remote", add.Name, "url"); err != nil || !add.SingleWriter {
			return err
		}
		return c.setAt(true, "remote", add.Name, "single-writer")
	})
}

// CheckRemote says whether a remote can be added.
func (r *Repository) CheckRemote(add Remote) error {
	if _, taken := r.config.Remote[add.Name]; taken {
		return fmt.Errorf("remote %q %w", add.Name, ErrNameTaken)
	}
	if err := add.check(); err != nil {
		return err
	}
	if path, ok := r.folderOf(add.URL); ok && isInside(path, r.root) {
		return fmt.Errorf("%q %w", path, ErrInside)
	}
	for _, other := range r.Remotes() {
		if r.nested(add.URL, other.URL) || r.nested(other.URL, add.URL) {
			return fmt.Errorf("%q: %w: %q is at %q", remote.Redact(add.URL), ErrNested, other.Name, remote.Redact(other.URL))
		}
	}
	return nil
}

// folderOf returns the folder that a URL stands for, if it does for one.
func (r *Repository) folderOf(rawURL string) (string, bool) {
	path := rawURL
	if scheme, _, ok := strings.Cut(rawURL, "://"); ok {
		u, err := url.Parse(rawURL)
		if err != nil || !strings.EqualFold(scheme, "file") {
			return "", false
		}
		path = u.Path
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.root, path)
	}
	return path, true
}

// isInside reports whether a path is root, or in it. What of path is not there
// yet does not matter.
func isInside(path, root string) bool {
	rest := ""
	for at := path; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// check says whether a remote can be part of a configuration.
func (m Remote) check() error {
	if err := checkRemoteName(m.Name); err != nil {
		return err
	}
	if remote.HasSecret(m.URL) {
		return fmt.Errorf("%q: %w", remote.Redact(m.URL), ErrSecret)
	}
	return nil
}

// checkRemoteName says whether a remote may have a name: it is the first part
// of those of its remote-tracking branches.
func checkRemoteName(name string) error {
	if strings.Contains(name, "/") {
		return &refs.NameError{Name: remote.Redact(name), Reason: "a remote's name has no slash"}
	}
	if err := refs.CheckShort(name); err != nil {
		return err
	}
	return refs.CheckName(refs.Remotes + name + "/x")
}

// RemoveRemote removes a remote from the configuration, with the
// remote-tracking branches and whatever else is kept because of it. What is in
// the store stays.
func (r *Repository) RemoveRemote(ctx context.Context, name string) error {
	if _, err := r.Remote(name); err != nil {
		return err
	}
	prefix := refs.Remotes + name + "/"
	err := r.publish(ctx, func(ctx context.Context) error {
		if err := r.refs.SetRemoteHead(ctx, prefix+"HEAD", ""); err != nil {
			return err
		}
		list, err := r.refs.List(prefix)
		if err != nil {
			return err
		}
		var changes []refs.Change
		for _, ref := range list {
			changes = append(changes, refs.Change{Name: ref.Name, Old: ref.ID, Reason: "remote: removed"})
		}
		return r.refs.Update(ctx, changes, r.who())
	})
	if err != nil {
		return err
	}
	err = r.editConfig(ctx, func(c *Config) error {
		for branch, b := range c.Branch {
			if b.Remote == name {
				if err := c.setAt(nil, "branch", branch); err != nil {
					return err
				}
			}
		}
		return c.setAt(nil, "remote", name)
	})
	if err != nil {
		return err
	}
	return disk.RemoveAll(r.remoteDir(name))
}

// remoteDir returns the folder for what is kept of a remote, which can be made
// anew: copies of its index files, how far it was seen, packs of a push that
// was interrupted.
func (r *Repository) remoteDir(name string) string { return filepath.Join(r.dir, "remotes", name) }

// openBackend opens the store of a remote.
func openBackend(ctx context.Context, o Options, m Remote) (remote.Backend, error) {
	if o.Backend == nil {
		return nil, &remote.Error{Op: "open", Kind: remote.ErrUnsupported, Err: errors.New("this program knows no remotes")}
	}
	return o.Backend(ctx, m.URL)
}

// OpenRemote opens a remote to be read. One that nothing was pushed to yet is
// an error that matches [rootlog.ErrEmpty]. Close the remote.
func (r *Repository) OpenRemote(ctx context.Context, name string) (*transfer.Remote, error) {
	m, err := r.Remote(name)
	if err != nil {
		return nil, err
	}
	return r.openRemote(ctx, m, false)
}

// openRemote opens a remote; with create, also one that nothing was pushed to.
func (r *Repository) openRemote(ctx context.Context, m Remote, create bool) (*transfer.Remote, error) {
	backend, err := openBackend(ctx, r.opt, m)
	if err != nil {
		return nil, err
	}
	opened, err := transfer.Open(ctx, backend, r.transferOptions(m))
	if create && errors.Is(err, rootlog.ErrEmpty) {
		if err = transfer.CheckFit(r.remoteDir(m.Name)); err != nil {
			backend.Close()
			return nil, err
		}
		if _, err = rootlog.Init(ctx, backend, r.config.repositoryID(), r.config.remoteChunker(), r.opt.Random); err == nil {
			opened, err = transfer.Open(ctx, backend, r.transferOptions(m))
		}
	}
	if err != nil {
		backend.Close()
		return nil, m.Located(err)
	}
	return opened, nil
}

// Located returns err with the URL if it says that nothing was pushed to m.
func (m Remote) Located(err error) error {
	if errors.Is(err, rootlog.ErrEmpty) {
		return fmt.Errorf("no kist remote in %q: %w", remote.Redact(m.URL), err)
	}
	return err
}

// NoteCheck notes whether a check found the store of a remote fit. Nothing is
// written to a store that is not.
func (r *Repository) NoteCheck(m Remote, fit bool) error {
	return transfer.NoteCheck(r.remoteDir(m.Name), fit)
}

// transferOptions returns the options for transfers with m, which keep their
// state in the repository.
func (r *Repository) transferOptions(m Remote) transfer.Options {
	to := readOptions(r.opt, m)
	to.Dir, to.Who = r.remoteDir(m.Name), r.recorder()
	return to
}

// readOptions returns the options for reading m without a repository.
func readOptions(o Options, m Remote) transfer.Options {
	return transfer.Options{
		URL: remote.Redact(m.URL), SingleWriter: m.SingleWriter,
		Now: o.Now, Rand: o.Random, Warn: o.Warn, Retry: o.Retry, Host: o.Host,
	}
}

// ID tells repositories apart whose chunks have nothing in common. Clones have
// the same.
func (r *Repository) ID() string { return r.config.repositoryID() }

// repositoryID tells repositories apart whose chunks have nothing in common:
// it stands for how files are cut, which is chosen at random for a new
// repository, and kept by its clones.
func (c *Config) repositoryID() string {
	text := fmt.Sprintf("kist repository\n%s %d %d %d\n", c.Chunker.Polynomial, c.Chunker.Min, c.Chunker.Average, c.Chunker.Max)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (c *Config) remoteChunker() rootlog.Chunker {
	return rootlog.Chunker{Polynomial: c.Chunker.Polynomial, Min: c.Chunker.Min, Average: c.Chunker.Average, Max: c.Chunker.Max}
}
