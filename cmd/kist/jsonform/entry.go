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
	Type      string     `json:"type" doc:"the type" values:"file|dir|symlink|fifo|char-device|block-device|socket"`
	Mode      string     `json:"mode" doc:"the permission bits, as in 0644"`
	Size      *uint64    `json:"size" doc:"the size in bytes, of a folder that of its files; null: hidden from the user"`
	MTime     *time.Time `json:"mtime,omitempty" doc:"when it was modified"`
	ID        *object.ID `json:"id" doc:"the ID of the content; null: hidden from the user"`
	Files     *uint64    `json:"files,omitempty" doc:"the number of files in a folder"`
	Target    string     `json:"target,omitempty" doc:"the target of a symlink"`
	TargetRaw []byte     `json:"target_raw,omitempty"`
	Purged    bool       `json:"purged,omitempty" doc:"true if at least a part of the content was purged"`

	Attributes map[string]string `json:"attributes,omitempty" doc:"the attributes that 'kist attr' sets"`
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
	Status     string       `json:"status" doc:"the letter that git has for the change" values:"A|C|D|M|R|T|U"`
	From       string       `json:"renamed_from,omitempty" doc:"the path before a rename"`
	FromRaw    []byte       `json:"renamed_from_raw,omitempty"`
	Similarity int          `json:"similarity,omitempty" doc:"how much of a renamed file is unchanged, in percent"`
	Old        *Side        `json:"old,omitempty" doc:"the file before"`
	New        *Side        `json:"new,omitempty" doc:"the file now"`
	Added      *int         `json:"lines_added,omitempty" doc:"the number of new lines"`
	Deleted    *int         `json:"lines_deleted,omitempty" doc:"the number of deleted lines"`
	Binary     bool         `json:"binary,omitempty" doc:"true for a file that is compared by bytes"`
	Ranges     []tree.Range `json:"ranges,omitempty" doc:"the ranges of bytes that differ"`
}

// Side is one side of a change.
type Side struct {
	Type      string     `json:"type" doc:"the type" values:"file|dir|symlink|fifo|char-device|block-device|socket"`
	Mode      string     `json:"mode" doc:"the permission bits, as in 0644"`
	Size      *uint64    `json:"size" doc:"the size in bytes, of a folder that of its files; null: hidden from the user"`
	ID        *object.ID `json:"id" doc:"the ID of the content; null: hidden from the user"`
	Target    string     `json:"target,omitempty" doc:"the target of a symlink"`
	TargetRaw []byte     `json:"target_raw,omitempty"`
	Purged    bool       `json:"purged,omitempty" doc:"true if at least a part of the content was purged"`
	Lost      bool       `json:"lost,omitempty" doc:"true if the content is lost"`

	Attributes map[string]string `json:"attributes,omitempty" doc:"the attributes that 'kist attr' sets"`

	MTime *time.Time `json:"mtime,omitempty" doc:"when it was modified, with full metadata"`
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
