package look

import (
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
)

// spaceJSON is a space as stats prints it with --json.
type spaceJSON struct {
	Kind    stats.SpaceKind `json:"kind"`
	Name    string          `json:"name,omitempty"`
	NameRaw []byte          `json:"name_raw,omitempty"`
	ID      object.ID       `json:"id,omitzero"`
	Files   uint64          `json:"files"`
	Bytes   uint64          `json:"bytes"`
	jsonform.Used
	uniqueJSON
	Shared int64 `json:"bytes_shared"`
}

// uniqueJSON has the size of objects that nothing else needs.
type uniqueJSON struct {
	Objects int64 `json:"objects_unique"`
	Stored  int64 `json:"bytes_unique"`
}

// togetherJSON has the size of objects that only the spaces together need.
type togetherJSON struct {
	Kind string `json:"kind"`
	uniqueJSON
}

// totalJSON has the size of the repository.
type totalJSON struct {
	Kind string `json:"kind"`
	jsonform.Used
	Unneeded int64  `json:"bytes_unneeded"`
	Copies   int64  `json:"bytes_copies"`
	Volumes  int    `json:"volumes"`
	OnDisk   int64  `json:"bytes_on_disk"`
	Freed    *int64 `json:"gc_bytes_freed"`
}

// volumeJSON is a volume as stats prints it with --json.
type volumeJSON struct {
	Name    string `json:"name"`
	Created string `json:"created"`
	Objects int    `json:"objects"`
	Needed  int64  `json:"objects_needed"`
	OnDisk  int64  `json:"bytes_on_disk"`
	Stored  int64  `json:"bytes_stored"`
	Bytes   int64  `json:"bytes_needed"`
	Wasted  int64  `json:"bytes_wasted"`
}

// statsJSON prints the spaces, and if total is true the size of the repository.
func statsJSON(env *cli.Env, s *stats.Stats, total bool, freed *int64) {
	for _, x := range s.Spaces {
		env.JSON(spaceJSON{
			x.Kind, x.Name, jsonform.Raw(x.Name), x.ID, x.Files, x.Bytes,
			jsonform.NewUsed(x.Commits, x.History, x.All), uniqueJSON{x.Own.Objects, x.Own.Stored}, x.All.Stored - x.Own.Stored,
		})
	}

	a := s.Account
	if !total {
		if len(s.Spaces) >= 2 {
			env.JSON(togetherJSON{"together", uniqueJSON{a.Together.Objects, a.Together.Stored}})
		}
		return
	}

	out := totalJSON{
		"total", jsonform.NewUsed(s.Commits, s.History, s.Named),
		a.Unheld.Stored, a.Copies.Stored, len(a.Volumes), a.Left, freed,
	}
	for _, v := range a.Volumes {
		out.OnDisk += v.Bytes
	}
	env.JSON(out)
}
