package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// FileName is the name of the file with a repository's records, in its .kist
// folder.
const FileName = "records"

// CopyFile is the name of the copy of [FileName]. It proves that there were records, and a
// repair restores them from it.
const CopyFile = "records.copy"

const (
	lockFile   = "records.lock"
	magic      = "kist records 1\n"
	maxRecords = 1 << 20
	maxSize    = 256 << 20 // of the file, in bytes
)

// ErrDamaged is the kind of [*object.DamageError] for the file of records.
var ErrDamaged = errors.New("the records are damaged")

func damageError(name string, err error) error {
	return &object.DamageError{Name: name, Err: err, Kind: ErrDamaged}
}

// Store keeps the records of a repository. Any number of goroutines and
// processes may use one at the same time.
type Store struct{ dir string }

// Open returns the records in kistDir, the path of a .kist folder. It does not
// read the folder.
func Open(kistDir string) *Store { return &Store{dir: kistDir} }

func (s *Store) filePath(name string) string { return filepath.Join(s.dir, name) }

// Load returns the records. The caller owns the set. The error matches
// [ErrDamaged] if the file is damaged, or missing although its copy is here. It matches
// [object.ErrNewerFormat] if a newer program wrote the file.
func (s *Store) Load() (*Set, error) {
	set, err := s.loadFile(FileName)
	if !errors.Is(err, fs.ErrNotExist) {
		return set, err
	}
	if s.hasCopy() {
		return nil, damageError(FileName, errMissing)
	}
	return (&Set{}).Clone(), nil
}

var errMissing = errors.New("missing, though its copy is here")

// CheckCopy returns an error that matches [object.ErrCorrupt] if the copy of the records
// is damaged. A copy that does not exist is intact: see isCopied.
func (s *Store) CheckCopy() error {
	_, err := s.loadFile(CopyFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrNewerFormat) {
		return nil
	}
	return err
}

// loadFile returns the records in the file or its copy.
func (s *Store) loadFile(name string) (*Set, error) {
	data, err := s.readFile(name)
	if err != nil {
		return nil, err
	}

	set, err := decodeFile(data)
	if errors.Is(err, object.ErrNewerFormat) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return nil, damageError(name, err)
	}

	return set, nil
}

// readFile returns the content of the file or its copy. The error matches [ErrDamaged] if
// that is too long.
func (s *Store) readFile(name string) ([]byte, error) {
	f, err := disk.Open(s.filePath(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSize {
		return nil, damageError(name, fmt.Errorf("longer than %d bytes", maxSize))
	}

	return io.ReadAll(io.LimitReader(f, maxSize))
}

// Update calls change to change the records, and stores them. It stores
// nothing if change returns an error or changes nothing. It holds the lock of
// the records meanwhile. If a change makes objects necessary again, call
// Update while publishing. Otherwise gc may remove the objects at the same
// time.
func (s *Store) Update(ctx context.Context, change func(*Set) error) error {
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	old, err := s.Load()
	if err != nil {
		return err
	}

	set := old.Clone()
	if err := change(set); err != nil {
		return err
	}
	if set.Equal(old) && (set.Len() == 0 || s.isCopied()) {
		return nil
	}
	return s.writeBoth(set)
}

// isCopied reports whether the copy is as the file. It is older, or missing, after an update
// by a process that was killed between the two.
func (s *Store) isCopied() bool {
	file, err := s.readFile(FileName)
	if err != nil {
		return false
	}
	copied, err := s.readFile(CopyFile)
	return err == nil && bytes.Equal(file, copied)
}

// hasCopy reports whether the copy exists.
func (s *Store) hasCopy() bool {
	_, err := disk.Lstat(s.filePath(CopyFile))
	return err == nil
}

// RenewCopy writes a damaged copy of intact records again. It calls keep before it writes.
func (s *Store) RenewCopy(ctx context.Context, keep func() error) error {
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	if s.CheckCopy() == nil {
		return nil
	}
	set, err := s.Load()
	if err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	return s.writeBoth(set)
}

// Replace replaces a damaged file of records and reports whether it did. It
// does not change an intact file. It calls keep before it writes. The error
// matches [object.ErrNewerFormat] if a newer program wrote the file.
func (s *Store) Replace(ctx context.Context, set *Set, keep func() error) (replaced bool, err error) {
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()

	_, err = s.Load()
	if !errors.Is(err, ErrDamaged) {
		return false, err
	}
	if err := keep(); err != nil {
		return false, err
	}
	err = s.writeBoth(set)
	return err == nil, err
}

func (s *Store) lockRecords(ctx context.Context) (*disk.FileLock, error) {
	lock, err := disk.Lock(ctx, s.filePath(lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock records: %w", err)
	}
	return lock, nil
}

// writeBoth replaces the file and then its copy. The caller holds the lock.
func (s *Store) writeBoth(set *Set) error {
	data, err := encodeFile(set)
	for _, name := range []string{FileName, CopyFile} {
		if err == nil {
			err = disk.WriteFile(s.filePath(name), data)
		}
	}
	if err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}

func encodeFile(set *Set) ([]byte, error) {
	all := make(map[string]cbor.ByteString, set.Len())
	for r := range set.All() {
		name, value, err := Encode(r)
		if err != nil {
			return nil, err
		}
		all[name] = cbor.ByteString(value)
	}

	if len(all) > maxRecords {
		return nil, fmt.Errorf("%d records, the limit is %d", len(all), maxRecords)
	}

	body, err := encoding.Marshal(all)
	if err != nil {
		return nil, err
	}

	data := append([]byte(magic), body...)
	if len(data)+sha256.Size > maxSize {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), maxSize)
	}

	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

func decodeFile(data []byte) (*Set, error) {
	end := len(data) - sha256.Size
	switch {
	case end >= len(magic) && bytes.HasPrefix(data, []byte("kist records ")) && !bytes.HasPrefix(data, []byte(magic)):
		return nil, object.ErrNewerFormat
	case end < len(magic) || !bytes.HasPrefix(data, []byte(magic)):
		return nil, errors.New("not a file of records")
	case !hasSum(data):
		return nil, errors.New("checksum does not match")
	}

	var all map[string]cbor.ByteString
	if err := decoding.Unmarshal(data[len(magic):end], &all); err != nil {
		return nil, err
	}

	set := &Set{byName: make(map[string]Record, len(all))}
	for name, value := range all {
		r, err := Decode(name, string(value))
		if err != nil {
			return nil, err
		}
		set.byName[name] = r
	}

	if again, err := encodeFile(set); err != nil || !bytes.Equal(again, data) {
		return nil, errors.Join(errCanonical, err)
	}

	maps.DeleteFunc(set.byName, func(_ string, r Record) bool { return !r.Plausible() })
	return set, nil
}

// SalvageSource is where [Store.Salvage] found records.
type SalvageSource int

// The sources, from the worst to the best. Only FromReadable may lack records, or have a
// record that differs from the original: a record has no checksum of its own.
const (
	FromReadable SalvageSource = iota // the decodable parts of the file, and its copy if that is older
	FromCopy                          // the copy of the file
	FromBit                           // the file, in which one bit had changed: its checksum proves it
)

// Salvage returns the records of a damaged or missing file. The set is empty if the file is
// too long for a file of records and has no copy. The caller owns the set.
func (s *Store) Salvage() (set *Set, from SalvageSource, err error) {
	data, err := s.readFile(FileName)
	if err != nil && !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
		return nil, from, err
	}
	set, exact := salvageFile(data)
	if exact {
		return set, FromBit, nil
	}
	copied, err := s.readFile(CopyFile)
	known, decodeErr := decodeFile(copied)
	if err != nil || decodeErr != nil {
		return set, FromReadable, nil
	}
	from = FromCopy
	if bytes.HasSuffix(data, copied[len(copied)-sha256.Size:]) {
		return known, from, nil // the file had the checksum of the copy
	}

	for r := range set.All() {
		if known.Merge(r) {
			from = FromReadable // the copy is older
		}
	}
	return known, from, nil
}

// salvageFile returns the readable records of a damaged file. Exact is true if only one bit of
// it has changed.
func salvageFile(data []byte) (set *Set, exact bool) {
	if len(data) <= maxMendable {
		mended := bytes.Clone(data)
		if disk.Mend(mended, hasSum) {
			if set, err := decodeFile(mended); err == nil {
				return set, true
			}
		}
	}
	return readableRecords(data), false
}

// maxMendable is the size of the largest file in which salvageFile looks for a changed
// bit, in bytes. The time grows with the square of the size, and is some seconds
// at this size.
const maxMendable = 32 << 10

// hasSum reports whether a file ends in the checksum of its other bytes.
func hasSum(data []byte) bool {
	end := len(data) - sha256.Size
	return end >= 0 && sha256.Sum256(data[:end]) == [sha256.Size]byte(data[end:])
}

// namePattern matches possible names of records.
var namePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:hold|expire|purge/chunk|purge/manifest)/[0-9a-f]{64}`)
})

// maxValue is larger than the value of any record, in bytes.
const maxValue = 4*MaxText + 1<<10

// readableRecords returns the decodable records in data: names directly
// followed by their values.
func readableRecords(data []byte) *Set {
	set := (&Set{}).Clone()
	for {
		at := namePattern().FindIndex(data)
		if at == nil {
			return set
		}
		name := string(data[at[0]:at[1]])
		data = data[at[1]:]
		var value cbor.ByteString
		if _, err := decoding.UnmarshalFirst(data[:min(len(data), maxValue)], &value); err != nil {
			continue
		}
		if r, err := Decode(name, string(value)); err == nil && set.Len() < maxRecords {
			set.Merge(r)
		}
	}
}
