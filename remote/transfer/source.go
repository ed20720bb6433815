package transfer

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ErrRepository is matched by the error for an operation that needs a store with packs and a
// root log. The folder of a repository is not one.
var ErrRepository = errors.New("it is a repository, not a remote store")

// Source is another repository that a [Remote] reads in place. Nothing in it
// is trusted: the fetch checks each object as if a store had sent it.
type Source struct {
	Objects  *volume.Store
	Identity *rootlog.Identity

	// State returns the repository's names and records in the form of a root. Only Refs,
	// Head, Records, Implausible and Lost count.
	State func(context.Context) (*rootlog.State, error)

	Closer io.Closer
}

// OpenSource returns a Remote that reads a repository. It has Head, Fetch and Rescue. Other
// operations return an error that matches ErrRepository.
func OpenSource(o Options, s *Source) (*Remote, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	o.Dir = "" // there is no state to keep
	r := &Remote{b: noStore{s.Closer}, o: o, id: s.Identity, cache: &cache{}, source: s}
	r.indexes = &indexFiles{b: r.b, o: &r.o}
	r.openLog()
	return r, nil
}

// noStore is the backend of a repository: it has no blobs.
type noStore struct{ io.Closer }

func (noStore) err(op string) error {
	return &remote.Error{Op: op, Kind: remote.ErrUnsupported, Err: ErrRepository}
}

func (n noStore) Get(context.Context, string, []byte, int64) (int, error) { return 0, n.err("get") }

func (n noStore) Put(context.Context, string, io.ReaderAt, int64) error { return n.err("put") }

func (n noStore) Stat(context.Context, string) (remote.Info, error) {
	return remote.Info{}, n.err("stat")
}

func (n noStore) List(context.Context, string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) { yield(remote.Info{}, n.err("list")) }
}

func (n noStore) Delete(context.Context, string) error { return n.err("delete") }

func (n noStore) Create(context.Context, string, []byte) error { return n.err("create") }

// copyFrom copies an object from the repository that is the source, as it is stored there,
// and verifies it. It returns the bytes of a node.
func (f *fetch) copyFrom(ctx context.Context, key object.Key) (data []byte, err error) {
	value, raw, err := f.r.source.Objects.GetStored(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	use := func(b []byte) {
		if key.Kind.IsNode() {
			data = slices.Clone(b)
		}
	}
	if err := f.session.PutStored(ctx, key, value, raw, use); err != nil {
		return nil, err
	}
	f.meter.update(func(at *Progress) { at.Objects++; at.Bytes += int64(len(value)) })
	if data == nil && key.Kind.IsNode() { // another goroutine was first
		return f.session.Get(ctx, key)
	}
	return data, nil
}

// rescueFrom is Rescue from a repository.
func (s *Source) rescueFrom(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error {
	for _, key := range keys {
		value, raw, err := s.Objects.GetStored(ctx, key, nil)
		if isAbsent(err) {
			continue
		}
		if err == nil {
			err = take(key, value, raw)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
