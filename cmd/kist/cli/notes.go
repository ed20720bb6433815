package cli

import (
	"strings"

	"github.com/kist-vcs/kist/object/disk"
)

// readNote returns the text of a file that [writeNote] wrote, "" if there is none.
func readNote(file string) string {
	data, _ := disk.ReadFile(file)
	return strings.TrimSpace(string(data))
}

// writeNote writes a line to a file, without syncing: a lost note costs nothing.
func writeNote(file, text string) error { return disk.WriteUnsynced(file, []byte(text+"\n")) }
