package index

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Load reads the index in the directory .kist. Without files, the index is empty. It
// returns a [*object.DamageError] for a damaged file, and a [*VersionError] for one in a
// newer format. Load and [Update] do not wait for each other.
func Load(kistDir string) (*Index, error) {
	var before []byte
	for {
		head, err := readHeadFile(kistDir)
		if err != nil || head == nil {
			return New(), err
		}
		x, err := loadHead(kistDir, head)
		if errors.Is(err, fs.ErrNotExist) {
			// The base is missing. If an update removed it, there is a newer head.
			if !bytes.Equal(head, before) {
				before = head
				continue
			}
			return nil, Damaged(headName, fmt.Errorf("base file is missing: %w", err))
		}
		return x, err
	}
}

// Saved reports whether the index was loaded from files or was written to them.
func (x *Index) Saved() bool { return x.file.head != [sha256.Size]byte{} }

// readHeadFile returns the bytes of the head, or nil if there is no head.
func readHeadFile(kistDir string) ([]byte, error) {
	head, err := disk.ReadFile(filepath.Join(kistDir, headName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return head, nil
}

// loadHead decodes a head and loads its base. Its errors name the file, except for a
// base that does not exist.
func loadHead(kistDir string, head []byte) (*Index, error) {
	x, err := readHead(head, func(ref baseRef) (*Index, error) {
		file := filepath.Join(kistDir, ref.fileName())
		x, err := loadBase(file, ref)
		return x, fileError(file, err)
	})
	return x, fileError(filepath.Join(kistDir, headName), err)
}

// fileError names the file in the error of a decoder. It does not change other errors,
// nor one that names a file already.
func fileError(file string, err error) error {
	var path *fs.PathError
	var newer *VersionError
	switch {
	case err == nil, errors.As(err, &path), errors.Is(err, ErrDamaged):
		return err
	case errors.As(err, &newer):
		newer.File = cmp.Or(newer.File, file)
		return newer
	}

	return Damaged(file, err)
}

// loadBase reads a base file.
func loadBase(file string, ref baseRef) (*Index, error) {
	f, err := disk.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return checkBase(f, info.Size(), ref)
}

// checkBase decodes a base and checks that ref names it.
func checkBase(r io.Reader, size int64, ref baseRef) (*Index, error) {
	if uint64(size) != ref.size {
		return nil, fmt.Errorf("%d bytes long, want %d as in the head", size, ref.size)
	}
	x, sum, err := readBase(r, ref.size)
	if err == nil && sum != ref.sum {
		err = errors.New("checksum differs from the one in the head")
	}
	return x, err
}

// readBase reads a base of the given size into a new Index. It returns the last
// checksum too.
func readBase(r io.Reader, size uint64) (*Index, uint32, error) {
	b, err := newBlockReader(r, kindBase)
	if err != nil {
		return nil, 0, err
	}
	if err := b.beginRecord(); err != nil {
		return nil, 0, err
	}
	c := b.readCounts()
	x := New()
	d := decoder{blockReader: b, x: x, base: true}
	if err := d.readRecords(c, size); err != nil {
		return nil, 0, err
	}
	if b.version != versionOf(x) {
		return nil, 0, errVersion
	}
	x.file.sparse = x.leftOut > 0
	sum, err := b.checkEnd()
	return x, sum, err
}

// readHead decodes a head. It calls base to read the base of the head.
func readHead(head []byte, base func(baseRef) (*Index, error)) (*Index, error) {
	b, err := newBlockReader(bytes.NewReader(head), kindHead)
	if err != nil {
		return nil, err
	}
	h, err := b.headRecord()
	if err != nil {
		return nil, err
	}

	x := New()
	based := h.base.id != (baseID{})
	if based {
		if x, err = base(h.base); err != nil {
			return nil, err
		}
		x.file.entries = x.entries
	}
	x.file.head, x.file.base = sha256.Sum256(head), h.base

	d := decoder{blockReader: b, x: x, based: based}
	if err := d.readRecords(h.counts, uint64(len(head))); err != nil {
		return nil, err
	}
	if uint64(x.dirs) != h.dirs || uint64(x.entries) != h.entries {
		return nil, errCounts
	}
	if b.version != versionOf(x) {
		return nil, errVersion
	}

	if x.conflicts, err = b.conflicts(h.conflicts); err != nil {
		return nil, err
	}
	if x.skipped, err = b.skippedPaths(h.skipped); err != nil {
		return nil, err
	}
	_, err = b.checkEnd()
	return x, err
}

// headRecord is the first record of a head.
type headRecord struct {
	base               baseRef
	dirs, entries      uint64 // in the index
	conflicts, skipped uint64
	counts             recordCounts
}

// headRecord reads the first record of a head.
func (b *blockReader) headRecord() (h headRecord, err error) {
	if err := b.beginRecord(); err != nil {
		return h, err
	}
	b.readID(h.base.id[:])
	h.base.size, h.base.sum = b.uvarint(), b.u32()
	h.dirs, h.entries = b.uvarint(), b.uvarint()
	h.conflicts, h.skipped = b.uvarint(), b.uvarint()
	h.counts = b.readCounts()
	if b.bad || h.base.id == (baseID{}) && h.base != (baseRef{}) {
		return h, errCanonical
	}
	return h, nil
}

var errNotKnown = errors.New("not known")

// KnownTree returns the known tree of the root of the index in the directory .kist. It
// reports false if the tree is unknown, if there are conflicts, or after an error,
// which [Load] then returns too. It reads only the beginning of the files. The store
// may no longer have the tree.
func KnownTree(kistDir string) (object.ID, bool) {
	id, err := knownTree(kistDir)
	return id, err == nil
}

// knownTree is KnownTree with an error.
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

	base, err := openBlocks(filepath.Join(kistDir, h.base.fileName()), kindBase)
	if err != nil {
		return object.ID{}, err
	}
	defer base.Close()

	if err := base.beginRecord(); err != nil {
		return object.ID{}, err
	}
	base.readCounts()
	return base.rootTree()
}

// fileBlocks is a file with the reader of its records.
type fileBlocks struct {
	*blockReader
	*os.File
}

// openBlocks opens a file of the index.
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

// rootTree returns the tree in the next record, which must be that of the root.
func (b *fileBlocks) rootTree() (object.ID, error) {
	if err := b.beginRecord(); err != nil {
		return object.ID{}, err
	}
	root, err := b.dirRecord(new(arena))
	if err == nil && (len(root.name) > 0 || root.flags&flagTree == 0) {
		err = errNotKnown
	}
	return root.tree.ID, err
}
