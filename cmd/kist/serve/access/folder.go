package access

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// effective is a rule for reading and one for writing. A nil rule does not exist.
type effective struct{ read, write *string }

// overridden returns the rules of an entry with rules of its own, in a folder with the rules a.
func (a effective) overridden(own effective) effective {
	if own.read != nil {
		a.read = own.read
	}
	if own.write != nil {
		a.write = own.write
	}
	return a
}

// ruleOf returns an entry's own rules.
func ruleOf(attrs map[string]string) (own effective) {
	if both, ok := attrs[Key]; ok {
		own = effective{&both, &both}
	}
	if read, ok := attrs[KeyRead]; ok {
		own.read = &read
	}
	if write, ok := attrs[KeyWrite]; ok {
		own.write = &write
	}
	return own
}

// ruleFolder has the rules of everything in a folder: the names with rules of their own, and
// those with rules somewhere below. It never changes. A nil folder has no rules.
type ruleFolder struct {
	id     object.ID // a hash of the rules
	names  []string  // sorted
	inside []ruleEntry
	closed bool // the content of the folder cannot be read, so that nobody may read it
}

type ruleEntry struct {
	own effective
	in  *ruleFolder
}

func (f *ruleFolder) findChild(name string) (ruleEntry, bool) {
	if f == nil {
		return ruleEntry{}, false
	}
	i, ok := slices.BinarySearch(f.names, name)
	if !ok {
		return ruleEntry{}, false
	}
	return f.inside[i], true
}

// state is a path on the way through the rules of a tree.
type state struct {
	effective
	in     *ruleFolder
	closed bool // a folder above cannot be read
}

// stateOfChild returns the state of a name in the folder s.
func (s state) stateOfChild(name string) state {
	if s.closed || s.in != nil && s.in.closed {
		return state{closed: true}
	}
	e, _ := s.in.findChild(name)
	return state{effective: s.effective.overridden(e.own), in: e.in}
}

// stateAt returns the state of a path below the folder s.
func (s state) stateAt(path string) state {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		s = s.stateOfChild(name)
	}
	return s
}

// hidesBelow reports whether a rule below s keeps a user from reading something. Known has the
// answers so far.
func (s state) hidesBelow(u User, known map[state]bool) bool {
	if s.in == nil {
		return false
	}
	if s.in.closed {
		return true
	}
	if hides, ok := known[s]; ok {
		return hides
	}

	hides := slices.ContainsFunc(s.in.names, func(name string) bool {
		below := s.stateOfChild(name)
		return below.read != nil && !u.In(*below.read) || below.hidesBelow(u, known)
	})
	known[s] = hides
	return hides
}

// maxRules is the most rules that a [memory] keeps.
var maxRules = 1 << 20

// errTooManyRules means that a history has more rules than a server can keep. Nobody but the
// owner may read its old versions then.
var errTooManyRules = errors.New("the history has too many rules of access")

// memory keeps each ruleFolder and each rule once, so that pointers to equal ones are equal.
// It is safe for concurrent use.
type memory struct {
	mu      sync.Mutex
	texts   map[string]*string
	folders map[object.ID]*ruleFolder
	rules   int
}

func newMemory() *memory {
	return &memory{texts: map[string]*string{}, folders: map[object.ID]*ruleFolder{}}
}

// keepFolder returns the kept folder that equals f.
func (m *memory) keepFolder(f ruleFolder) (*ruleFolder, error) {
	if len(f.names) == 0 && !f.closed {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	var hashed []byte
	text := func(s *string) *string {
		if s == nil {
			hashed = append(hashed, 0)
			return nil
		}
		id := object.Sum([]byte(*s))
		hashed = append(append(hashed, 1), id[:]...)
		kept := m.texts[*s]
		if kept == nil {
			kept = s
			m.texts[*s] = s
		}
		return kept
	}
	for i, name := range f.names {
		e := &f.inside[i]
		hashed = append(append(hashed, name...), 0)
		e.own.read, e.own.write = text(e.own.read), text(e.own.write)
		if e.in != nil {
			hashed = append(hashed, e.in.id[:]...)
		}
		hashed = append(hashed, '\n')
	}
	if f.closed {
		hashed = append(hashed, '!')
	}

	f.id = object.Sum(hashed)
	if kept := m.folders[f.id]; kept != nil {
		return kept, nil
	}
	if m.rules += len(f.names); m.rules > maxRules {
		return nil, errTooManyRules
	}
	m.folders[f.id] = &f
	return &f, nil
}

// draft is a ruleFolder that is being changed, with the own rules of the folder.
type draft struct {
	ruleEntry
	closed bool
	names  map[string]*draft // the changed names; nil: removed
}

// childDraft returns a name in the folder for a change.
func (d *draft) childDraft(name string) *draft {
	c, changed := d.names[name]
	if c != nil {
		return c
	}
	c = &draft{}
	if !changed {
		c.ruleEntry, _ = d.in.findChild(name)
		c.closed = c.in != nil && c.in.closed
	}
	if d.names == nil {
		d.names = map[string]*draft{}
	}
	d.names[name] = c
	return c
}

// draftAt returns a path below the folder for a change.
func (d *draft) draftAt(path string) *draft {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		d = d.childDraft(name)
	}
	return d
}

// removeRules removes the rules of a path and of everything below it.
func (d *draft) removeRules(path string) {
	dir, name := tree.Split(path)
	above := d.draftAt(dir)
	if _, ok := above.in.findChild(name); ok || above.names[name] != nil {
		above.childDraft(name)
		above.names[name] = nil
	}
}

// keepChanged returns the changed folder.
func (d *draft) keepChanged(m *memory) (*ruleFolder, error) {
	if d.names == nil && d.closed == (d.in != nil && d.in.closed) {
		return d.in, nil
	}
	f := ruleFolder{closed: d.closed}
	names := slices.Collect(maps.Keys(d.names))
	if d.in != nil {
		names = append(names, d.in.names...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		e, _ := d.in.findChild(name)
		if c, changed := d.names[name]; changed {
			e = ruleEntry{}
			if c != nil {
				in, err := c.keepChanged(m)
				if err != nil {
					return nil, err
				}
				e = ruleEntry{c.own, in}
			}
		}
		if e != (ruleEntry{}) {
			f.names, f.inside = append(f.names, name), append(f.inside, e)
		}
	}
	return m.keepFolder(f)
}

// edit is a change of a path's own rules between two trees.
type edit struct {
	path    string
	own     effective
	removed bool // with everything below it
}

// rulesOf returns the rules of the tree now, given those of the tree was. A folder that cannot
// be read is closed.
func (m *memory) rulesOf(ctx context.Context, r object.Reader, rules *ruleFolder, was, now object.ID) (*ruleFolder, error) {
	if was == now {
		return rules, nil
	}
	passed := &passing{Reader: r, paths: map[string]bool{}}
	edits, err := editsBetween(ctx, passed, was, now)
	if isHuge(err) && !was.IsZero() { // perhaps only the old tree is
		return m.rulesOf(ctx, r, nil, object.ID{}, now)
	}
	if isHuge(err) {
		return m.keepFolder(ruleFolder{closed: true})
	}
	if err != nil {
		return nil, err
	}

	top := &draft{ruleEntry: ruleEntry{in: rules}, closed: rules != nil && rules.closed}
	for _, path := range slices.Sorted(maps.Keys(passed.paths)) {
		unread, err := isUnreadable(ctx, r, now, path)
		if err != nil {
			return nil, err
		}
		d := top.draftAt(path)
		d.in, d.names, d.closed = nil, nil, unread
	}
	for _, e := range edits {
		if e.removed {
			top.removeRules(e.path)
			continue
		}
		top.draftAt(e.path).own = e.own
	}
	return top.keepChanged(m)
}

// editsBetween returns the changes of rules between two trees.
func editsBetween(ctx context.Context, r object.Reader, was, now object.ID) (list []edit, err error) {
	for c, err := range tree.Diff(ctx, r, was, now, tree.DiffOptions{Recursive: true}) {
		if err != nil {
			return nil, err
		}
		var old, own effective
		if c.Old != nil {
			old = ruleOf(c.Old.Attrs)
		}
		if c.New != nil {
			own = ruleOf(c.New.Attrs)
		}
		switch {
		case c.New == nil && (old != effective{} || tree.IsDir(c.Old)):
			list = append(list, edit{path: c.Path, removed: true})
		case old != effective{} || own != effective{}:
			list = append(list, edit{path: c.Path, own: own})
		}
	}
	return list, nil
}

// isHuge reports whether a tree was made to have too many paths.
func isHuge(err error) bool {
	return errors.Is(err, tree.ErrTooMany) || errors.Is(err, tree.ErrTooDeep)
}

// passing is a reader that passes over folders that cannot be read, and notes their paths.
type passing struct {
	object.Reader
	paths map[string]bool
}

// Below implements [object.Layer].
func (p *passing) Below() object.Reader { return p.Reader }

// PassOver implements [object.Lenient].
func (p *passing) PassOver(path string, _ object.Key, err error) bool {
	if !isDamage(err) {
		return false
	}
	p.paths[path] = true
	return true
}

// isDamage reports whether repeating a read is useless.
func isDamage(err error) bool {
	return object.IsUnreadable(err) || errors.Is(err, object.ErrNewerFormat)
}

// isUnreadable reports whether a tree has a folder at a path that cannot be read.
func isUnreadable(ctx context.Context, r object.Reader, root object.ID, path string) (bool, error) {
	e, err := tree.Find(ctx, r, root, path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return false, nil
	}
	if err == nil && tree.IsDir(&e) {
		for _, err = range object.Entries(ctx, r, e.Content.ID) {
			if err != nil {
				break
			}
		}
	}
	if isDamage(err) {
		return true, nil
	}
	return false, err
}
