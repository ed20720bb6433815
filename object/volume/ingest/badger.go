package ingest

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/kist-vcs/kist/object/disk"
)

const (
	// badgerMagic marks Badger's MANIFEST as part of a kist volume.
	badgerMagic = 0x4b53

	// closeGrace is the longest wait for Badger to close after it reported an error, and
	// closeLimit the longest wait without an error.
	closeGrace = 2 * time.Second
	closeLimit = 15 * time.Minute
)

// badgerOptions are the options of a volume that is being written.
func badgerOptions(dir string, o *Options, log badger.Logger) badger.Options {
	b := badger.DefaultOptions(dir)
	b.Logger = log
	b.SyncWrites = false
	b.DetectConflicts = false
	b.NumVersionsToKeep = 1
	b.Compression = options.None
	b.BlockCacheSize = 0
	b.IndexCacheSize = 0
	b.MetricsEnabled = false
	// All values go to the value log: Badger loses keys when it replays a
	// memtable that holds values itself.
	b.ValueThreshold = MaxPadding
	b.VLogPercentile = 0
	b.ValueLogFileSize = o.LogFileSize
	b.ValueLogMaxEntries = math.MaxUint32
	b.MemTableSize = o.MemTableSize
	b.NumMemtables = numMemTables
	// No compaction, and no waiting for one.
	b.NumCompactors = 0
	b.NumLevelZeroTables = 1 << 20
	b.NumLevelZeroTablesStall = 1<<20 + 1
	b.CompactL0OnClose = false
	b.MaxLevels = 7
	b.ExternalMagicVersion = badgerMagic
	return b
}

// newDatabase maps the names of an empty database to its files, as Badger would write them. Badger would
// also sync them and their directory, which a volume needs only when it is sealed.
var newDatabase = map[string]string{
	ManifestFile:  "Bdgr" + "\x4b\x53" + "\x00\x08" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00", // magic numbers, an empty list
	"KEYREGISTRY": strings.Repeat("\x00", 16) + "Hello Badger",                                // without encryption
}

// database is a Badger database that is being written. An error that Badger only logs also
// fails commitEntries and closeInTime, which then do not wait for Badger.
type database struct {
	db  *badger.DB
	log *latch
}

func openDatabase(dir string, o *Options) (*database, error) {
	for name, data := range newDatabase {
		if err := disk.Create(filepath.Join(dir, name), []byte(data)); err != nil {
			return nil, err
		}
	}
	log := &latch{failed: make(chan struct{})}
	db, err := badger.Open(badgerOptions(dir, o, log))
	if err != nil {
		// After an error, Badger has cleaned up its result. Closing that panics.
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := log.firstError(); err != nil {
		go db.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	return &database{db, log}, nil
}

// commitEntries writes entries in one transaction. After success, the caller owns their slices;
// after an error, Badger may still use them.
func (d *database) commitEntries(entries []*badger.Entry) error {
	txn := d.db.NewTransaction(true)
	defer txn.Discard()
	for _, e := range entries {
		if err := txn.SetEntry(e); err != nil {
			return fmt.Errorf("write to database: %w", err)
		}
	}

	done := make(chan error, 1)
	txn.CommitWith(func(err error) { done <- err })
	var err error
	select {
	case err = <-done:
	case <-d.log.failed:
	}
	if err = errors.Join(err, d.log.firstError()); err != nil {
		return fmt.Errorf("write to database: %w", err)
	}
	return nil
}

// closeInTime closes the database. After an error, Badger may retry for ever: then
// closeInTime returns without waiting for it.
func (d *database) closeInTime() error {
	done := make(chan error, 1)
	go func() { done <- d.db.Close() }()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	var err error
	select {
	case err = <-done:
	case <-limit.C:
		err = errors.New("not closed after " + closeLimit.String())
	case <-d.log.failed:
		select {
		case <-done:
		case <-time.After(closeGrace):
		}
	}
	if err = errors.Join(err, d.log.firstError()); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// latch is Badger's logger. It keeps the first error.
type latch struct {
	mu     sync.Mutex
	err    error
	failed chan struct{} // closed by the first error
}

func (l *latch) firstError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Errorf implements [badger.Logger].
func (l *latch) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = errors.New(strings.TrimSpace(fmt.Sprintf(format, args...)))
		close(l.failed)
	}
}

// Warningf, Infof and Debugf implement [badger.Logger].
func (l *latch) Warningf(string, ...any) {}
func (l *latch) Infof(string, ...any)    {}
func (l *latch) Debugf(string, ...any)   {}
