package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// account is the last account of the space. It is counted once for each state of the names.
type account struct {
	mu    sync.Mutex
	names string // the names and volumes that it is of
	last  *statsJSON
}

// statsJSON has the size of the repository and of its parts, with the keys of kist stats.
type statsJSON struct {
	jsonform.Used
	Volumes int         `json:"volumes"`
	OnDisk  int64       `json:"bytes_on_disk"`
	Spaces  []spaceJSON `json:"spaces"`
}

type spaceJSON struct {
	Kind   stats.SpaceKind `json:"kind"`
	Name   string          `json:"name"`
	ID     *object.ID      `json:"id"`
	Files  uint64          `json:"files"`
	Bytes  uint64          `json:"bytes"`
	Unique int64           `json:"bytes_unique"`
	jsonform.Used
}

func (s *Site) apiStats(ctx context.Context, _ apiRequest) (any, error) {
	if all, err := s.ReadsEverything(ctx); err != nil {
		return nil, err
	} else if !all {
		return nil, errSizes
	}
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	names, err := s.names()
	if err == nil {
		var volumes []volume.Info
		volumes, err = s.Repo.Objects().Volumes(ctx)
		names += fmt.Sprint(volumes) // a gc changes them, too
	}
	if err != nil || s.account.last != nil && s.account.names == names {
		return s.account.last, err
	}
	counted, err := stats.Totals(ctx, s.Repo, stats.Options{})
	if err != nil {
		return nil, err
	}

	a := counted.Account
	v := &statsJSON{
		Used:    jsonform.NewUsed(counted.Commits, counted.History, counted.Named),
		Volumes: len(a.Volumes), Spaces: []spaceJSON{},
	}
	for _, x := range a.Volumes {
		v.OnDisk += x.Bytes
	}
	for _, x := range counted.Spaces {
		space := spaceJSON{
			Kind: x.Kind, Name: x.Name, Files: x.Files, Bytes: x.Bytes, Unique: x.Own.Stored,
			Used: jsonform.NewUsed(x.Commits, x.History, x.All),
		}
		if !x.ID.IsZero() {
			space.ID = &x.ID
		}
		v.Spaces = append(v.Spaces, space)
	}
	s.account.names, s.account.last = names, v
	return v, nil
}
