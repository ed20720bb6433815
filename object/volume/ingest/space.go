package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist/object/disk"
)

// Badger writes through memory mappings of sparse files. There, a full disk is a SIGBUS that
// ends the process. So the writer reserves the blocks of each transaction in advance, and a
// full disk is an ordinary error. The size of a transaction is known to the byte.

const (
	logStep = 64 << 20 // bytes reserved of a value log at a time
	memStep = 2 << 20  // bytes reserved of a memtable at a time
	window  = 32 << 20 // bytes of the value log after which memory is freed

	// firstStep is the number of bytes reserved of a new file, if the disk has plenty of
	// free bytes.
	firstStep = 1 << 20
	plenty    = 1 << 30

	// startStep is the number of bytes of the value log after which the kernel begins to
	// write them, while more objects are read and compressed.
	startStep = 8 << 20

	// memEntry is the largest size of an entry, or of the end of a transaction, in the log
	// of a memtable; tableEntry is the largest size of an entry in a table.
	memEntry   = 80
	tableEntry = 128

	// memRotate is more than the size of an entry in a memtable.
	memRotate = 256

	// opening is more than the size of a new database.
	opening = 2 << 20

	// spareSpace is kept free for the small files of Badger, KEYS and SEAL.
	spareSpace = 1 << 20

	scratchFile = "scratch"

	// claimFile is a sparse file in the directory of a growing volume. Its size is the
	// number of bytes that closing the volume may take, if that is more than opening.
	claimFile = "claim"
	claimStep = 1 << 20

	// spaceLock is held while a writer looks for free bytes and reserves some, if
	// less than plenty are free. Its directory is .kist.
	spaceLock = "space.lock"
)

// space reserves and counts the bytes of the files of a growing volume.
type space struct {
	dir     string
	o       *Options
	claimed int64 // size of the claim
	blind   bool  // the file system cannot reserve blocks: only free space is checked
	logSpace
	memSpace
}

// logSpace is the space of the value logs of a growing volume.
type logSpace struct {
	number uint32 // of the value log being written
	logs   []*os.File
	off    int64 // offset of the next entry
	have   int64 // end of the reserved blocks
	freed  int64 // end of the pages that were dropped from the mapping
	behind struct {
		log      *os.File // nil before the first one
		from, to int64
	} // the last dropped range
	started int64 // end of the range that the kernel writes
}

// memSpace is the space of the memtable of a growing volume. It counts the entries that are in
// no table.
type memSpace struct {
	mem     *os.File // the memtable's log
	memNext *os.File // log of the next memtable, made ahead, or nil
	memNum  int
	memOff  int64 // upper bound of its size
	memHave int64
	fresh   int // number of entries in the memtable
	tables  int // number of entries that may not be in tables yet
}

// newSpace returns the space of a database that was just opened in dir.
func newSpace(dir string, o *Options) (*space, error) {
	s := &space{dir: dir, o: o}
	if err := s.openNextLog(); err != nil {
		return nil, err
	}
	var err error
	s.memNum = 1
	if s.mem, err = disk.OpenFile(s.memName(1), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *space) memName(n int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%05d%s", n, memSuffix))
}

func (s *space) currentLog() *os.File { return s.logs[len(s.logs)-1] }

// openNextLog opens the value log that Badger has just begun.
func (s *space) openNextLog() error {
	f, err := disk.OpenFile(filepath.Join(s.dir, LogName(s.number+1)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.number++
	s.logs = append(s.logs, f)
	s.off, s.have, s.freed, s.started = LogHeaderSize, 0, 0, 0
	return nil
}

// checkFree checks that n bytes can be written in dir, the directory of a growing
// volume, by reserving them for a moment. The free space that a file system reports may be
// wrong, and there may be a quota.
func checkFree(dir string, n int64) error {
	return shareSpace(dir, func(free int64) error {
		if free < n {
			return errNoSpace
		}
		return tryFree(dir, n)
	})
}

// tryFree reserves n bytes in dir for a moment.
func tryFree(dir string, n int64) error {
	f, err := disk.OpenFile(filepath.Join(dir, scratchFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	defer disk.Remove(f.Name())
	if err := allocate(f, 0, n); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

var errNoSpace error = syscall.ENOSPC

// shareSpace calls f with the number of free bytes that no other growing volume claims.
// Badger writes tables at moments that kist does not choose. It would find no blocks if
// another writer had taken them. If few bytes are free, shareSpace holds spaceLock while f
// reserves blocks. Other programs than kist ignore claims.
func shareSpace(dir string, f func(free int64) error) error {
	free, err := disk.FreeSpace(dir)
	if err != nil {
		return err
	}
	if free > plenty {
		return f(free)
	}

	volumes := filepath.Dir(dir)
	lock, err := disk.Lock(context.Background(), filepath.Join(filepath.Dir(volumes), spaceLock), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	if free, err = disk.FreeSpace(dir); err != nil {
		return err
	}
	entries, err := disk.ReadDir(volumes)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if other := filepath.Join(volumes, e.Name()); e.IsDir() && strings.HasPrefix(e.Name(), DirPrefix) && other != dir {
			claim := int64(opening)
			if st, err := disk.Lstat(filepath.Join(other, claimFile)); err == nil {
				claim = max(claim, st.Size())
			}
			free -= claim
		}
	}
	return f(free)
}

// claimBytes makes sure that other writers leave n bytes free. The caller is in shareSpace.
func (s *space) claimBytes(n int64) error {
	if n <= max(s.claimed, opening) {
		return nil
	}
	n = (n + claimStep - 1) / claimStep * claimStep
	f, err := disk.OpenFile(filepath.Join(s.dir, claimFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(n); err != nil {
		return err
	}
	s.claimed = n
	return nil
}

// reserveBatch reserves the blocks of a transaction of n entries with size bytes in the value
// log.
func (s *space) reserveBatch(n int, size int64) error {
	return shareSpace(s.dir, func(free int64) error { return s.reserveFree(free, n, size) })
}

// reserveFree is reserveBatch for a caller that knows the number of free bytes.
func (s *space) reserveFree(free int64, n int, size int64) (err error) {
	// Tables are made when a memtable is full, and when the volume is closed.
	closing := s.closingBytes() + int64(n)*tableEntry
	if free -= closing; free < 0 {
		return errNoSpace
	}
	if err := s.claimBytes(closing); err != nil {
		return err
	}

	if s.have, err = s.growFile(s.currentLog(), s.have, s.off+size, logStep, free); err != nil {
		return err
	}
	memSize := int64(n+1) * memEntry
	if s.memHave, err = s.growFile(s.mem, s.memHave, s.memOff+memSize, memStep, free); err != nil {
		return err
	}

	if int64(s.fresh+n) > s.o.MemTableSize/memRotate && s.memNext == nil {
		f, err := disk.OpenFile(s.memName(s.memNum+1), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		s.memNext = f
		if _, err := s.growFile(f, 0, memStep, memStep, free); err != nil {
			return err
		}
	}
	return nil
}

// closingBytes returns the largest number of bytes that closing the database takes.
func (s *space) closingBytes() int64 { return spareSpace + int64(s.tables)*tableEntry }

// growFile reserves blocks of f up to the offset need, and step more bytes if enough are free. It
// returns the end of the reserved blocks. With plenty of free bytes it at most doubles the
// reserved ones, because reserving takes as long as writing on a file system in memory.
func (s *space) growFile(f *os.File, have, need, step, free int64) (int64, error) {
	if need <= have {
		return have, nil
	}
	if free > plenty {
		step = min(step, max(have, firstStep))
	}

	n := max(need-have, min(step, free/4))
	if s.blind {
		if n > free {
			return have, errNoSpace
		}
		return have + n, nil
	}

	err := allocate(f, have, n)
	if errors.Is(err, syscall.ENOSPC) && have+n > need {
		n = need - have
		err = allocate(f, have, n)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		s.blind = true
		return s.growFile(f, have, need, step, free)
	}
	if err != nil {
		return have, fmt.Errorf("reserve space: %w", err)
	}
	return have + n, nil
}

// countBatch counts a written transaction of n entries and size bytes.
func (s *space) countBatch(n int, size int64) error {
	s.off += size
	memSize := int64(n+1) * memEntry
	s.memOff += memSize
	s.fresh += n
	s.tables += n

	if s.memNext != nil {
		// Badger sizes the file when it begins to use it.
		if st, err := s.memNext.Stat(); err != nil {
			return err
		} else if st.Size() > 0 {
			s.mem.Close()
			s.mem, s.memNext = s.memNext, nil
			s.memNum++
			s.memOff, s.memHave = LogHeaderSize+memSize, memStep
			s.fresh = n
			// With two memtables, the one before the last is in a table.
			s.tables = min(s.tables, numMemTables*int(s.o.MemTableSize)/memEntry)
		}
	}
	return nil
}

// writeBack drops the new pages of the value log from the mapping, so that the kernel knows
// them as changed, and begins to write them to disk. It also drops complete tables. Badger
// unmaps neither before it is closed, but it may move the mapping of the value log.
//
// When writeBack returns, the range of its last call is on disk and no longer in the page
// cache. So the new data uses the same memory, and other processes keep theirs.
func (s *space) writeBack() error {
	for _, m := range findMappings(s.currentLog().Name(), logSuffix) {
		if err := m.dropPages(s.freed, s.off-s.freed); err != nil {
			return err
		}
	}
	for _, m := range findMappings(s.dir, tableSuffix) {
		if err := m.dropPages(0, int64(m.size)); err != nil {
			return err
		}
	}

	if err := s.startWriting(); err != nil {
		return err
	}
	if b := s.behind; b.log != nil {
		if err := dropWritten(b.log, b.from, b.to-b.from); err != nil {
			return err
		}
	}
	s.behind.log, s.behind.from, s.behind.to = s.currentLog(), s.freed, s.off
	s.freed = s.off
	return nil
}

// startWriting begins to write the new part of the value log to disk.
func (s *space) startWriting() error {
	err := beginWriteback(s.currentLog(), s.started, s.off-s.started)
	s.started = s.off
	return err
}

// removeUnused removes the log of a memtable that Badger did not use.
func (s *space) removeUnused() error {
	if s.memNext == nil {
		return nil
	}
	name := s.memNext.Name()
	s.memNext.Close()
	s.memNext = nil
	return disk.Remove(name)
}

// freeBlocks frees the disk space of an abandoned volume, so that Badger has room to close.
func (s *space) freeBlocks() {
	for _, f := range s.logs {
		deallocate(f, 0, 2*s.o.LogFileSize)
	}
}

// closeFiles closes the files.
func (s *space) closeFiles() {
	for _, f := range append([]*os.File{s.mem, s.memNext}, s.logs...) {
		if f != nil {
			f.Close()
		}
	}
}
