package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// The files in the folder of a remote. Without them a rollback is not noticed, and
// the packs of an interrupted push are sent again. All of them have a checksum:
// see docs/format/remotestate.md.
const (
	bindingFile = "remote"  // the binding, a note
	headFile    = "head"    // the last head that was read, a note
	lockFile    = "lock"    // held while either is written
	indexFolder = "index"   // copies of index files
	stateFolder = "state"   // copies of state files
	pushFolder  = "push"    // see journal.go
	keysFolder  = "keys"    // of an encrypted remote; see package keyset
	locksFile   = "locks"   // the last known locks of files, a note
	keepFile    = "keep"    // the keep ref of the repository, a note
	promiseFile = "promise" // the content that a lazy repository relies on, a note
	thawFile    = "thaw"    // the packs that the store thaws, a note
	unfitFile   = "unfit"   // exists if a check found the store unfit; empty
)

// binding names the remote that the folder belongs to, and its last known URL.
type binding struct {
	URL      string `json:"url"`
	Identity []byte `json:"identity"` // kist.json as it is stored
}

// cache is the folder of a remote.
type cache struct {
	dir  string // empty: there is no folder
	url  string
	id   *rootlog.Identity // nil: kist.json must be read
	seen *rootlog.Position // the last head that this Remote read; the file may have a later one
}

// openCache opens the folder. It trusts the binding only if the URL is the
// same, and a head is known. Otherwise c.id is nil and the caller must read
// kist.json: see bindTo.
func openCache(o Options) (*cache, error) {
	c := &cache{dir: o.Dir, url: o.URL}
	if c.dir == "" {
		return c, nil
	}
	if err := disk.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}

	b, err := readNote[binding](c, bindingFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrState):
		return c, nil
	case err != nil:
		return nil, err
	case b.URL != c.url:
		return c, nil
	}

	id, err := rootlog.ParseIdentity(b.Identity)
	if err != nil {
		return c, nil
	}

	// Without a known root, kist would not notice that the remote was replaced.
	if head, err := c.knownHead(); err == nil && head != nil && head.Seq > 0 {
		c.id = id
	}
	return c, nil
}

// bindTo binds the folder to the remote whose kist.json is id, which the caller has just
// read.
//
// If the folder belongs to another remote at another URL, bindTo removes its content. At
// the same URL, it keeps the head, which reveals that the remote was replaced. It removes the
// head of a remote without a root: such a remote has nothing to lose.
func (c *cache) bindTo(ctx context.Context, id *rootlog.Identity) error {
	c.id = id
	if c.dir == "" {
		return nil
	}
	return c.withLock(ctx, func() error {
		have, err := readNote[binding](c, bindingFile)
		if err == nil && have.URL == c.url && bytes.Equal(have.Identity, id.Stored()) {
			return nil
		}

		head, headErr := c.readHead()
		unused := headErr == nil && head != nil && head.Seq == 0 && head.Hash != id.Hash
		if unused || err == nil && have.URL != c.url && isOther(have.Identity, id) {
			if err := c.clearFolder(); err != nil {
				return err
			}
		}
		return c.writeNote(bindingFile, binding{URL: c.url, Identity: id.Stored()})
	})
}

// isOther reports whether a stored kist.json is that of another remote than id.
func isOther(stored []byte, id *rootlog.Identity) bool {
	old, err := rootlog.ParseIdentity(stored)
	return err == nil && old.Remote != id.Remote
}

// clearFolder removes the content of the folder.
func (c *cache) clearFolder() error {
	for _, name := range []string{bindingFile, headFile, indexFolder, stateFolder, pushFolder, keysFolder, locksFile, keepFile, thawFile, unfitFile} {
		if err := disk.RemoveAll(c.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// knownHead returns the last known head, or nil. The error for a damaged file matches
// [ErrState], unless this Remote has read a head itself.
func (c *cache) knownHead() (*rootlog.Position, error) {
	p, err := c.readHead()
	if c.seen != nil && (errors.Is(err, ErrState) || err == nil && (p == nil || c.seen.Seq > p.Seq)) {
		return c.seen, nil
	}
	return p, err
}

// readHead returns the head in the file, or nil.
func (c *cache) readHead() (*rootlog.Position, error) {
	if c.dir == "" {
		return nil, nil
	}
	head, err := readNote[rootlog.Position](c, headFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &head, nil
}

// setHead notes a head, unless that or a later one is known.
func (c *cache) setHead(ctx context.Context, p rootlog.Position) error {
	if c.seen != nil && c.seen.Seq >= p.Seq {
		return nil
	}
	c.seen = &p
	if c.dir == "" {
		return nil
	}
	return c.withLock(ctx, func() error {
		known, err := c.readHead()
		if err != nil || known != nil && known.Seq >= p.Seq {
			return err
		}
		if err := c.writeNote(headFile, p); !errors.Is(err, syscall.EROFS) { // a repository to look at
			return err
		}
		return nil
	})
}

// A note is a small file: a line of JSON, and a line with its checksum.

// readNote reads a note. The error matches [fs.ErrNotExist] if there is none, and
// [ErrState] if it is damaged.
func readNote[T binding | rootlog.Position | lockNote | KeepNote | Promise | thawNote](c *cache, name string) (v T, err error) {
	data, err := disk.ReadFile(c.path(name))
	if err != nil {
		return v, err
	}
	if v, err = decodeNote[T](data); err != nil {
		err = &object.DamageError{Name: c.path(name), Err: err, Kind: ErrState}
	}
	return v, err
}

// writeNote replaces a note. The caller holds the folder's lock.
func (c *cache) writeNote(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return disk.WriteFile(c.path(name), disk.WithSum(data))
}

// decodeNote decodes a note.
func decodeNote[T binding | rootlog.Position | lockNote | KeepNote | Promise | thawNote](file []byte) (v T, err error) {
	data, err := disk.WithoutSum(file)
	if err != nil {
		return v, err
	}
	err = json.Unmarshal(data, &v)
	return v, err
}

// withLock calls f while no other process writes the folder's files.
func (c *cache) withLock(ctx context.Context, f func() error) error {
	lock, err := disk.Lock(ctx, c.path(lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return f()
}

// path returns the path of a file in the folder.
func (c *cache) path(name string) string { return filepath.Join(c.dir, name) }

// stateDir returns the folder for copies of state files, or "" if there is none.
func (c *cache) stateDir() string {
	if c.dir == "" {
		return ""
	}
	return c.path(stateFolder)
}
