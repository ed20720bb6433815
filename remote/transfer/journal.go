package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// A push notes each pack that it has sent in a journal, until a root names the pack. So
// an interrupted push continues where it stopped. The note is a file with the pack's
// entries. Each process has a folder for its notes, and locks it. The lock ends with the
// process. Then the next push takes the folder over.

// sentPack is a pack on the remote that no root names yet.
type sentPack struct {
	info    pack.Info
	start   uint64       // the known head when the pack was begun (S0)
	entries []pack.Entry // nil if they lie in a run: see ownPacks.entriesOf
	count   int          // of the entries
	file    string       // of the journal; empty in a dry run
	checked bool         // the pack was on the remote when this process sent it or looked it up
	gone    bool         // the pack is no longer on the remote
}

// ownPacks are the packs that a push has sent or taken over. It is safe for
// concurrent use.
type ownPacks struct {
	dir     string            // of the remote's journals
	binding [sha256.Size]byte // hash of the remote's ID, in each note
	rand    func() (pack.Name, error)

	mu      sync.Mutex                // guards the following
	locks   map[string]*disk.FileLock // by folder
	own     string                    // folder of this process; empty: none was made yet
	packs   map[pack.Name]*sentPack
	where   ownIndex
	planned map[object.Key]struct{} // objects that are being sent, or are about to be
}

const journalLock = "lock"

// takeOver opens the journals of a remote that no process uses any more. It skips
// unreadable notes: their objects are sent again.
func (r *Remote) takeOver(ctx context.Context) (*ownPacks, error) {
	o := &ownPacks{
		dir:     r.cache.path(pushFolder),
		binding: sha256.Sum256([]byte(r.id.Remote)),
		rand:    func() (pack.Name, error) { return pack.NewName(r.o.Rand) },
		locks:   map[string]*disk.FileLock{}, packs: map[pack.Name]*sentPack{}, planned: map[object.Key]struct{}{},
		where: ownIndex{files: r.indexes, limit: latestEntries},
	}

	folders, err := disk.ReadDir(o.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the notes of sent packs: %w", err)
	}

	for _, f := range folders {
		folder := filepath.Join(o.dir, f.Name())
		lock, err := disk.Lock(ctx, filepath.Join(folder, journalLock), disk.Exclusive, 0)
		if err != nil {
			if ctx.Err() != nil {
				o.close()
				return nil, ctx.Err()
			}
			continue // in use, or just removed
		}

		o.locks[folder] = lock
		files, _ := disk.ReadDir(folder)
		for _, file := range files {
			if err := o.loadNote(filepath.Join(folder, file.Name())); err != nil {
				o.close()
				return nil, err
			}
		}
	}
	return o, nil
}

// loadNote takes over the pack of a note. It does nothing if the file is not a note of this remote.
func (o *ownPacks) loadNote(file string) error {
	name, err := pack.ParseName(filepath.Base(file))
	if err != nil {
		return nil
	}
	s, err := o.readNote(name, file)
	if err != nil {
		return nil
	}
	s.file = file
	return o.putSent(s)
}

// readNote reads a note of this remote.
func (o *ownPacks) readNote(name pack.Name, file string) (*sentPack, error) {
	data, err := disk.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, binding, err := parseSent(name, data)
	if err == nil && binding != o.binding {
		err = errSent
	}
	return s, err
}

// putSent adds a pack, without the objects that another pack has.
func (o *ownPacks) putSent(s *sentPack) error {
	entries := s.entries[:0]
	for _, e := range s.entries {
		delete(o.planned, e.Key)
		other, err := o.where.find(o.packs, e.Key)
		if err != nil {
			return err
		}
		if other == nil {
			entries = append(entries, e)
		}
	}
	s.entries, s.count = entries, len(entries)
	o.packs[s.info.Name] = s
	return o.where.add(o.packs, s)
}

// noteSent notes a pack that was sent, in memory and on disk.
func (o *ownPacks) noteSent(ctx context.Context, s *sentPack) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	folder, err := o.ownFolder(ctx)
	if err == nil {
		s.file = filepath.Join(folder, s.info.Name.String())
		err = disk.WriteFile(s.file, appendSent(nil, s, o.binding))
	}
	if err == nil {
		err = o.putSent(s)
	}
	if err != nil {
		return fmt.Errorf("note a sent pack: %w", err)
	}
	return nil
}

// noteUnsent notes the objects of a pack that a dry run would send.
func (o *ownPacks) noteUnsent(items []item) error {
	name, err := o.rand()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &sentPack{info: pack.Info{Name: name, Size: pack.MaxSize}, checked: true}
	for _, it := range items {
		s.entries = append(s.entries, pack.Entry{Key: it.key, Pack: s.info, Offset: remote.HeaderSize, Stored: 1, Raw: 1})
	}
	return o.putSent(s)
}

// ownFolder returns this process's folder. It makes it the first time. The caller holds o.mu.
func (o *ownPacks) ownFolder(ctx context.Context) (string, error) {
	for try := 0; o.own == ""; try++ {
		name, err := o.rand()
		if err != nil {
			return "", err
		}
		folder := filepath.Join(o.dir, name.String())
		if err := disk.MkdirAll(folder, 0o777); err != nil {
			return "", err
		}
		// Before the lock is held, another process may take the folder over.
		lock, err := disk.Lock(ctx, filepath.Join(folder, journalLock), disk.Exclusive, 0)
		if err == nil {
			o.own, o.locks[folder] = folder, lock
		} else if try == 10 || ctx.Err() != nil {
			return "", err
		}
	}
	return o.own, nil
}

// findPack returns the pack that has an object, or nil.
func (o *ownPacks) findPack(key object.Key) (*sentPack, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.where.find(o.packs, key)
}

// planObject reports whether an object was not planned to be sent so far. From now on it is, until its
// pack was sent.
func (o *ownPacks) planObject(key object.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, there := o.planned[key]
	o.planned[key] = struct{}{}
	return !there
}

// beginPlan forgets the objects of an earlier plan that were not sent.
func (o *ownPacks) beginPlan() {
	o.dropPacks(func(s *sentPack) bool { return s.file == "" })
	o.mu.Lock()
	defer o.mu.Unlock()
	o.planned = map[object.Key]struct{}{}
}

// entriesOf returns the entries of a pack, sorted by key.
func (o *ownPacks) entriesOf(s *sentPack) ([]pack.Entry, error) {
	if s.entries != nil || s.file == "" {
		return s.entries, nil
	}
	noted, err := o.readNote(s.info.Name, s.file)
	if err != nil {
		return nil, &object.DamageError{Name: s.file, Err: err, Kind: ErrState}
	}
	return noted.entries, nil
}

// dropPacks forgets packs, in memory and on disk.
func (o *ownPacks) dropPacks(which func(*sentPack) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, s := range o.packs {
		if !which(s) {
			continue
		}
		delete(o.packs, name)
		if s.file != "" {
			disk.Remove(s.file) // if that fails, the next push drops the pack
		}
	}
	o.where.forgetDropped(o.packs)
}

// close unlocks the journals. It removes all files but the notes of packs that were not
// dropped.
func (o *ownPacks) close() {
	o.where.close()
	used := map[string]bool{}
	for _, s := range o.packs {
		used[s.file], used[filepath.Dir(s.file)] = true, true
	}
	for folder, lock := range o.locks {
		files, _ := disk.ReadDir(folder)
		for _, f := range files {
			if path := filepath.Join(folder, f.Name()); f.Name() != journalLock && !used[path] {
				disk.Remove(path)
			}
		}
		if used[folder] {
			lock.Unlock()
			continue
		}
		lock.Remove()
		disk.Remove(folder)
	}
}

// A note has: magic, binding, S0, size of the pack, entries as in a root, checksum.
const (
	sentMagic = "kistsent"
	sentHead  = len(sentMagic) + sha256.Size + 8 + 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errSent    = errors.New("not a note of a pack that was sent")
)

// appendSent appends the note of s to dst.
func appendSent(dst []byte, s *sentPack, binding [sha256.Size]byte) []byte {
	const entrySize = 43 // at most
	dst = slices.Grow(dst, sentHead+entrySize*len(s.entries)+4)
	start := len(dst)
	dst = append(dst, sentMagic...)
	dst = append(dst, binding[:]...)
	dst = binary.BigEndian.AppendUint64(dst, s.start)
	dst = binary.BigEndian.AppendUint32(dst, s.info.Size)
	dst = pack.AppendEntries(dst, s.entries)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseSent decodes the note of a pack, with the binding in it.
func parseSent(name pack.Name, data []byte) (s *sentPack, binding [sha256.Size]byte, err error) {
	end := len(data) - 4
	if end < sentHead || string(data[:len(sentMagic)]) != sentMagic ||
		binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) {
		return nil, binding, errSent
	}
	copy(binding[:], data[len(sentMagic):])
	numbers := data[len(sentMagic)+sha256.Size:]
	s = &sentPack{
		start: binary.BigEndian.Uint64(numbers),
		info:  pack.Info{Name: name, Size: binary.BigEndian.Uint32(numbers[8:])},
	}
	s.entries, err = pack.ParseEntries(s.info, data[sentHead:end])
	s.count = len(s.entries)
	return s, binding, err
}
