package transfertest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Invent appends a root with an index file of n chunks in packs of at most 1,000, which do not exist. It
// returns the entries, sorted by key.
func (o *Origin) Invent(n int) []pack.Entry {
	o.T.Helper()
	entries := make([]pack.Entry, n)
	for i := range entries {
		id := sha256.Sum256(fmt.Append(nil, "invented ", len(o.Head.Indexes), i))
		p := pack.Info{Size: pack.TargetSize}
		binary.BigEndian.PutUint32(p.Name[:], uint32(1+len(o.Head.Indexes)))
		binary.BigEndian.PutUint32(p.Name[4:], uint32(i/1000))
		entries[i] = pack.Entry{Key: object.Key{Kind: object.KindChunk, ID: id}, Pack: p, Offset: uint32(32 + i%1000*4000), Stored: 4000, Raw: 8000}
	}
	o.AppendRoot(rootlog.Change{AddIndexes: []rootlog.File{o.index(entries)}})
	return entries
}

// NewRef returns the change that adds a ref of an invented commit.
func (o *Origin) NewRef(name string) rootlog.Change {
	id := o.MakeCommit(o.MakeTree(map[string]string{"of": name}, nil))
	return rootlog.Change{Refs: []rootlog.RefChange{{Name: name, New: object.Key{Kind: object.KindCommit, ID: id}}}}
}
