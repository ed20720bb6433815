package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// The files in the folder of a remote. Without them a rollback is not noticed, and
// the packs of an interrupted push are sent again. All of them have a checksum:
// see docs/format/remotestate.md.
const (
	bindingFile = "remote" // the binding, a note
	headFile    = "head"   // the head that was seen last, a note
	lockFile    = "lock"   // held while either is written
	indexFolder = "index"  // copies of index files
	stateFolder = "state"  // copies of state files
	pushFolder  = "push"   // see journal
	locksFile   = "locks"  // the locks that were seen last, a note
	unfitFile   = "unfit"  // there if a check found the store unfit; empty
)

// binding says which remote the folder belongs to, and where it was seen last.
type binding struct {
	URL      string `json:"url"`
	Identity []byte `json:"identity"` // kist.json as it is stored
}

// cache is the folder of a remote; dir may be empty, for none.
type cache struct {
	dir  string
	url  string
	id   *rootlog.Identity // nil: not known, or has to be read again
	seen *rootlog.Position // of this Remote; the file may be ahead
}

// openCache opens the folder. It trusts the binding only if that has a checksum
// and the URL is the same. In all other cases kist.json is read again: see bind.
func openCache(o Options) (*cache, error) {
	c := &cache{dir: o.Dir, url: o.URL}
	if c.dir == "" {
		return c, nil
	}
	if err := disk.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}
	data, err := disk.ReadFile(c.path(bindingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	b, summed, err := decodeNote[binding](data)
	if err != nil || !summed || b.URL != c.url {
		return c, nil
	}
	id, err := rootlog.ParseIdentity(b.Identity)
	if err != nil {
		return c, nil
	}
	// Without a known root, a remote that was replaced could not be noticed.
	if head, err := c.head(); err != nil || head == nil || head.Seq == 0 {
		return c, nil
	}
	c.id = id
	return c, nil
}

// identity returns what the remote is known to be, or nil.
func (c *cache) identity() *rootlog.Identity { return c.id }

// bind notes that the folder belongs to the remote whose kist.json was just read. If the
// URL was changed to that of another remote, bind removes everything that is remembered.
// At the same URL the head stays: it shows whether the remote was replaced. But a remote
// without a root has nothing to lose.
func (c *cache) bind(ctx context.Context, id *rootlog.Identity) error {
	c.id = id
	if c.dir == "" {
		return nil
	}
	want, err := encodeNote(binding{URL: c.url, Identity: id.Stored()})
	if err != nil {
		return err
	}
	return c.locked(ctx, func() error {
		have, err := disk.ReadFile(c.path(bindingFile))
		if err == nil && bytes.Equal(have, want) {
			return nil
		}
		head, _, headErr := c.readHead()
		unused := headErr == nil && head != nil && head.Seq == 0 && head.Hash != id.Hash
		if unused || err == nil && c.isOther(have, id) {
			if err := c.clear(); err != nil {
				return err
			}
		}
		return disk.WriteFile(c.path(bindingFile), want)
	})
}

// isOther reports whether a binding is to another remote at another URL.
func (c *cache) isOther(file []byte, id *rootlog.Identity) bool {
	b, _, err := decodeNote[binding](file)
	if err != nil || b.URL == c.url {
		return false
	}
	old, err := rootlog.ParseIdentity(b.Identity)
	return err == nil && old.Remote != id.Remote
}

// clear removes all that is remembered.
func (c *cache) clear() error {
	for _, name := range []string{bindingFile, headFile, indexFolder, stateFolder, pushFolder, locksFile, unfitFile} {
		if err := disk.RemoveAll(c.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// head returns the head that was seen last, or nil. A damaged file is a
// [ErrState], unless this Remote itself has seen a head.
func (c *cache) head() (*rootlog.Position, error) {
	p, _, err := c.readHead()
	if c.seen != nil && (errors.Is(err, ErrState) || err == nil && (p == nil || c.seen.Seq > p.Seq)) {
		return c.seen, nil
	}
	return p, err
}

// readHead returns the head in the file, or nil, and whether the file has a
// checksum.
func (c *cache) readHead() (p *rootlog.Position, summed bool, err error) {
	if c.dir == "" {
		return nil, false, nil
	}
	data, err := disk.ReadFile(c.path(headFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	head, summed, err := decodeNote[rootlog.Position](data)
	if err != nil {
		return nil, false, &object.DamageError{Name: c.path(headFile), Err: err, Kind: ErrState}
	}
	return &head, summed, nil
}

// setHead notes a head, unless a later one is known. A file that an earlier
// version wrote gets its checksum.
func (c *cache) setHead(ctx context.Context, p rootlog.Position) error {
	if c.seen != nil && c.seen.Seq >= p.Seq {
		return nil
	}
	c.seen = &p
	if c.dir == "" {
		return nil
	}
	return c.locked(ctx, func() error {
		known, summed, err := c.readHead()
		if err != nil || known != nil && (known.Seq > p.Seq || summed && known.Seq == p.Seq) {
			return err
		}
		return c.writeHead(p)
	})
}

// writeHead replaces the head's file. The lock must be held.
func (c *cache) writeHead(p rootlog.Position) error {
	data, err := encodeNote(p)
	if err != nil {
		return err
	}
	return disk.WriteFile(c.path(headFile), data)
}

// A note is a small file: JSON, and a line with its checksum.

func encodeNote(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return disk.WithSum(data), err
}

// decodeNote reads a note. Earlier versions wrote no checksum: then summed is false, and
// the JSON must be exactly as they wrote it.
func decodeNote[T binding | rootlog.Position | lockNote](file []byte) (v T, summed bool, err error) {
	data, summed, err := disk.CutSum(file)
	if err != nil {
		return v, summed, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, summed, err
	}
	if again, err := json.Marshal(v); !summed && (err != nil || !bytes.Equal(again, data)) {
		return v, false, errors.New("not what kist writes")
	}
	return v, summed, nil
}

// locked calls f while no other process writes the folder's files.
func (c *cache) locked(ctx context.Context, f func() error) error {
	lock, err := disk.Lock(ctx, c.path(lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return f()
}

// path returns the path of a file in the folder.
func (c *cache) path(name string) string { return filepath.Join(c.dir, name) }

// stateDir returns the folder for copies of state files; empty: none.
func (c *cache) stateDir() string {
	if c.dir == "" {
		return ""
	}
	return c.path(stateFolder)
}
