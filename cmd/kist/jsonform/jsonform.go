// Package jsonform has the JSON forms of results that several commands print, and that the
// server sends.
package jsonform

import (
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// typeNames has the names of types of entries in JSON.
var typeNames = map[object.EntryType]string{
	object.TypeFile:        "file",
	object.TypeDir:         "dir",
	object.TypeSymlink:     "symlink",
	object.TypeFIFO:        "fifo",
	object.TypeCharDevice:  "char-device",
	object.TypeBlockDevice: "block-device",
	object.TypeSocket:      "socket",
}

// TypeName returns the name of a type of entries, such as "file".
func TypeName(t object.EntryType) string { return typeNames[t] }

// AtPath is a path in JSON.
type AtPath struct {
	Path    string `json:"path" doc:"the path, from the top of the worktree"`
	PathRaw []byte `json:"path_raw,omitempty"`
}

func NewPath(path string) AtPath { return AtPath{path, Raw(path)} }

// Raw returns what an object's "path_raw" holds for a path: its bytes if
// they are not UTF-8, and otherwise nil, for omitempty.
func Raw(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}
