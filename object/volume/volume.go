// Package volume is the local object store: a folder of sealed volumes.
//
// A volume is one Badger database, written once by one process, then sealed:
// its files are never opened for writing again, and are read without Badger.
// Badger's part is to take objects in fast; what it does with files that are
// damaged, or a disk that is full, must not touch what was stored before. It
// is the only package that knows Badger.
//
// A [Store] reads; a [Session] writes. Sessions of any number of processes
// work side by side, each in a volume of its own, and readers wait for no one.
// Whatever makes stored objects reachable (a ref, the index) is written inside
// [Session.Publish].
//
// The format is described in docs/format/volume.md.
package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

// The limits of a volume, unless Options say otherwise.
const (
	DefaultMaxBytes   = 4 << 30
	DefaultMaxObjects = 1_000_000
)

// Options are the parts of its surroundings a Store works with.
type Options struct {
	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names; nil: the system's
	Warn func(string)     // told of what is wrong but does not stop the work; nil: no one is told

	Level frame.Level // of compression

	// A volume is sealed, and the next begun, when it holds this many bytes or
	// objects. 0: DefaultMaxBytes and DefaultMaxObjects.
	MaxBytes   int64
	MaxObjects int

	// Smaller in tests, to see Badger go on to the next file.
	logFileSize  int64 // 0: defaultLogFileSize
	memTableSize int64 // 0: defaultMemTableSize
}

func (o *Options) setDefaults() error {
	if o.Now == nil {
		return errors.New("open object store: Options.Now is not set")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxObjects <= 0 {
		o.MaxObjects = DefaultMaxObjects
	}
	if o.logFileSize == 0 {
		o.logFileSize = defaultLogFileSize
	}
	if o.memTableSize == 0 {
		o.memTableSize = defaultMemTableSize
	}
	return nil
}

// damageError returns the error for a file of a volume that is damaged or unreadable. File ""
// stands for the volume's directory.
func damageError(volume, file string, err error) *object.DamageError {
	return &object.DamageError{Name: filepath.Join(volumesDir, volume, file), Err: err}
}

// StaleError says that objects that a session was told are there already have
// been removed since, by a garbage collection that did not know they would be
// used. Put them again, then Publish again. Without keys, it is not known which:
// begin again with a new session.
type StaleError struct{ Keys []object.Key }

func (e *StaleError) Error() string {
	if len(e.Keys) == 0 {
		return "objects were removed meanwhile"
	}
	if len(e.Keys) == 1 {
		return fmt.Sprintf("%s was removed meanwhile", e.Keys[0])
	}
	return fmt.Sprintf("%d objects were removed meanwhile", len(e.Keys))
}

// isGone reports whether err says that a file or folder is not there, or was
// closed because its volume was dropped.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrClosed)
}
