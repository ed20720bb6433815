package exchange

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/look/browse"
)

// BrowseHistory returns the history of a remote, read without a clone. The remote belongs
// to the History from then on, but the caller closes it in the end. O.Now must be set. A
// History of a remote has no versions.
func BrowseHistory(ctx context.Context, r transfer.Source, o browse.Options) (*browse.History, error) {
	reader, err := transfer.NewReader(ctx, r)
	if err != nil {
		return nil, err
	}
	return browse.New(&remoteSource{Reader: reader}, o), nil
}

// nameAge is the age at which the state of a remote is read again for a name.
const nameAge = 10 * time.Second

// remoteSource is the source of a remote.
type remoteSource struct {
	*transfer.Reader

	mu    sync.Mutex // guards the following
	state *rootlog.State
	view  *record.Effects // of state
}

// current returns the state of the remote. If the remote cannot be asked, it is the state
// known last.
func (s *remoteSource) current(ctx context.Context) (*rootlog.State, *record.Effects, error) {
	if err := s.Refresh(ctx, nameAge); ctx.Err() != nil {
		return nil, nil, err
	}
	state, view := s.known()
	return state, view, nil
}

// known returns the state that is known, and the effects of its records.
func (s *remoteSource) known() (*rootlog.State, *record.Effects) {
	state := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != state {
		s.state, s.view = state, state.Records.View()
	}
	return s.state, s.view
}

// IsLost implements [object.LossKeeper].
func (s *remoteSource) IsLost(key object.Key) bool {
	if _, listed := s.State().Lost[key]; !listed {
		return false
	}
	missing, err := s.Missing(context.Background(), []object.Key{key})
	return err == nil && len(missing) > 0
}

func (s *remoteSource) CloseRemoved() {}

func (s *remoteSource) Head(ctx context.Context) (object.ID, error) {
	state, _, err := s.current(ctx)
	if err != nil {
		return object.ID{}, err
	}
	return state.Refs[state.DefaultBranch].ID, nil
}

// Refs leaves out names that no ref can have.
func (s *remoteSource) Refs(ctx context.Context, prefix string) (list []refs.Ref, err error) {
	state, _, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	for name, key := range state.Refs {
		if strings.HasPrefix(name, prefix) && refs.CheckName(name) == nil {
			list = append(list, refs.Ref{Name: name, ID: key.ID})
		}
	}
	slices.SortFunc(list, func(a, b refs.Ref) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *remoteSource) Resolve(ctx context.Context, rev string) (object.ID, error) {
	state, _, err := s.current(ctx)
	if err != nil {
		return object.ID{}, err
	}
	for _, name := range []string{rev, refs.Tags + rev, refs.Heads + rev} {
		if name == "HEAD" {
			name = state.DefaultBranch
		}
		if key, ok := state.Refs[name]; ok {
			return key.ID, nil
		}
	}
	return object.ID{}, nil
}

func (s *remoteSource) Records() (*record.Effects, error) {
	_, view := s.known()
	return view, nil
}

func (s *remoteSource) CheckUsable(ctx context.Context, commit object.ID) error {
	_, view, err := s.current(ctx)
	if err != nil {
		return err
	}
	return view.CheckExpired(commit, kist.ErrExpiredGone)
}
