package volume

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"weak"
)

// files limits the number of open files: a store may have more volumes than a process may
// have open files. To open a file, it may close one that was not read for some time. It is
// safe for concurrent use.
type files struct {
	most int

	mu   sync.Mutex
	open []weak.Pointer[volumeFile] // unreferenced files are closed with their memory
	hand int                        // the next candidate to close
}

// The limits of open files, see newFiles. Even minFiles leaves room for a volume that is being
// written, and for unreferenced files that are not closed yet, in a process with 64 files.
const (
	minFiles = 16
	maxFiles = 1024
)

// newFiles returns files with a limit of a quarter of the limit of this process.
func newFiles() *files {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return &files{most: minFiles}
	}
	return &files{most: int(min(max(limit.Cur/4, minFiles), maxFiles))}
}

// volumeFile is a file of a volume. A read opens it. It remains open until the limit requires
// to close it. It is safe for concurrent use.
type volumeFile struct {
	files *files
	open  func() (*os.File, error)
	used  atomic.Bool // read since the hand passed it

	mu     sync.RWMutex // read-held while f is in use
	f      *os.File     // nil if it is not open
	closed bool
}

// ReadAt implements [io.ReaderAt].
func (f *volumeFile) ReadAt(p []byte, off int64) (int, error) {
	return f.readWith((*os.File).ReadAt, p, off)
}

type readFunc = func(f *os.File, buf []byte, off int64) (int, error)

// readWith is ReadAt with another function to read.
func (f *volumeFile) readWith(read readFunc, p []byte, off int64) (n int, err error) {
	err = f.withOpenFile(func(open *os.File) error {
		n, err = read(open, p, off)
		return err
	})
	return n, err
}

// fileSize returns the number of bytes of the file.
func (f *volumeFile) fileSize() (n int64, err error) {
	err = f.withOpenFile(func(open *os.File) error {
		st, err := open.Stat()
		if err == nil {
			n = st.Size()
		}
		return err
	})
	return n, err
}

// withOpenFile calls do with the open file.
func (f *volumeFile) withOpenFile(do func(*os.File) error) error {
	for {
		f.mu.RLock()
		if f.f != nil {
			defer f.mu.RUnlock()
			f.used.Store(true)
			return do(f.f)
		}
		f.mu.RUnlock()
		if err := f.ensureOpen(); err != nil {
			return err
		}
	}
}

// ensureOpen opens the file if it is not open.
func (f *volumeFile) ensureOpen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	if f.f != nil {
		return nil
	}
	f.files.makeRoomFor(f)
	var err error
	for {
		f.f, err = f.open()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || !f.files.closeOne() {
			break
		}
	}
	if err != nil {
		f.f = nil
		f.files.forgetFile(f)
	}
	return err
}

// closeUntilRead closes the file until the next read.
func (f *volumeFile) closeUntilRead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f != nil {
		f.f.Close()
		f.f = nil
		f.files.forgetFile(f)
	}
}

// closeForGood closes the file for good.
func (f *volumeFile) closeForGood() {
	f.closeUntilRead()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// makeRoomFor makes room for a file that will be opened, and counts it.
func (s *files) makeRoomFor(f *volumeFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) >= s.most && s.closeUnused() {
	}
	f.used.Store(true)
	s.open = append(s.open, weak.Make(f))
}

func (s *files) forgetFile(f *volumeFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.open, weak.Make(f)); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// closeOne closes a file that is not in use, and reports whether there was one.
func (s *files) closeOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeUnused()
}

// closeUnused is closeOne for a caller that holds s.mu. It skips files that were read since the
// hand passed them, once, and files that are in use or wait for s.mu.
func (s *files) closeUnused() bool {
	for range 2 * len(s.open) {
		if s.hand >= len(s.open) {
			s.hand = 0
		}
		f := s.open[s.hand].Value()
		if f != nil && (f.used.Swap(false) || !f.mu.TryLock()) {
			s.hand++
			continue
		}
		s.open = slices.Delete(s.open, s.hand, s.hand+1)
		if f != nil {
			f.f.Close()
			f.f = nil
			f.mu.Unlock()
		}
		return true
	}
	return false
}
