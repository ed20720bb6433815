// Package ingest takes the objects of a new volume in, through Badger. It is the wall around
// Badger: no other package knows its files, its options or its faults.
//
// A [Writer] writes batches of stored values into the value logs of a directory. Badger does
// not keep the order of a batch, so the writer reads its logs back and reports the place of
// each object. A volume of one batch is written in the same form without Badger.
//
// Badger writes through memory mappings of sparse files, where a full disk would be a SIGBUS.
// So the writer reserves the blocks of each batch in advance. See docs/decisions/dependencies.md
// for the other faults, and docs/format/volume.md for the form of a value log.
package ingest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Options are the sizes at which a new file or batch begins. Tests use smaller ones.
type Options struct {
	LogFileSize  int64 // of a value log; 0: defaultLogFileSize
	MemTableSize int64 // of a memtable; 0: defaultMemTableSize
	BatchEntries int   // largest number of objects of a batch; 0: defaultBatchEntries
}

// LimitedBytes is the number of bytes after which a process with little address space should
// end a volume, because a volume remains mapped until then.
const LimitedBytes = 256 << 20

const (
	// batchBytes is the largest size of a batch. A larger object has a batch of its own.
	batchBytes          = 1 << 20
	defaultBatchEntries = 128

	// defaultLogFileSize is the size at which Badger begins the next value log.
	defaultLogFileSize = 1<<30 - 1

	// Badger maps twice the size of a value log. A process may have less address space,
	// because of 'ulimit -v' for example. Then it writes small value logs. mappings is the
	// number of value logs that a process maps at once.
	smallLogFileSize = 64<<20 - 1
	mappings         = 2

	// defaultMemTableSize is the size of some 20,000 keys. They fit into the cache of a
	// processor, and most are in tables before the volume is closed.
	defaultMemTableSize = 2 << 20
	numMemTables        = 2
)

// SetDefaults replaces zero values by the defaults. It reports whether this process has too
// little address space for value logs of the usual size: see [LimitedBytes].
func (o *Options) SetDefaults() (limited bool) {
	if o.LogFileSize == 0 && !canMap(mappings*2*defaultLogFileSize) {
		limited = true
		o.LogFileSize = smallLogFileSize
	}
	o.LogFileSize = cmp.Or(o.LogFileSize, defaultLogFileSize)
	o.MemTableSize = cmp.Or(o.MemTableSize, defaultMemTableSize)
	o.BatchEntries = cmp.Or(o.BatchEntries, defaultBatchEntries)
	return limited
}

// canMap reports whether the process has so many bytes of address space left.
func canMap(size int64) bool {
	if int64(int(size)) != size {
		return false
	}
	p, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	return err == nil && unix.Munmap(p) == nil
}

// DirPrefix begins the name of each directory with a growing volume. The directories are
// neighbours, in a directory of .kist.
const DirPrefix = "tmp-"

// Names in the directory of a volume. Value logs are <6 digits>.vlog, tables <6 digits>.sst.
const (
	ManifestFile = "MANIFEST"

	logSuffix   = ".vlog"
	tableSuffix = ".sst"
	memSuffix   = ".mem"
)

// LogName returns the name of a value log. Numbers begin at 1.
func LogName(number uint32) string { return fmt.Sprintf("%06d"+logSuffix, number) }

// LogNumber returns the number of a value log, and whether name is one of a value log.
func LogNumber(name string) (uint32, bool) { return fileNumber(name, logSuffix) }

// IsTable reports whether name is that of a table of Badger.
func IsTable(name string) bool {
	_, ok := fileNumber(name, tableSuffix)
	return ok
}

// fileNumber returns the number of a value log or a table, and whether name is one.
func fileNumber(name, suffix string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), ok && err == nil && fmt.Sprintf("%06d", n) == digits
}
