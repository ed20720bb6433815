package transfer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ErrState is the kind of the [*object.DamageError] for a file in the folder of a remote.
var ErrState = errors.New("a file in the folder of a remote is damaged")

// ErrCopyRemoved is the kind of the [*object.DamageError] for a damaged copy in the folder
// of a remote that was removed. The next attempt reads the file from the remote.
var ErrCopyRemoved = errors.New("a damaged copy of a file of a remote was removed")

// CheckState checks all files in the folder of a remote, Options.Dir. A folder
// that does not exist is intact. Files come and go while others work: one that is
// gone is not damaged.
func CheckState(ctx context.Context, dir string) (damage []*object.DamageError, err error) {
	var files []string
	for _, pattern := range []string{bindingFile, headFile, keepFile, promiseFile, indexFolder + "/*", stateFolder + "/*", pushFolder + "/*/*", keysFolder + "/*"} {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, filepath.FromSlash(file))
		err := checkStateFile(file, path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			damage = append(damage, &object.DamageError{Name: path, Err: err, Kind: ErrState})
		}
	}
	return damage, nil
}

// LacksHead reports whether the head that was seen last is missing in the folder of a
// remote, although a copy of its root is here. That is damage if the head was noted: the
// copy comes first.
func LacksHead(dir string) bool {
	c := &cache{dir: dir}
	head, err := c.readHead()
	if head != nil || err != nil {
		return false
	}
	if _, err := disk.Lstat(c.path(bindingFile)); err != nil { // the folder is being cleared
		return false
	}
	files, err := disk.ReadDir(c.stateDir())
	return err == nil && slices.ContainsFunc(files, func(f os.DirEntry) bool { return rootlog.IsRootCopy(f.Name()) })
}

// HeadFile is the name of the file with the head that was seen last.
const HeadFile = headFile

// checkStateFile checks one file, whose path below the folder is file. A file
// with any other name is not one that kist reads.
func checkStateFile(file, path string) error {
	folder, base := filepath.Split(file)
	if folder == keysFolder+"/" {
		data, err := disk.ReadFile(path)
		if err != nil {
			return err
		}
		return keyset.CheckFile(base, data)
	}
	name, nameErr := pack.ParseName(base)
	isNote, isState := file == bindingFile || file == headFile || file == keepFile || file == promiseFile, folder == stateFolder+"/"
	switch {
	case nameErr != nil && !isNote && !(isState && rootlog.IsRootCopy(base)):
		return nil
	case folder == indexFolder+"/":
		return checkIndexCopy(path)
	}

	data, err := disk.ReadFile(path)
	switch {
	case err != nil:
	case isNote:
		err = checkNote(file, data)
	case isState:
		_, err = disk.WithoutSum(data)
	default:
		_, _, err = parseSent(name, data)
	}
	return err
}

// knownKeys is the file with the fingerprints of the keys that were seen.
const knownKeys = keysFolder + "/" + keyset.KnownFile

// checkNote checks the bytes of the binding, the head or the known keys.
func checkNote(file string, data []byte) error {
	if file == knownKeys {
		return keyset.CheckFile(keyset.KnownFile, data)
	}
	if file == headFile {
		_, err := decodeNote[rootlog.Position](data)
		return err
	}
	if file == keepFile {
		_, err := decodeNote[KeepNote](data)
		return err
	}
	if file == promiseFile {
		_, err := decodePromise(data)
		return err
	}
	b, err := decodeNote[binding](data)
	if err == nil {
		_, err = rootlog.ParseIdentity(b.Identity)
	}
	if errors.Is(err, rootlog.ErrFormat) {
		return nil
	}
	return err
}

// checkIndexCopy reads all of a copy of an index file.
func checkIndexCopy(path string) error {
	file, err := disk.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	x, err := pack.OpenIndex(file, info.Size())
	if err != nil {
		return err
	}
	return x.Verify()
}

// ErrHeadLost means that no file here records the last head seen of a remote.
var ErrHeadLost = errors.New("the head that was seen last is not known")

// RepairState repairs a file that [CheckState] found damaged. If one bit of a note has
// changed, RepairState restores it. For a head that is damaged otherwise it returns
// [ErrHeadLost]: [Remote.RebuildHead] replaces it. Damaged fingerprints of keys stay: only the user can
// decide to trust the store without them. It removes any other file, because
// kist makes a new one when it needs it. It calls keep before a change. It returns a
// description of the repair, empty if the file is intact by now. With dryRun it only
// returns that.
func RepairState(ctx context.Context, dir string, damage *object.DamageError, dryRun bool, keep func() error) (how string, err error) {
	file, err := filepath.Rel(dir, damage.Name)
	if err != nil {
		return "", err
	}

	c := &cache{dir: dir}
	file = filepath.ToSlash(file)
	err = c.withLock(ctx, func() error {
		err := checkStateFile(file, damage.Name)
		if errors.Is(err, fs.ErrNotExist) && file == headFile {
			return ErrHeadLost
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil // another process has replaced it
		}
		var data []byte
		if file == headFile || file == bindingFile || file == knownKeys {
			if data, err = disk.ReadFile(damage.Name); err != nil {
				return err
			}
			mended := disk.Mend(data, func(data []byte) bool { return checkNote(file, data) == nil })
			switch {
			case mended:
				how = "one bit of it had changed"
			case file == headFile:
				return ErrHeadLost
			case file == knownKeys:
				return nil
			}
		}
		if dryRun {
			how = cmp.Or(how, removedState)
			return nil
		}
		if err := keep(); err != nil {
			return err
		}
		if how != "" {
			return disk.WriteFile(damage.Name, data)
		}
		how = removedState
		return disk.Remove(damage.Name)
	})
	return how, err
}

const removedState = "removed: it is made again when it is needed"

// FirstHead returns the remote's current root as at first contact, without
// regard to the head that was seen last. It remembers nothing.
func (r *Remote) FirstHead(ctx context.Context) (*rootlog.State, error) { return r.log.Head(ctx, nil) }

// RebuildHead replaces the file of the head that was seen last, which is damaged,
// by a head that [Remote.FirstHead] returned. From then on a rollback to before
// that head is noticed again. Before the change RebuildHead calls keep. With
// dryRun only this Remote uses the head.
func (r *Remote) RebuildHead(ctx context.Context, head *rootlog.State, dryRun bool, keep func() error) error {
	p := head.Position()
	r.cache.seen = &p
	if dryRun {
		return nil
	}
	return r.cache.withLock(ctx, func() error {
		if known, err := r.cache.readHead(); known != nil || err != nil && !errors.Is(err, ErrState) {
			return err // another process has replaced it
		}
		if err := keep(); err != nil {
			return err
		}
		return r.cache.writeNote(headFile, p)
	})
}
