package transfer

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Source has the objects that a fetch brings: a [Remote], or a [Repository]. One operation at
// a time may use it.
type Source interface {
	// Identity returns the constants of the source. The caller must not change them.
	Identity() *rootlog.Identity

	// Head returns the present refs and records.
	Head(ctx context.Context) (*rootlog.State, error)

	// Fetch brings everything that o.Want refers to into session, except what o.Have
	// refers to. Head is the result of Head. The caller publishes the session and moves
	// refs. The commits in o.Have must exist until then. After an error, the received
	// objects are in the session. After the session is closed, the next fetch does not
	// receive them again.
	//
	// Every object is decoded and hashed before it is stored. If the source does not have
	// an object, the error is an [*object.AbsentError].
	Fetch(ctx context.Context, session *volume.Session, head *rootlog.State, o FetchOptions) (*FetchResult, error)

	// Rescue calls take with each object of keys that the source has intact: its verified
	// stored value (package object/frame) and raw, the number of bytes of the object. It
	// passes over missing and damaged objects. Calls do not overlap. Take must not keep
	// value. The error is that of the connection, or of take.
	Rescue(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error

	// RememberIn sets the folder for the state of a source that was opened without one.
	RememberIn(ctx context.Context, dir string) error

	Close() error
}

// ErrRepository is matched by the error for an operation that needs a store with packs and a
// root log. The folder of a repository is not one.
var ErrRepository = errors.New("it is a repository, not a remote store")

// Repository is the repository of another user, which is read in place. Nothing in it is
// trusted: the fetch checks each object as if a store had sent it.
type Repository struct {
	Objects   *volume.Store
	Constants *rootlog.Identity

	// State returns the repository's names and records in the form of a root. Only Refs,
	// Head, Records, Implausible and Lost count.
	State func(context.Context) (*rootlog.State, error)

	io.Closer
}

// Identity implements [Source].
func (r *Repository) Identity() *rootlog.Identity { return r.Constants }

// Head implements [Source].
func (r *Repository) Head(ctx context.Context) (*rootlog.State, error) { return r.State(ctx) }

// RememberIn implements [Source]. A repository has no log that could be set back.
func (r *Repository) RememberIn(context.Context, string) error { return nil }

// Fetch implements [Source].
func (r *Repository) Fetch(ctx context.Context, session *volume.Session, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	f := newFetch(session, head, o, DefaultJobs)
	f.giver = repositoryGiver{r.Objects, f}
	return f.result(f.receiveAll(ctx))
}

// repositoryGiver gives the objects of a repository as they are stored there.
type repositoryGiver struct {
	*volume.Store
	f *fetch
}

func (g repositoryGiver) giverName() string { return "the other repository" }

func (g repositoryGiver) prepareNodes(context.Context, []object.Key) error { return nil }

// giveNode verifies and stores a node. It also copies chunks.
func (g repositoryGiver) giveNode(ctx context.Context, key object.Key) (data []byte, err error) {
	value, raw, err := g.GetStored(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	use := func(b []byte) {
		if key.Kind.IsNode() {
			data = slices.Clone(b)
		}
	}
	if err := g.f.session.PutStored(ctx, key, value, raw, use); err != nil {
		return nil, err
	}
	g.f.meter.Update(func(at *Progress) { at.Objects++; at.Bytes += int64(len(value)) })
	if data == nil && key.Kind.IsNode() { // another goroutine was first
		return g.f.session.Get(ctx, key)
	}
	return data, nil
}

func (g repositoryGiver) giveChunks(ctx context.Context, keys []object.Key) error {
	absent, err := g.f.absentHere(ctx, keys)
	if err != nil {
		return err
	}
	return Parallel(ctx, g.f.jobs, len(absent), func(ctx context.Context, i int) error {
		_, err := g.giveNode(ctx, absent[i])
		return err
	})
}

// Rescue implements [Source].
func (r *Repository) Rescue(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error {
	for _, key := range keys {
		value, raw, err := r.Objects.GetStored(ctx, key, nil)
		if object.IsUnreadable(err) {
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
