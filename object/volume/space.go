package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kist-vcs/kist/object/disk"
)

// Badger writes through memory mappings of sparse files, where a full disk is
// a SIGBUS that ends the process. So before each transaction the blocks it
// will need are reserved; where there are none left, that is an error like any
// other. What Badger writes can be told to the byte.

const (
	logStep = 64 << 20 // value log bytes reserved at a time
	memStep = 2 << 20  // memtable bytes reserved at a time
	window  = 32 << 20 // value log bytes after which memory is given back

	// Of a new file firstStep bytes are reserved, if the disk has plenty free.
	firstStep = 1 << 20
	plenty    = 1 << 30

	// startStep is how many value log bytes the disk is given at a time, so
	// that it writes while more is read and compressed.
	startStep = 8 << 20

	// memEntry is the most a memtable's log grows by an entry, or by the end
	// of a transaction; tableEntry the most a table does.
	memEntry   = 80
	tableEntry = 128

	// memRotate is more than an entry takes of a memtable.
	memRotate = 256

	// opening is more than a new database takes at once.
	opening = 2 << 20

	// spareSpace is left free beyond what can be told: for Badger's small
	// files, for KEYS and SEAL.
	spareSpace = 1 << 20

	scratchFile = "scratch"
)

// space keeps account of the files a volume grows by.
type space struct {
	dir string
	o   *Options

	number uint32 // of the value log being written
	logs   []*os.File
	off    int64 // where the next entry goes
	have   int64 // up to where blocks are reserved
	begun  int64 // up to where pages were dropped from the mapping
	behind struct {
		log      *os.File // nil: none yet
		from, to int64
	} // what was dropped last
	started int64 // up to where the disk was told to write

	mem     *os.File // the memtable's log
	memNext *os.File // the next memtable's log, made ahead; or nil
	memNum  int
	memOff  int64 // upper bound of what was written to it
	memHave int64
	fresh   int // entries since the memtable was begun
	tables  int // entries not yet known to be in tables

	blind bool // the file system cannot reserve: free space is looked at instead

}

// newSpace begins the account of a database just opened in dir.
func newSpace(dir string, o *Options) (*space, error) {
	s := &space{dir: dir, o: o}
	if err := s.nextLog(); err != nil {
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

func (s *space) log() *os.File { return s.logs[len(s.logs)-1] }

// nextLog goes on to the value log that Badger has just begun.
func (s *space) nextLog() error {
	f, err := disk.OpenFile(filepath.Join(s.dir, logName(s.number+1)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.number++
	s.logs = append(s.logs, f)
	s.off, s.have, s.begun, s.started = logHeaderSize, 0, 0, 0
	return nil
}

// checkFree checks that n bytes can be written in dir, by reserving them for a
// moment: what a file system tells of its free space is not always so, and
// there may be a quota.
func checkFree(dir string, n int64) error {
	free, err := freeSpace(dir)
	if err != nil {
		return err
	}
	if free < n {
		return errNoSpace
	}
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

// reserve makes sure that a transaction of n entries that take size bytes in
// the value log finds room.
func (s *space) reserve(n int, size int64) error {
	free, err := freeSpace(s.dir)
	if err != nil {
		return err
	}
	// Tables are made when a memtable is full, and when the volume is closed.
	free -= s.closing() + int64(n)*tableEntry
	if free < 0 {
		return errNoSpace
	}
	if s.have, err = s.grow(s.log(), s.have, s.off+size, logStep, free); err != nil {
		return err
	}
	memSize := int64(n+1) * memEntry
	if s.memHave, err = s.grow(s.mem, s.memHave, s.memOff+memSize, memStep, free); err != nil {
		return err
	}
	if int64(s.fresh+n) > s.o.memTableSize/memRotate && s.memNext == nil {
		f, err := disk.OpenFile(s.memName(s.memNum+1), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		s.memNext = f
		if _, err := s.grow(f, 0, memStep, memStep, free); err != nil {
			return err
		}
	}
	return nil
}

// closing returns how many bytes closing the database may take.
func (s *space) closing() int64 { return spareSpace + int64(s.tables)*tableEntry }

// grow reserves blocks of f up to need, or some more if much is free, and
// returns up to where they are reserved now. With plenty free it at most
// doubles them: on a file system in memory, reserving takes as long as writing.
func (s *space) grow(f *os.File, have, need, step, free int64) (int64, error) {
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
		return s.grow(f, have, need, step, free)
	}
	if err != nil {
		return have, fmt.Errorf("reserve space: %w", err)
	}
	return have + n, nil
}

// wrote takes note of a transaction of n entries and size bytes that was
// written.
func (s *space) wrote(n int, size int64) error {
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
			s.memOff, s.memHave = logHeaderSize+memSize, memStep
			s.fresh = n
			// With two memtables, the one before the last is in a table.
			s.tables = min(s.tables, numMemTables*int(s.o.memTableSize)/memEntry)
		}
	}
	return nil
}

// writeBack begins to write what is new in the value log to disk, and drops
// its pages from the mapping. That comes first: it tells the kernel which
// pages were written to. Finished tables are dropped as well. Badger unmaps
// neither before it is closed; it may move the value log's mapping, though.
//
// What was begun before is on disk when it returns, and leaves the page cache:
// its memory is used again for what comes next, and others keep theirs.
func (s *space) writeBack() error {
	for _, m := range findMappings(s.log().Name(), logSuffix) {
		if err := m.drop(s.begun, s.off-s.begun); err != nil {
			return err
		}
	}
	for _, m := range findMappings(s.dir, tableSuffix) {
		if err := m.drop(0, int64(m.size)); err != nil {
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
	s.behind.log, s.behind.from, s.behind.to = s.log(), s.begun, s.off
	s.begun = s.off
	return nil
}

// startWriting begins to write what is new in the value log to disk.
func (s *space) startWriting() error {
	err := beginWriteback(s.log(), s.started, s.off-s.started)
	s.started = s.off
	return err
}

// removeUnused removes what was made ahead and not used.
func (s *space) removeUnused() error {
	if s.memNext == nil {
		return nil
	}
	name := s.memNext.Name()
	s.memNext.Close()
	s.memNext = nil
	return disk.Remove(name)
}

// forget frees the disk space of what was written, which is not wanted any
// more, so that Badger has room to close.
func (s *space) forget() {
	for _, f := range s.logs {
		deallocate(f, 0, 2*s.o.logFileSize)
	}
}

// close closes the account's files.
func (s *space) close() {
	for _, f := range append([]*os.File{s.mem, s.memNext}, s.logs...) {
		if f != nil {
			f.Close()
		}
	}
}
