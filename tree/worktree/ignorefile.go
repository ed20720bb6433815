package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/ignore"
)

// maxIgnoreFile is the largest ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// findMarker returns the name of the file that excludes the folder's content, or "".
func (d *dirScan) findMarker() string {
	for _, m := range d.o.Exclude.Markers {
		if !d.mayHave(m.Name) {
			continue
		}
		if data, err := readHead(d.folder, m.Name, len(m.Header)); err == nil && string(data) == m.Header {
			return m.Name
		}
	}
	return ""
}

// excludesName reports whether the options exclude a name.
func (d *dirScan) excludesName(name string, st *fileStat) bool {
	if d.marker != "" && name != d.marker {
		return true
	}
	if limit := d.o.Exclude.LargerThan; limit > 0 && st.isRegular() && st.size > limit {
		return true
	}
	if d.o.Exclude.Patterns == nil {
		return false
	}
	excluded, _ := d.o.Exclude.Patterns.Match(d.joinPath(name), st.isDir())
	return excluded
}

// readPatterns reads an ignore file of a folder. It returns nil if the folder has
// none, or only a symlink of that name.
func readPatterns(d folder, name, path string) (*ignore.Patterns, error) {
	data, err := readHead(d, name, maxIgnoreFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotRegular):
		return nil, nil
	case err != nil:
		return nil, err
	case len(data) > maxIgnoreFile:
		return nil, fmt.Errorf("larger than %d bytes", maxIgnoreFile)
	}
	return ignore.Parse(data, path)
}

// readHead reads the first max bytes of a regular file.
func readHead(d folder, name string, max int) ([]byte, error) {
	st, err := d.lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.isRegular() {
		return nil, errNotRegular
	}

	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	if st, err = f.stat(); err != nil {
		return nil, err
	}
	if !st.isRegular() {
		return nil, errNotRegular
	}

	var data bytes.Buffer
	_, err = io.Copy(&data, io.LimitReader(f, int64(max)))
	return data.Bytes(), err
}

// mayHave reports whether a name may be in the folder. It is sure only if the folder was listed.
func (d *dirScan) mayHave(name string) bool {
	switch {
	case d.roots != nil:
		return false
	case d.only != nil:
		return true // the folder was not listed
	}
	for i := range d.list.entries {
		if int(d.list.entries[i].size) == len(name) && d.list.nameAt(i) == name {
			return true
		}
	}
	return false
}

// isIgnored reports whether an untracked name is ignored.
func (d *dirScan) isIgnored(n *scanName, isDir bool) bool {
	switch {
	case d.ignored:
		return true
	case d.o.IncludeIgnored:
		return false
	case d.isGit(n):
		return true
	}
	ignored, _ := d.matcher.Match(d.joinPath(n.name), isDir)
	return ignored
}

// readIgnoreFiles adds the folder's own patterns to those of its parents.
func (d *dirScan) readIgnoreFiles() {
	d.badIgnore = nil
	if d.ignored || d.o.IncludeIgnored {
		return
	}
	for _, name := range d.w.opt.IgnoreFiles {
		if !d.mayHave(name) {
			continue
		}
		path := d.joinPath(name)
		patterns, err := readPatterns(d.folder, name, d.path)
		switch {
		case err != nil:
			d.badIgnore = append(d.badIgnore, name)
			d.addFound(name, Found{State: Unreadable, Type: object.TypeFile, Old: d.trackedEntry(name), Err: pathError("read", path, err)})
		case patterns != nil:
			d.matcher = d.matcher.Push(patterns)
		}
	}
}
