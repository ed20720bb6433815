package lent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// Edit is a change of the file.
type Edit struct {
	// Keep reports whether the places in a file stay. Nil: none stays.
	Keep func(path string) bool

	// Files are the files to add.
	Files []File

	// Chunks yields the chunks of file i that are away. It is called several times for each file.
	Chunks func(ctx context.Context, i int) iter.Seq2[object.ChunkAt, error]
}

// lockWait is how long a change waits for that of another process.
const lockWait = 10 * time.Second

// maxSorted is the number of places that are sorted in memory at once: 96 MiB.
const maxSorted = 2 << 20

// Apply changes the file. If the old file is damaged or of a later version, it counts as empty. The error is [disk.ErrBusy] if
// another process changes the file for long.
func Apply(ctx context.Context, kistDir string, e Edit) error {
	lock, err := disk.Lock(ctx, filepath.Join(kistDir, FileName+".lock"), disk.Exclusive, lockWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	old, err := Open(kistDir)
	if err != nil && !isNone(err) {
		return err
	}
	if err == nil {
		defer old.Close()
		if e.Keep == nil || old.Verify() != nil {
			old = nil
		}
	}
	w := &writer{Edit: e, old: old, part: maxSorted}
	if err := w.chooseFiles(); err != nil {
		return err
	}
	if err := w.count(ctx); err != nil {
		return err
	}
	if w.places == 0 {
		err := disk.Remove(filepath.Join(kistDir, FileName))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	return disk.WriteHint(kistDir, FileName+disk.TempSuffix, func(to io.Writer) (string, error) {
		return FileName, w.write(ctx, to)
	})
}

// writer writes one file.
type writer struct {
	Edit
	old  *Index // nil: nothing stays
	part int    // number of places that are sorted at once

	kept   []uint32 // the numbers of the old files that stay
	number map[uint32]uint32
	places int // number of places
	parts  int // number of ranges of IDs that are sorted one after the other
	sorted []place
	loaded bool // sorted has all added places, because there is one range
}

// chooseFiles chooses the old files that stay.
func (w *writer) chooseFiles() error {
	w.number = map[uint32]uint32{}
	if w.old != nil {
		for i := range uint32(w.old.files) {
			f, err := w.old.readFile(i)
			if err != nil {
				continue // nothing refers to it: Verify has read all others
			}
			if w.Keep(f.Path) {
				w.number[i] = uint32(len(w.kept))
				w.kept = append(w.kept, i)
			}
		}
	}
	if uint64(len(w.kept))+uint64(len(w.Files)) > math.MaxUint32 {
		return errors.New("too many files with lent chunks")
	}
	return nil
}

// count counts the places.
func (w *writer) count(ctx context.Context) error {
	added := 0
	for i := range w.Files {
		for _, err := range w.Chunks(ctx, i) {
			if err != nil {
				return err
			}
			added++
		}
	}
	w.parts = max(1, (added+w.part-1)/w.part)
	return w.merge(ctx, func(place) error { w.places++; return nil })
}

// merge calls emit with each place, sorted by ID. An added place replaces an old one.
func (w *writer) merge(ctx context.Context, emit func(place) error) error {
	next, stop := iter.Pull2(w.oldPlaces())
	defer stop()
	before, err, more := next()
	for part := range w.parts {
		added, loadErr := w.loadPart(ctx, part)
		if loadErr != nil {
			return loadErr
		}
		for _, p := range added {
			for ; more; before, err, more = next() {
				order := bytes.Compare(before.id[:], p.id[:])
				if err != nil {
					return err
				}
				if order > 0 {
					break
				}
				if order < 0 {
					if err := emit(before); err != nil {
						return err
					}
				}
			}
			if err := emit(p); err != nil {
				return err
			}
		}
	}
	for ; more; before, err, more = next() {
		if err == nil {
			err = emit(before)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// oldPlaces yields the places in old files that stay, with the new numbers of the files.
func (w *writer) oldPlaces() iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		if w.old == nil {
			return
		}
		for p, err := range w.old.all() {
			number, stays := w.number[p.file]
			if err == nil && !stays {
				continue
			}
			p.file = number
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// loadPart returns the added places whose IDs are in a range, sorted, each ID once.
func (w *writer) loadPart(ctx context.Context, part int) ([]place, error) {
	if w.loaded {
		return w.sorted, nil
	}
	w.sorted = w.sorted[:0]
	for i := range w.Files {
		for c, err := range w.Chunks(ctx, i) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			if w.partOf(c.ID) == part {
				w.sorted = append(w.sorted, place{c.ID, c.Size, uint32(len(w.kept) + i), c.Offset})
			}
		}
	}
	slices.SortStableFunc(w.sorted, func(a, b place) int { return bytes.Compare(a.id[:], b.id[:]) })
	w.sorted = slices.CompactFunc(w.sorted, func(a, b place) bool { return a.id == b.id })
	w.loaded = w.parts == 1
	return w.sorted, nil
}

// partOf returns the number of the range that an ID is in.
func (w *writer) partOf(id object.ID) int {
	return int(uint64(binary.BigEndian.Uint32(id[:])) * uint64(w.parts) >> 32)
}

// file returns new file i.
func (w *writer) file(i int) (File, error) {
	if i < len(w.kept) {
		return w.old.readFile(w.kept[i])
	}
	return w.Files[i-len(w.kept)].plain(), nil
}

// eachFile calls do with each new file.
func (w *writer) eachFile(do func(f *File) error) error {
	for i := range len(w.kept) + len(w.Files) {
		f, err := w.file(i)
		if err == nil {
			err = do(&f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes the file.
func (w *writer) write(ctx context.Context, to io.Writer) error {
	size := uint64(0)
	if err := w.eachFile(func(f *File) error { size += uint64(len(f.Path)); return nil }); err != nil {
		return err
	}
	h := append([]byte(magic), Version, 0, 0, 0, 0, 0, 0, 0)
	h = binary.BigEndian.AppendUint64(h, uint64(len(w.kept)+len(w.Files)))
	h = binary.BigEndian.AppendUint64(h, size)
	h = binary.BigEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	if _, err := to.Write(append(h, 0, 0, 0, 0)); err != nil {
		return err
	}

	at := uint64(0)
	var buf []byte
	err := w.eachFile(func(f *File) error {
		buf = appendFile(buf[:0], f, at)
		at += uint64(len(f.Path))
		_, err := to.Write(buf)
		return err
	})
	if err == nil {
		err = w.eachFile(func(f *File) error { _, err := io.WriteString(to, f.Path); return err })
	}
	if err != nil {
		return err
	}

	x := keys.NewWriter(to, w.places)
	if err := w.merge(ctx, func(p place) error { return x.Add(p.record()) }); err != nil {
		return fmt.Errorf("write %s: %w", FileName, err)
	}
	return x.Finish()
}
