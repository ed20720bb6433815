package refs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Logs returns the sorted names that have a log: "HEAD" and full names of
// refs, deleted refs included.
func (s *Store) Logs() ([]string, error) {
	files, err := s.names("logs", "")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		if name := f[len("logs/"):]; name == "HEAD" || CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// ExpireLog removes the entries of a log for which keep returns false, and
// returns their number. It does not change a damaged log; the error is that of
// [Store.Log].
func (s *Store) ExpireLog(ctx context.Context, name string, keep func(LogEntry) bool) (dropped int, err error) {
	return s.rewriteLog(ctx, name, func(entries []LogEntry, err error) ([]LogEntry, error) {
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(entries, func(e LogEntry) bool { return !keep(e) }), nil
	})
}

// RepairLog removes the damaged lines of a log and returns their number.
func (s *Store) RepairLog(ctx context.Context, name string) (dropped int, err error) {
	return s.rewriteLog(ctx, name, func(entries []LogEntry, _ error) ([]LogEntry, error) { return entries, nil })
}

func (s *Store) rewriteLog(ctx context.Context, name string, change func([]LogEntry, error) ([]LogEntry, error)) (dropped int, err error) {
	if name != "HEAD" {
		if err := CheckName(name); err != nil {
			return 0, err
		}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	log := "logs/" + name
	data, found, err := s.read(log, maxLogSize)
	if err != nil || !found {
		return 0, err
	}

	entries, damage := s.decodeLog(log, data)
	_, mended := badEnd(data[intactLines(data):])
	if entries, err = change(entries, damage); err != nil {
		return 0, err
	}

	lines := bytes.Count(data[:intactLines(data)], []byte("\n"))
	if mended {
		lines++
	}
	if dropped = lines - len(entries); dropped == 0 && !mended {
		return 0, nil
	}

	var text []byte
	for _, e := range slices.Backward(entries) {
		text = append(text, encodeEntry(e)...)
	}

	return dropped, s.write(file{log, text})
}

// Repair sets a ref with a damaged file to a known commit, for example from
// its log. If the ref is intact, it changes nothing and returns a
// [*MovedError].
func (s *Store) Repair(ctx context.Context, name string, id object.ID, who Who, reason string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if id.IsZero() {
		return &NameError{Name: name, Reason: "needs an ID"}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, damage := s.current(name, value{})
	switch {
	case damage == nil:
		return &MovedError{Name: name, Want: id, Have: have}
	case !errors.Is(damage, object.ErrCorrupt):
		return damage
	}
	if err := s.apply([]move{{Change: Change{Name: name, Old: id, New: id, Reason: reason}}}, who); err != nil {
		return fmt.Errorf("repair %s: %w", name, err)
	}

	return nil
}

// Guess returns the former value of a damaged file of a ref, of HEAD or of a
// special name, if only one bit has changed: a commit or another ref. The
// checksum in the file proves it, because no other value is as close.
func (s *Store) Guess(name string) (id object.ID, target string, ok bool) {
	data, found, err := s.read(name, maxValueSize)
	if err != nil || !found {
		return id, "", false
	}

	var v value
	mended := disk.Mend(data, func(data []byte) bool {
		v, err = decodeValue(data)
		return err == nil && bytes.Equal(data, v.encode()) && (v.target == "" || mayName(name, v.target))
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

	unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if ok, err := sure(); !ok || err != nil {
		return false, err
	}

	dir, err := s.remove(name)
	if err == nil {
		err = syncDirs([]string{dir})
	}

	return err == nil, err
}
