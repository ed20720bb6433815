package browse

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// source is where a history comes from. It is safe for concurrent use.
type source interface {
	object.Reader
	object.LossKeeper

	// head returns the commit or tag object that HEAD leads to, or zero.
	head(ctx context.Context) (object.ID, error)

	// refs returns the refs whose full names begin with prefix, sorted by name.
	refs(ctx context.Context, prefix string) ([]refs.Ref, error)

	// resolve returns the commit that a revision names. A remote knows only the names of
	// refs, and IDs.
	resolve(ctx context.Context, h *History, rev string) (object.ID, error)

	// records returns the records that are known now.
	records() (*record.View, error)

	// usable returns an [*kist.ExpiredError] if the content of a commit has expired.
	usable(ctx context.Context, commit object.ID) error

	settle()
}

// local is the source of a repository.
type local struct {
	*volume.Store
	repo *kist.Repository
}

func (s *local) head(context.Context) (object.ID, error) {
	head, err := s.repo.Refs().Head()
	return head.ID, err
}

// refs passes over damaged refs, if others are readable.
func (s *local) refs(_ context.Context, prefix string) ([]refs.Ref, error) {
	list, err := s.repo.Refs().List(prefix)
	if len(list) > 0 {
		err = nil
	}
	return list, err
}

func (s *local) resolve(ctx context.Context, _ *History, rev string) (object.ID, error) {
	return s.repo.Resolve(ctx, rev)
}

func (s *local) records() (*record.View, error) { return s.repo.Purges().View() }

func (s *local) usable(ctx context.Context, commit object.ID) error {
	records, err := s.records()
	if _, expired := records.Expired(commit); err == nil && !expired {
		return nil // nearly always, and quicker
	}
	return kist.CheckUsable(ctx, s.repo, commit)
}

func (s *local) settle() { volume.Relist(s.Store) }

// The ages at which the state of a remote is read again: for a name, and after a failed read.
const (
	nameAge  = 10 * time.Second
	errorAge = time.Second
)

// distant is the source of a remote.
type distant struct {
	remote *transfer.Remote
	now    func() time.Time

	asking sync.Mutex // held while remote is asked for its head; guards at
	at     time.Time  // when it was asked

	mu      sync.RWMutex // read-held while objects is used, which a new head closes
	objects object.Reader
	state   *rootlog.State
	view    *record.View
}

// refresh reads the head of the remote, if the known one is older than age.
func (s *distant) refresh(ctx context.Context, age time.Duration) error {
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
func (s *distant) current(ctx context.Context) (*rootlog.State, *record.View, error) {
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
func (s *distant) Get(ctx context.Context, key object.Key) ([]byte, error) {
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
func (s *distant) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.Missing(ctx, keys)
}

// IsLost implements [object.LossKeeper].
func (s *distant) IsLost(key object.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, listed := s.state.Lost[key]; !listed {
		return false
	}
	missing, err := s.objects.Missing(context.Background(), []object.Key{key})
	return err == nil && len(missing) > 0
}

func (s *distant) settle() {}

func (s *distant) head(ctx context.Context) (object.ID, error) {
	state, _, err := s.current(ctx)
	if err != nil {
		return object.ID{}, err
	}
	return state.Refs[state.Head].ID, nil
}

// refs leaves out names that no ref can have.
func (s *distant) refs(ctx context.Context, prefix string) (list []refs.Ref, err error) {
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

func (s *distant) resolve(ctx context.Context, h *History, rev string) (object.ID, error) {
	state, _, err := s.current(ctx)
	if err != nil {
		return object.ID{}, err
	}
	for _, name := range []string{rev, refs.Tags + rev, refs.Heads + rev} {
		if name == "HEAD" {
			name = state.Head
		}
		if key, ok := state.Refs[name]; ok {
			return refs.Peel(ctx, h.objects, key.ID)
		}
	}
	return h.commits.byDigits(ctx, rev)
}

func (s *distant) records() (*record.View, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.view, nil
}

func (s *distant) usable(ctx context.Context, commit object.ID) error {
	_, view, err := s.current(ctx)
	if err != nil {
		return err
	}
	if rec, expired := view.Expired(commit); expired {
		return &kist.ExpiredError{Commit: commit, Record: rec, Gone: true}
	}
	return nil
}
