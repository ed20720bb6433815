package index

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kist-vcs/kist/object/disk"
)

// Load reads the index in a repository's folder (.kist). Without one the index
// is empty. A damaged file gives a [*CorruptError], one in a newer format a
// [*VersionError]. Load does not wait for [Update], nor Update for Load.
func Load(kistDir string) (*Index, error) {
	var before []byte
	for {
		head, err := readHeadFile(kistDir)
		if err != nil || head == nil {
			return New(), err
		}
		x, err := loadHead(kistDir, head)
		if errors.Is(err, fs.ErrNotExist) {
			// The base is gone: there is a newer head, unless it is lost.
			if !bytes.Equal(head, before) {
				before = head
				continue
			}
			return nil, &CorruptError{filepath.Join(kistDir, headName), fmt.Errorf("base file is missing: %w", err)}
		}
		return x, err
	}
}

// Saved reports whether the index was loaded from files, or has been saved.
// Otherwise there were none.
func (x *Index) Saved() bool { return x.file.head != [sha256.Size]byte{} }

// readHeadFile returns the head's bytes, nil if there is no head.
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

func loadHead(kistDir string, head []byte) (*Index, error) {
	baseFile := ""
	x, err := readHead(head, func(ref baseRef) (*Index, error) {
		baseFile = filepath.Join(kistDir, ref.name())
		x, err := loadBase(baseFile, ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = fileError(baseFile, err)
		}
		return x, err
	})
	var own *CorruptError
	var newer *VersionError
	if err != nil && !errors.As(err, &own) && !errors.As(err, &newer) && !errors.Is(err, fs.ErrNotExist) {
		err = fileError(filepath.Join(kistDir, headName), err)
	}
	return x, err
}

// fileError turns what a decoder says into an error that names the file.
func fileError(file string, err error) error {
	var newer *newerError
	var path *fs.PathError
	switch {
	case errors.As(err, &newer):
		return &VersionError{File: file, Version: newer.version}
	case errors.As(err, &path):
		return fmt.Errorf("read index: %w", err)
	}
	return &CorruptError{File: file, Err: err}
}

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

// checkBase decodes a base and checks that it is the one that a head means.
func checkBase(r io.Reader, size int64, ref baseRef) (*Index, error) {
	if uint64(size) != ref.size {
		return nil, fmt.Errorf("%d bytes long, the head says %d", size, ref.size)
	}
	x, sum, err := readBase(r, ref.size)
	if err == nil && sum != ref.sum {
		err = errors.New("not the file that the head means")
	}
	return x, err
}

// readHead decodes a head, and gets the base that it names from base.
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
	if err := d.read(h.counts, uint64(len(head))); err != nil {
		return nil, err
	}
	if uint64(x.dirs) != h.dirs || uint64(x.entries) != h.entries {
		return nil, errCounts
	}
	if x.conflicts, err = b.conflicts(h.conflicts); err != nil {
		return nil, err
	}
	if x.skipped, err = b.skippedPaths(h.skipped); err != nil {
		return nil, err
	}
	_, err = b.finish()
	return x, err
}

// headRecord is the first record of a head.
type headRecord struct {
	base               baseRef
	dirs, entries      uint64 // in the whole index
	conflicts, skipped uint64
	counts             counts
}

// headRecord reads the first record of a head.
func (b *blockReader) headRecord() (h headRecord, err error) {
	if err := b.begin(); err != nil {
		return h, err
	}
	b.id(h.base.id[:])
	h.base.size, h.base.sum = b.uvarint(), b.u32()
	h.dirs, h.entries = b.uvarint(), b.uvarint()
	h.conflicts, h.skipped = b.uvarint(), b.uvarint()
	h.counts = b.counts()
	if b.bad || h.base.id == (baseID{}) && h.base != (baseRef{}) {
		return h, errCanonical
	}
	return h, nil
}
