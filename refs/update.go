package refs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Change moves, makes or deletes one ref.
type Change struct {
	Name   string    // full; "HEAD" is the branch that HEAD is on, or HEAD itself when it is detached
	Old    object.ID // the present value; zero: the ref does not exist
	New    object.ID // the new value; zero: delete the ref; equal to Old: only check it
	Reason string    // for the log
}

// Update makes all changes, or none if one is impossible. The error is a
// [*MovedError] if a ref does not have its expected value. It is a
// [*ConflictError] if a name would be a folder in the name of another, even if
// the same update deletes the other: delete it first. A name may occur once.
// Every move of a branch is logged, also in HEAD's log if HEAD is on it. The
// log of a deleted ref is deleted.
//
// Each ref has its old or its new value at every moment. When Update returns,
// the changes are on disk. Only if the process or the disk fails in between
// may some of several refs be changed and others not.
//
// The objects must be on disk before. Call Update while the store that holds
// them publishes.
func (s *Store) Update(ctx context.Context, changes []Change, who Who) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	moves, err := s.checkChanges(changes)
	if err != nil {
		return err
	}
	return s.applyMoves(moves, who)
}

// A move is a checked change.
type move struct {
	Change
	onHead bool // HEAD is on the ref: log the move in HEAD's log, too
}

// checkChanges checks changes and returns the moves that make them.
func (s *Store) checkChanges(changes []Change) ([]move, error) {
	head, err := s.headFor(changes)
	if err != nil {
		return nil, err
	}

	moves := make([]move, 0, len(changes))
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if c.Name == "HEAD" && head.target != "" {
			c.Name = head.target
		}
		have, err := s.currentID(c.Name, head)
		switch {
		case err != nil:
			return nil, err
		case seen[c.Name]:
			return nil, &NameError{Name: c.Name, Reason: "is changed twice"}
		case have != c.Old:
			return nil, &MovedError{Name: c.Name, Want: c.Old, Have: have}
		case c.Name == "HEAD" && c.New.IsZero():
			return nil, &NameError{Name: c.Name, Reason: "cannot be deleted"}
		}
		seen[c.Name] = true
		if c.Old != c.New {
			moves = append(moves, move{Change: c, onHead: c.Name == head.target})
		}
	}

	for _, m := range moves {
		if !m.Old.IsZero() || m.Name == "HEAD" {
			continue
		}
		if err := s.CheckFree(m.Name, seen); err != nil {
			return nil, err
		}
	}

	return moves, nil
}

// headFor reads HEAD if the changes concern it. A missing HEAD, as in a new
// repository, is on no branch.
func (d folder) headFor(changes []Change) (refValue, error) {
	for _, c := range changes {
		if c.Name == "HEAD" || strings.HasPrefix(c.Name, Heads) {
			head, _, err := d.readValue("HEAD")
			return head, err
		}
	}
	return refValue{}, nil
}

// currentID returns the value of a ref, zero if it does not exist.
func (s *Store) currentID(name string, head refValue) (object.ID, error) {
	if name == "HEAD" {
		if head == (refValue{}) {
			return object.ID{}, Damaged("HEAD", errors.New("missing"))
		}
		return head.id, nil
	}
	id, err := s.Get(name)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return id, err
}

// CheckFree returns a [*ConflictError] if a new ref of this name would collide with
// another, or with one of names: a ref is a file, so its name cannot also be a folder of
// other refs.
func (s *Store) CheckFree(name string, names map[string]bool) error {
	return checkFreeExcept(s, name, names, "")
}

// checkFreeExcept is [Store.CheckFree] without the ref except, which will be removed.
func checkFreeExcept(s *Store, name string, names map[string]bool, except string) error {
	for i := len("refs/"); ; {
		next := strings.IndexByte(name[i:], '/')
		if next < 0 {
			break
		}
		i += next + 1
		above := name[:i-1]
		if above == except {
			continue
		}
		_, found, err := s.readFile(above, maxValueSize)
		if found || errors.Is(err, object.ErrCorrupt) || names[above] {
			return &ConflictError{Name: name, With: above}
		}
		if err != nil {
			return err
		}
	}

	below, err := s.listNames("refs", name+"/")
	below = slices.DeleteFunc(below, func(ref string) bool { return ref == except })
	if err == nil && len(below) > 0 {
		err = &ConflictError{Name: name, With: below[0]}
	}

	return err
}

// applyMoves makes moves. It writes the logs and the new files first, to see
// whether there is room, then renames, then deletes.
func (s *Store) applyMoves(moves []move, who Who) error {
	var lines []logLine
	var files []fileUpdate
	var gone []string
	for _, m := range moves {
		e, err := s.newEntry(m.Old, m.New, who, m.Reason)
		if err != nil {
			return err
		}
		if m.New.IsZero() {
			gone = append(gone, m.Name)
		} else {
			files = append(files, fileUpdate{m.Name, refValue{id: m.New}.encode()})
			if hasLog(m.Name) {
				lines = append(lines, logLine{m.Name, e, m.Name})
			}
		}
		if m.onHead {
			lines = append(lines, logLine{"HEAD", e, m.Name})
		}
	}

	if err := s.replaceFiles(lines, files); err != nil {
		return fmt.Errorf("update refs: %w", err)
	}
	if err := s.deleteRefs(gone); err != nil {
		return fmt.Errorf("update refs: %w", err)
	}

	return nil
}

// deleteRefs removes refs and then, after a sync, their logs.
func (s *Store) deleteRefs(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := s.noteNames(names, writeSynced); err != nil {
		return errors.Join(err, s.removeStaging())
	}
	for _, prefix := range []string{"", "logs/"} {
		var dirs []string
		for _, name := range names {
			dir, err := s.removeFile(prefix + name)
			if err != nil {
				return err
			}
			dirs = append(dirs, dir)
		}
		if err := syncDirs(dirs); err != nil {
			return err
		}
	}

	return s.removeStaging()
}

// A logLine is a log entry for the move of a file.
type logLine struct {
	name  string
	entry LogEntry
	file  string // the ref, or HEAD
}

// replaceFiles adds lines to logs and replaces files. It first syncs the lines and
// the new files, and then renames the files. If a step fails, it removes the
// lines for files that were not renamed.
func (s *Store) replaceFiles(lines []logLine, files []fileUpdate) error {
	var made []string
	for _, line := range lines {
		if line.entry.Old.IsZero() && line.name == line.file && line.name != "HEAD" {
			made = append(made, line.name)
		}
	}
	if err := s.noteNames(made, disk.WriteUnsynced); err != nil {
		return errors.Join(err, s.removeStaging())
	}

	added := make([]appended, len(lines))
	var place func() (int, error)
	err := eachParallel(len(lines)+1, func(i int) (err error) {
		if i == len(lines) {
			place, err = s.stageFiles(files)
		} else {
			added[i], err = s.appendLog(lines[i].name, lines[i].entry)
		}
		return err
	})

	var dirs []string // with a new log
	for _, a := range added {
		if a.path != "" && a.size < 0 {
			dirs = append(dirs, filepath.Dir(a.path))
		}
	}

	if err == nil {
		err = syncDirs(dirs)
	}

	placed := 0
	if err == nil {
		placed, err = place()
	} else {
		err = errors.Join(err, s.removeStaging())
	}
	if err == nil {
		return nil
	}

	moved := make(map[string]bool)
	for _, f := range files[:placed] {
		moved[f.name] = true
	}

	for i, a := range added {
		if !moved[lines[i].file] {
			a.undoAppend()
		}
	}

	return err
}

// Rename renames a branch with its log, and HEAD if it is on the branch. Both
// names are full. The error matches [ErrNotFound] if the branch does not
// exist. It is a [*MovedError] if the new name exists, or a [*ConflictError]
// if another ref is in the way. If one name is a folder of the other, the branch is renamed to
// a third name in between. A process that dies in between leaves two of the names, or only the third.
func (s *Store) Rename(ctx context.Context, from, to string, who Who) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	id, onHead, err := checkBranches(s, from, to, from)
	if err != nil {
		return err
	}
	way := []string{from, to}
	if strings.HasPrefix(to, from+"/") || strings.HasPrefix(from, to+"/") {
		between := Heads + "renamed-" + strings.ReplaceAll(strings.TrimPrefix(from, Heads), "/", "-")
		if _, _, err := checkBranches(s, from, between, from); err != nil {
			return err
		}
		way = []string{from, between, to}
	}
	for i := range way[1:] {
		if err := s.renameBranch(way[i], way[i+1], id, onHead, who); err != nil {
			return fmt.Errorf("rename %s to %s: %w", way[i], way[i+1], err)
		}
	}

	return nil
}

// Copy copies a branch with its log. Both names are full. The errors are those of
// [Store.Rename]. A process that dies in between may leave only the log.
func Copy(ctx context.Context, s *Store, from, to string, who Who) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	id, _, err := checkBranches(s, from, to, "")
	if err != nil {
		return err
	}
	e, err := s.newEntry(id, id, who, "branch: copied "+from+" to "+to)
	if err == nil {
		err = duplicate(s, from, to, e)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}

	return nil
}

// checkBranches checks that one branch exists and another can be made, when the ref except is
// gone. It returns the commit of the first, and whether HEAD is on it. The caller holds the
// lock.
func checkBranches(s *Store, from, to, except string) (id object.ID, onHead bool, err error) {
	if !strings.HasPrefix(from, Heads) || !strings.HasPrefix(to, Heads) {
		return id, false, &NameError{Name: from, Reason: "only branches can be renamed and copied"}
	}
	if id, err = s.Get(from); err != nil {
		return id, false, err
	}
	head, _, err := s.readValue("HEAD")
	if err != nil {
		return id, false, err
	}
	have, err := s.currentID(to, head)
	if err == nil && !have.IsZero() {
		err = &MovedError{Name: to, Have: have}
	}
	if err == nil {
		err = checkFreeExcept(s, to, nil, except)
	}
	return id, head.target == from, err
}

// duplicate makes the log of a new branch from that of another one, with one more entry, and
// then the branch. The caller holds the lock.
func duplicate(s *Store, from, to string, e LogEntry) error {
	log, _, err := s.readFile("logs/"+from, maxLogSize)
	if err != nil {
		return err
	}
	if err := s.makeLogDirs(to); err != nil {
		return err
	}
	log = append(log[:intactLines(log)], encodeEntry(e)...)
	if err := s.noteNames([]string{to}, disk.WriteUnsynced); err != nil {
		return errors.Join(err, s.removeStaging())
	}
	return s.writeFiles(fileUpdate{"logs/" + to, log}, fileUpdate{to, refValue{id: e.New}.encode()})
}

// renameBranch makes the new log, the new ref and the new HEAD, in this order, and
// then removes the old ref and its log.
func (s *Store) renameBranch(from, to string, id object.ID, onHead bool, who Who) error {
	e, err := s.newEntry(id, id, who, "branch: renamed "+from+" to "+to)
	if err != nil {
		return err
	}
	if err := duplicate(s, from, to, e); err != nil {
		return err
	}
	if onHead {
		if err := s.setHead(refValue{target: to}, id, id, who, e.Reason); err != nil {
			return err
		}
	}

	return s.deleteRefs([]string{from})
}

// CopyRemote copies the remote-tracking branches of the remote from, with their logs, to the
// remote to. A branch that an earlier CopyRemote has made is replaced. The
// error is a [*MovedError] if there is another one. A process that dies in between leaves
// some of the new names.
func CopyRemote(ctx context.Context, s *Store, from, to string, who Who) error {
	from, to = Remotes+from+"/", Remotes+to+"/"
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	list, err := s.List(from)
	if err != nil {
		return err
	}
	var logs, values, heads []fileUpdate
	var made []string
	for _, ref := range list {
		name := to + strings.TrimPrefix(ref.Name, from)
		if ref.Target != "" {
			heads = append(heads, fileUpdate{name, refValue{target: to + strings.TrimPrefix(ref.Target, from)}.encode()})
			continue
		}
		reason := "remote: renamed " + ref.Name + " to " + name
		if err := mayCopy(s, name, reason); err != nil {
			return err
		}
		e, err := s.newEntry(ref.ID, ref.ID, who, reason)
		if err != nil {
			return err
		}
		log, _, err := s.readFile("logs/"+ref.Name, maxLogSize)
		if err != nil {
			return err
		}
		if err := s.makeLogDirs(name); err != nil {
			return err
		}
		logs = append(logs, fileUpdate{"logs/" + name, append(log[:intactLines(log)], encodeEntry(e)...)})
		values = append(values, fileUpdate{name, refValue{id: ref.ID}.encode()})
		made = append(made, name)
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.noteNames(made, disk.WriteUnsynced); err != nil {
		return errors.Join(err, s.removeStaging())
	}
	return s.writeFiles(slices.Concat(logs, values, heads)...)
}

// DropRemote deletes the remote-tracking branches of a remote, its HEAD and their logs. A
// process that dies in between leaves some of them.
func DropRemote(ctx context.Context, s *Store, remote string) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	prefix := Remotes + remote + "/"
	names, err := s.listNames("refs", prefix)
	if err != nil {
		return err
	}
	logs, err := s.listNames("logs", "logs/"+prefix)
	if err != nil {
		return err
	}
	for _, log := range logs { // of branches that a killed process deleted
		names = append(names, strings.TrimPrefix(log, "logs/"))
	}
	return s.deleteRefs(names)
}

// mayCopy returns an error if a ref exists, unless the newest line of its log has the reason.
func mayCopy(s *Store, name, reason string) error {
	have, err := s.currentID(name, refValue{})
	if err != nil || have.IsZero() {
		return cmp.Or(err, s.CheckFree(name, nil))
	}
	log, err := s.Log(name)
	if err != nil || len(log) == 0 || log[0].Reason != reason {
		return cmp.Or(err, error(&MovedError{Name: name, Have: have}))
	}
	return nil
}

// Repair sets a ref with a damaged or missing file to a known commit, for example from
// its log. If the ref is intact, it changes nothing and returns a [*MovedError]. The log
// of the stash gets no line if it leads to the commit: each of its lines is a stash.
func (s *Store) Repair(ctx context.Context, name string, id object.ID, who Who, reason string) error {
	if err := checkLocal(name); err != nil {
		return err
	}
	if id.IsZero() {
		return &NameError{Name: name, Reason: "needs an ID"}
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	have, damage := s.currentID(name, refValue{})
	switch {
	case damage == nil && !have.IsZero():
		return &MovedError{Name: name, Want: id, Have: have}
	case damage != nil && !errors.Is(damage, object.ErrCorrupt):
		return damage
	}

	log, err := s.Log(name)
	if name == Stash && err == nil && len(log) > 0 && log[0].New == id {
		return s.writeFiles(fileUpdate{name, refValue{id: id}.encode()})
	}
	old := id
	if name == Stash && err == nil {
		if old = (object.ID{}); len(log) > 0 {
			old = log[0].New
		}
	}
	if err := s.applyMoves([]move{{Change: Change{Name: name, Old: old, New: id, Reason: reason}}}, who); err != nil {
		return fmt.Errorf("repair %s: %w", name, err)
	}

	return nil
}

// Guess returns the former value of a damaged file of a ref, of HEAD or of a
// special name, if only one bit has changed: a commit or another ref. The
// checksum in the file proves it, because no other value is as close.
func (s *Store) Guess(name string) (id object.ID, target string, ok bool) {
	data, found, err := s.readFile(name, maxValueSize)
	if err != nil || !found {
		return id, "", false
	}

	var v refValue
	mended := disk.Mend(data, func(data []byte) bool {
		v, err = decodeValue(data)
		return err == nil && bytes.Equal(data, v.encode()) && (v.target == "" || mayReferTo(name, v.target))
	})
	if !mended {
		return id, "", false
	}

	return v.id, v.target, true
}

// Discard removes the file of a ref, a special name or a message if sure
// returns true, and reports whether it did. It calls sure under the writers'
// lock. It never removes HEAD or logs.
func (s *Store) Discard(ctx context.Context, name string, sure func() (bool, error)) (bool, error) {
	if name == "HEAD" || !strings.HasPrefix(name, "refs/") && !isSpecial(name) && !isMessage(name) {
		return false, badSpecial(name)
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()

	if ok, err := sure(); !ok || err != nil {
		return false, err
	}

	dir, err := s.removeFile(name)
	if err == nil {
		err = syncDirs([]string{dir})
	}

	return err == nil, err
}
