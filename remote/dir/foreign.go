package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/remote"
)

// tops are the names of what a remote has in its folder.
var tops = []string{"kist.json", "root", "packs", "index", "state", "probe", temps}

// errForeign says that a folder is used for something else.
var errForeign = errors.New("the folder is in use for other files, and not a kist remote: name a new or empty folder in it")

// checkForeign refuses a folder that is no remote and has files of somebody
// else in it: what a remote consists of is not strewn between them. Once a
// folder is a remote, files beside its own are ignored.
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
			return &kindError{remote.ErrUnsupported, fmt.Errorf("%w: %s is there", errForeign, filepath.Join(b.root, name))}
		}
	}
	b.own.Store(true)
	return nil
}

// isForeign reports whether something of this name says that a folder is used
// for something else. What systems leave in a folder unasked does not.
func isForeign(name string) bool {
	switch {
	case slices.Contains(tops, name), name == "lost+found", name == "System Volume Information", name == "$RECYCLE.BIN":
		return false
	case name == ".kist" || name == ".git":
		return true
	}
	return !strings.HasPrefix(name, ".")
}
