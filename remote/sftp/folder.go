package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"

	"github.com/pkg/sftp"
	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

const identity = "kist.json"

// prepareRoot makes the folder that is the remote, and checks that it has no other use, unless that was done.
func (b *Backend) prepareRoot(c *conn) error {
	if b.own.Load() {
		return nil
	}
	_, err := c.Lstat(b.at(identity))
	if err == nil {
		b.found.Store(true)
		b.identified.Store(true)
		b.own.Store(true)
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	infos, err := c.ReadDir(b.root)
	if errors.Is(err, fs.ErrNotExist) {
		if err = c.mkdir(b.root); errors.Is(err, fs.ErrNotExist) {
			return &callError{remote.ErrNoStore, fmt.Errorf("folder %q does not exist on the server", path.Dir(b.root))}
		}
		if err == nil {
			err = c.syncAt(path.Dir(b.root))
		}
	}
	if err != nil {
		return b.explainWrite(c, err)
	}
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name()
	}
	if name := remote.FindForeign(names); name != "" {
		return &callError{remote.ErrUnsupported, &remote.ForeignError{Folder: b.root, File: name}}
	}
	b.found.Store(true)
	b.own.Store(true)
	return nil
}

// mkdir makes a folder that may exist.
func (c *conn) mkdir(at string) error {
	err := c.Mkdir(at)
	if err == nil || errors.Is(err, fs.ErrNotExist) || isLost(err) {
		return err
	}
	info, statErr := c.Client.Stat(at)
	switch {
	case statErr != nil:
		return err
	case !info.IsDir():
		return &callError{remote.ErrUnsupported, fmt.Errorf("in the way of a folder: %q is not one", at)}
	}
	return nil
}

// makeFolder makes a folder below the root, and its parents. Their names are on disk after syncParents. It begins
// with the folder: most parents exist, and each request takes a round trip.
func (b *Backend) makeFolder(c *conn, folder string) error {
	parent := folderOf(folder)
	if parent == "" {
		if err := b.isStillThere(c); err != nil {
			return err
		}
		return c.mkdir(b.at(folder))
	}
	err := c.mkdir(b.at(folder))
	if errors.Is(err, fs.ErrNotExist) {
		if err = b.makeFolder(c, parent); err == nil {
			err = c.mkdir(b.at(folder))
		}
	}
	return err
}

// isStillThere returns an error if the remote vanished, as when its disk is no longer mounted: its folders are not
// made on another disk.
func (b *Backend) isStillThere(c *conn) error {
	if !b.identified.Load() {
		return nil
	}
	_, err := c.Lstat(b.at(identity))
	if errors.Is(err, fs.ErrNotExist) {
		return &callError{remote.ErrNoStore, fmt.Errorf("the remote in %q went away: its disk may no longer be mounted", b.root)}
	}
	return err
}

// openFolder opens a folder to sync it, or returns nil if the server cannot do that. It makes a missing folder.
func (b *Backend) openFolder(c *conn, folder string) (*sftp.File, error) {
	if !c.has(extFsync) {
		if _, known := b.durable.Load(folder); known || folder == "" {
			return nil, nil
		}
		return nil, b.makeFolder(c, folder)
	}
	d, err := c.Open(b.at(folder))
	if errors.Is(err, fs.ErrNotExist) {
		if err = b.makeFolder(c, folder); err == nil {
			d, err = c.Open(b.at(folder))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !isLost(err) {
		return nil, nil // the user may write there but not read, or the server opens no folders
	}
	return d, err
}

// syncParents syncs the folders on the way to a folder which are new to this process: another one may have made
// them just now.
func (b *Backend) syncParents(c *conn, folder string) error {
	var group errgroup.Group
	for at := folder; at != ""; at = folderOf(at) {
		if _, known := b.durable.Load(at); known {
			continue
		}
		group.Go(func() error {
			err := c.syncAt(b.at(folderOf(at)))
			if err == nil {
				b.durable.Store(at, true)
			}
			return err
		})
	}
	return group.Wait()
}

// syncAt syncs the names in a folder, if the server can.
func (c *conn) syncAt(at string) error {
	if !c.has(extFsync) {
		return nil
	}
	d, err := c.Open(at)
	if err != nil {
		if isLost(err) {
			return err
		}
		return nil
	}
	defer func() { go d.Close() }()
	return syncFolder(c, d)
}

// syncFolder syncs the names in an open folder, if the server can. d may be nil.
func syncFolder(c *conn, d *sftp.File) error {
	if d == nil || !c.has(extFsync) {
		return nil
	}
	err := d.Sync()
	if hasCode(err, codeBadMessage, codeUnsupported) { // this file system syncs no folders
		return nil
	}
	return err
}

// mover gives written files their final names.
type mover struct {
	linked  atomic.Bool  // a link was made
	noLinks atomic.Bool  // the server knows links, and makes none
	renames atomic.Int32 // what a rename to a name that is taken does

	replacing sync.Mutex // for a look at a name and a rename to it
}

// The values of mover.renames.
const (
	unknown = iota
	refuses
	replaces
)

// place gives a file its final path, if that is free: by a link or, without links, by a rename.
func (b *Backend) place(ctx context.Context, t *temp, to string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.c.has(extHardlink) && !t.c.has(extFsync) && !b.mover.linked.Load() && !b.mover.noLinks.Load() {
		if err := b.tryLink(t); err != nil {
			return err
		}
	}
	if !t.c.has(extHardlink) || b.mover.noLinks.Load() {
		return b.rename(t, to)
	}
	err := t.c.Link(t.at, to)
	if err == nil {
		b.mover.linked.Store(true)
		return nil
	}
	if isLost(err) {
		return err
	}
	if free, lookErr := t.c.isFree(to); !free {
		return lookErr
	}
	if b.mover.linked.Load() || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.mover.noLinks.Store(true)
	return b.rename(t, to)
}

// tryLink finds out whether a server makes links that is not OpenSSH's: some report success and make none.
func (b *Backend) tryLink(t *temp) error {
	second := t.at + "-linked"
	err := t.c.Link(t.at, second)
	if isLost(err) {
		return err
	}
	_, lookErr := t.c.Lstat(second)
	if lookErr != nil && !errors.Is(lookErr, fs.ErrNotExist) {
		return lookErr
	}
	if err != nil || lookErr != nil {
		b.mover.noLinks.Store(true)
		return nil
	}
	b.mover.linked.Store(true)
	return t.c.Remove(second)
}

// isFree reports whether no file has a path. Otherwise the error names the obstacle.
func (c *conn) isFree(at string) (bool, error) {
	info, err := c.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case info.Mode().IsRegular():
		return false, &callError{remote.ErrExists, fmt.Errorf("%q is there", at)}
	}
	return false, &callError{remote.ErrUnsupported, fmt.Errorf("in the way of the blob: %q is no file", at)}
}

// rename is place for a server that makes no links.
func (b *Backend) rename(t *temp, to string) error {
	if b.mover.renames.Load() == unknown {
		if err := b.tryRename(t.c); err != nil {
			return err
		}
	}
	if b.mover.renames.Load() == replaces {
		b.mover.replacing.Lock() // of the calls of this process, one wins
		defer b.mover.replacing.Unlock()
		if free, err := t.c.isFree(to); !free {
			return err
		}
	}
	t.Close() // some servers rename no open file
	err := t.c.Rename(t.at, to)
	if err == nil {
		t.moved = true
	}
	if err == nil || isLost(err) {
		return err
	}
	if free, lookErr := t.c.isFree(to); !free {
		return lookErr
	}
	return err
}

// tryRename finds out what a rename to a name that is taken does. If it fails, a rename to a free name has to succeed.
func (b *Backend) tryRename(c *conn) error {
	var files [2]*temp
	for i := range files {
		t, err := b.createTemp(c)
		if err != nil {
			return err
		}
		defer t.discard()
		if err := t.Close(); err != nil {
			return err
		}
		files[i] = t
	}

	err := c.Rename(files[0].at, files[1].at)
	switch {
	case isLost(err):
		return err
	case err == nil:
		files[0].moved = true
		b.mover.renames.Store(replaces)
	default:
		free := files[0].at + "-moved"
		if err := c.Rename(files[0].at, free); err != nil {
			return err
		}
		files[0].at = free
		b.mover.renames.Store(refuses)
	}
	return nil
}

// Doubt implements [remote.Doubter].
func (b *Backend) Doubt() error {
	switch {
	case b.mover.renames.Load() == replaces:
		return errors.New("the server makes no hard links, and its renames replace files")
	case b.mover.noLinks.Load(): // OpenSSH then looks whether the name is free, and renames
		return errors.New("the server or its file system has no hard links")
	}
	return nil
}
