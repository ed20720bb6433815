package dir

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/remote"
)

// tops are the names in the top folder of a remote.
var tops = []string{"kist.json", "root", "packs", "index", "state", "probe", temps}

// checkForeign refuses a folder that is no remote and has other files, so that
// a remote is never mixed with them by mistake. Once a folder is a remote,
// other files are ignored.
func (b *Backend) checkForeign() error {
	if b.own.Load() {
		return nil
	}

	d, err := b.openRoot()
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := lstat(d, "kist.json"); !errors.Is(err, fs.ErrNotExist) {
		b.own.Store(err == nil)
		return err
	}

	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}

	slices.Sort(names)
	for _, name := range names {
		if isForeign(name) {
			return &kindError{remote.ErrUnsupported, &remote.ForeignError{Folder: b.root, File: name}}
		}
	}

	b.own.Store(true)
	return nil
}

// isForeign reports whether a name shows that a folder has another use. Files
// that operating systems create by themselves do not.
func isForeign(name string) bool {
	switch {
	case slices.Contains(tops, name), name == "lost+found", name == "System Volume Information", name == "$RECYCLE.BIN":
		return false
	case name == ".kist" || name == ".git":
		return true
	}
	return !strings.HasPrefix(name, ".")
}
