package ingest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// allocate reserves disk blocks for a range of f without changing its size. It returns
// errors.ErrUnsupported if the file system cannot do that.
func allocate(f *os.File, off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errors.ErrUnsupported
		}
		return err
	}
}

// deallocate frees the disk blocks of a range of f. Its content is lost.
func deallocate(f *os.File, off, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, off, n)
}

// beginWriteback makes the kernel begin to write a range of f to disk.
func beginWriteback(f *os.File, off, n int64) error {
	err := unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// dropWritten waits until a range of f is on disk, and drops everything up to its end from
// the page cache. It returns write errors, which a later sync does not return.
func dropWritten(f *os.File, off, n int64) error {
	const write = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(f.Fd()), off, n, write)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
		return nil
	case err != nil:
		return fmt.Errorf("write to disk: %w", err)
	}
	unix.Fadvise(int(f.Fd()), 0, off+n, unix.FADV_DONTNEED) // only advice: errors do not matter
	return nil
}

// mapping is the place of a file that is mapped into the memory of this process.
type mapping struct{ addr, size uintptr }

// findMappings returns the mappings of files whose paths begin with prefix and end with
// suffix.
func findMappings(prefix, suffix string) (found []mapping) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(maps)) {
		// from-to perms offset dev inode path
		at := strings.Index(line, prefix)
		path := strings.TrimSuffix(line[max(at, 0):], "\n")
		fields := strings.Fields(line[:max(at, 0)])
		if len(fields) != 5 || fields[2] != "00000000" || !strings.HasSuffix(path, suffix) {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		a, err1 := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && a < b {
			found = append(found, mapping{uintptr(a), uintptr(b - a)})
		}
	}
	return found
}

// dropPages removes a range of the mapping from the resident memory of this process. The page
// cache of the kernel keeps written data.
func (m mapping) dropPages(off, n int64) error {
	page := int64(os.Getpagesize())
	end := (off + n) / page * page
	off = off / page * page
	if end <= off || uintptr(end) > m.size {
		return nil
	}
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, m.addr+uintptr(off), uintptr(end-off), unix.MADV_DONTNEED)
	if errno != 0 {
		return errno
	}
	return nil
}
