package jsonform

import (
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Entry is a file or folder in a commit as ls prints it with --json.
type Entry struct {
	AtPath
	Type      string     `json:"type"`
	Mode      string     `json:"mode"`
	Size      *uint64    `json:"size"` // null: hidden from the user
	MTime     *time.Time `json:"mtime,omitempty"`
	ID        *object.ID `json:"id"`               // null: hidden
	Files     *uint64    `json:"files,omitempty"`  // in a folder
	Target    string     `json:"target,omitempty"` // of a symlink
	TargetRaw []byte     `json:"target_raw,omitempty"`
	Purged    bool       `json:"purged,omitempty"` // at least a part of the content

	Attributes map[string]string `json:"attributes,omitempty"`
	*object.Metadata
}

func NewEntry(path string, e object.Entry) Entry {
	v := Entry{
		AtPath: NewPath(path), Type: TypeName(e.Type), Mode: ModeText(e.Mode),
		Target: e.Target, TargetRaw: Raw(e.Target), Attributes: e.Attrs, Metadata: e.Meta,
	}
	if at, ok := e.Modified(); ok {
		v.MTime = new(object.Writable(at))
	}
	if v.Size, v.ID = sizeAndID(&e); e.Type == object.TypeDir && v.Size != nil {
		v.Files = &e.Files
	}
	return v
}

// sizeAndID returns the size and the ID of an entry, or nothing for a folder whose content is
// hidden from the user.
func sizeAndID(e *object.Entry) (*uint64, *object.ID) {
	if e.Type == object.TypeDir && e.Content.IsZero() {
		return nil, nil
	}
	return &e.Size, new(tree.ContentID(e))
}

// ModeText returns permission bits as JSON has them: "0644".
func ModeText(mode uint16) string { return fmt.Sprintf("%04o", mode) }

// Change is a changed path as diff, log and show print it with --json.
type Change struct {
	AtPath
	Status     string       `json:"status"` // git's letter
	From       string       `json:"renamed_from,omitempty"`
	FromRaw    []byte       `json:"renamed_from_raw,omitempty"`
	Similarity int          `json:"similarity,omitempty"` // percent
	Old        *Side        `json:"old,omitempty"`
	New        *Side        `json:"new,omitempty"`
	Added      *int         `json:"lines_added,omitempty"`
	Deleted    *int         `json:"lines_deleted,omitempty"`
	Binary     bool         `json:"binary,omitempty"`
	Ranges     []tree.Range `json:"ranges,omitempty"`
}

// Side is one side of a change.
type Side struct {
	Type      string     `json:"type"`
	Mode      string     `json:"mode"`
	Size      *uint64    `json:"size"`             // null: hidden from the user
	ID        *object.ID `json:"id"`               // null: hidden
	Target    string     `json:"target,omitempty"` // of a symlink
	TargetRaw []byte     `json:"target_raw,omitempty"`
	Purged    bool       `json:"purged,omitempty"`
	Lost      bool       `json:"lost,omitempty"`

	Attributes map[string]string `json:"attributes,omitempty"`

	MTime *time.Time `json:"mtime,omitempty"` // only with Metadata
	*object.Metadata
}

func NewSide(e *object.Entry) *Side {
	if e == nil {
		return nil
	}
	v := &Side{Type: TypeName(e.Type), Mode: ModeText(e.Mode), Target: e.Target, TargetRaw: Raw(e.Target), Attributes: e.Attrs}
	v.Size, v.ID = sizeAndID(e)
	if v.Metadata = e.Meta; e.Meta != nil {
		at, _ := e.Modified()
		v.MTime = new(object.Writable(at))
	}
	return v
}
