package refs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Who is the person who moves a ref.
type Who struct{ Name, Email string }

// NewWho returns a person. It leaves out what neither a log nor the signature of a commit can
// have in a name or an address.
func NewWho(name, email string) Who {
	angles := strings.NewReplacer("<", "", ">", "")
	return Who{object.OneLine(angles.Replace(name), maxWhoSize), object.OneLine(angles.Replace(email), maxWhoSize)}
}

// LogEntry is one move of a ref.
type LogEntry struct {
	Old, New object.ID // zero: the ref did not exist
	Who      Who
	Time     time.Time // in the time zone of that person
	Reason   string    // one line, as in "commit: fix the roof"
}

// Limits of logs, in bytes. Longer names and reasons are cut off.
const (
	maxWhoSize    = 256 // for a name, and for an address
	maxReasonSize = 1024
	maxLineSize   = 2048
	maxLogSize    = 1 << 30 // for a log
)

// hasLog reports whether moves of a ref are logged: those of HEAD, branches,
// remote-tracking branches and the stash. Tags are not meant to move.
func hasLog(name string) bool {
	return name == "HEAD" || name == Stash || strings.HasPrefix(name, Heads) || strings.HasPrefix(name, Remotes)
}

// Log returns the moves of a ref, or of "HEAD", newest first. It returns none
// for a ref without a log. If lines are damaged, it returns all readable ones
// together with a [*object.DamageError]. An incomplete last line does not count: its
// writer stopped before the ref moved.
func (s *Store) Log(name string) ([]LogEntry, error) {
	if name != "HEAD" {
		if err := checkLocal(name); err != nil {
			return nil, err
		}
	}
	return s.readLog("logs/" + name)
}

func (d folder) readLog(file string) ([]LogEntry, error) {
	data, found, err := d.readFile(file, maxLogSize)
	if err != nil || !found {
		return nil, err
	}
	return d.decodeLog(file, data)
}

func (d folder) decodeLog(file string, data []byte) ([]LogEntry, error) {
	entries, err := decodeLog(data)
	if err != nil {
		err = Damaged(file, err)
	}
	return entries, err
}

// decodeLog returns the entries in a log's bytes, newest first, and an error
// for the first damaged line.
func decodeLog(data []byte) (entries []LogEntry, err error) {
	end := intactLines(data)
	data, tail := data[:end], data[end:]
	number := 1
	for ; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		entry, lineErr := decodeEntry(line)
		if lineErr == nil {
			entries = append(entries, entry)
		} else if err == nil {
			err = fmt.Errorf("line %d: %w", number, lineErr)
		}
		data = rest
	}

	if entry, ok := badEnd(tail); ok {
		entries = append(entries, entry)
		if err == nil {
			err = fmt.Errorf("line %d: its end is damaged", number)
		}
	}

	slices.Reverse(entries)
	return entries, err
}

// badEnd reports whether the bytes after the last complete line of a log are
// an entry with a damaged line end. An interrupted append never leaves that.
func badEnd(tail []byte) (LogEntry, bool) {
	if len(tail) == 0 || tail[0] == 0 {
		return LogEntry{}, false
	}
	entry, err := decodeEntry(tail[:len(tail)-1])
	return entry, err == nil
}

// intactLines returns the length of the complete lines of a log, in bytes. An
// interrupted append leaves a line without its end. After a power failure, it
// may also leave a line that begins with zero bytes, because its first part
// never reached the disk.
func intactLines(data []byte) int {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		return 0
	}
	last := bytes.LastIndexByte(data[:end-1], '\n') + 1
	if data[last] == 0 {
		return last
	}
	return end
}

// encodeEntry returns an entry's line: the checksum of the rest, then ID, ID,
// time, name and address, a tab, and the reason.
func encodeEntry(e LogEntry) []byte {
	who := "<" + e.Who.Email + ">"
	if e.Who.Name != "" {
		who = e.Who.Name + " " + who
	}
	text := fmt.Sprintf("%s %s %s %s\t%s", e.Old, e.New, e.Time.Format(time.RFC3339Nano), who, e.Reason)
	return fmt.Appendf(nil, "%s %s\n", disk.Sum([]byte(text)), text)
}

func decodeEntry(line []byte) (LogEntry, error) {
	want, text, _ := strings.Cut(string(line), " ")
	if want != disk.Sum([]byte(text)) {
		return LogEntry{}, errors.New("checksum does not fit")
	}

	head, reason, _ := strings.Cut(text, "\t")
	fields := strings.SplitN(head, " ", 4)
	if len(fields) < 4 {
		return LogEntry{}, errors.New("fields are missing")
	}

	e := LogEntry{Reason: reason}
	var err error
	if e.Old, err = object.ParseID(fields[0]); err != nil {
		return LogEntry{}, err
	}
	if e.New, err = object.ParseID(fields[1]); err != nil {
		return LogEntry{}, err
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, fields[2]); err != nil {
		return LogEntry{}, errors.New("the time does not fit")
	}

	_, offset := e.Time.Zone()
	e.Time = e.Time.In(time.FixedZone("", offset)) // never the local zone
	name, email, _ := strings.Cut(fields[3], "<")
	e.Who = Who{Name: strings.TrimSuffix(name, " "), Email: strings.TrimSuffix(email, ">")}
	if string(encodeEntry(e)) != string(line)+"\n" {
		return LogEntry{}, errors.New("not written as it should be")
	}

	return e, nil
}

// newEntry returns an entry with texts that fit into a log's line.
func (s *Store) newEntry(old, new object.ID, who Who, reason string) (LogEntry, error) {
	now := s.now().Round(0)
	if _, offset := now.Zone(); offset%60 != 0 { // a zone from before 1970, which the format cannot store
		now = now.UTC()
	}
	if y := now.Year(); y < 0 || y > 9999 {
		return LogEntry{}, fmt.Errorf("the clock has the year %d", y)
	}
	return LogEntry{Old: old, New: new, Who: NewWho(who.Name, who.Email), Time: now, Reason: object.OneLine(reason, maxReasonSize)}, nil
}

// An appended is a line added to a log.
type appended struct {
	path string
	size int64 // former size of the log, in bytes; -1: there was none
}

// BeginLogs makes empty logs of names and syncs them. It does not change
// existing logs.
func (s *Store) BeginLogs(names ...string) error {
	for _, name := range names {
		path := s.filePath("logs/" + name)
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

// undoAppend removes the line, if possible.
func (a appended) undoAppend() {
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
	a := appended{path: d.filePath("logs/" + name), size: -1}
	err := d.makeLogDirs(name)
	if err == nil {
		err = a.appendLine(encodeEntry(e))
	}
	if err != nil {
		a.undoAppend()
		return appended{}, fmt.Errorf("write log of %s: %w", name, err)
	}
	return a, nil
}

// appendLine appends a line to the log at a.path, and records in a how to undo that.
func (a *appended) appendLine(line []byte) error {
	f, err := disk.OpenFile(a.path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		f, err = disk.OpenFile(a.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
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
func (d folder) makeLogDirs(name string) error {
	file := d.filePath("logs/" + name)
	if info, err := disk.Lstat(file); err == nil && info.IsDir() {
		if err := disk.RemoveAll(file); err != nil {
			return err
		}
	}

	for dir := filepath.Dir(file); dir != d.filePath("logs") && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := disk.Lstat(dir)
		if err == nil && info.IsDir() {
			break
		}
		if err == nil { // unlink fails if another line of the same update has made it a folder meanwhile
			err = syscall.Unlink(dir)
		}
		if err != nil && !isNoSuchPath(err) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EPERM) {
			return &os.PathError{Op: "unlink", Path: dir, Err: err}
		}
	}

	return disk.MakeDir(filepath.Dir(file))
}

// Logs returns the sorted names that have a log: "HEAD" and full names of
// refs, deleted refs included.
func (s *Store) Logs() ([]string, error) {
	files, err := s.listNames("logs", "")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		if name := f[len("logs/"):]; name == "HEAD" || checkLocal(name) == nil {
			names = append(names, name)
		}
	}

	return names, nil
}

// ExpireLog removes the entries of a log for which keep returns false, and returns their
// number. It keeps the newest entry if that leads to the present value of the ref, because it
// proves that the ref exists; it then begins at no commit. ExpireLog does not change a
// damaged log, and returns the error of [Store.Log].
func (s *Store) ExpireLog(ctx context.Context, name string, keep func(LogEntry) bool) (dropped int, err error) {
	err = s.rewriteLog(ctx, name, func(_ []byte, at refValue, entries []LogEntry, damage error) ([]LogEntry, error) {
		if damage != nil || len(entries) == 0 {
			return entries, damage
		}
		newest := entries[0]
		kept := slices.DeleteFunc(slices.Clone(entries), func(e LogEntry) bool { return !keep(e) })
		dropped = len(entries) - len(kept)
		if newest.New == at.id && !keep(newest) {
			newest.Old = object.ID{}
			kept = slices.Insert(kept, 0, newest)
			dropped--
		}
		return kept, nil
	})
	return dropped, err
}

// rewriteLog replaces a log by the entries that change returns, newest first. Change gets
// the bytes of the log, the present value of the ref, the readable entries and the damage.
func (s *Store) rewriteLog(ctx context.Context, name string, change func(data []byte, at refValue, entries []LogEntry, damage error) ([]LogEntry, error)) error {
	if name != "HEAD" {
		if err := checkLocal(name); err != nil {
			return err
		}
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	log := "logs/" + name
	data, found, err := s.readFile(log, maxLogSize)
	if err != nil {
		return err
	}
	at, _, err := s.readValue(name)
	if err == nil && at.target != "" {
		at, _, err = s.readValue(at.target)
	}
	if errors.Is(err, object.ErrCorrupt) {
		err = nil // the value is unknown
	}
	if err != nil {
		return err
	}

	entries, damage := s.decodeLog(log, data)
	entries, err = change(data, at, entries, damage)
	text := encodeLog(entries)
	if err != nil || bytes.Equal(text, data) || !found && len(entries) == 0 {
		return err
	}
	if err := s.makeLogDirs(name); err != nil {
		return err
	}
	return s.writeFiles(fileUpdate{log, text})
}

// DropEntry removes entry i of the log of ref name, counted from the newest, which leads
// to id. The next newer entry then begins where the removed one began. If the newest
// entry is removed, the ref gets its former value. If no entry is left, the ref is
// deleted. The error is a [*MovedError] if entry i leads elsewhere. DropEntry does not
// change a damaged log. A kill during the removal of the newest entry leaves the ref with
// its former value, and the log with the entry.
func (s *Store) DropEntry(ctx context.Context, name string, i int, id object.ID) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	entries, err := s.Log(name)
	if err != nil {
		return err
	}
	if i >= len(entries) || entries[i].New != id {
		moved := &MovedError{Name: name, Want: id}
		if i < len(entries) {
			moved.Have = entries[i].New
		}
		return moved
	}
	for j := range i {
		if j == i-1 || entries[j].Old == id { // after a kill, an earlier one may begin here, too
			entries[j].Old = entries[i].Old
		}
	}
	if entries = slices.Delete(entries, i, i+1); len(entries) == 0 {
		return s.deleteRefs([]string{name})
	}

	return s.writeFiles(fileUpdate{name, refValue{id: entries[0].New}.encode()}, fileUpdate{"logs/" + name, encodeLog(entries)})
}

// encodeLog returns the bytes of a log with entries, newest first.
func encodeLog(entries []LogEntry) (text []byte) {
	for _, e := range slices.Backward(entries) {
		text = append(text, encodeEntry(e)...)
	}
	return text
}
