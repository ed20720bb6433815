package remote

import (
	"errors"
	"slices"
	"strings"
)

// TempFolder is the folder, in a remote that is a folder, for files that are being written.
const TempFolder = "tmp"

// tops are the names in the top folder of a remote.
var tops = []string{"kist.json", "root", "packs", "index", "state", "keys", "probe", TempFolder}

// FindForeign returns the first of names, sorted, which shows that the folder with these names has another
// use, or "". Once a folder is a remote, other files are ignored.
func FindForeign(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if i := slices.IndexFunc(names, isForeign); i >= 0 {
		return names[i]
	}
	return ""
}

// isForeign reports whether a name shows that a folder has another use. Files that operating systems create
// by themselves do not.
func isForeign(name string) bool {
	switch {
	case slices.Contains(tops, name), name == "lost+found", name == "System Volume Information", name == "$RECYCLE.BIN":
		return false
	case name == ".kist" || name == ".git":
		return true
	}
	return !strings.HasPrefix(name, ".")
}

// CheckInFolder returns an error if name cannot be a blob of a remote that is a folder. Err is the verdict of
// another check of this package. Names in TempFolder are reserved.
func CheckInFolder(op, name string, err error) error {
	if err == nil && (name == TempFolder || strings.HasPrefix(name, TempFolder+"/")) {
		err = &Error{Op: op, Name: name, Kind: ErrName, Err: errors.New("that folder is for files that are being written")}
	}
	return err
}
