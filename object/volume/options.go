package volume

import (
	"crypto/rand"
	"errors"
	"io"
	"time"

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
