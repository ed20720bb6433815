// Package registry has the remotes that a repository's configuration names, and
// opens them.
package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
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

// openBackend opens the store of a remote.
func openBackend(ctx context.Context, o kist.Options, m Remote) (remote.Backend, error) {
	if o.Backend == nil {
		return nil, &remote.Error{Op: "open", Kind: remote.ErrUnsupported, Err: errors.New("this program knows no remotes")}
	}
	return o.Backend(ctx, m.URL)
}

// OpenNamed opens the remote with a name. It does not initialize an empty store. Errors are those of
// [Open]. The caller closes the remote.
func OpenNamed(ctx context.Context, r *kist.Repository, name string) (*transfer.Remote, error) {
	m, err := Find(r, name)
	if err != nil {
		return nil, err
	}
	return Open(ctx, r, m, false)
}

// OpenToRestore is [OpenNamed] for a remote that may have no intact copy of its keyset. Export is one that was saved.
func OpenToRestore(ctx context.Context, r *kist.Repository, name string, export *keyset.File) (*transfer.Remote, error) {
	return openWith(ctx, r, name, func(o *transfer.Options) { o.Keys.Export = export })
}

// OpenToInspect is [OpenNamed] for a caller that only shows who wrote the roots: the remote is not refused if roots lack
// a signature. The caller does not remember its head.
func OpenToInspect(ctx context.Context, r *kist.Repository, name string) (*transfer.Remote, error) {
	return openWith(ctx, r, name, func(o *transfer.Options) { o.Sign = rootlog.Signing{} })
}

// openWith opens the remote with a name, with changed options.
func openWith(ctx context.Context, r *kist.Repository, name string, change func(o *transfer.Options)) (*transfer.Remote, error) {
	m, err := Find(r, name)
	if err != nil {
		return nil, err
	}
	if err := refuseRepository(r, m); err != nil {
		return nil, err
	}
	o, err := transferOptions(r, m)
	if err != nil {
		return nil, err
	}
	change(&o)
	backend, err := openBackend(ctx, r.Options(), m)
	if err != nil {
		return nil, err
	}
	return openIn(ctx, backend, m, o)
}

// openIn opens the remote m in a backend, which it closes if that fails.
func openIn(ctx context.Context, backend remote.Backend, m Remote, o transfer.Options) (*transfer.Remote, error) {
	opened, err := transfer.Open(ctx, backend, o)
	if err != nil {
		backend.Close()
		return nil, m.located(err)
	}
	return opened, nil
}

// refuseRepository returns an error that matches [transfer.ErrRepository] if m is the folder of a repository.
func refuseRepository(r *kist.Repository, m Remote) error {
	if path, ok := folderOf(r, m.URL); ok {
		if root, is := repositoryAt(path); is {
			return fmt.Errorf("%q: %w", root, transfer.ErrRepository)
		}
	}
	return nil
}

// OpenSource opens a remote to fetch from it: a store, or a repository. Errors are those of
// [Open]. The caller closes the result.
func OpenSource(ctx context.Context, r *kist.Repository, m Remote) (transfer.Source, error) {
	path, ok := folderOf(r, m.URL)
	if root, is := repositoryAt(path); ok && is {
		return openRepository(ctx, r.Options(), m, root)
	}
	opened, err := Open(ctx, r, m, false)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// OpenNamedSource is [OpenSource] for the remote with a name.
func OpenNamedSource(ctx context.Context, r *kist.Repository, name string) (transfer.Source, error) {
	m, err := Find(r, name)
	if err != nil {
		return nil, err
	}
	return OpenSource(ctx, r, m)
}

// Open opens a remote. With create, it first initializes an empty store. Otherwise the error
// matches [rootlog.ErrEmpty] if nothing was pushed to it yet. For the folder of a repository,
// it matches [transfer.ErrRepository]. The caller closes the remote.
func Open(ctx context.Context, r *kist.Repository, m Remote, create bool) (*transfer.Remote, error) {
	if create {
		return OpenLike(ctx, r, m, &rootlog.Identity{Repository: r.Config().RepositoryID(), Chunker: r.Config().RemoteChunker()})
	}
	return OpenLike(ctx, r, m, nil)
}

// OpenLike is [Open] that first initializes an empty store as a remote of the same repository as another one, unless
// like is nil.
func OpenLike(ctx context.Context, r *kist.Repository, m Remote, like *rootlog.Identity) (*transfer.Remote, error) {
	if err := refuseRepository(r, m); err != nil {
		return nil, err
	}
	o, err := transferOptions(r, m)
	if err != nil {
		return nil, err
	}
	backend, err := openBackend(ctx, r.Options(), m)
	if err != nil {
		return nil, err
	}
	opened, err := transfer.Open(ctx, backend, o)
	if like != nil && m.Name != "" && errors.Is(err, rootlog.ErrEmpty) {
		if err = makeClear(ctx, r, m, backend, like); err == nil {
			opened, err = transfer.Open(ctx, backend, o)
		}
	}
	if err != nil {
		backend.Close()
		return nil, m.located(err)
	}
	if err := notePin(ctx, r, m, opened); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// makeClear makes an empty store a remote in clear, of the same repository as like. 'remote add' has checked the store.
func makeClear(ctx context.Context, r *kist.Repository, m Remote, backend remote.Backend, like *rootlog.Identity) error {
	if err := transfer.CheckFit(Dir(r, m.Name)); err != nil {
		return err
	}
	if isEncryptionRequired(r.Options()) {
		return rootlog.ErrNotEncrypted // only 'remote add' makes encrypted remotes
	}
	o, err := transferOptions(r, m)
	if err != nil {
		return err
	}
	if err := findKey(ctx, o.Sign); err != nil {
		return err
	}
	_, err = rootlog.Init(ctx, backend, like.Repository, like.Chunker, r.Options().Random)
	return err
}

// findKey returns a [*rootlog.SignError] if the first root has to be signed, and there is no key for that.
func findKey(ctx context.Context, s rootlog.Signing) error {
	if !s.All && s.Verifier == nil {
		return nil
	}
	if err := s.Signer.FindKey(ctx); err != nil {
		return &rootlog.SignError{Seq: 1, Err: err}
	}
	return nil
}

// OpenURL opens the remote at m.URL, a store or a repository, without a repository of our own.
// The caller closes the result.
func OpenURL(ctx context.Context, o kist.Options, m Remote) (transfer.Source, error) {
	if path, ok := remote.FolderPath(m.URL); ok {
		if root, is := repositoryAt(path); is {
			return openRepository(ctx, o, m, root)
		}
	}
	to, err := readOptions(o, m)
	if err != nil {
		return nil, err
	}
	backend, err := openBackend(ctx, o, m)
	if err != nil {
		return nil, err
	}
	opened, err := openIn(ctx, backend, m, to)
	if err != nil {
		return nil, err // no Source that is a nil Remote
	}
	return opened, nil
}

// located adds the URL to an error that matches [rootlog.ErrEmpty].
func (m Remote) located(err error) error {
	if errors.Is(err, rootlog.ErrEmpty) {
		return fmt.Errorf("no kist remote in %q: %w", remote.Redact(m.URL), err)
	}
	return err
}

// NoteCheck notes whether a check found the store of a remote fit. kist does not write to an
// unfit store.
func NoteCheck(r *kist.Repository, m Remote, fit bool) error {
	return transfer.NoteCheck(Dir(r, m.Name), fit)
}

// transferOptions returns the options for transfers with m. Their state is in the
// repository.
func transferOptions(r *kist.Repository, m Remote) (transfer.Options, error) {
	to, err := readOptions(r.Options(), m)
	to.Dir, to.Who = stateDir(r, m), r.Recorder()
	to.Sign.Signer, to.Sign.All = kist.SignerOf(r), kist.SignsRoots(r)
	return to, err
}

// stateDir is Dir, also for a remote without a name. No remote can have the name of its
// folder.
func stateDir(r *kist.Repository, m Remote) string {
	if m.Name != "" {
		return Dir(r, m.Name)
	}
	sum := sha256.Sum256([]byte(m.URL))
	return Dir(r, fmt.Sprintf("url..%x", sum[:8]))
}

// readOptions returns the options for reading m without a repository. The errors are those of the user's allowed
// signers, if m needs them.
func readOptions(o kist.Options, m Remote) (transfer.Options, error) {
	lock, _ := kist.ParseLock(m.ObjectLock) // the configuration was checked
	to := transfer.Options{
		Lock: lock, URL: remote.Redact(m.URL), SingleWriter: m.SingleWriter,
		Now: o.Now, Rand: o.Random, Warn: o.Warn, Retry: o.Retry, Host: o.Host,
		Keys: transfer.Keys{Identities: o.Keys, Pin: m.pin(), Required: isEncryptionRequired(o)},
	}
	if !m.RequireSigned {
		return to, nil
	}
	allowed := &sshsig.AllowedSigners{} // nobody
	if o.Sign.Allowed != nil {
		var err error
		if allowed, err = o.Sign.Allowed(); err != nil {
			return to, err
		}
	}
	to.Sign.Verifier = allowed
	return to, nil
}

// pin returns the pin of an encrypted remote, nil for a remote in clear.
func (m Remote) pin() *crypt.Pin {
	if m.Encrypted == "" {
		return nil
	}
	p, err := crypt.ParsePin(m.Encrypted)
	if err != nil {
		return &crypt.Pin{} // no remote fits; the configuration was checked
	}
	return &p
}

// isEncryptionRequired reports whether the user's own configuration forbids remotes in clear.
func isEncryptionRequired(o kist.Options) bool {
	return o.User != nil && o.User.Get(kist.KeyRequireEncrypted) == "true"
}
