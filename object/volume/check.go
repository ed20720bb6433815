package volume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// CheckOptions configure [Store.Check].
type CheckOptions struct {
	// ReadData reads, decompresses and hashes every stored value of every volume.
	// Without it, Check reads only the values that are known to be damaged, and
	// checks everything else.
	ReadData bool

	// Subset, if not nil, reports whether ReadData reads the value of object i of n,
	// counted over all volumes. It is called from several goroutines.
	Subset func(i, n int) bool

	// Progress, if not nil, is called regularly with the totals so far. Calls do not
	// overlap.
	Progress func(Checked)
}

// Checked are the totals of a check.
type Checked struct {
	Volumes int
	Objects int   // in their indexes; an object in two volumes counts twice
	Bytes   int64 // of the values and files that were read
}

// Problem is damage that Check found.
type Problem struct {
	Volume string
	File   string     // "" stands for the directory
	Key    object.Key // the damaged object, or zero
	Err    error
}

func (p Problem) Error() string {
	err := damageError(p.Volume, p.File, p.Err)
	if p.Key.IsZero() {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %v", p.Key.Kind, p.Key.ID, err)
}

// Check looks for damage in all volumes, and calls report for each problem; calls do not
// overlap. With ReadData it checks every byte of the files, without it every byte that is
// not part of a value. It changes no volume. It records damaged copies, so that the next
// Put of such an object stores a new one. The error does not concern damage.
func (s *Store) Check(ctx context.Context, o CheckOptions, report func(Problem)) (Checked, error) {
	l, err := s.listVolumes()
	if err != nil {
		return Checked{}, fmt.Errorf("check: list volumes: %w", err)
	}
	c := &checker{o: o, report: report}
	checks := make([]*volumeCheck, len(l.volumes))
	for i, v := range l.volumes {
		checks[i] = &volumeCheck{checker: c, v: v, base: c.total}
		if o, err := v.ensureOpen(); err == nil {
			c.total += o.index.Len()
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, vc := range checks {
		g.Go(func() error { return vc.checkIfThere(ctx) })
	}
	err = g.Wait()
	l.saveDamaged(s)
	return c.done, err
}

// checker is one run of Check.
type checker struct {
	o     CheckOptions
	alone bool // patches must be readable without any other volume
	total int  // number of objects in all volumes

	mu     sync.Mutex
	report func(Problem)
	done   Checked
}

// progress adds to the totals.
func (c *checker) progress(volumes, objects int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Volumes += volumes
	c.done.Objects += objects
	c.done.Bytes += bytes
	if c.o.Progress != nil {
		c.o.Progress(c.done)
	}
}

// volumeCheck is the check of one volume.
type volumeCheck struct {
	*checker
	v    *sealedVolume
	base int // number of objects in the volumes before this one
	dir  *os.Root
	buf  []byte

	sealed  bool // SEAL is intact
	indexed bool // KEYS is intact
	found   []Problem
}

// addProblem records a problem of the volume.
func (c *volumeCheck) addProblem(file string, key object.Key, err error) {
	c.found = append(c.found, Problem{Volume: c.v.name, File: file, Key: key, Err: err})
}

// checkIfThere is checkVolume for a volume that another process may remove. Problems of a
// removed volume do not count.
func (c *volumeCheck) checkIfThere(ctx context.Context) error {
	err := c.checkVolume(ctx)
	if len(c.found) == 0 || !c.v.dirExists() {
		return err
	}
	for _, p := range c.found {
		if err := systemError(p.Err); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("check volume %s: %w", c.v.name, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.found {
		if !p.Key.IsZero() {
			c.v.setBad(p.Key)
		}
		c.report(p)
	}
	return err
}

// checkVolume checks the volume.
func (c *volumeCheck) checkVolume(ctx context.Context) error {
	var err error
	if c.dir, err = disk.OpenRoot(c.v.path); err != nil {
		if !isGone(err) || c.v.dirExists() {
			c.addProblem("", object.Key{}, err)
		}
		return ctx.Err()
	}
	defer c.dir.Close()

	s, _, err := readSeal(c.dir)
	c.sealed = err == nil
	if c.sealed {
		c.checkFiles(s)
	} else {
		// The rest is checked without it.
		c.addProblem(sealName, object.Key{}, err)
		s = &seal{}
	}

	records, err := c.readIndex()
	c.indexed = err == nil
	if err != nil {
		c.addProblem(keysFile, object.Key{}, err)
	} else if n := len(records); c.sealed && uint64(n) != s.Objects {
		c.addProblem(keysFile, object.Key{}, fmt.Errorf("%d objects, want %d", n, s.Objects))
	}
	slices.SortFunc(records, func(a, b keys.Record) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	records = c.withoutEvicted(records)

	logs := map[uint32]*sealFile{} // value nil: the log is in the index, but not in the seal
	for _, rec := range records {
		logs[rec.File] = nil
	}
	for i, f := range s.Files {
		if n, ok := ingest.LogNumber(f.Name); ok {
			logs[n] = &s.Files[i]
		}
	}
	for _, number := range slices.Sorted(maps.Keys(logs)) {
		end := slices.IndexFunc(records, func(rec keys.Record) bool { return rec.File != number })
		if end < 0 {
			end = len(records)
		}
		if err := c.checkLog(ctx, number, logs[number], records[:end]); err != nil {
			return err
		}
		records = records[end:]
	}
	c.progress(1, 0, 0)
	return ctx.Err()
}

// withoutEvicted returns no records if all are of evicted objects: a check of the remote
// reads these. Otherwise it returns all.
func (c *volumeCheck) withoutEvicted(records []keys.Record) []keys.Record {
	if len(records) == 0 || records[len(records)-1].File != notHere { // they are sorted by file
		return records
	}
	c.progress(0, len(records), 0)
	return nil
}

// checkFiles checks that the directory has exactly the files in the seal, and checks the
// checksums of all except the value logs.
func (c *volumeCheck) checkFiles(s *seal) {
	listed := map[string]sealFile{sealName: {}, trashFile: {}}
	for _, f := range s.Files {
		listed[f.Name] = f
	}

	entries, err := disk.ReadDir(c.v.path)
	if err != nil {
		c.addProblem("", object.Key{}, err)
	}
	for _, e := range entries {
		if _, ok := listed[e.Name()]; !ok {
			c.addProblem(e.Name(), object.Key{}, errors.New("not a file of this volume"))
		}
	}

	for _, f := range s.Files {
		if _, ok := ingest.LogNumber(f.Name); ok {
			continue
		}
		got, err := sumFile(openFile(c.dir, f.Name))
		c.progress(0, 0, got.Size)
		switch {
		case err != nil:
		case got.Size != f.Size:
			err = fmt.Errorf("%d bytes, want %d", got.Size, f.Size)
		case got.Sum != f.Sum:
			err = ingest.ErrSum
		case f.Name == ingest.ManifestFile && sha256.Sum256(s.BadgerManifest) != f.Sum:
			err = errors.New("differs from the copy in the seal")
		}
		if err != nil {
			c.addProblem(f.Name, object.Key{}, err)
		}
	}
}

// readIndex returns all records of KEYS.
func (c *volumeCheck) readIndex() ([]keys.Record, error) {
	f := c.v.volumeFile(keysFile)
	defer f.closeForGood()
	index, err := openIndex(f)
	if err == nil {
		err = index.Verify()
	}
	if err != nil {
		return nil, err
	}
	records := make([]keys.Record, 0, index.Len())
	for rec, err := range index.All() {
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

// checkLog checks a value log: its size, its structure, and its values. Its entries must be
// those of records, which are sorted by offset, unless the index is damaged. Want is nil if
// the seal does not list the log.
func (c *volumeCheck) checkLog(ctx context.Context, number uint32, want *sealFile, records []keys.Record) error {
	name := ingest.LogName(number)
	f, err := openFile(c.dir, name)
	var st os.FileInfo
	if err == nil {
		defer f.Close()
		st, err = f.Stat()
	}

	if err == nil && want != nil && st.Size() != want.Size {
		c.addProblem(name, object.Key{}, fmt.Errorf("%d bytes, want %d", st.Size(), want.Size))
	}
	if c.sealed && want == nil {
		c.addProblem(name, object.Key{}, errors.New("not in the seal"))
	}
	if err != nil {
		c.addProblem(name, object.Key{}, err)
		for _, rec := range records {
			c.addProblem(name, rec.Key, err)
		}
		return ctx.Err()
	}

	walk, bad := ingest.NewHashingWalker(f, st.Size())
	for i, rec := range records {
		if i%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.progress(0, min(256, len(records)-i), 0)
		}
		c.checkEntry(f, walk, name, rec)
	}
	if !c.indexed && bad == nil {
		bad = walk.WalkRest(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	switch {
	case bad != nil:
		c.addProblem(name, object.Key{}, bad)
	case walk.Pos() != st.Size():
		c.addProblem(name, object.Key{}, fmt.Errorf("%d bytes after the last object", st.Size()-walk.Pos()))
	case want != nil && walk.Sum() != want.Sum:
		c.addProblem(name, object.Key{}, ingest.ErrSum)
	}
	return nil
}

// checkEntry checks the next entry of a value log, which must be that of rec, and its value.
func (c *volumeCheck) checkEntry(f *os.File, walk *ingest.LogWalker, name string, rec keys.Record) {
	e, err := walk.NextEntry()
	if err == nil && (e.Key != rec.Key || e.Value != int64(rec.Offset) || e.Stored() != int(rec.Stored)) {
		err = ingest.ErrEntry
	}
	if err != nil {
		// The index has the offset of the next entry.
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.addProblem(name, rec.Key, fmt.Errorf("entry at %d: %w", walk.Pos(), err))
		e = ingest.NewEntry(rec.Key, int64(rec.Offset), int(rec.Stored))
		walk.GoTo(e)
	}
	if c.o.ReadData && (c.o.Subset == nil || c.o.Subset(c.base+rec.Index, c.total)) || err == nil && c.v.isBad(rec.Key) {
		switch verr := c.checkValue(f, e, rec); {
		case err != nil:
		case verr != nil:
			c.addProblem(name, rec.Key, fmt.Errorf("value at %d: %w", rec.Offset, verr))
		default:
			c.v.clearBad(rec.Key)
		}
	}
}

// checkValue reads and verifies the value of an entry.
func (c *volumeCheck) checkValue(f *os.File, e ingest.Entry, rec keys.Record) error {
	if !e.IsPossible() || rec.Raw > object.MaxChunkSize {
		return errors.New("the index gives an impossible place")
	}
	var value []byte
	var err error
	if value, c.buf, err = ingest.ReadEntry(f, e, c.buf); err == nil {
		err = c.v.verifyValue(rec, value, &baseReader{left: maxBases, alone: c.alone})
	}
	if err == nil {
		err = c.selfContained(rec.Key, value)
	}
	c.progress(0, 0, e.End()-e.Start)
	return err
}

// selfContained checks that the volume has the base of a patch. The caller has read the
// patch, perhaps with a base from another volume.
func (c *volumeCheck) selfContained(key object.Key, value []byte) error {
	id, patched := frame.Base(value)
	if !patched {
		return nil
	}
	o, err := c.v.ensureOpen()
	if err != nil {
		return err
	}
	key.ID = id
	if _, ok, err := o.index.Find(key); err != nil || !ok {
		return fmt.Errorf("patch of %s: %w", key, cmp.Or(err, errNoBase))
	}
	return nil
}
