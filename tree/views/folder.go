package views

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree"
)

// markName is a link to the pool in each view. An update writes only to a folder that has it,
// and so not to one that a stranger's configuration names.
const markName = ".kist-view"

// newName is the temporary name of a link that replaces another.
const newName = ".kist-view-new"

// ForeignError is the error for files in the folder of a view that kist did not make.
type ForeignError struct {
	Dir   string
	Paths []string // below Dir
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%q has files that kist did not make there", e.Dir)
}

// ErrFolder is matched by the error for a folder that no view can have, or that is no view.
var ErrFolder = errors.New("cannot be the folder of the view")

// folder is the open folder of a view.
type folder struct {
	dir   string
	base  string // the pool, relative to the folder
	root  *os.Root
	stack []level // open folders, from the outermost below root in
}

type level struct {
	name string
	root *os.Root
}

// openFolder opens the folder of a view. Its links lead to the given pool.
func openFolder(dir, pool string) (*folder, error) {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	base, err := relativePath(dir, pool)
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{dir: dir, base: base, root: root}, nil
}

// relativePath returns the path from a folder to another one, past all symlinks.
func relativePath(from, to string) (string, error) {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.EvalSymlinks(to); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	return filepath.ToSlash(rel), err
}

func (f *folder) close() {
	f.closeBelow(0)
	f.root.Close()
}

// closeBelow closes all but the first n open folders.
func (f *folder) closeBelow(n int) {
	for _, l := range f.stack[n:] {
		l.root.Close()
	}
	f.stack = f.stack[:n]
}

// openSub opens a folder of the view. It follows no symlink. With create, it makes missing folders.
func (f *folder) openSub(dir string, create bool) (*os.Root, error) {
	same, in := 0, f.root
	names := strings.Split(dir, "/")
	if dir == "" {
		names = nil
	}
	for same < len(names) && same < len(f.stack) && f.stack[same].name == names[same] {
		in = f.stack[same].root
		same++
	}
	f.closeBelow(same)
	for i, name := range names[same:] {
		info, err := in.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && create {
			if err = in.Mkdir(name, 0o777); err == nil {
				info, err = in.Lstat(name)
			}
		}
		if err == nil && !info.IsDir() {
			return nil, &ForeignError{f.dir, []string{strings.Join(names[:same+i+1], "/")}}
		}
		if err != nil {
			return nil, err
		}
		if in, err = in.OpenRoot(name); err != nil {
			return nil, err
		}
		f.stack = append(f.stack, level{name, in})
	}
	return in, nil
}

// linkTarget returns the text of the link to a content.
func (f *folder) linkTarget(link string, sum object.ID) string {
	return strings.Repeat("../", strings.Count(link, "/")) + f.base + "/" + poolPath(sum)
}

// isOurs reports whether a link at this path leads into the pool: kist made it.
func (f *folder) isOurs(link, target string) bool {
	if link == markName || link == newName && target == f.base { // newName will become markName
		return target == f.base
	}
	below, found := strings.CutPrefix(target, strings.Repeat("../", strings.Count(link, "/"))+f.base+"/")
	_, isContent := sumOfPath(below)
	return found && isContent
}

// isView reports whether the folder is a view of this repository.
func (f *folder) isView() bool {
	target, err := f.root.Readlink(markName)
	return err == nil && target == f.base
}

// links are the links of a view and their targets.
type links map[string]string

// wantedLinks returns the links for contents, with the mark.
func (f *folder) wantedLinks(contents map[string]object.ID) links {
	want := make(links, len(contents)+1)
	for link, sum := range contents {
		want[link] = f.linkTarget(link, sum)
	}
	want[markName] = f.base
	return want
}

// updateLinks brings links from have to want. A link with its new target may be there already. It
// returns a [*ForeignError] if there is another file in its place. Symlinks at the paths in
// have are kist's, wherever they lead.
func (f *folder) updateLinks(have, want links) error {
	for _, link := range slices.SortedFunc(maps.Keys(have), tree.ComparePaths) {
		if _, stays := want[link]; stays {
			continue
		}
		if err := f.removeLink(link); err != nil {
			return err
		}
	}
	var foreign []string
	for _, link := range slices.SortedFunc(maps.Keys(want), tree.ComparePaths) {
		was, known := have[link]
		if known && was == want[link] {
			continue
		}
		err := f.makeLink(link, want[link], known)
		var e *ForeignError
		if errors.As(err, &e) {
			foreign = append(foreign, e.Paths...)
		} else if err != nil {
			return err
		}
	}
	if len(foreign) > 0 {
		return &ForeignError{f.dir, slices.Compact(foreign)}
	}
	return nil
}

// makeLink makes a link. With replace, it may replace any symlink, otherwise only one into the pool.
func (f *folder) makeLink(link, target string, replace bool) error {
	dir, name := tree.Split(link)
	in, err := f.openSub(dir, true)
	if err != nil {
		return err
	}
	if err = in.Symlink(target, name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	was, err := in.Readlink(name)
	switch {
	case err == nil && was == target:
		return nil
	case err != nil || !replace && !f.isOurs(link, was):
		return &ForeignError{f.dir, []string{link}}
	}
	temp := tree.Join(dir, newName)
	if left, err := in.Readlink(newName); err == nil && f.isOurs(temp, left) {
		if err := in.Remove(newName); err != nil {
			return err
		}
	}
	err = in.Symlink(target, newName)
	if errors.Is(err, fs.ErrExist) {
		return &ForeignError{f.dir, []string{temp}}
	}
	if err != nil {
		return err
	}
	return in.Rename(newName, name)
}

// removeLink removes a link, and the folders that become empty. It keeps any other file.
func (f *folder) removeLink(link string) error {
	dir, name := tree.Split(link)
	in, err := f.openSub(dir, false)
	var foreign *ForeignError
	if errors.As(err, &foreign) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := in.Readlink(name); err != nil {
		return nil
	}
	if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir != "" {
		dir, name = tree.Split(dir)
		if in, err = f.openSub(dir, false); err != nil || in.Remove(name) != nil {
			return err // not empty
		}
	}
	return nil
}

// scanLinks returns the symlinks in the folder that kist made, and the paths of all other files.
// Symlinks at the paths in have are kist's, wherever they lead, if any link in the folder leads
// into the pool. Otherwise the folder may be one that a stranger's configuration names.
func (f *folder) scanLinks(have links) (links, []string, error) {
	found, strays, foreign := links{}, links{}, []string(nil)
	var visit func(dir string, root *os.Root) error
	visit = func(dir string, root *os.Root) error {
		list, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return err
		}
		for _, d := range list {
			at := tree.Join(dir, d.Name())
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				target, err := root.Readlink(d.Name())
				if err != nil {
					return err
				}
				if f.isOurs(at, target) {
					found[at] = target
					continue
				}
				if _, known := have[at]; known {
					strays[at] = target
					continue
				}
			case d.IsDir():
				sub, err := root.OpenRoot(d.Name())
				if err == nil {
					err = errors.Join(visit(at, sub), sub.Close())
				}
				if err != nil {
					return err
				}
				continue
			}
			foreign = append(foreign, at)
		}
		return nil
	}
	err := visit("", f.root)
	if len(found) > 0 {
		maps.Copy(found, strays)
	} else {
		foreign = slices.SortedFunc(slices.Values(slices.AppendSeq(foreign, maps.Keys(strays))), tree.ComparePaths)
	}
	return found, foreign, err
}

// clearFolder removes the links that kist made from a folder, and the folder if it is then
// empty. Have has the links as the state lists them. It returns the other files. It removes
// nothing if there are any, unless force is set.
func clearFolder(dir, pool string, have map[string]object.ID, force bool) (foreign []string, err error) {
	f, err := openFolder(dir, pool)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.close()
	found, foreign, err := f.scanLinks(f.wantedLinks(have))
	if err != nil || len(foreign) > 0 && !force {
		return foreign, err
	}
	if err := f.updateLinks(found, nil); err != nil {
		return foreign, err
	}
	if err := disk.Remove(dir); !errors.Is(err, fs.ErrExist) { // else it is not empty
		return foreign, err
	}
	return foreign, nil
}
