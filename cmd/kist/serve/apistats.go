package serve

import (
	"context"
	"fmt"
	"math"
	"sync"

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
	usedJSON
	Volumes int         `json:"volumes"`
	OnDisk  int64       `json:"bytes_on_disk"`
	Spaces  []spaceJSON `json:"spaces"`
}

type usedJSON struct {
	Commits     int      `json:"commits"`
	History     uint64   `json:"bytes_history"`
	Objects     int64    `json:"objects"`
	Raw         int64    `json:"bytes_raw"`
	Stored      int64    `json:"bytes_stored"`
	Dedup       *float64 `json:"dedup"`
	Compression *float64 `json:"compression"`
}

type spaceJSON struct {
	Kind   stats.SpaceKind `json:"kind"`
	Name   string          `json:"name"`
	ID     *object.ID      `json:"id"`
	Files  uint64          `json:"files"`
	Bytes  uint64          `json:"bytes"`
	Unique int64           `json:"bytes_unique"`
	usedJSON
}

func (s *Site) apiStats(ctx context.Context, _ apiRequest) (any, error) {
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
		usedJSON: newUsed(counted.Commits, counted.History, counted.Named.Objects, counted.Named.Raw, counted.Named.Stored),
		Volumes:  len(a.Volumes), Spaces: []spaceJSON{},
	}
	for _, x := range a.Volumes {
		v.OnDisk += x.Bytes
	}
	for _, x := range counted.Spaces {
		space := spaceJSON{
			Kind: x.Kind, Name: x.Name, Files: x.Files, Bytes: x.Bytes, Unique: x.Own.Stored,
			usedJSON: newUsed(x.Commits, x.History, x.All.Objects, x.All.Raw, x.All.Stored),
		}
		if !x.ID.IsZero() {
			space.ID = &x.ID
		}
		v.Spaces = append(v.Spaces, space)
	}
	s.account.names, s.account.last = names, v
	return v, nil
}

func newUsed(commits int, history uint64, objects, raw, stored int64) usedJSON {
	return usedJSON{commits, history, objects, raw, stored, ratio(int64(history), raw), ratio(raw, stored)}
}

// ratio returns a/b, or nil without b.
func ratio(a, b int64) *float64 {
	if a == 0 || b == 0 {
		return nil
	}
	return new(math.Round(1000*float64(a)/float64(b)) / 1000)
}
