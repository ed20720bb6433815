package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// notesByPath is a list of values that belong to paths, in the order of a walk.
type notesByPath[T any] struct {
	list []T
	path func(*T) string
}

// find returns the place of the value of path, and whether there is one.
func (n notesByPath[T]) find(path string) (int, bool) {
	return slices.BinarySearchFunc(n.list, path, func(v T, path string) int { return tree.ComparePaths(n.path(&v), path) })
}

// withValue returns the list with v, which replaces the value of its path.
func (n notesByPath[T]) withValue(v T) []T {
	i, ok := n.find(n.path(&v))
	if ok {
		n.list[i] = v
		return n.list
	}
	return slices.Insert(n.list, i, v)
}

// withoutBelow returns the list without the values of path and the paths below it, and
// whether there were any.
func (n notesByPath[T]) withoutBelow(path string) ([]T, bool) {
	from, _ := n.find(path)
	to := from
	for to < len(n.list) && tree.Below(n.path(&n.list[to]), path) {
		to++
	}

	return slices.Delete(n.list, from, to), to > from
}

// clearOne returns the list without the value of path, and whether there was one.
func (n notesByPath[T]) clearOne(path string) ([]T, bool) {
	i, ok := n.find(path)
	if !ok {
		return n.list, false
	}
	return slices.Delete(n.list, i, i+1), true
}

// pathNotes are the notes of an index about paths.
type pathNotes struct {
	conflicts []Conflict
	skipped   []skipped // those without a reason are to be added, see [SetIntent]
}

func (p *pathNotes) conflictNotes() notesByPath[Conflict] {
	return notesByPath[Conflict]{p.conflicts, func(c *Conflict) string { return c.Path }}
}

func (p *pathNotes) skippedNotes() notesByPath[skipped] {
	return notesByPath[skipped]{p.skipped, func(s *skipped) string { return s.Path }}
}

// clearBelow removes the conflicts and skipped paths at path and below it, and
// reports whether there were any.
func (p *pathNotes) clearBelow(path string) bool {
	var a, b bool
	p.conflicts, a = p.conflictNotes().withoutBelow(path)
	p.skipped, b = p.skippedNotes().withoutBelow(path)
	return a || b
}

// clearAt removes the conflict and the skipped path at path, and reports whether
// there were any.
func (p *pathNotes) clearAt(path string) bool {
	var a, b bool
	p.conflicts, a = p.conflictNotes().clearOne(path)
	p.skipped, b = p.skippedNotes().clearOne(path)
	return a || b
}

// Conflict is a path that a merge could not decide on, with the entries of the merge
// base and both sides, or nil. The index may have an entry of its own at the path.
type Conflict struct {
	Path               string
	Base, Ours, Theirs *object.Entry
}

// ErrConflict is matched by every [*ConflictError].
var ErrConflict = errors.New("there are unresolved conflicts")

// ConflictError names the paths of the conflicts that keep a tree from being written. Its
// message leaves them out.
type ConflictError struct{ Paths []string }

func (e *ConflictError) Error() string { return ErrConflict.Error() }

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Unresolved returns a [*ConflictError] with the paths of a list, or nil if it is empty.
func Unresolved(list []Conflict) error {
	if len(list) == 0 {
		return nil
	}
	paths := make([]string, len(list))
	for i, c := range list {
		paths[i] = c.Path
	}

	return &ConflictError{paths}
}

// SetConflict records a conflict at path, and replaces one that exists. The entries get
// the name of the path. They belong to the index from now on. It returns a
// [*tree.PathError] if no tree could hold the path or an entry.
func (x *Index) SetConflict(path string, base, ours, theirs *object.Entry) error {
	if err := tree.CheckPath(path); err != nil {
		return err
	}
	if err := checkNotLeftOut(x, path); err != nil {
		return err
	}
	_, name := tree.Split(path)
	c := Conflict{Path: path, Base: base, Ours: ours, Theirs: theirs}
	for _, side := range c.sideFields() {
		if *side == nil {
			continue
		}
		named := **side
		named.Name = name
		if err := checkSide(&named); err != nil {
			return &tree.PathError{Path: path, Err: err}
		}
		*side = &named
	}

	x.conflicts = x.conflictNotes().withValue(c)
	x.changed = true
	return nil
}

// ClearConflict removes the conflict at path, and reports whether there was one.
func (x *Index) ClearConflict(path string) bool {
	list, ok := x.conflictNotes().clearOne(path)
	x.conflicts, x.changed = list, x.changed || ok
	return ok
}

// Conflict returns the conflict at path, and whether there is one.
func (p *pathNotes) Conflict(path string) (Conflict, bool) {
	if i, ok := p.conflictNotes().find(path); ok {
		return p.conflicts[i], true
	}
	return Conflict{}, false
}

// Conflicts returns all conflicts in the order of a walk. The slice belongs to the
// index. It is valid until the index is edited.
func (p *pathNotes) Conflicts() []Conflict { return p.conflicts }

// checkSide checks one side of a conflict.
func checkSide(o *object.Entry) error {
	if o.Type == object.TypeDir {
		if o.Content.Kind != object.KindTree || o.Content.ID.IsZero() || o.Mode&^0o7777 != 0 ||
			len(o.Inline) > 0 || o.Target != "" || o.MTime.Nsec >= 1e9 {
			return errors.New("not a directory's entry")
		}
		if _, lossy := encodeMeta(o); lossy {
			return errors.New("metadata that a directory cannot have")
		}
		return nil
	}
	e := NewEntry(*o, Stat{})
	return checkEntry(&e)
}

// maxReasonSize is the largest number of bytes in the reason of a skipped path.
const maxReasonSize = 255

type skipped = object.Skipped

// SetSkipped records that path in the worktree could not be read, and why. The next
// commit lists the path as skipped. The index may also have an entry at the path.
//
// The path may have names that no tree could hold, but it must be names with slashes
// between them; otherwise SetSkipped returns a [*tree.PathError]. It removes control
// characters from the reason, and cuts it at maxReasonSize bytes. An empty reason becomes
// "unknown".
func (x *Index) SetSkipped(path, reason string) error {
	if err := checkSkippedPath(path); err != nil {
		return err
	}
	x.changed = x.putSkipped(skipped{Path: path, Reason: cmp.Or(cleanReason(reason), "unknown")}) || x.changed
	return nil
}

// putSkipped records s, and replaces the note about its path. It reports whether there was
// no such note yet.
func (p *pathNotes) putSkipped(s skipped) bool {
	notes := p.skippedNotes()
	if i, ok := notes.find(s.Path); ok && p.skipped[i] == s {
		return false
	}
	p.skipped = notes.withValue(s)
	return true
}

// SetIntent records that the user wants to add path later: the file counts as tracked, but
// commits leave it out. The note ends when the path is set or removed. It returns a
// [*tree.PathError] if no tree could hold the path.
func SetIntent(x *Index, path string) error {
	if err := tree.CheckPath(path); err != nil {
		return err
	}
	if err := checkNotLeftOut(x, path); err != nil {
		return err
	}
	x.changed = x.putSkipped(skipped{Path: path}) || x.changed
	return nil
}

// Intents returns the paths of [SetIntent] in the order of a walk.
func (p *pathNotes) Intents() (paths []string) {
	for _, s := range p.skipped {
		if s.Reason == "" {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Tracks reports whether the index has a path: a file, a folder, a conflict, or a file that is
// to be added. All paths in a directory that is left out count.
func Tracks(idx *Index, path string) bool {
	_, conflict := idx.Conflict(path)
	return conflict || idx.Entry(path) != nil || idx.Dir(path) != nil || idx.Intended(path) || LeftOutAt(idx, path) != nil
}

// Intended reports whether path is one of Intents.
func (p *pathNotes) Intended(path string) bool {
	i, ok := p.skippedNotes().find(path)
	return ok && p.skipped[i].Reason == ""
}

// ClearSkipped removes the skipped paths at path and below, and reports whether there
// were any.
func (x *Index) ClearSkipped(path string) bool {
	list, ok := x.skippedNotes().withoutBelow(path)
	x.skipped, x.changed = list, x.changed || ok
	return ok
}

// Skipped returns the skipped paths in the order of a walk. The slice belongs to the
// index. It is valid until the index is edited.
func (p *pathNotes) Skipped() []object.Skipped {
	intent := func(s skipped) bool { return s.Reason == "" }
	if !slices.ContainsFunc(p.skipped, intent) {
		return p.skipped
	}
	return slices.DeleteFunc(slices.Clone(p.skipped), intent)
}

// checkSkippedPath checks the shape of a skipped path.
func checkSkippedPath(path string) error {
	if len(path) > maxPathSize || strings.IndexByte(path, 0) >= 0 {
		return &tree.PathError{Path: path, Err: errors.New("too long, or with a NUL byte")}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return &tree.PathError{Path: path, Err: fmt.Errorf("%q is not a name", name)}
		}
	}
	return nil
}

// cleanReason returns a reason in the form that the index keeps.
func cleanReason(reason string) string {
	return object.CutText(object.CleanText(reason, -1), maxReasonSize)
}

// maxPathSize is the largest number of bytes in a path.
const maxPathSize = object.MaxDepth * (object.MaxNameSize + 1)

// The two bits for each side in a conflict's record.
const (
	sideNone       = 0
	sideEntry      = 1
	sideDir        = 2
	sideProperties = 3 // a directory with metadata
)

// sideFields returns the fields for base, ours and theirs.
func (c *Conflict) sideFields() [3]**object.Entry {
	return [3]**object.Entry{&c.Base, &c.Ours, &c.Theirs}
}

// appendConflict appends the record of a conflict.
func appendConflict(dst []byte, c *Conflict) []byte {
	dst = append(appendText(dst, c.Path), 0)
	which := len(dst) - 1
	for i, side := range c.sideFields() {
		o := *side
		switch {
		case o == nil:
		case o.Type == object.TypeDir:
			dst[which] |= sideDir << (2 * i)
			dst = binary.LittleEndian.AppendUint16(dst, o.Mode)
			dst = binary.AppendUvarint(dst, o.Size)
			dst = binary.AppendUvarint(dst, o.Files)
			dst = appendTime(dst, o.MTime)
			dst = append(dst, o.Content.ID[:]...)
			if meta, _ := encodeMeta(o); meta != "" {
				dst[which] |= sideProperties << (2 * i)
				dst = appendText(dst, meta)
			}
		default:
			dst[which] |= sideEntry << (2 * i)
			e := NewEntry(*o, Stat{})
			e.Name = ""
			dst = appendEntry(dst, &e)
		}
	}

	return dst
}

// conflicts reads n conflicts.
func (b *blockReader) conflicts(n uint64) ([]Conflict, error) {
	var list []Conflict
	for range n {
		if err := b.beginRecord(); err != nil {
			return nil, err
		}
		path := string(b.readText(maxPathSize))
		if err := tree.CheckPath(path); err != nil {
			return nil, err
		}
		if len(list) > 0 && tree.ComparePaths(list[len(list)-1].Path, path) >= 0 {
			return nil, fmt.Errorf("conflict %q: %w", path, errCanonical)
		}
		c := Conflict{Path: path}
		which := b.u8()
		for i, side := range c.sideFields() {
			o, err := b.readSide(which>>(2*i)&3, path)
			if err != nil {
				return nil, fmt.Errorf("conflict %q: %w", path, err)
			}
			*side = o
		}
		if b.bad || which>>6 != 0 {
			return nil, fmt.Errorf("conflict %q: %w", path, errCanonical)
		}
		list = append(list, c)
	}
	return list, nil
}

// readSide reads one side of a conflict.
func (b *blockReader) readSide(which byte, path string) (*object.Entry, error) {
	var o object.Entry
	switch which {
	case sideNone:
		return nil, nil
	case sideEntry:
		var e Entry
		var own arena
		if !b.decodeEntry(&e, &own) || e.Name != "" || e.Type == object.TypeDir || e.Stat != (Stat{}) {
			return nil, errCanonical
		}
		o = e.Object()
	case sideDir, sideProperties:
		o = object.Entry{Type: object.TypeDir, Mode: b.u16(), Size: b.uvarint(), Files: b.uvarint(), MTime: b.readTime()}
		o.Content.Kind = object.KindTree
		b.readID(o.Content.ID[:])
		if which == sideProperties {
			m := decodeMeta(b.decodeMeta(o.Type, new(arena)))
			o.Meta, o.Attrs = m.Meta, m.Attrs
		}
		if b.bad {
			return nil, errCanonical
		}
	default:
		return nil, errCanonical
	}

	_, o.Name = tree.Split(path)
	return &o, checkSide(&o)
}

// skippedPaths reads n skipped paths.
func (b *blockReader) skippedPaths(n uint64) ([]skipped, error) {
	var list []skipped
	for range n {
		if err := b.beginRecord(); err != nil {
			return nil, err
		}
		s := skipped{Path: string(b.readText(maxPathSize)), Reason: string(b.readText(maxReasonSize))}
		if err := checkSkippedPath(s.Path); err != nil {
			return nil, err
		}
		if b.bad || s.Reason != cleanReason(s.Reason) || len(list) > 0 && tree.ComparePaths(list[len(list)-1].Path, s.Path) >= 0 {
			return nil, fmt.Errorf("skipped path %q: %w", s.Path, errCanonical)
		}
		list = append(list, s)
	}
	return list, nil
}
