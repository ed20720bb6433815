package convert

import (
	"fmt"
	"io"
)

// An archive may unpack to maxRatio times its own size, or to minLimit if that is more. Data that
// compresses better than that is rare; an archive that never ends is easy to make.
const (
	maxRatio = 200
	minLimit = 1 << 30
)

// TooLargeError is the error for an archive that unpacks to more than allowed.
type TooLargeError struct {
	Limit uint64 // in bytes
	Path  string // of the member; "": the archive itself
}

func (e *TooLargeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("the archive unpacks to more than %d bytes", e.Limit)
	}
	return fmt.Sprintf("%q: the archive unpacks to more than %d bytes", e.Path, e.Limit)
}

// limit counts the bytes that come out of an archive. Every reader of archives passes all that
// it unpacks through [limit.limitReader]. What a member announces goes to announce first.
type limit struct {
	chosen uint64                           // ImportOptions.MaxSize
	size   func() (bytes int64, final bool) // of the archive; of a stream, only the part that was read is known
	used   uint64
}

// announce returns an error if n more bytes, which are still to come, are too many.
func (l *limit) announce(path string, n int64) error {
	if _, final := l.size(); l.chosen == 0 && !final {
		return nil
	}
	return l.checkMore(path, n)
}

// checkMore returns an error if n more bytes are too many, or if n is negative: the size is beyond
// 63 bits.
func (l *limit) checkMore(path string, n int64) error {
	allowed := l.chosen
	if allowed == 0 {
		size, _ := l.size()
		allowed = max(minLimit, maxRatio*uint64(size))
	}
	if n < 0 || l.used > allowed || uint64(n) > allowed-l.used {
		return &TooLargeError{Limit: allowed, Path: path}
	}
	return nil
}

// limitReader returns a reader of r that fails when too many bytes came out of it and others before.
func (l *limit) limitReader(path string, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		if tooLarge := l.checkMore(path, int64(n)); tooLarge != nil {
			return 0, tooLarge
		}
		l.used += uint64(n)
		return n, err
	})
}

// readerFunc is a function that is an [io.Reader].
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
