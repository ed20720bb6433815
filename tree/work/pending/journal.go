package pending

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

const (
	journalNameSize = 32         // hexadecimal digits
	journalMagic    = "kistpnd1" // the form of the file: later versions have another digit
	maxRecord       = 1 << 20    // bytes of a record
	sumSize         = 16         // bytes of the hash before a record
)

// ErrJournal is matched by the error for a journal whose beginning is damaged.
var ErrJournal = fmt.Errorf("journal of pending changes: %w", object.ErrCorrupt)

// opKind is the kind of an op. The values are part of the format.
type opKind uint8

const (
	opSet    opKind = 1 // set the entry
	opSetDir opKind = 2 // make a folder with these properties; its content stays
	opRemove opKind = 3 // remove the entry with everything below it
)

// op is one change of a tree.
type op struct {
	kind  opKind
	path  string
	entry object.Entry // opSet and opSetDir
	who   refs.Who
	data  []byte // the chunk that is the entry's content, if the store may not have it
}

// journal is the file with the changes of a branch since the last checkpoint. Its records are
// appended under the lock of the branch. [journal.sync] may be called at any time.
type journal struct {
	path string
	f    *os.File

	mu      sync.Mutex // guards the following
	cond    *sync.Cond
	size    int64
	synced  int64 // bytes that are on disk
	syncing bool
	err     error // of the first failed sync: the file must not be used any more
}

// createJournal makes the journal of a branch that has only its header: the last checkpoint,
// or else the commit that the changes apply to, and the branch.
func createJournal(path, branch string, startCommit object.ID) (*journal, error) {
	if err := disk.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := disk.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, f: f}
	j.cond = sync.NewCond(&j.mu)

	header := slices.Concat([]byte(journalMagic), frame(slices.Concat(startCommit[:], []byte(branch))))
	_, err = f.Write(header)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, disk.Remove(path))
	}
	j.size, j.synced = int64(len(header)), int64(len(header))
	return j, nil
}

// frame returns a record: its length, its hash and its bytes.
func frame(payload []byte) []byte {
	sum := object.Sum(payload)
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+sumSize+len(payload)), uint32(len(payload)))
	out = append(out, sum[:sumSize]...)
	return append(out, payload...)
}

// unframe returns the first record of data and the rest. Ok is false if it is incomplete or
// damaged.
func unframe(data []byte) (payload, rest []byte, ok bool) {
	if len(data) < 4+sumSize {
		return nil, data, false
	}
	n := binary.BigEndian.Uint32(data)
	if n > maxRecord || len(data)-4-sumSize < int(n) {
		return nil, data, false
	}
	payload = data[4+sumSize:][:n]
	sum := object.Sum(payload)
	return payload, data[4+sumSize+int(n):], bytes.Equal(sum[:sumSize], data[4:][:sumSize])
}

// append writes ops to the end and returns the position that [journal.sync] has to reach. After
// an error, the journal is as before.
func (j *journal) append(ops []op) (int64, error) {
	payload, err := encodeOps(ops)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return 0, j.err
	}
	record := frame(payload)
	if _, err := j.f.WriteAt(record, j.size); err != nil {
		if terr := j.f.Truncate(j.size); terr != nil {
			j.err = terr
		}
		return 0, err
	}
	j.size += int64(len(record))
	return j.size, nil
}

// sync waits until the first pos bytes are on disk. Concurrent calls share one sync of the file.
func (j *journal) sync(pos int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.synced < pos && j.err == nil {
		if j.syncing {
			j.cond.Wait()
			continue
		}
		j.syncing = true
		end := j.size
		j.mu.Unlock()
		err := j.f.Sync()
		j.mu.Lock()
		j.syncing = false
		if err != nil {
			j.err = err
		} else {
			j.synced = max(j.synced, end)
		}
		j.cond.Broadcast()
	}
	if j.synced >= pos {
		return nil
	}
	return j.err
}

// failed reports whether the file can no longer be used.
func (j *journal) failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err != nil
}

// bytes returns the size of the file.
func (j *journal) bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// remove deletes the file, because a checkpoint has all its changes. It ends all calls of sync.
// The journal takes no more changes, also after an error.
func (j *journal) remove() error {
	j.mu.Lock()
	j.synced, j.err = math.MaxInt64, errRemoved
	for j.syncing {
		j.cond.Wait()
	}
	j.cond.Broadcast()
	j.mu.Unlock()

	if err := removeFile(j.path); err != nil {
		return err
	}
	j.f.Close() // all of it is in the checkpoint
	return nil
}

// errRemoved means that a checkpoint has replaced the journal.
var errRemoved = errors.New("the journal was removed")

// removeFile removes a file, if it exists, and writes its folder to disk.
func removeFile(path string) error {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// readJournal returns the content of a journal. StartCommit is the commit of the last checkpoint at that time, or
// else the commit that the changes apply to. Cut is true if its end is not intact, as after
// a crash in the middle of a write. Found is false if there is no file, or only the beginning
// of a header.
func readJournal(path string) (startCommit object.ID, branch string, ops []op, cut, found bool, err error) {
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return startCommit, "", nil, false, false, nil
	}
	if err != nil {
		return startCommit, "", nil, false, false, err
	}
	startCommit, branch, rest, err := decodeHeader(data)
	if err != nil || branch == "" {
		return startCommit, "", nil, false, false, err
	}
	for len(rest) > 0 {
		payload, after, ok := unframe(rest)
		if !ok {
			return startCommit, branch, ops, true, true, nil
		}
		more, err := decodeOps(payload)
		if err != nil {
			return startCommit, branch, ops, true, true, nil
		}
		ops, rest = append(ops, more...), after
	}
	return startCommit, branch, ops, false, true, nil
}

// decodeHeader returns the header of a journal and the rest. The branch is empty if the file is
// only the beginning of a header: no change was confirmed then.
func decodeHeader(data []byte) (startCommit object.ID, branch string, rest []byte, err error) {
	if len(data) < len(journalMagic) && bytes.HasPrefix([]byte(journalMagic), data) {
		return startCommit, "", nil, nil
	}
	if isNewer(data) {
		return startCommit, "", nil, object.ErrNewerFormat
	}
	rest, ok := bytes.CutPrefix(data, []byte(journalMagic))
	if !ok {
		return startCommit, "", nil, ErrJournal
	}
	payload, rest, ok := unframe(rest)
	switch {
	case !ok && len(data) <= len(journalMagic)+4+sumSize+len(startCommit)+refs.MaxNameSize && isPrefix(data):
		return startCommit, "", nil, nil
	case !ok || len(payload) <= len(startCommit):
		return startCommit, "", nil, ErrJournal
	}
	copy(startCommit[:], payload)
	return startCommit, string(payload[len(startCommit):]), rest, nil
}

// isPrefix reports whether data is shorter than its header.
func isPrefix(data []byte) bool {
	data = data[len(journalMagic):]
	return len(data) < 4 || uint64(len(data)) < 4+sumSize+uint64(binary.BigEndian.Uint32(data))
}

// isNewer reports whether a journal is one of a later version.
func isNewer(data []byte) bool {
	at := len(journalMagic) - 1
	return len(data) > at && string(data[:at]) == journalMagic[:at] && data[at] > journalMagic[at] && data[at] <= '9'
}

// CheckJournals returns an error that matches [ErrJournal] for each damaged journal. It skips
// the journals of a server that is running: they are being written. A journal that ends
// within a record is not damaged: a kill or a power failure leaves that.
func CheckJournals(r *kist.Repository) (damage []*object.DamageError, err error) {
	files, err := disk.ReadDir(filepath.Join(r.Dir(), Dir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && disk.IsLocked(filepath.Join(r.Dir(), lockFile)) {
		return nil, nil
	}
	for _, f := range files {
		if len(f.Name()) != journalNameSize {
			continue
		}
		data, err := disk.ReadFile(filepath.Join(r.Dir(), Dir, f.Name()))
		if err == nil {
			err = checkJournal(data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			damage = append(damage, &object.DamageError{Name: Dir + "/" + f.Name(), Err: err, Kind: ErrJournal})
		}
	}
	return damage, err
}

// checkJournal returns an error if a complete record is damaged.
func checkJournal(data []byte) error {
	_, branch, rest, err := decodeHeader(data)
	if err != nil || branch == "" {
		return err
	}
	for len(rest) > 0 {
		payload, after, ok := unframe(rest)
		if !ok && isIncomplete(rest) {
			return nil
		}
		if ok {
			_, err = decodeOps(payload)
		}
		if !ok || err != nil {
			return errRecord
		}
		rest = after
	}
	return nil
}

// isIncomplete reports whether data is the beginning of a record, or bytes that did not reach
// the disk before a power failure.
func isIncomplete(data []byte) bool {
	if len(data) < 4+sumSize || len(bytes.Trim(data, "\x00")) == 0 {
		return true
	}
	n := binary.BigEndian.Uint32(data)
	return n <= maxRecord && len(data) < 4+sumSize+int(n)
}

var errRecord = errors.New("a record is damaged: the server continues with the changes before it, and keeps a copy")

// journalBranch returns the branch of the journal at path, "" if no change in it was confirmed.
func journalBranch(path string) (string, error) {
	f, err := disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(len(journalMagic)+4+sumSize+len(object.ID{})+refs.MaxNameSize)))
	if err != nil {
		return "", err
	}
	_, branch, _, err := decodeHeader(data)
	return branch, err
}

// encodeOps returns the bytes of a record: its ops belong together.
func encodeOps(ops []op) ([]byte, error) {
	var out []byte
	for _, o := range ops {
		out = append(out, byte(o.kind))
		var entry []byte
		if o.kind != opRemove {
			e := o.entry
			_, e.Name = tree.Split(o.path)
			var err error
			if entry, err = (&object.Tree{Entries: []object.Entry{e}}).Encode(); err != nil {
				return nil, err
			}
		}
		for _, field := range [][]byte{[]byte(o.path), []byte(o.who.Name), []byte(o.who.Email), entry, o.data} {
			out = binary.AppendUvarint(out, uint64(len(field)))
			out = append(out, field...)
		}
	}
	if len(out) > maxRecord {
		return nil, errTooLong
	}
	return out, nil
}

// errTooLong means that a change does not fit a record of the journal.
var errTooLong = errors.New("too long for the journal")

// decodeOps is the inverse of encodeOps.
func decodeOps(data []byte) (ops []op, err error) {
	for len(data) > 0 {
		o := op{kind: opKind(data[0])}
		data = data[1:]
		var fields [5][]byte
		for i := range fields {
			n, size := binary.Uvarint(data)
			if size <= 0 || n > uint64(len(data)-size) {
				return nil, ErrJournal
			}
			fields[i], data = data[size:][:n], data[size+int(n):]
		}
		o.path, o.who, o.data = string(fields[0]), refs.Who{Name: string(fields[1]), Email: string(fields[2])}, fields[4]
		if err := tree.CheckPath(o.path); err != nil || o.path == "" {
			return nil, ErrJournal
		}
		switch o.kind {
		case opSet, opSetDir:
			node, err := object.DecodeTree(fields[3])
			if err != nil || len(node.Entries) != 1 {
				return nil, ErrJournal
			}
			o.entry = node.Entries[0]
		case opRemove:
		default:
			return nil, ErrJournal
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// putChunks stores the chunks of ops that the store may not have.
func putChunks(ctx context.Context, w object.Writer, ops []op) error {
	for _, o := range ops {
		if len(o.data) == 0 {
			continue
		}
		if _, err := w.Put(ctx, object.KindChunk, o.data); err != nil {
			return err
		}
	}
	return nil
}
