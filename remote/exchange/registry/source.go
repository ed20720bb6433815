package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// repositoryAt returns the root of the repository at a path: its worktree, or a bare
// repository. The path may also be that of a .kist folder. A remote store is none.
func repositoryAt(path string) (root string, ok bool) {
	if filepath.Base(path) == kist.Dir {
		path = filepath.Dir(path)
	}
	if _, err := disk.Lstat(filepath.Join(path, rootlog.IdentityName)); err == nil {
		return "", false
	}
	_, err := disk.Lstat(filepath.Join(path, kist.Dir))
	return path, err == nil || kist.IsBareDir(path)
}

// IsRepository reports whether the URL of m is the folder of a repository. Such a remote can
// only be read.
func (m Remote) IsRepository() bool {
	path, ok := remote.FolderPath(m.URL)
	if ok {
		_, ok = repositoryAt(path)
	}
	return ok
}

// LazyError is the error for a repository of another user whose content is away: its owner must not choose whom the reader trusts.
type LazyError struct {
	Root string
	URLs []string // of its remotes, without secrets
}

func (e *LazyError) Error() string {
	return fmt.Sprintf("%q is a lazy clone: other places keep its content", e.Root)
}

// openRepository opens the repository of another user to copy from it. It writes nothing there,
// and runs nothing that its configuration says. Until the result is closed, no gc removes
// anything there.
//
// A repository is in clear, and nobody signs its state. So the error matches [rootlog.ErrNotEncrypted] or [rootlog.ErrUnsigned]
// if m must be otherwise: whoever can write to the folder of a store could make it a repository.
func openRepository(ctx context.Context, o kist.Options, m Remote, root string) (transfer.Source, error) {
	switch {
	case m.Encrypted != "":
		return nil, fmt.Errorf("%q is a repository: %w", root, rootlog.ErrNotEncrypted)
	case m.RequireSigned:
		return nil, fmt.Errorf("%q is a repository: %w", root, rootlog.ErrUnsigned)
	}
	r, err := kist.Open(root, kist.Options{Now: o.Now, Random: o.Random, Warn: o.Warn, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if r.Config().IsLazy() {
		err := &LazyError{Root: root}
		for _, m := range All(r) {
			err.URLs = append(err.URLs, remote.Redact(m.URL))
		}
		return nil, errors.Join(err, r.Close())
	}
	release, err := volume.Keep(ctx, r.Objects())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%q: %w", root, err), r.Close())
	}
	return &transfer.Repository{
		Objects:   r.Objects(),
		Constants: &rootlog.Identity{Repository: r.ID(), Chunker: r.Config().RemoteChunker()},
		State:     func(ctx context.Context) (*rootlog.State, error) { return stateOf(ctx, r) },
		Closer:    closer(func() error { release(); return r.Close() }),
	}, nil
}

type closer func() error

func (c closer) Close() error { return c() }

// stateOf returns the branches, tags and records of a repository in the form of a root.
func stateOf(ctx context.Context, r *kist.Repository) (*rootlog.State, error) {
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	s := &rootlog.State{Refs: map[string]object.Key{}, Records: &record.Set{}, Lost: map[object.Key]string{}}
	for rec := range set.All() {
		if rec.Plausible() {
			s.Records.Merge(rec)
		} else {
			s.Implausible = append(s.Implausible, rec)
		}
	}

	lost, err := r.Objects().Lost(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range lost {
		s.Lost[key] = ""
	}

	for _, prefix := range []string{refs.Heads, refs.Tags} {
		list, err := r.Refs().List(prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			key := object.Key{Kind: object.KindCommit, ID: ref.ID}
			if key.Kind, err = kindOf(ctx, r, ref.ID); errors.Is(err, object.ErrNotFound) {
				key.Kind = object.KindCommit // the fetch names the branch's commit as missing
			} else if err != nil {
				return nil, err
			}
			s.Refs[ref.Name] = key
		}
	}

	head, err := r.Refs().Head()
	if head.Branch != "" {
		s.DefaultBranch = refs.Heads + head.Branch
	}
	return s, err
}
