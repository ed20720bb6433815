// Package refs keeps the names of commits: HEAD, branches, tags,
// remote-tracking refs, the logs of their moves, and the notes that a merge or
// fetch leaves behind (MERGE_HEAD, ORIG_HEAD, …). It also reads the revision
// syntax in which people name a commit.
//
// Each name is a small file in the .kist folder, replaced atomically. Readers
// take no lock. All writers of a repository share one lock.
// docs/format/refs.md describes the files.
package refs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Store reads and writes the refs of one repository. It keeps no
// refs in memory. Any number of goroutines and processes may use one at
// the same time.
type Store struct {
	folder
	now func() time.Time

	// ByDate is called with a revision such as main@{yesterday} that Resolve has found by
	// the dates of commits, because no log goes back so far. It may be nil.
	ByDate func(rev string)

	// Upstream returns the full name of the remote-tracking branch of a branch's
	// upstream, or of an upstream that is a branch itself. Resolve calls it for revisions such as main@{u}.
	Upstream func(branch string) (string, error)
}

// Open returns the refs in kistDir, the path of a .kist folder. It does not
// read the folder. now returns the times for logs, in the zone to write.
func Open(kistDir string, now func() time.Time) *Store {
	return &Store{folder: folder{kistDir}, now: now}
}

// Ref is a name for a commit, or for the tag object of an annotated tag.
type Ref struct {
	Name   string // full, as in "refs/heads/main"
	ID     object.ID
	Target string // the ref that a remote's HEAD refers to; otherwise empty
}

// Get returns the ID of the ref with a full name. For a remote's HEAD it
// returns the ID of the branch that this refers to. The error matches
// [ErrNotFound] or [object.ErrCorrupt], or is a [*NameError].
func (s *Store) Get(name string) (object.ID, error) {
	ref, err := s.readRef(name)
	return ref.ID, err
}

func (s *Store) readRef(name string) (Ref, error) {
	if err := checkLocal(name); err != nil {
		return Ref{}, err
	}

	v, found, err := s.readValue(name)
	ref := Ref{Name: name, ID: v.id, Target: v.target}
	if err == nil && found && v.target != "" {
		v, found, err = s.readValue(v.target)
		if err == nil && v.target != "" {
			err = Damaged(name, errors.New("names a ref that names another"))
		}
		ref.ID = v.id
	}
	if err == nil && !found {
		err = &NotFoundError{Name: name}
	}
	if err != nil {
		return Ref{}, err
	}

	return ref, nil
}

// List returns the refs whose full names begin with prefix, such as Heads or
// "", sorted by name. If refs are damaged, it returns all readable ones
// together with the joined errors.
func (s *Store) List(prefix string) ([]Ref, error) {
	names, err := s.listNames("refs", prefix)
	if err != nil {
		return nil, err
	}

	names = slices.DeleteFunc(names, func(name string) bool { return checkLocal(name) != nil })
	refs := make([]Ref, len(names))
	errs := make([]error, len(names))
	eachParallel(len(names), func(i int) error {
		refs[i], errs[i] = s.readRef(names[i])
		return nil
	})

	refs = slices.DeleteFunc(refs, func(r Ref) bool { return r.Name == "" })
	for i, err := range errs {
		if errors.Is(err, ErrNotFound) { // deleted meanwhile, or refers to a deleted ref
			errs[i] = nil
		}
	}

	return refs, errors.Join(errs...)
}

// NamedObject is a commit or tag object that a file of this package names.
type NamedObject struct {
	ID   object.ID
	File string // below the .kist folder, as in "refs/heads/main" or "logs/HEAD"
}

// Roots returns every ID in HEAD, the refs, the special names and the logs,
// with its file. It reads every file in the folders, even with an impossible
// name. It reads all of them at one moment, because it excludes writers. After
// an error it still returns all readable IDs; a caller that removes objects
// must then stop. A ref that does not match its log is also an error: see
// [ErrRefMissing] and [ErrCut].
func (s *Store) Roots(ctx context.Context) ([]NamedObject, error) {
	return s.RootsWith(ctx, nil)
}

// RootsWith is Roots without the log entries for which keep returns false, given the name
// of the log, see [Store.ExpireLog]. If keep is nil, all entries count.
func (s *Store) RootsWith(ctx context.Context, keep func(name string, e LogEntry) bool) ([]NamedObject, error) {
	unlock, err := s.lockOut(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()

	files, err := s.listNames("refs", "")
	if err != nil {
		return nil, err
	}

	top, err := disk.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}

	for _, e := range top {
		if e.Name() == "HEAD" || isSpecial(e.Name()) {
			files = append(files, e.Name())
		}
	}

	logs, err := s.listNames("logs", "")
	if err != nil {
		return nil, err
	}

	files = append(files, logs...)

	found := make([]fileContent, len(files))
	errs := make([]error, len(files))
	eachParallel(len(files), func(i int) error {
		found[i], errs[i] = s.contentOf(files[i], keep)
		return nil
	})

	var roots []NamedObject
	known := make(map[string]fileContent, len(files))
	for i, c := range found {
		c.damaged = errs[i] != nil
		known[files[i]] = c
		for _, id := range c.ids {
			roots = append(roots, NamedObject{ID: id, File: files[i]})
		}
	}

	return roots, errors.Join(append(errs, s.compareLogs(known)...)...)
}

// contentOf reads a file of a ref or a log. Each ID is in the result once.
func (d folder) contentOf(file string, keep func(name string, e LogEntry) bool) (c fileContent, err error) {
	name, isLog := strings.CutPrefix(file, "logs/")
	if !isLog {
		c.value, c.summed, err = d.readSummed(file)
		if err == nil && !c.value.id.IsZero() {
			c.ids = []object.ID{c.value.id}
		}
		return c, err
	}

	entries, err := d.readLog(file)
	if len(entries) > 0 {
		c.newest = &entries[0]
	}
	if err == nil && name == Stash {
		if i := findGap(entries); i >= 0 {
			err = Damaged(file, fmt.Errorf("%w: none leads to %s", ErrCut, entries[i].Old.Short()))
		}
	}
	seen := map[object.ID]bool{{}: true}
	for _, e := range entries {
		if keep != nil && !keep(name, e) {
			continue
		}
		for _, id := range []object.ID{e.New, e.Old} {
			if !seen[id] {
				seen[id] = true
				c.ids = append(c.ids, id)
			}
		}
	}

	return c, err
}

// A folder reads and writes the files of refs in the .kist folder dir.
type folder struct{ dir string }

// filePath returns the path of the file of a slash-separated name.
func (d folder) filePath(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// listNames returns the sorted names of the files below the folder root ("refs" or
// "logs") that begin with prefix, also names that are impossible for refs.
func (d folder) listNames(root, prefix string) ([]string, error) {
	var names []string
	dirs := []string{root}
	if dir, _ := path.Split(prefix); strings.HasPrefix(dir, root+"/") {
		dirs[0] = strings.TrimSuffix(dir, "/")
		if !fs.ValidPath(dirs[0]) {
			return nil, nil
		}
	}

	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		entries, err := disk.ReadDir(d.filePath(dir))
		if err != nil && !isNoSuchPath(err) {
			return nil, fmt.Errorf("list refs: %w", err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			switch {
			case !strings.HasPrefix(name, prefix):
			case e.IsDir():
				dirs = append(dirs, name)
			default:
				names = append(names, name)
			}
		}
	}

	slices.Sort(names)
	return names, nil
}

// isNoSuchPath reports whether err means that a path or a folder in it does not exist.
func isNoSuchPath(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// A refValue is the content of a ref's file: an ID, or the name of another ref.
type refValue struct {
	id     object.ID
	target string // full name; empty if it is an ID
}

const maxValueSize = 2048 // bytes of a ref's file

func (v refValue) firstLine() string {
	if v.target != "" {
		return "ref: " + v.target
	}
	return v.id.String()
}

// encode returns a file of two lines: the value, and its checksum.
func (v refValue) encode() []byte { return disk.WithSum([]byte(v.firstLine())) }

// decodeValue decodes a file. The second line may be absent, so that a person
// can write a file by hand.
func decodeValue(data []byte) (refValue, error) {
	line, rest, complete := bytes.Cut(data, []byte("\n"))
	if !complete {
		return refValue{}, errors.New("cut off")
	}

	var v refValue
	if target, symbolic := strings.CutPrefix(string(line), "ref: "); symbolic {
		if err := CheckName(target); err != nil {
			return refValue{}, err
		}
		v.target = target
	} else {
		id, err := object.ParseID(string(line))
		if err != nil {
			return refValue{}, err
		}
		if id.IsZero() {
			return refValue{}, errors.New("the zero ID")
		}
		v.id = id
	}
	if len(rest) > 0 && !bytes.Equal(data, v.encode()) {
		return refValue{}, errors.New("checksum does not fit")
	}

	return v, nil
}

// readValue reads the file of a ref, of HEAD or of a special name. Found is false
// if it does not exist or is a folder.
func (d folder) readValue(name string) (v refValue, found bool, err error) {
	v, _, err = d.readSummed(name)
	return v, v != refValue{}, err
}

// readSummed is readValue that also reports whether the file has a checksum. If not, a
// person may have written it. The value is zero if there is no file.
func (d folder) readSummed(name string) (v refValue, summed bool, err error) {
	data, found, err := d.readFile(name, maxValueSize)
	if err != nil || !found {
		return refValue{}, false, err
	}
	v, err = decodeValue(data)
	if err == nil && v.target != "" && !mayReferTo(name, v.target) {
		err = fmt.Errorf("names %s", v.target)
	}
	if err != nil {
		return refValue{}, false, Damaged(name, err)
	}
	return v, bytes.Equal(data, v.encode()), nil
}

// mayReferTo reports whether the ref name may refer to target: HEAD to a branch,
// and a remote's HEAD to a branch of the same remote.
func mayReferTo(name, target string) bool {
	if name == "HEAD" {
		return strings.HasPrefix(target, Heads)
	}
	return isRemoteHead(name) && target != name && strings.HasPrefix(target, strings.TrimSuffix(name, "HEAD"))
}

// readFile returns the content of a file of at most limit bytes. It follows no
// symlink and does not wait for a FIFO.
func (d folder) readFile(name string, limit int64) (data []byte, found bool, err error) {
	f, err := disk.OpenFile(d.filePath(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case isNoSuchPath(err):
		return nil, false, nil
	case errors.Is(err, disk.ErrSymlink) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO):
		return nil, false, Damaged(name, errors.New("not a regular file"))
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}

	defer f.Close()

	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	case info.IsDir():
		return nil, false, nil
	case !info.Mode().IsRegular():
		return nil, false, Damaged(name, errors.New("not a regular file"))
	case info.Size() > limit:
		return nil, false, Damaged(name, fmt.Errorf("longer than %d bytes", limit))
	}

	data = make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}

	return data[:n], true, nil
}

// staging is the folder in which files are written before they are renamed.
// Only the holder of the lock uses it.
const staging = "refs.tmp"

// removeStaging removes the staging folder.
func (d folder) removeStaging() error { return disk.RemoveAll(d.filePath(staging)) }

// endKilled ends the changes of a killed process, and removes its staging folder.
func (d folder) endKilled() error {
	if err := d.endNoted(); err != nil {
		return err
	}
	return d.removeStaging()
}

// A fileUpdate is a file to replace.
type fileUpdate struct {
	name string // below the .kist folder, with slashes
	data []byte
}

// stageFiles writes the files to the staging folder and syncs them. The returned
// function renames them to their places, in order, and returns how many it
// renamed. Until then no file has changed. The caller holds the lock.
func (d folder) stageFiles(files []fileUpdate) (place func() (placed int, err error), err error) {
	if len(files) == 0 {
		return func() (int, error) { return 0, nil }, nil
	}
	if err := disk.Mkdir(d.filePath(staging), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}

	staged := func(i int) string { return filepath.Join(d.filePath(staging), strconv.Itoa(i)) }
	err = eachParallel(len(files), func(i int) error { return writeSynced(staged(i), files[i].data) })
	var dirs []string
	for i := 0; err == nil && i < len(files); i++ {
		dir := filepath.Dir(d.filePath(files[i].name))
		err = disk.MakeDir(dir)
		dirs = append(dirs, dir)
	}

	if err != nil {
		return nil, errors.Join(err, d.removeStaging())
	}

	return func() (int, error) {
		for i, f := range files {
			if err := rename(staged(i), d.filePath(f.name)); err != nil {
				return i, errors.Join(err, d.removeStaging())
			}
		}
		return len(files), errors.Join(syncDirs(dirs), d.removeStaging())
	}, nil
}

// writeFiles replaces files, each atomically. The caller holds the lock.
func (d folder) writeFiles(files ...fileUpdate) error {
	place, err := d.stageFiles(files)
	if err == nil {
		_, err = place()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", files[0].name, err)
	}
	return nil
}

// writeSynced writes a new file and syncs it.
func writeSynced(path string, data []byte) error {
	return disk.CreateSynced(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// rename renames a file to path. It removes an empty folder there.
func rename(from, path string) error {
	err := disk.Rename(from, path)
	if info, statErr := disk.Lstat(path); err != nil && statErr == nil && info.IsDir() {
		removeEmpty(path)
		err = disk.Rename(from, path)
	}
	return err
}

// removeEmpty removes a folder that contains only folders.
func removeEmpty(dir string) {
	entries, _ := disk.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	disk.Remove(dir)
}

// removeFile removes the file of a name, if it exists, and then the empty folders
// above it, except refs and logs themselves. It returns the folder that
// changed.
func (d folder) removeFile(name string) (changed string, err error) {
	if err := disk.Remove(d.filePath(name)); err != nil && !isNoSuchPath(err) {
		return "", err
	}
	dir := filepath.Dir(filepath.FromSlash(name))
	for filepath.Dir(dir) != "." && disk.Remove(filepath.Join(d.dir, dir)) == nil {
		dir = filepath.Dir(dir)
	}

	return filepath.Join(d.dir, dir), nil
}

// syncDirs syncs the entries of folders.
func syncDirs(dirs []string) error {
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	return eachParallel(len(dirs), func(i int) error {
		err := disk.SyncDir(dirs[i])
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, because it was empty
			return nil
		}
		return err
	})
}

// eachParallel calls do for 0 to n-1, several at a time, and returns the first error. The
// calls mostly wait for the disk.
func eachParallel(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { return do(i) })
	}

	return group.Wait()
}

// lockFile is locked by writers.
const lockFile = "refs.lock"

// lockWriters takes the writers' lock and returns the function that releases it. The
// error is a [*disk.BusyError] if others hold it for too long.
func (d folder) lockWriters(ctx context.Context) (unlock func(), err error) {
	return d.lockAs(ctx, disk.Exclusive, d.endKilled)
}

// lockOut waits for writers and excludes them until the returned function is
// called. It needs no permission to write.
func (d folder) lockOut(ctx context.Context) (unlock func(), err error) {
	return d.lockAs(ctx, disk.Shared, func() error { return nil })
}

// lockAs takes a lock and calls begin under it.
func (d folder) lockAs(ctx context.Context, mode disk.Mode, begin func() error) (unlock func(), err error) {
	l, err := disk.Lock(ctx, d.filePath(lockFile), mode, disk.DefaultWait)
	if err == nil {
		if err = begin(); err == nil {
			return l.Unlock, nil
		}
		l.Unlock()
	}
	return nil, fmt.Errorf("lock refs: %w", err)
}
