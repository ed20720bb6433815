package index

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

var errNotKnown = errors.New("not known")

// KnownTree returns the tree of all that the index in a repository's folder
// (.kist) holds, if it is remembered and there are no conflicts. It reads only
// the beginning of the files, however large they are. If it reports false,
// whatever the reason, [Load] tells more. That the tree is in the store is not
// known.
func KnownTree(kistDir string) (object.ID, bool) {
	id, err := knownTree(kistDir)
	return id, err == nil
}

func knownTree(kistDir string) (object.ID, error) {
	head, err := openBlocks(filepath.Join(kistDir, headName), kindHead)
	if err != nil {
		return object.ID{}, err
	}
	defer head.Close()
	h, err := head.headRecord()
	switch {
	case err != nil:
		return object.ID{}, err
	case h.conflicts > 0:
		return object.ID{}, errNotKnown
	case h.counts.dirs > 0: // the root is the first
		return head.rootTree()
	}
	base, err := openBlocks(filepath.Join(kistDir, h.base.name()), kindBase)
	if err != nil {
		return object.ID{}, err
	}
	defer base.Close()
	if err := base.begin(); err != nil {
		return object.ID{}, err
	}
	base.counts()
	return base.rootTree()
}

// fileBlocks reads the records of an open file.
type fileBlocks struct {
	*blockReader
	*os.File
}

func openBlocks(path string, kind byte) (*fileBlocks, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := newBlockReader(f, kind)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &fileBlocks{b, f}, nil
}

// rootTree returns the tree in the next record, which is that of the root.
func (b *fileBlocks) rootTree() (object.ID, error) {
	if err := b.begin(); err != nil {
		return object.ID{}, err
	}
	root, err := b.dirRecord()
	if err == nil && (len(root.name) > 0 || root.flags&flagTree == 0) {
		err = errNotKnown
	}
	return root.tree.ID, err
}
