package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// checkEntry checks what a tree would refuse of an entry, but for its name.
func checkEntry(e *Entry) error {
	content := e.Size > 0 || e.Data != "" || !e.Content.IsZero()
	switch {
	case e.lossy:
		return errors.New("metadata beyond the portable fields, or content that does not go with the type")
	case e.Mode&^0o7777 != 0:
		return fmt.Errorf("mode %#o is not of permission bits", e.Mode)
	case e.MTime.Nsec >= 1e9:
		return errors.New("nanoseconds of mtime beyond a second")
	case e.Type == object.TypeFile:
		return checkContent(e)
	case e.Type == object.TypeSymlink:
		if e.Data == "" || len(e.Data) > object.MaxTargetSize || strings.IndexByte(e.Data, 0) >= 0 {
			return errors.New("not the target of a symlink")
		}
		if e.Size > 0 || !e.Content.IsZero() {
			return errors.New("symlink with content")
		}
	case e.Type >= object.TypeFIFO && e.Type <= object.TypeSocket:
		if content {
			return errors.New("special file with content")
		}
	default:
		return fmt.Errorf("entry type %d", e.Type)
	}
	return nil
}

// checkContent checks where a file has its content.
func checkContent(e *Entry) error {
	switch {
	case e.Size > object.MaxFileSize:
		return errors.New("file too large")
	case e.Size <= object.MaxInline:
		if uint64(len(e.Data)) != e.Size || !e.Content.IsZero() {
			return errors.New("small file without its bytes")
		}
	case e.Data != "" || e.Content.ID.IsZero():
		return errors.New("file without content")
	case e.Content.Kind == object.KindChunk:
		if e.Size > object.MaxChunkSize {
			return errors.New("file larger than its one chunk can be")
		}
	case e.Content.Kind != object.KindManifest:
		return fmt.Errorf("file with a %s as content", e.Content.Kind)
	}
	return nil
}
