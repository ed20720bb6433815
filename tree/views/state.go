package views

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// ErrState is matched by the error for a view whose state is missing, damaged or of another
// definition. [Rebuild] writes it again.
var ErrState = errors.New("the state of the view is missing or damaged")

// state is the content of a view: the file .kist/views/.state/NAME.
type state struct {
	template string
	source   source
	files    map[string]file // by the path of the file
}

// source is everything that a view depends on, besides its template. A view whose source is
// the same needs no update.
type source struct {
	commit object.ID
	tags   object.ID // a hash of all tags; zero if the template has none
	purges object.ID // a hash of all purges; zero if there are none
}

// file is a file of a view.
type file struct {
	link     string
	sum      object.ID // SHA-256 of the content
	manifest object.ID // of the content; zero if it has none
	commit   object.ID // that changed the file last; zero if the template has no fact of it
}

// stateVersion is the first field of a state.
const stateVersion = "kist view 1"

// encode returns the file for s: fields that end with a NUL byte, and a line with the checksum.
func (s *state) encode() []byte {
	var b strings.Builder
	b.Grow(256 * (1 + len(s.files)))
	put := func(fields ...string) {
		for _, field := range fields {
			b.WriteString(field)
			b.WriteByte(0)
		}
	}
	put(stateVersion, s.template, idOrNone(s.source.commit), idOrNone(s.source.tags), idOrNone(s.source.purges), strconv.Itoa(len(s.files)))
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[path]
		put(path, f.link, f.sum.String(), idOrNone(f.manifest), idOrNone(f.commit))
	}
	return disk.WithSum([]byte(b.String()))
}

// idOrNone returns an ID as a field. A zero ID is an empty one.
func idOrNone(id object.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// decodeState accepts exactly what encode returns. Other input is an [ErrState].
func decodeState(data []byte) (*state, error) {
	data, err := disk.WithoutSum(data)
	if err != nil {
		return nil, ErrState
	}
	rest := string(data)
	var failed error
	text := func() (field string) {
		var ended bool
		if field, rest, ended = strings.Cut(rest, "\x00"); !ended {
			failed = ErrState
		}
		return field
	}
	id := func() (id object.ID) {
		field := text()
		if field == "" {
			return id
		}
		id, err := object.ParseID(field)
		if err != nil || id.IsZero() {
			failed = ErrState
		}
		return id
	}

	if text() != stateVersion {
		return nil, ErrState
	}
	s := &state{template: text(), source: source{id(), id(), id()}}
	count := text()
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != count {
		return nil, ErrState
	}
	s.files = make(map[string]file, n)
	last := ""
	for range n {
		path := text()
		if path <= last {
			return nil, ErrState
		}
		s.files[path] = file{text(), id(), id(), id()}
		last = path
	}
	if failed != nil || rest != "" {
		return nil, ErrState
	}
	return s, nil
}

// statePath returns the path of the state of a view.
func statePath(r *kist.Repository, name string) string {
	return filepath.Join(r.Dir(), viewsDir, stateDir, name)
}

// loadState reads the state of a view. The error matches [ErrState] if it has none.
func loadState(r *kist.Repository, name string) (*state, error) {
	data, err := disk.ReadFile(statePath(r, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrState
	}
	if err != nil {
		return nil, err
	}
	return decodeState(data)
}

// save writes the state of a view. It syncs nothing: a lost state is rebuilt.
func (s *state) save(r *kist.Repository, name string) error {
	path := statePath(r, name)
	if err := disk.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return disk.WriteUnsynced(path, s.encode())
}

// linkSums returns the content that each link leads to.
func (s *state) linkSums() map[string]object.ID {
	links := make(map[string]object.ID, len(s.files))
	for _, f := range s.files {
		links[f.link] = f.sum
	}
	return links
}

// CollisionError is the error for two files that get the same link, or for a link whose path
// needs another link to be a folder.
type CollisionError struct {
	Paths [2]string
	Link  string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("%q and %q both get the name %q", e.Paths[0], e.Paths[1], e.Link)
}

// checkCollisions returns a [*CollisionError] if two files do not fit together. Files of equal content
// may share a link.
func (s *state) checkCollisions() error {
	owners := make(map[string]string, len(s.files))
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[path]
		if other, taken := owners[f.link]; taken && s.files[other].sum != f.sum {
			return &CollisionError{[2]string{other, path}, f.link}
		} else if !taken {
			owners[f.link] = path
		}
	}
	for link, path := range owners {
		for i := range link {
			if link[i] != '/' {
				continue
			}
			if other, taken := owners[link[:i]]; taken {
				return &CollisionError{[2]string{min(path, other), max(path, other)}, link[:i]}
			}
		}
	}
	return nil
}
