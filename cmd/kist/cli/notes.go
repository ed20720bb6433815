package cli

import (
	"strings"

	"github.com/kist-vcs/kist/object/disk"
)

// ReadNote returns the text of a file that [WriteNote] wrote, "" if there is none.
func ReadNote(file string) string {
	data, _ := disk.ReadFile(file)
	return strings.TrimSpace(string(data))
}

// WriteNote writes a line to a file, without syncing: a lost note costs nothing.
func WriteNote(file, text string) error { return disk.WriteUnsynced(file, []byte(text+"\n")) }
