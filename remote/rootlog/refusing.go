package rootlog

import (
	"context"
	"io"
	"iter"

	"github.com/kist-vcs/kist/remote"
)

// refusing is a store that answers every call with an error.
type refusing struct{ reason error }

var _ remote.Backend = refusing{}

func (r refusing) refuse(op, name string) error {
	return &remote.Error{Op: op, Name: name, Err: r.reason}
}

func (r refusing) Get(_ context.Context, name string, _ []byte, _ int64) (int, error) {
	return 0, r.refuse("get", name)
}

func (r refusing) Put(_ context.Context, name string, _ io.ReaderAt, _ int64) error {
	return r.refuse("put", name)
}

func (r refusing) Stat(_ context.Context, name string) (remote.Info, error) {
	return remote.Info{}, r.refuse("stat", name)
}

func (r refusing) List(_ context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) { yield(remote.Info{}, r.refuse("list", prefix)) }
}

func (r refusing) Delete(_ context.Context, name string) error { return r.refuse("delete", name) }

func (r refusing) Create(_ context.Context, name string, _ []byte) error {
	return r.refuse("create", name)
}

func (r refusing) Close() error { return nil }
