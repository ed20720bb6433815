package kisttest

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// Opens returns options with b as the backend of every remote.
func Opens(b remote.Backend) kist.Options {
	return kist.Options{Backend: func(context.Context, string) (remote.Backend, error) { return b, nil }}
}

// WithRemote opens the repository once more, with b as its remote origin.
func (s *Repository) WithRemote(b remote.Backend) *kist.Repository {
	s.Helper()
	r, err := kist.Open(s.Dir, Opens(b))
	s.Check(err)
	s.Cleanup(func() { r.Close() })
	s.Check(registry.Add(s.Context(), r, registry.Remote{Name: "origin", URL: "/memory"}))
	return r
}

// Push pushes to origin.
func (s *Repository) Push(r *kist.Repository, ref string) {
	s.Helper()
	p, err := registry.ParsePush(s.Context(), r, ref)
	s.Check(err)
	_, err = exchange.Push(s.Context(), r, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
	s.Check(err)
}
