package look

import (
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
)

// spaceJSON is a space as stats prints it with --json.
type spaceJSON struct {
	Kind    stats.SpaceKind `json:"kind" doc:"the sort of space" values:"branch|tag|ref|hold|commit|path|index|logs"`
	Name    string          `json:"name,omitempty" doc:"its name"`
	NameRaw []byte          `json:"name_raw,omitempty"`
	ID      object.ID       `json:"id,omitzero" doc:"the commit"`
	Files   uint64          `json:"files" doc:"the number of files of the newest commit"`
	Bytes   uint64          `json:"bytes" doc:"their size"`
	jsonform.Used
	uniqueJSON
	Shared int64 `json:"bytes_shared" doc:"the part of the stored bytes that others need, too"`
}

// uniqueJSON has the size of objects that nothing else needs.
type uniqueJSON struct {
	Objects int64 `json:"objects_unique" doc:"the number of objects that nothing else needs"`
	Stored  int64 `json:"bytes_unique" doc:"the bytes that nothing else needs"`
}

// togetherJSON has the size of objects that only the spaces together need.
type togetherJSON struct {
	Kind string `json:"kind" doc:"the sort of line" values:"together"`
	uniqueJSON
}

// totalJSON has the size of the repository.
type totalJSON struct {
	Kind string `json:"kind" doc:"the sort of line" values:"total"`
	jsonform.Used
	Unneeded int64  `json:"bytes_unneeded" doc:"the bytes of objects that nothing needs"`
	Copies   int64  `json:"bytes_copies" doc:"the bytes of further copies of objects"`
	Volumes  int    `json:"volumes" doc:"the number of volumes"`
	OnDisk   int64  `json:"bytes_on_disk" doc:"their size"`
	Freed    *int64 `json:"gc_bytes_freed" doc:"the bytes that gc would free; null: unknown, since another gc runs or records are damaged"`
}

// volumeJSON is a volume as stats prints it with --json.
type volumeJSON struct {
	Name    string `json:"name" doc:"the volume"`
	Created string `json:"created" doc:"when it was made"`
	Objects int    `json:"objects" doc:"the number of its objects"`
	Needed  int64  `json:"objects_needed" doc:"the number of them that something needs"`
	OnDisk  int64  `json:"bytes_on_disk" doc:"its size"`
	Stored  int64  `json:"bytes_stored" doc:"the bytes of all its objects"`
	Bytes   int64  `json:"bytes_needed" doc:"the bytes of the needed ones"`
	Wasted  int64  `json:"bytes_wasted" doc:"the bytes that gc could free"`
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
