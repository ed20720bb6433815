package jsonform

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// FileVersion is a version of a file as history prints it with --json.
type FileVersion struct {
	File    *object.ID `json:"file,omitempty"`
	Version int        `json:"version,omitempty"`
	Change  string     `json:"change"`
	AtPath
	From    string     `json:"from,omitempty"`
	FromRaw []byte     `json:"from_raw,omitempty"`
	Commit  object.ID  `json:"commit"`
	Time    time.Time  `json:"time"`
	Type    string     `json:"type,omitempty"`
	Mode    string     `json:"mode,omitempty"`
	Size    *uint64    `json:"size,omitempty"`
	MTime   *time.Time `json:"mtime,omitempty"`
	ID      *object.ID `json:"id,omitempty"`
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
