package cli

import (
	"math"

	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
)

// spaceJSON is what takes space as stats prints it with --json.
type spaceJSON struct {
	Kind        stats.SpaceKind `json:"kind"`
	Name        string          `json:"name,omitempty"`
	NameRaw     []byte          `json:"name_raw,omitempty"`
	ID          *object.ID      `json:"id,omitempty"`
	Commits     int             `json:"commits"`
	Files       uint64          `json:"files"`
	Bytes       uint64          `json:"bytes"`
	History     uint64          `json:"bytes_history"`
	Objects     int64           `json:"objects"`
	Raw         int64           `json:"bytes_raw"`
	Stored      int64           `json:"bytes_stored"`
	OwnObjects  int64           `json:"objects_unique"`
	Unique      int64           `json:"bytes_unique"`
	Shared      int64           `json:"bytes_shared"`
	Dedup       *float64        `json:"dedup"`
	Compression *float64        `json:"compression"`
}

// togetherJSON is what several have that nothing else has.
type togetherJSON struct {
	Kind    string `json:"kind"`
	Objects int64  `json:"objects_unique"`
	Unique  int64  `json:"bytes_unique"`
}

// totalJSON is what there is in all.
type totalJSON struct {
	Kind        string   `json:"kind"`
	Commits     int      `json:"commits"`
	History     uint64   `json:"bytes_history"`
	Objects     int64    `json:"objects"`
	Raw         int64    `json:"bytes_raw"`
	Stored      int64    `json:"bytes_stored"`
	Dedup       *float64 `json:"dedup"`
	Compression *float64 `json:"compression"`
	Unneeded    int64    `json:"bytes_unneeded"`
	Copies      int64    `json:"bytes_copies"`
	Volumes     int      `json:"volumes"`
	OnDisk      int64    `json:"bytes_on_disk"`
	Freed       *int64   `json:"gc_bytes_freed"`
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

func ratioJSON(a, b int64) *float64 {
	if a == 0 || b == 0 {
		return nil
	}
	r := math.Round(1000*float64(a)/float64(b)) / 1000
	return &r
}

// statsJSON prints what takes space, and if total is true what there is in all.
func (o *statsOptions) statsJSON(env *Env, s *stats.Stats, total bool, freed *int64) error {
	for _, x := range s.Spaces {
		line := spaceJSON{
			Kind: x.Kind, Name: x.Name, NameRaw: rawPath(x.Name), Commits: x.Commits, Files: x.Files, Bytes: x.Bytes, History: x.History,
			Objects: x.All.Objects, Raw: x.All.Raw, Stored: x.All.Stored,
			OwnObjects: x.Own.Objects, Unique: x.Own.Stored, Shared: x.All.Stored - x.Own.Stored,
			Dedup: ratioJSON(int64(x.History), x.All.Raw), Compression: ratioJSON(x.All.Raw, x.All.Stored),
		}
		if !x.ID.IsZero() {
			line.ID = &x.ID
		}
		env.json(line)
	}
	a := s.Account
	if !total {
		if len(s.Spaces) < 2 {
			return nil
		}
		env.json(togetherJSON{"together", a.Together.Objects, a.Together.Stored})
		return nil
	}
	out := totalJSON{
		Kind: "total", Commits: s.Commits, History: s.History, Objects: s.Named.Objects, Raw: s.Named.Raw, Stored: s.Named.Stored,
		Dedup: ratioJSON(int64(s.History), s.Named.Raw), Compression: ratioJSON(s.Named.Raw, s.Named.Stored),
		Unneeded: a.Unheld.Stored, Copies: a.Copies.Stored, Volumes: len(a.Volumes), Freed: freed,
	}
	for _, v := range a.Volumes {
		out.OnDisk += v.Bytes
	}
	out.OnDisk += a.Left
	env.json(out)
	return nil
}
