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

// CacheTag is the name of the file that marks a folder as a cache, by the
// Cache Directory Tagging Specification (https://bford.info/cachedir/).
const CacheTag = "CACHEDIR.TAG"

// cacheSignature is the beginning of every valid cache tag.
const cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"

// maxIgnoreFile is the largest ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// isCacheTag reports whether the folder has a valid cache tag.
func isCacheTag(d folder) bool {
	data, err := readHead(d, CacheTag, len(cacheSignature))
	return err == nil && string(data) == cacheSignature
}

// readPatterns reads a folder's ignore file. It returns nil if the folder has
// none, or only a symlink of that name.
func readPatterns(d folder, path string) (*ignore.Patterns, error) {
	data, err := readHead(d, IgnoreFile, maxIgnoreFile+1)
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

// has reports whether a name may be in the folder. It is sure only if the folder was listed.
func (d *dirScan) has(name string) bool {
	if d.only != nil {
		return true // the folder was not listed
	}
	for i := range d.list.entries {
		if int(d.list.entries[i].size) == len(name) && d.list.name(i) == name {
			return true
		}
	}
	return false
}

// ignores reports whether an untracked name is ignored.
func (d *dirScan) ignores(name string, isDir bool) bool {
	switch {
	case d.ignored:
		return true
	case d.o.IncludeIgnored:
		return false
	case d.isCache && name != CacheTag:
		return true
	}
	ignored, _ := d.matcher.Match(d.join(name), isDir)
	return ignored
}

// readIgnoreFile adds the folder's own patterns to those of its parents.
func (d *dirScan) readIgnoreFile() {
	d.badIgnore = false
	if d.ignored || d.o.IncludeIgnored || !d.has(IgnoreFile) {
		return
	}

	path := d.join(IgnoreFile)
	patterns, err := readPatterns(d.folder, d.path)
	switch {
	case err != nil:
		d.badIgnore = true
		d.report(IgnoreFile, Found{State: Unreadable, Type: object.TypeFile, Old: d.trackedEntry(IgnoreFile), Err: pathError("read", path, err)})
	case patterns != nil:
		d.matcher = d.matcher.Push(patterns)
	}
}
