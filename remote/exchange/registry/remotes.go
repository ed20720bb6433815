// Package registry has the remotes that a repository's configuration names, and
// opens them.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
)

// DefaultRemote is the name of the remote that a clone is made from.
const DefaultRemote = "origin"

var (
	// ErrNoRemote is matched by the error for a remote that is not configured.
	ErrNoRemote = errors.New("no such remote")

	// ErrNone is the error of [Default] if there is no remote.
	ErrNone = errors.New("no remote is configured")

	// ErrWhich is the error of [Default] if there are several remotes.
	ErrWhich = errors.New("several remotes are configured")

	// ErrInside is matched by the error for a remote in the worktree.
	ErrInside = errors.New("is in the worktree, where a remote would be versioned, and lost with it")

	// ErrNested is matched by the error for a remote inside or around another one.
	ErrNested = errors.New("a remote cannot lie inside another one, or around it")
)

// Remote is a store that a repository is pushed to or fetched from.
type Remote struct {
	Name string `json:"name" doc:"the remote"`
	URL  string `json:"url" doc:"its URL, without secrets"`

	// SingleWriter accepts a store that is not safe for concurrent pushes. Only one person
	// may push at a time.
	SingleWriter bool `json:"single_writer,omitempty" doc:"true if only one person may push at a time"`

	// ObjectLock is the setting for locks of files; see [kist.ParseLock].
	ObjectLock string `json:"object_lock,omitempty" doc:"the setting for locks of files"`

	// RequireSigned refuses changes of the remote that nobody signed whom the user trusts.
	RequireSigned bool `json:"require_signed,omitempty" doc:"true if every change of the remote must be signed by somebody you trust"`

	// Encrypted is the pin of an encrypted remote, "" if it is in clear; see [crypt.ParsePin].
	Encrypted string `json:"encrypted,omitempty" doc:"the ID of an encrypted remote, and the fingerprint of its first key"`
}

// All returns the remotes as the configuration has them, sorted by name.
func All(r *kist.Repository) []Remote {
	var list []Remote
	for name, c := range r.Config().Remote {
		list = append(list, newRemote(r, name, c))
	}
	slices.SortFunc(list, func(a, b Remote) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func newRemote(r *kist.Repository, name string, c kist.RemoteConfig) Remote {
	if url, ok := remote.SSHURL(c.URL); ok {
		if _, err := os.Lstat(filepath.Join(r.Home(), c.URL)); err != nil {
			c.URL = url
		}
	}
	return Remote{
		Name: name, URL: c.URL, SingleWriter: c.SingleWriter, ObjectLock: c.ObjectLock, Encrypted: c.Encrypted,
		RequireSigned: kist.RequiresSigned(r.Options().User, r.Config(), name),
	}
}

// Find returns the remote with a name. A relative path as URL starts from the root of the
// worktree; Find makes it absolute. The error matches [kist.ErrNoRemote], or is a
// [*kist.ConfigError] if the configuration is invalid.
func Find(r *kist.Repository, name string) (Remote, error) {
	c, ok := r.Config().Remote[name]
	if !ok {
		return Remote{}, &kist.NoRemoteError{Name: name}
	}
	if err := kist.CheckRemoteName(name); err != nil { // a folder gets this name
		return Remote{}, &kist.ConfigError{Err: fmt.Errorf("remote %q: %w", name, err)}
	}
	if c.URL == "" {
		return Remote{}, &kist.ConfigError{Err: fmt.Errorf("remote %q has no url", name)}
	}
	m := newRemote(r, name, c)
	if path, ok := folderOf(r, m.URL); ok && !strings.Contains(m.URL, "://") {
		m.URL = path
	}
	return m, nil
}

// Default returns the name of the only remote, or of [DefaultRemote] if there are several. The
// error is [ErrNone] or [ErrWhich].
func Default(r *kist.Repository) (string, error) {
	list := All(r)
	if len(list) == 1 {
		return list[0].Name, nil
	}
	_, err := Find(r, DefaultRemote)
	switch {
	case len(list) == 0:
		return "", ErrNone
	case err != nil:
		return "", ErrWhich
	}
	return DefaultRemote, nil
}

// Resolve returns the remote with a name, or else at a URL or absolute path. The latter has no
// name: it has no remote-tracking branches, and nothing follows its branches. The errors are
// those of Find, or match [kist.ErrSecret].
func Resolve(r *kist.Repository, text string) (Remote, error) {
	m, err := Find(r, text)
	if !errors.Is(err, kist.ErrNoRemote) || !filepath.IsAbs(text) && !strings.Contains(text, "://") {
		return m, err
	}
	if remote.HasSecret(text) {
		return m, fmt.Errorf("%q: %w", remote.Redact(text), kist.ErrSecret)
	}
	return Remote{URL: text}, nil
}

// Label returns the name of a remote, or else its URL without secrets.
func (m Remote) Label() string { return cmp.Or(m.Name, remote.Redact(m.URL)) }

// Add adds a remote to the configuration. It does not open the store. The errors are those of
// [Check].
func Add(ctx context.Context, r *kist.Repository, add Remote) error {
	if err := Check(r, add); err != nil {
		return err
	}
	return r.EditConfig(ctx, func(c *kist.Config) error {
		if _, taken := c.Remote[add.Name]; taken {
			return fmt.Errorf("remote %q %w", add.Name, kist.ErrNameTaken)
		}
		settings := map[string]any{"url": add.URL}
		if add.ObjectLock != "" {
			settings["object-lock"] = add.ObjectLock
		}
		if add.SingleWriter {
			settings["single-writer"] = true
		}
		if add.Encrypted != "" {
			settings["encrypted"] = add.Encrypted
		}
		return c.SetAt(settings, "remote", add.Name)
	})
}

// Check returns an error if a remote cannot be added. It matches [kist.ErrNameTaken],
// [kist.ErrSecret], ErrInside or ErrNested, or is a [*refs.NameError].
func Check(r *kist.Repository, add Remote) error {
	if _, taken := r.Config().Remote[add.Name]; taken {
		return fmt.Errorf("remote %q %w", add.Name, kist.ErrNameTaken)
	}
	return CheckURL(r, add)
}

// CheckURL is Check for a remote that may exist.
func CheckURL(r *kist.Repository, add Remote) error {
	if err := add.Check(); err != nil {
		return err
	}
	if path, ok := folderOf(r, add.URL); ok && isInside(path, r.Home()) {
		return fmt.Errorf("%q %w", path, ErrInside)
	}
	for _, other := range All(r) {
		if other.Name == add.Name {
			continue
		}
		if nested(r, add.URL, other.URL) || nested(r, other.URL, add.URL) {
			return fmt.Errorf("%q: %w: %q is at %q", remote.Redact(add.URL), ErrNested, other.Name, remote.Redact(other.URL))
		}
	}
	return nil
}

// folderOf returns the absolute path of the folder at a URL. It reports whether the URL is
// that of a folder.
func folderOf(r *kist.Repository, rawURL string) (string, bool) {
	path, ok := remote.FolderPath(rawURL)
	if ok && !filepath.IsAbs(path) {
		path = filepath.Join(r.Home(), path)
	}
	return path, ok
}

// isInside reports whether path is root, or below it. It resolves symlinks. The path need not
// exist.
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

// Check returns an error if a configuration cannot have m.
func (m Remote) Check() error {
	if err := kist.CheckRemoteName(m.Name); err != nil {
		return err
	}
	if remote.HasSecret(m.URL) {
		return fmt.Errorf("%q: %w", remote.Redact(m.URL), kist.ErrSecret)
	}
	return nil
}

// Remove removes a remote from the configuration, with its remote-tracking
// branches and other local data. It does not change the store.
func Remove(ctx context.Context, r *kist.Repository, name string) error {
	if _, err := Find(r, name); err != nil {
		return err
	}
	if err := dropTracking(ctx, r, name); err != nil {
		return err
	}
	err := r.EditConfig(ctx, func(c *kist.Config) error {
		for branch, b := range c.Branch {
			if b.Remote == name {
				if err := c.SetAt(nil, "branch", branch); err != nil {
					return err
				}
			}
		}
		return c.SetAt(nil, "remote", name)
	})
	if err != nil {
		return err
	}
	return disk.RemoveAll(Dir(r, name))
}

// dropTracking removes the remote-tracking branches of a remote, with their logs.
func dropTracking(ctx context.Context, r *kist.Repository, name string) error {
	return r.Publish(ctx, kist.Step(func(ctx context.Context) error { return refs.DropRemote(ctx, r.Refs(), name) }))
}

// Rename renames a remote, with its remote-tracking branches and their logs, its upstreams,
// and its local data. A process that dies in between leaves the old name, or the new name
// and remains of the old one. A second Rename then does the rest. The errors are those of
// Find, or match [kist.ErrNameTaken] or [refs.ErrMoved], or are a [*refs.NameError].
func Rename(ctx context.Context, r *kist.Repository, from, to string) error {
	_, taken := r.Config().Remote[to]
	if _, err := Find(r, from); err != nil {
		if taken && errors.Is(err, kist.ErrNoRemote) && remains(r, from) {
			return endRename(ctx, r, from, to)
		}
		return err
	}
	if err := kist.CheckRemoteName(to); err != nil {
		return err
	}
	if taken {
		return fmt.Errorf("remote %q %w", to, kist.ErrNameTaken)
	}

	err := r.Publish(ctx, kist.Step(func(ctx context.Context) error { return refs.CopyRemote(ctx, r.Refs(), from, to, r.Who()) }))
	if err != nil {
		return err
	}
	err = r.EditConfig(ctx, func(c *kist.Config) error {
		if _, taken := c.Remote[to]; taken || !c.MoveAt("remote", from, to) { // another process was first
			return fmt.Errorf("remote %q %w", to, kist.ErrNameTaken)
		}
		var errs []error
		for branch, b := range c.Branch {
			if b.Remote == from {
				errs = append(errs, c.SetAt(to, "branch", branch, "remote"))
			}
		}
		for _, key := range []string{kist.KeyBackupRemote, kist.KeyBackupCopyTo} {
			if name, _ := c.Get(key); name == from {
				errs = append(errs, c.SetAt(to, "backup", strings.TrimPrefix(key, kist.KeyBackup)))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	return endRename(ctx, r, from, to)
}

// remains reports whether there is data of a remote that is not configured.
func remains(r *kist.Repository, name string) bool {
	if kist.CheckRemoteName(name) != nil {
		return false
	}
	list, err := r.Refs().List(refs.Remotes + name + "/")
	_, derr := disk.Lstat(Dir(r, name))
	return len(list) > 0 || err != nil || derr == nil
}

// endRename removes the remains of the old name of a remote. The local data of the old
// name replace those of the new one: they remember the remote for longer.
func endRename(ctx context.Context, r *kist.Repository, from, to string) error {
	if err := dropTracking(ctx, r, from); err != nil {
		return err
	}
	if _, err := disk.Lstat(Dir(r, from)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := disk.RemoveAll(Dir(r, to)); err != nil {
		return err
	}
	return disk.Rename(Dir(r, from), Dir(r, to))
}

// SetURL changes the URL of a remote. The errors are those of [CheckURL].
func SetURL(ctx context.Context, r *kist.Repository, name, to string) error {
	m, err := Find(r, name)
	if err != nil {
		return err
	}
	m.URL = to
	if err := CheckURL(r, m); err != nil {
		return err
	}
	return r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(to, "remote", name, "url") })
}

// Dir returns the folder for the local data of a remote: copies of its index files, its last
// known head, packs of an interrupted push. All of it can be rebuilt.
func Dir(r *kist.Repository, name string) string { return filepath.Join(r.Dir(), "remotes", name) }
