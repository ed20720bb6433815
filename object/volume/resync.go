package volume

import (
	"errors"
	"io"
	"os"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

// unreadable is how much of a file is passed over where it cannot be read.
const unreadable = 4096

// wholeObjects calls each for every object in a value log that is whole,
// whatever has become of the rest of the file: after damage, it looks for the
// next entry. The value is each's only until it returns. An error is each's.
func wholeObjects(f *os.File, size int64, each func(key object.Key, value []byte, raw int) error) error {
	walk := newLogWalker(f, size, logHeaderSize)
	for buf := []byte(nil); ; {
		start := walk.pos
		e, err := walk.next()
		if err == io.EOF {
			return nil
		}
		var value []byte
		var raw int
		if err == nil {
			value, buf, err = readEntry(f, e, buf)
		}
		if err == nil {
			raw, err = frame.Size(value)
		}
		if err == nil {
			err = verify(e.key, value, raw, nil)
		}
		if err != nil {
			walk.resync(start)
			continue
		}
		if checkSize(e.key.Kind, raw) != nil {
			continue // it never was an object
		}
		if err := each(e.key, value, raw); err != nil {
			return err
		}
	}
}

// resync goes to the next place after pos where an entry may begin, or to the
// end.
func (w *logWalker) resync(pos int64) {
	w.last = 0 // read ahead
	for pos++; pos < w.size; pos++ {
		b, err := w.bytes(pos, maxEntryHeader+logKeySize)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			pos |= unreadable - 1
			continue
		}
		if err != nil {
			break // it became shorter
		}
		if e, err := parseEntry(b, pos); err == nil && e.end() <= w.size {
			w.pos = pos
			return
		}
	}
	w.pos = w.size
}
