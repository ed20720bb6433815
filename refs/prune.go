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

// Logs returns the names, sorted, of what has a log: "HEAD", and full names
// of refs, also of refs that are gone.
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

// ExpireLog drops the entries of a log that keep refuses, and returns how
// many. A log that is damaged is left as it is, with the error of [Store.Log].
func (s *Store) ExpireLog(ctx context.Context, name string, keep func(LogEntry) bool) (dropped int, err error) {
	return s.rewriteLog(ctx, name, func(entries []LogEntry, err error) ([]LogEntry, error) {
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(entries, func(e LogEntry) bool { return !keep(e) }), nil
	})
}

// RepairLog drops the lines of a log that are damaged, and returns how many.
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
	_, mended := badEnd(data[wholeLog(data):])
	if entries, err = change(entries, damage); err != nil {
		return 0, err
	}
	lines := bytes.Count(data[:wholeLog(data)], []byte("\n"))
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

// Repair sets a ref whose file is damaged, to a commit that is known to be
// what it was, by its log for example. A ref that is whole it leaves alone,
// with a [*MovedError].
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

// Guess returns what a damaged file of a ref, of HEAD or of a special name said,
// if no more than one bit of it has changed: a commit, or the ref it named. The
// checksum in the file tells; no other value is as near to it.
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

// Discard removes the file of a ref, of a special name or of a message, if sure
// says so, which is called while nobody else writes, and reports whether it did.
// HEAD is never removed, and logs are not.
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
