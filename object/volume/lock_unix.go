//go:build unix

package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a lock on f without waiting, or returns ErrBusy.
func flock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		case err != nil:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}
