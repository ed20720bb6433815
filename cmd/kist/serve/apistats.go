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
	Volumes int         `json:"volumes" doc:"the number of volumes"`
	OnDisk  int64       `json:"bytes_on_disk" doc:"their size"`
	Spaces  []spaceJSON `json:"spaces" doc:"the branches, tags and other things that use space"`
}

type spaceJSON struct {
	Kind   stats.SpaceKind `json:"kind" doc:"the sort of space" values:"branch|tag|ref|hold|commit|path|index|logs"`
	Name   string          `json:"name" doc:"its name"`
	ID     *object.ID      `json:"id" doc:"the commit; null: it is not about one"`
	Files  uint64          `json:"files" doc:"the number of files of the newest commit"`
	Bytes  uint64          `json:"bytes" doc:"their size"`
	Unique int64           `json:"bytes_unique" doc:"the bytes that nothing else needs"`
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
	names, err := s.namesVersion()
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
