package keyset

import (
	"sync"

	"golang.org/x/sys/unix"
)

// forbidCoreDumps keeps the system from writing the memory of this process to disk if it crashes. It is
// called before keys are in memory. The limit also holds for the programs that kist starts.
var forbidCoreDumps = sync.OnceFunc(func() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil {
		limit.Cur = 0
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit) // nothing better can be done
	}
})
