package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

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
