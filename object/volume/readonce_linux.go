package volume

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// noReadOnce is set if the kernel or a file system does not know RWF_DONTCACHE.
var noReadOnce atomic.Bool

// readOnce is f.ReadAt, except that bytes read from disk do not stay in the page cache.
// That keeps the cached data of other processes, and saves the cost of new memory.
func readOnce(f *os.File, buf []byte, off int64) (int, error) {
	if noReadOnce.Load() {
		return f.ReadAt(buf, off)
	}
	n := 0
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) { n = readUncached(int(fd), buf, off) })
	}
	if err == nil && n == len(buf) {
		return n, nil
	}
	return f.ReadAt(buf, off) // returns the error, if there is one
}

// readUncached reads from off until buf is full or a read fails.
func readUncached(fd int, buf []byte, off int64) (done int) {
	for done < len(buf) {
		n, err := unix.Preadv2(fd, [][]byte{buf[done:]}, off+int64(done), unix.RWF_DONTCACHE)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL:
			noReadOnce.Store(true)
			return done
		case err != nil || n == 0:
			return done
		}
		done += n
	}
	return done
}
