// Package upgrade brings the files of a repository to the newest version of their formats.
package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
)

// Part is the files of one format in a repository.
type Part struct {
	Name    string `json:"name" doc:"the format"`
	Files   int    `json:"files" doc:"the number of its files"`
	Oldest  int    `json:"version" doc:"the lowest version of the files; 0 if there are none"`
	Newest  int    `json:"newest" doc:"the version that this program writes"`
	Convert []File `json:"convert" doc:"the files that are not of the newest form"`
}

// File is a file that [Run] converts.
type File struct {
	Path string `json:"path" doc:"the path, below .kist"`
}

// formats lists the files whose first bytes are the same in all versions. Run refuses a version
// above the newest.
var formats = []struct {
	name    string
	pattern string // below the .kist folder
	newest  int
	version func(head []byte) int // 0: not a file of this format
}{
	{"index", "index", 2, byteAfter("kistidx\n", 1)},
	{"volumes", "volumes/*/SEAL", 1, textVersion("kist volume %d\n")},
	{"key indexes", "volumes/*/KEYS", 1, byteAfter("kistkeys", 0)},
	{"records", "records", 1, textVersion("kist records %d\n")},
	{"index of history", "versions/changes", 1, byteAfter("kistver", 0)},
	{"states of views", "views/.state/*", 1, textVersion("kist view %d\x00")},
}

// byteAfter returns a function that reads the version from the byte that is skip bytes behind
// a magic text.
func byteAfter(magic string, skip int) func([]byte) int {
	return func(head []byte) int {
		rest, found := bytes.CutPrefix(head, []byte(magic))
		if !found || len(rest) <= skip {
			return 0
		}
		return int(rest[skip])
	}
}

// textVersion returns a function that reads the version from a text.
func textVersion(form string) func([]byte) int {
	return func(head []byte) int {
		for version := range 100 {
			if bytes.HasPrefix(head, fmt.Appendf(nil, form, version)) {
				return version
			}
		}
		return 0
	}
}

// headSize is the number of bytes at the start of a file that contain its version.
const headSize = 64

// Run reads the versions of all parts, and converts the files that have an older form: HEAD
// and refs without a checksum. An old file is kept until the new one is on disk and verified.
// With dryRun, it changes nothing.
//
// A part of a later version is an error that matches [object.ErrNewerFormat], and then nothing
// changes. A file that is none of its format matches [object.ErrCorrupt].
func Run(ctx context.Context, r *kist.Repository, dryRun bool) ([]Part, error) {
	parts := []Part{{Name: "repository", Files: 1, Oldest: r.Config().Version, Newest: kist.FormatVersion, Convert: []File{}}}
	for _, f := range formats {
		p := Part{Name: f.name, Newest: f.newest, Convert: []File{}}
		files, err := filepath.Glob(filepath.Join(escapePattern(r.Dir()), f.pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			version, err := versionOf(file, f.version)
			if errors.Is(err, fs.ErrNotExist) { // gc removed the volume meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			if version > f.newest {
				return nil, fmt.Errorf("%s has version %d: %w", file, version, object.ErrNewerFormat)
			}
			if p.Files++; p.Oldest == 0 || version < p.Oldest {
				p.Oldest = version
			}
		}
		parts = append(parts, p)
	}

	names, err := refs.AddSums(ctx, r.Refs(), dryRun, func(name string, id object.ID) error {
		if _, err := refs.Peel(ctx, r.Objects(), id); err != nil {
			return fmt.Errorf("%s has no checksum, and its commit cannot be read: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := r.Refs().List("refs/")
	if err != nil {
		return nil, err
	}
	p := Part{Name: "refs", Files: 1 + len(list), Oldest: 1, Newest: 1, Convert: []File{}}
	for _, name := range names {
		p.Convert = append(p.Convert, File{name})
	}
	return append(parts, p), nil
}

// versionOf returns the version of a file.
func versionOf(path string, version func([]byte) int) (int, error) {
	f, err := disk.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()

	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if found := version(head[:n]); found > 0 {
		return found, nil
	}
	return 0, &object.DamageError{Name: path, Err: errors.New("it has no version")}
}

// escapePattern returns a path as a pattern that matches only this path.
func escapePattern(path string) string {
	var b bytes.Buffer
	for i := range len(path) {
		if bytes.IndexByte([]byte(`*?[\`), path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
