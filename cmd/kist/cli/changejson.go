package cli

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// changeJSON is a changed path as diff, log and show print it with --json.
type changeJSON struct {
	Path       string      `json:"path"`
	PathRaw    []byte      `json:"path_raw,omitempty"`
	Status     string      `json:"status"` // git's letter
	From       string      `json:"renamed_from,omitempty"`
	FromRaw    []byte      `json:"renamed_from_raw,omitempty"`
	Similarity int         `json:"similarity,omitempty"` // percent
	Old        *sideJSON   `json:"old,omitempty"`
	New        *sideJSON   `json:"new,omitempty"`
	Added      *int        `json:"lines_added,omitempty"`
	Deleted    *int        `json:"lines_deleted,omitempty"`
	Binary     bool        `json:"binary,omitempty"`
	Ranges     []rangeJSON `json:"ranges,omitempty"`
}

// sideJSON is one side of a change.
type sideJSON struct {
	Type      string    `json:"type"`
	Mode      string    `json:"mode"`
	Size      uint64    `json:"size"`
	ID        object.ID `json:"id"`
	Target    string    `json:"target,omitempty"` // of a symlink
	TargetRaw []byte    `json:"target_raw,omitempty"`
	Purged    bool      `json:"purged,omitempty"`
	Lost      bool      `json:"lost,omitempty"`
}

// rangeJSON is a stretch of a file that changed, in bytes.
type rangeJSON struct {
	OldOffset uint64 `json:"old_offset"`
	OldSize   uint64 `json:"old_size"`
	NewOffset uint64 `json:"new_offset"`
	NewSize   uint64 `json:"new_size"`
}

func newSideJSON(e *object.Entry) *sideJSON {
	if e == nil {
		return nil
	}
	return &sideJSON{Type: typeName(e.Type), Mode: modeText(e.Mode), Size: e.Size, ID: contentID(e), Target: e.Target, TargetRaw: rawPath(e.Target)}
}

// typeName returns what a type of entry is called in JSON.
func typeName(t object.EntryType) string {
	switch t {
	case object.TypeFile:
		return "file"
	case object.TypeDir:
		return "dir"
	case object.TypeSymlink:
		return "symlink"
	case object.TypeFIFO:
		return "fifo"
	case object.TypeCharDevice:
		return "char-device"
	case object.TypeBlockDevice:
		return "block-device"
	case object.TypeSocket:
		return "socket"
	}
	return fmt.Sprintf("type-%d", t)
}

// modeText returns permission bits as JSON has them: "0644".
func modeText(mode uint16) string { return fmt.Sprintf("%04o", mode) }

func (c *comparison) showJSON(ctx context.Context, changes []fileChange) error {
	for _, change := range changes {
		v, err := c.json(ctx, change)
		if err != nil {
			return err
		}
		c.env.json(v)
	}
	return nil
}

// json describes a change. Contents are read only for lines and ranges: not with
// --name-only and --name-status.
func (c *comparison) json(ctx context.Context, change fileChange) (changeJSON, error) {
	v := changeJSON{
		Path: change.Path, PathRaw: rawPath(change.Path), Status: change.letter(),
		From: change.From, FromRaw: rawPath(change.From), Similarity: change.Similarity,
		Old: newSideJSON(change.Old), New: newSideJSON(change.New),
	}
	if c.form.nameOnly || c.form.nameStatus || change.unmerged {
		return v, nil
	}
	for side, e := range map[*sideJSON]*object.Entry{v.Old: change.Old, v.New: change.New} {
		purged, err := c.repo.Purged(ctx, e)
		if err != nil {
			return v, err
		}
		if purged != nil {
			side.Purged = true
		}
	}
	n, err := c.counts(ctx, change)
	if err != nil {
		return v, err
	}
	for side, e := range map[*sideJSON]*object.Entry{v.Old: change.Old, v.New: change.New} {
		if c.lost[e] {
			side.Lost = true
		}
	}
	if !n.binary {
		v.Added, v.Deleted = &n.added, &n.removed
		return v, nil
	}
	v.Binary = true
	ranges, err := c.ranges(ctx, change)
	for _, r := range ranges {
		v.Ranges = append(v.Ranges, rangeJSON{r.OldOff, r.OldLen, r.NewOff, r.NewLen})
	}
	return v, err
}
