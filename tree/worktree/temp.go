package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/kist-vcs/kist/tree"
)

// tempPrefix begins the names of folders for temporary files.
const tempPrefix = "write-"

// besidePrefix begins the names of temporary files that lie beside their final places. The rest
// of such a name is a random number, see isBeside.
const besidePrefix = ".kist-tmp-"

// isBeside reports whether kist gives a name to temporary files beside their final places.
func isBeside(name string) bool {
	digits, found := strings.CutPrefix(name, besidePrefix)
	return found && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// tempFolder is a folder for incomplete files. One goroutine uses it.
// If the process is killed, the next one removes the folder.
type tempFolder struct {
	folder
	parent folder
	name   string // of the folder in its parent
	next   uint32 // counts the files
}

// locker is a folder that can be locked against other processes. Closing it
// ends the lock.
type locker interface {
	// tryLock reports whether it locked the folder and the folder still exists.
	tryLock() bool
	// shareLock replaces the lock by one that any number of processes can hold. It
	// does nothing if another process holds the lock.
	shareLock()
}

// newTemp makes a folder for temporary files.
func (w *Worktree) newTemp() (*tempFolder, error) {
	if w.opt.TempDir == "" {
		return nil, errNoTemp
	}

	parent, err := w.makeTempDir()
	if err != nil {
		return nil, err
	}

	for range 100 {
		t := &tempFolder{parent: parent, name: fmt.Sprintf("%s%016x", tempPrefix, rand.Uint64())}
		if err = parent.mkdir(t.name, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			break
		}
		t.folder, err = parent.openSub(t.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // SweepTemp of another process removed it before we locked it
		} else if err != nil {
			break
		}
		if l, ok := t.folder.(locker); !ok || l.tryLock() {
			return t, nil
		}
		t.folder.Close()
	}

	parent.Close()
	return nil, pathError("mkdir", w.opt.TempDir, err)
}

var errNoTemp = errors.New("no folder for temporary files")

// makeTempDir opens TempDir and makes it if absent. TempDir lies in the
// repository's own folder, which openFolder would refuse.
func (w *Worktree) makeTempDir() (folder, error) {
	d, err := w.fs.openFolder(w.opt.TempDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}

	if d, err = w.fs.openFolder(""); err != nil {
		return nil, err
	}
	if d, err = makeBelow(d, w.opt.TempDir, 0o777, nil); err != nil {
		return nil, pathError("mkdir", w.opt.TempDir, err)
	}
	return d, nil
}

// close removes the folder, which must be empty.
func (t *tempFolder) close() {
	t.parent.rmdir(t.name)
	t.folder.Close()
	t.parent.Close()
}

// tempFile is a file or symlink that is being made under a temporary name.
type tempFile struct {
	dir  folder
	name string
}

// newPlace returns a new temporary place for a file that will be moved to the
// folder to. The place is in t, or in that folder itself if t is nil.
func (t *tempFolder) newPlace(to folder) tempFile {
	if t == nil {
		return tempFile{to, fmt.Sprintf("%s%016x", besidePrefix, rand.Uint64())}
	}
	t.next++
	return tempFile{t.folder, fmt.Sprintf("%08x", t.next)}
}

// moveTo renames the file to its final name and replaces a file, symlink or
// empty folder there, unless its name has another spelling. If that fails, it removes the file.
func (s tempFile) moveTo(to folder, name string) error {
	err := s.dir.renameNew(s.name, to, name)
	if errors.Is(err, fs.ErrExist) {
		if err = checkSpelling(to, name); err == nil {
			err = s.dir.rename(s.name, to, name)
		}
	}
	if errnoOf(err) == syscall.EISDIR || notEmpty(err) {
		// A folder has the name. rmdir fails unless it is empty.
		if to.rmdir(name) == nil {
			err = s.dir.rename(s.name, to, name)
		}
	}
	if err != nil {
		s.removeTemp()
	}
	return err
}

// removeTemp removes the file.
func (s tempFile) removeTemp() { s.dir.unlink(s.name) }

// SweepTemp removes the temporary files of killed processes. [Worktree.Apply]
// calls it, too. It ignores errors.
func (w *Worktree) SweepTemp() {
	if w.opt.TempDir == "" {
		return
	}

	parent, err := w.fs.openFolder(w.opt.TempDir)
	if err != nil {
		return
	}
	defer parent.Close()

	var list listing
	if parent.readNames(&list) != nil {
		return
	}

	for i := range list.entries {
		if name := list.nameAt(i); strings.HasPrefix(name, tempPrefix) {
			sweepTempFolder(parent, name)
		}
	}
}

func sweepTempFolder(parent folder, name string) {
	d, err := parent.openSub(name)
	if err != nil {
		return
	}
	defer d.Close()

	if l, ok := d.(locker); !ok || !l.tryLock() {
		return
	}

	var list listing
	if d.readNames(&list) != nil {
		return
	}

	for i := range list.entries {
		d.unlink(list.nameAt(i))
	}

	parent.rmdir(name)
}

// sweepBeside removes the temporary files that killed processes left in the folder of a path.
// No other process may be writing files there. So every process that does holds a shared lock
// of the folder, which ends when d is closed. It keeps files that operations make.
func (w *applyWorker) sweepBeside(dir string, d folder) {
	l, ok := d.(locker)
	if !ok {
		return
	}
	w.beside.mu.Lock()
	defer w.beside.mu.Unlock()
	defer l.shareLock()
	if w.beside.swept[dir] || !l.tryLock() {
		return
	}

	if w.beside.swept == nil {
		w.beside.swept = map[string]bool{}
	}
	w.beside.swept[dir] = true
	if d.readNames(&w.list) != nil {
		return
	}
	for i := range w.list.entries {
		name := w.list.nameAt(i)
		if !isBeside(name) {
			continue
		}
		if _, made := slices.BinarySearchFunc(w.ops, tree.Join(dir, name), func(op Op, path string) int { return tree.ComparePaths(op.Path, path) }); !made {
			d.unlink(name) // never a folder
		}
	}
}

// sweptFolders remembers the folders that sweepBeside has looked at.
type sweptFolders struct {
	mu    sync.Mutex
	swept map[string]bool // by path
}
