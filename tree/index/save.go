package index

import (
	"bytes"
	"crypto/sha256"
	"io"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
)

// save writes the index, which is locked: the head, and before it a new base
// if too much has changed.
func (x *Index) save(kistDir string) error { return x.saveBy(kistDir, disk.Write) }

// saveHint is save for changes that a crash may undo.
func (x *Index) saveHint(kistDir string) error { return x.saveBy(kistDir, disk.WriteHint) }

type writeFunc func(dir, temp string, write func(io.Writer) (name string, err error)) error

func (x *Index) saveBy(kistDir string, write writeFunc) error {
	var head bytes.Buffer
	err := errHeadFull
	if !x.fold {
		err = x.writeHead(&head, x.file.maxHead())
	}
	if err == errHeadFull {
		if err := x.saveBase(kistDir); err != nil {
			return err
		}
		head.Reset()
		write = disk.Write // before the old base goes
		err = x.writeHead(&head, x.file.maxHead())
	}
	if err != nil {
		return err
	}
	err = write(kistDir, headTemp, func(w io.Writer) (string, error) {
		_, err := w.Write(head.Bytes())
		return headName, err
	})
	if err != nil {
		return err
	}
	x.file.head = sha256.Sum256(head.Bytes())
	x.changed = false
	x.removeOld(kistDir)
	return nil
}

// saveBase writes all of the index as a new base file.
func (x *Index) saveBase(kistDir string) error {
	var base baseRef
	err := disk.Write(kistDir, baseTemp, func(w io.Writer) (name string, err error) {
		hash := sha256.New()
		base.size, base.sum, err = x.writeBase(io.MultiWriter(w, hash))
		copy(base.id[:], hash.Sum(nil))
		return base.name(), err
	})
	if err != nil {
		return err
	}
	x.file.base, x.file.entries = base, x.entries
	x.tracked, x.fold = 0, false
	for d := range x.root.recorded(true) {
		d.dirty, d.inBase, d.edits, d.lost = false, true, nil, nil
	}
	return nil
}

// removeOld removes base files that the head does not name, and what was left
// by processes that did not finish. What cannot be removed only takes room.
func (x *Index) removeOld(kistDir string) {
	files, _ := disk.ReadDir(kistDir)
	for _, f := range files {
		name := f.Name()
		if name == baseTemp || strings.HasPrefix(name, basePrefix) && name != x.file.base.name() {
			disk.Remove(filepath.Join(kistDir, name))
		}
	}
}
