// Package volume is the local object store: a directory of sealed volumes.
//
// A volume is one Badger database. One process writes it once and seals it. After
// that, its files are never opened for writing, and are read without Badger. So no
// error of Badger, with damaged files or a full disk, can reach older objects. No
// other package knows Badger.
//
// A [Store] reads, and a [Session] writes. Any number of processes can have sessions
// at the same time, each with volumes of its own, and readers wait for none of them.
// A ref or an index that makes objects reachable is written inside [Session.Publish].
//
// docs/format/volume.md describes the format.
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

// The default limits of a volume.
const (
	DefaultMaxBytes   = 4 << 30
	DefaultMaxObjects = 1_000_000
)

// Options configure a [Store] and give it its environment.
type Options struct {
	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names; nil stands for the system's source
	Warn func(string)     // called with problems that do not stop an operation; may be nil

	Level frame.Level // of compression

	// A session seals a volume, and begins the next, when it has this many bytes or
	// objects. Zero stands for DefaultMaxBytes and DefaultMaxObjects.
	MaxBytes   int64
	MaxObjects int

	// Tests use smaller files, so that Badger begins the next one.
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
func damageError(volume, file string, err error) error {
	return &object.DamageError{Name: filepath.Join(volumesDir, volume, file), Err: err}
}

// StaleError has the objects that a session found in the store and that gc removed
// since. The caller puts them again, and then calls Publish again. Without keys the
// objects are unknown, and the caller needs a new session.
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

// isGone reports whether a file or directory does not exist, or was closed because its
// volume was removed.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrClosed)
}
