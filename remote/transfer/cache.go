package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// What is in the folder of a remote. All of it can be thrown away: what is
// lost is that a rollback is seen, and what an interrupted push has sent.
const (
	bindingFile = "remote" // the binding, as JSON
	headFile    = "head"   // the head that was seen last, as JSON
	lockFile    = "lock"   // held while either is written
	indexFolder = "index"  // copies of index files
	stateFolder = "state"  // copies of state files
	pushFolder  = "push"   // see journal
)

// binding is what the folder belongs to.
type binding struct {
	URL      string `json:"url"`
	Identity []byte `json:"identity"` // kist.json as it is stored
}

// cache is the folder of a remote; dir may be empty, for none.
type cache struct {
	dir  string
	url  string
	warn func(string)
	id   *rootlog.Identity // nil: not known, or has to be read again
	seen *rootlog.Position // of this Remote; the file may be ahead
}

// openCache opens the folder, and clears it if it belongs to another URL.
func openCache(ctx context.Context, o Options) (*cache, error) {
	c := &cache{dir: o.Dir, url: o.URL, warn: o.Warn}
	if c.dir == "" {
		return c, nil
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.path(bindingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	var b binding
	if err := json.Unmarshal(data, &b); err != nil || b.URL != c.url {
		return c, c.locked(ctx, c.clear)
	}
	id, err := rootlog.ParseIdentity(b.Identity)
	if err != nil {
		return c, c.locked(ctx, c.clear)
	}
	// As long as no root is known, nothing would tell that this is another
	// remote by now.
	if head, err := c.head(); err != nil || head == nil || head.Seq == 0 {
		return c, nil
	}
	c.id = id
	return c, nil
}

// identity returns what the remote is known to be, or nil.
func (c *cache) identity() *rootlog.Identity { return c.id }

// bind has the folder belong to the remote of an identity that was read from it
// just now.
func (c *cache) bind(ctx context.Context, id *rootlog.Identity) error {
	c.id = id
	if c.dir == "" {
		return nil
	}
	return c.locked(ctx, func() error {
		want, err := json.Marshal(binding{URL: c.url, Identity: id.Stored()})
		if err != nil {
			return err
		}
		if have, err := os.ReadFile(c.path(bindingFile)); err == nil && string(have) == string(want) {
			return nil
		}
		if err := c.clear(); err != nil {
			return err
		}
		return disk.WriteFile(c.path(bindingFile), want)
	})
}

// clear removes all that is remembered.
func (c *cache) clear() error {
	for _, name := range []string{bindingFile, headFile, indexFolder, stateFolder, pushFolder} {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// head returns the head that was seen last, or nil.
func (c *cache) head() (*rootlog.Position, error) {
	p, err := c.readHead()
	if err != nil || p == nil || c.seen != nil && c.seen.Seq > p.Seq {
		return c.seen, err
	}
	return p, nil
}

// readHead returns the head in the file, or nil.
func (c *cache) readHead() (*rootlog.Position, error) {
	if c.dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.path(headFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p rootlog.Position
	if err := json.Unmarshal(data, &p); err != nil {
		c.warn(fmt.Sprintf("%s is damaged and not used, so a remote that was set back is not noticed: %v", c.path(headFile), err))
		return nil, nil
	}
	return &p, nil
}

// setHead notes a head, unless a later one is known.
func (c *cache) setHead(ctx context.Context, p rootlog.Position) error {
	if c.seen != nil && c.seen.Seq >= p.Seq {
		return nil
	}
	c.seen = &p
	if c.dir == "" {
		return nil
	}
	return c.locked(ctx, func() error {
		switch known, err := c.readHead(); {
		case err != nil:
			return err
		case known != nil && known.Seq >= p.Seq:
			return nil
		}
		data, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return disk.WriteFile(c.path(headFile), data)
	})
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
