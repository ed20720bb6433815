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
// to the History from then on, but the caller closes it in the end. o.Now must be set. A
// History of a remote has no versions.
func BrowseHistory(ctx context.Context, r transfer.Source, o browse.Options) (*browse.History, error) {
	s := &remoteSource{remote: r, now: o.Now}
	if err := s.refresh(ctx, 0); err != nil {
		return nil, err
	}
	return browse.New(s, o), nil
}

// The ages at which the state of a remote is read again: for a name, and after a failed read.
const (
	nameAge  = 10 * time.Second
	errorAge = time.Second
)

// remoteSource is the source of a remote.
type remoteSource struct {
	remote transfer.Source
	now    func() time.Time

	asking sync.Mutex // held while remote is asked for its head; guards at
	at     time.Time  // when it was asked

	mu      sync.RWMutex // read-held while objects is used, which a new head closes
	objects object.Reader
	state   *rootlog.State
	view    *record.Effects
}

// refresh reads the head of the remote, if the known one is older than age.
func (s *remoteSource) refresh(ctx context.Context, age time.Duration) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.state != nil && s.now().Sub(s.at) <= age {
		return nil
	}
	s.at = s.now()
	if s.state != nil {
		head, err := s.remote.Head(ctx)
		if err != nil || head.Seq == s.state.Seq {
			return err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	objects, state, err := transfer.Objects(ctx, s.remote)
	if err == nil {
		s.objects, s.state, s.view = objects, state, state.Records.View()
	}
	return err
}

// current returns the state of the remote. If the remote cannot be asked, it is the state
// known last.
func (s *remoteSource) current(ctx context.Context) (*rootlog.State, *record.Effects, error) {
	err := s.refresh(ctx, nameAge)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state != nil && ctx.Err() == nil {
		err = nil
	}
	return s.state, s.view, err
}

// Get implements [object.Reader]. After an error it tries once more with the present state:
// a gc of the remote may have moved the object.
func (s *remoteSource) Get(ctx context.Context, key object.Key) ([]byte, error) {
	get := func() ([]byte, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.objects.Get(ctx, key)
	}
	data, err := get()
	if err != nil && ctx.Err() == nil && s.refresh(ctx, errorAge) == nil {
		data, err = get()
	}
	return data, err
}

// Missing implements [object.Reader].
func (s *remoteSource) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.Missing(ctx, keys)
}

// IsLost implements [object.LossKeeper].
func (s *remoteSource) IsLost(key object.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, listed := s.state.Lost[key]; !listed {
		return false
	}
	missing, err := s.objects.Missing(context.Background(), []object.Key{key})
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.view, nil
}

func (s *remoteSource) CheckUsable(ctx context.Context, commit object.ID) error {
	_, view, err := s.current(ctx)
	if err != nil {
		return err
	}
	return view.CheckExpired(commit, kist.ErrExpiredGone)
}
