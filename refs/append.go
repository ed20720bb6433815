package refs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// logged reports whether moves of a ref are logged: those of HEAD, branches
// and remote-tracking branches. Tags are not meant to move.
func logged(name string) bool {
	return name == "HEAD" || strings.HasPrefix(name, Heads) || strings.HasPrefix(name, Remotes)
}

// An appended is a line added to a log.
type appended struct {
	path string
	size int64    // former size of the log, in bytes; -1: there was none
	dirs []string // folders with new entries, to sync
}

// BeginLogs makes empty logs of names and syncs them. It does not change
// existing logs.
func (s *Store) BeginLogs(names ...string) error {
	for _, name := range names {
		path := s.path("logs/" + name)
		if err := disk.MakeDir(filepath.Dir(path)); err != nil {
			return err
		}
		f, err := disk.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close(), disk.SyncDir(filepath.Dir(path))); err != nil {
			return err
		}
	}

	return nil
}

// undo removes the line, if possible.
func (a appended) undo() {
	switch {
	case a.path == "":
	case a.size < 0:
		disk.Remove(a.path)
	default:
		disk.Truncate(a.path, a.size)
	}
}

// appendLog adds a line to the log of a name and syncs it. It first cuts off
// an incomplete last line. The caller holds the lock.
func (d folder) appendLog(name string, e LogEntry) (appended, error) {
	a := appended{path: d.path("logs/" + name), size: -1}
	dirs, err := d.makeLogDirs(name)
	a.dirs = dirs
	if err == nil {
		err = a.write(encodeEntry(e))
	}
	if err != nil {
		a.undo()
		return appended{}, fmt.Errorf("write log of %s: %w", name, err)
	}
	return a, nil
}

// write appends a line to the log at a.path, and records in a how to undo that.
func (a *appended) write(line []byte) error {
	f, err := disk.OpenFile(a.path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		f, err = disk.OpenFile(a.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		a.dirs = append(a.dirs, filepath.Dir(a.path))
	} else if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			a.size = info.Size()
		}
	}
	if err != nil {
		a.path = "" // not ours to undo
		return err
	}
	defer f.Close()
	end, err := intactEnd(f, max(a.size, 0))
	if err != nil {
		return err
	}

	if end.broken {
		line = append([]byte("\n"), line...)
	}
	if end.at < a.size {
		if err := f.Truncate(end.at); err != nil {
			return err
		}
		a.size = end.at
	}
	if _, err := f.WriteAt(line, end.at); err != nil {
		return err
	}

	return f.Sync()
}

// A logEnd is the place of a log's next line.
type logEnd struct {
	at     int64
	broken bool // the bytes before it are damaged and have no line end
}

func intactEnd(f *os.File, size int64) (logEnd, error) {
	tail := make([]byte, min(size, 2*maxLineSize))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return logEnd{}, err
	}
	end := int64(intactLines(tail))
	if end == 0 && size > int64(len(tail)) { // longer than any line could be
		return logEnd{at: size, broken: tail[len(tail)-1] != '\n'}, nil
	}
	return logEnd{at: size - int64(len(tail)) + end}, nil
}

// makeLogDirs makes the folders for the log of a name. It removes logs in its
// way: they belong to deleted refs, because otherwise the name could not
// exist.
func (d folder) makeLogDirs(name string) (changed []string, err error) {
	file := d.path("logs/" + name)
	if info, err := disk.Lstat(file); err == nil && info.IsDir() {
		if err := disk.RemoveAll(file); err != nil {
			return nil, err
		}
	}

	for dir := filepath.Dir(file); dir != d.path("logs") && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := disk.Lstat(dir)
		if err == nil && info.IsDir() {
			break
		}
		if err == nil { // unlink fails if another line of the same update has made it a folder meanwhile
			err = syscall.Unlink(dir)
		}
		if err != nil && !isAbsent(err) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EPERM) {
			return nil, &os.PathError{Op: "unlink", Path: dir, Err: err}
		}
	}

	return makeDirs(filepath.Dir(file))
}

// Rename renames a branch with its log, and HEAD if it is on the branch. Both
// names are full. The error matches [ErrNotFound] if the branch does not
// exist. It is a [*MovedError] if the new name exists, or a [*ConflictError]
// if another ref, or the branch itself, is in the way. A process that dies in
// between leaves both names.
func (s *Store) Rename(ctx context.Context, from, to string, who Who) error {
	if !strings.HasPrefix(from, Heads) || !strings.HasPrefix(to, Heads) {
		return &NameError{Name: from, Reason: "only branches can be renamed"}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	id, err := s.Get(from)
	if err != nil {
		return err
	}

	head, _, err := s.value("HEAD")
	if err != nil {
		return err
	}
	if have, err := s.current(to, head); err != nil || !have.IsZero() {
		return errors.Join(err, movedTo(to, have))
	}
	if err := s.checkFree(move{Change: Change{Name: to, New: id}}, nil); err != nil {
		return err
	}
	if err := s.rename(from, to, id, head.target == from, who); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}

	return nil
}

func movedTo(name string, have object.ID) error {
	if have.IsZero() {
		return nil
	}
	return &MovedError{Name: name, Have: have}
}

// rename makes the new log, the new ref and the new HEAD, in this order, and
// then removes the old ref and its log.
func (s *Store) rename(from, to string, id object.ID, onHead bool, who Who) error {
	e, err := s.newEntry(id, id, who, "branch: renamed "+from+" to "+to)
	if err != nil {
		return err
	}

	log, _, err := s.read("logs/"+from, maxLogSize)
	if err != nil {
		return err
	}

	made, err := s.makeLogDirs(to)
	if err != nil {
		return err
	}
	if err := syncDirs(made); err != nil {
		return err
	}

	log = append(log[:intactLines(log)], encodeEntry(e)...)
	if err := s.write(file{"logs/" + to, log}); err != nil {
		return err
	}
	if err := s.write(file{to, value{id: id}.encode()}); err != nil {
		return err
	}
	if onHead {
		if err := s.setHead(value{target: to}, id, id, who, e.Reason); err != nil {
			return err
		}
	}

	return s.delete([]string{from})
}
