package jsonform

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// FileVersion is a version of a file as history prints it with --json.
type FileVersion struct {
	File    *object.ID `json:"file,omitempty" doc:"the ID of the file for all time"`
	Version int        `json:"version,omitempty" doc:"the number of the version, from 1; absent for a deletion"`
	Change  string     `json:"change" doc:"how the commit changed the file" values:"added|changed|renamed|moved|deleted"`
	AtPath
	From    string     `json:"from,omitempty" doc:"the path before a rename"`
	FromRaw []byte     `json:"from_raw,omitempty"`
	Commit  object.ID  `json:"commit" doc:"the commit that made the version"`
	Time    time.Time  `json:"time" doc:"when it was made"`
	Type    string     `json:"type,omitempty" doc:"the type" values:"file|dir|symlink|fifo|char-device|block-device|socket"`
	Mode    string     `json:"mode,omitempty" doc:"the permission bits, as in 0644"`
	Size    *uint64    `json:"size,omitempty" doc:"the size in bytes"`
	MTime   *time.Time `json:"mtime,omitempty" doc:"when it was modified"`
	ID      *object.ID `json:"id,omitempty" doc:"the ID of the content"`
}

func NewFileVersion(file object.ID, v *versions.Version) FileVersion {
	out := FileVersion{
		File: idOrNull(file), Version: v.Number, Change: ChangeWord(v), AtPath: NewPath(v.Path), From: v.From, FromRaw: Raw(v.From),
		Commit: v.Commit, Time: Seconds(v.Time),
	}
	if v.Type != 0 {
		out.Type, out.Mode, out.ID = TypeName(v.Type), ModeText(v.Mode), idOrNull(v.ID)
	}
	if v.Type != 0 && v.Type != object.TypeDir {
		out.Size = &v.Size
	}
	if !v.MTime.IsZero() {
		out.MTime = new(object.Writable(v.MTime.Time()))
	}
	return out
}

// ChangeWord returns what a commit did to a file.
func ChangeWord(v *versions.Version) string {
	switch {
	case v.Moved:
		return "moved"
	case v.Type == 0:
		return "deleted"
	case v.From != "":
		return "renamed"
	case v.Added:
		return "added"
	}
	return "changed"
}

func Seconds(s int64) time.Time { return object.Writable(time.Unix(s, 0).UTC()) }

func idOrNull(id object.ID) *object.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}
