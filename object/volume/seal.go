package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// seal completes the volume and renames it to its ULID, durably. After an error, the only
// allowed call is abandon. No call of add may be under way.
func (w *writer) seal() error {
	err := w.failed()
	switch {
	case err != nil:
	case w.db == nil:
		err = w.finishSmall()
	default:
		if err = w.flush(); err == nil {
			err = w.finish()
		}
	}
	if err != nil {
		return w.fail(fmt.Errorf("seal: %w", err))
	}
	w.space.close()
	if !w.keep {
		w.lock.Remove()
	}
	return nil
}

// finish closes the database, removes its unused files, and completes the volume.
func (w *writer) finish() error {
	db := w.db
	if err := checkFree(w.dir, w.space.closing()); err != nil {
		return err
	}
	if err := w.space.startWriting(); err != nil {
		return err
	}

	// From here on, Badger is closed, or failed and is not used.
	w.db = nil
	closed := make(chan error, 1)
	go func() { closed <- db.close() }()
	// Closing takes some time, and the value logs are complete already.
	err := w.findAllPlaces()
	order := w.table.sorted()
	if err := errors.Join(<-closed, err); err != nil {
		return err
	}

	if err := w.space.removeUnused(); err != nil {
		return err
	}
	files, err := w.leftFiles()
	if err != nil {
		return err
	}
	manifest, err := disk.ReadFile(filepath.Join(w.dir, manifestFile))
	if err != nil {
		return err
	}
	return w.complete(files, manifest, order)
}

// complete writes KEYS and SEAL for the value logs and the named files in the directory,
// and renames the directory, durably. Order has the numbers of the objects, sorted by
// key.
func (w *writer) complete(files []string, manifest []byte, order []uint32) error {
	if w.created.IsZero() {
		w.created = w.store.o.Now()
	}
	s := &seal{
		Session:   w.session,
		Created:   w.created.UTC().Truncate(time.Second),
		Objects:   uint64(w.table.n),
		Raw:       uint64(w.raw),
		Stored:    uint64(w.stored),
		Optimised: w.optimised,
		Manifest:  manifest,
	}

	var err error
	if s.Files, err = w.scanLogs(); err != nil {
		return err
	}
	if err := w.writeKeys(order); err != nil {
		return err
	}
	for _, name := range append(files, keysFile) {
		f, err := sumFile(disk.Open(filepath.Join(w.dir, name)))
		if err != nil {
			return err
		}
		s.Files = append(s.Files, f)
	}
	slices.SortFunc(s.Files, func(a, b sealFile) int { return strings.Compare(a.Name, b.Name) })

	if err := writeFile(filepath.Join(w.dir, sealName), func(f io.Writer) error {
		_, err := f.Write(s.encode())
		return err
	}); err != nil {
		return err
	}

	if err := disk.Remove(filepath.Join(w.dir, claimFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := w.makeDurable(s); err != nil {
		return err
	}
	if err := renameNew(w.dir, w.store.inVolumes(w.name)); err != nil {
		return err
	}
	return disk.SyncDir(w.store.path)
}

// leftFiles removes files of Badger that a sealed volume does not have, and returns the
// names of the others, except value logs. It returns an error for an unexpected name,
// above all for a memtable: that would have keys that are in no table.
func (w *writer) leftFiles() (names []string, err error) {
	for _, name := range []string{"DISCARD", "KEYREGISTRY", "LOCK"} {
		if err := disk.Remove(filepath.Join(w.dir, name)); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}

	entries, err := disk.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	logs := 0
	for _, e := range entries {
		name := e.Name()
		if _, ok := logNumber(name); ok {
			logs++
		} else if name == manifestFile || isTable(name) {
			names = append(names, name)
		} else if name == claimFile { // until KEYS is written
		} else {
			return nil, fmt.Errorf("database left %s behind", name)
		}
	}
	if logs != len(w.space.logs) || !slices.Contains(names, manifestFile) {
		return nil, fmt.Errorf("database left %d value logs, want %d, and files %s", logs, len(w.space.logs), names)
	}
	return names, nil
}

// scanLogs reads the rest of all value logs, and checks that they have one entry for each
// object and nothing else.
func (w *writer) scanLogs() (files []sealFile, err error) {
	w.committing.Lock() // objects are read meanwhile
	defer w.committing.Unlock()
	for i, f := range w.space.logs {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if err := w.walk(i, st.Size()); err != nil {
			return nil, err
		}
		files = append(files, sealFile{Name: logName(uint32(i) + 1), Size: st.Size(), Sum: [sha256.Size]byte(w.walks[i].hash.Sum(nil))})
	}
	if w.placed != w.table.n {
		return nil, fmt.Errorf("value logs hold %d objects, want %d", w.placed, w.table.n)
	}
	return files, nil
}

// writeKeys writes KEYS. Order has the numbers of the objects, sorted by key.
func (w *writer) writeKeys(order []uint32) error {
	records := func(yield func(keys.Record) bool) {
		for _, i := range order {
			r := w.table.at(int(i))
			if !yield(keys.Record{Key: w.table.key(r), File: uint32(r.file), Offset: r.offset, Stored: r.stored, Raw: r.raw}) {
				return
			}
		}
	}
	return writeFile(filepath.Join(w.dir, keysFile), func(f io.Writer) error { return keys.Write(f, records) })
}

// makeDurable makes all files read-only, and syncs the value logs and the directory. The
// descriptors of the value logs are older than all writes, so that a sync returns the error
// of every write. KEYS and SEAL were synced when they were written. Badger has synced the
// tables and MANIFEST, or its error has failed the volume.
func (w *writer) makeDurable(s *seal) error {
	for _, f := range append(s.Files, sealFile{Name: sealName}) {
		if err := disk.Chmod(filepath.Join(w.dir, f.Name), 0o444); err != nil {
			return err
		}
		if n, ok := logNumber(f.Name); ok {
			if err := w.space.logs[n-1].Sync(); err != nil {
				return err
			}
		}
	}
	return disk.SyncDir(w.dir)
}

// writeFile writes a new read-only file, and syncs it.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := disk.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sumFile returns the name, size and checksum of a file that was just opened, and closes
// it. Err is the error of opening it.
func sumFile(f *os.File, err error) (sealFile, error) {
	if err != nil {
		return sealFile{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return sealFile{Name: filepath.Base(f.Name()), Size: n, Sum: [sha256.Size]byte(h.Sum(nil))}, err
}

// sealVersion is the format version of a volume, and of its SEAL.
const sealVersion = 1

// maxSealSize bounds a SEAL: some hundred files and a MANIFEST.
const maxSealSize = 16 << 20

// seal is the content of a SEAL file: the description of a volume without the places of
// its objects.
type seal struct {
	Session   string    // the session that wrote it
	Created   time.Time // time of sealing in UTC, without fractions of a second
	Objects   uint64
	Raw       uint64     // bytes of the objects
	Stored    uint64     // bytes of the stored values
	Optimised bool       // the objects are stored as small as possible
	Files     []sealFile // sorted by name; all but SEAL itself
	Manifest  []byte     // copy of MANIFEST
}

// sealFile is a file of the volume.
type sealFile struct {
	Name string
	Size int64
	Sum  [sha256.Size]byte // of the file; for a value log, of everything except the values
}

// The first words of the lines of files. The checksum of a value log does not cover the
// values.
const (
	wordFile = "file"
	wordLog  = "log"
)

// encode returns the bytes of the file.
func (s *seal) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "kist volume %d\n", sealVersion)
	fmt.Fprintf(&b, "session %s\n", s.Session)
	fmt.Fprintf(&b, "created %s\n", s.Created.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "objects %d\nraw %d\nstored %d\n", s.Objects, s.Raw, s.Stored)
	if s.Optimised {
		fmt.Fprintln(&b, "optimised")
	}
	for _, f := range s.Files {
		word := wordFile
		if _, ok := logNumber(f.Name); ok {
			word = wordLog
		}
		fmt.Fprintf(&b, "%s %s %d %x\n", word, f.Name, f.Size, f.Sum)
	}
	fmt.Fprintf(&b, "manifest %s\n", base64.StdEncoding.EncodeToString(s.Manifest))
	fmt.Fprintf(&b, "seal %x\n", sha256.Sum256(b.Bytes()))
	return b.Bytes()
}

// decodeSeal decodes a SEAL. It accepts only the form of encode.
func decodeSeal(data []byte) (*seal, error) {
	const sumLine = len("seal ") + 2*sha256.Size + 1
	if len(data) > maxSealSize || len(data) < sumLine {
		return nil, fmt.Errorf("%d bytes are not a seal's size", len(data))
	}
	if first, _, _ := strings.Cut(string(data[:sumLine]), "\n"); first != fmt.Sprintf("kist volume %d", sealVersion) {
		var version int
		if _, err := fmt.Sscanf(first, "kist volume %d", &version); err == nil && version > sealVersion && !isSeal(data) {
			return nil, fmt.Errorf("version %d: %w", version, object.ErrNewerFormat)
		}
		return nil, errors.New("not a seal")
	}

	body := data[:len(data)-sumLine]
	if fmt.Sprintf("seal %x\n", sha256.Sum256(body)) != string(data[len(body):]) {
		return nil, errors.New("checksum does not match")
	}

	s := &seal{}
	for line := range strings.Lines(string(body)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if err := s.set(word, rest); err != nil {
			return nil, fmt.Errorf("line %.40q: %w", line, err)
		}
	}
	if !bytes.Equal(s.encode(), data) {
		return nil, errors.New("not in canonical form")
	}
	return s, nil
}

// isSeal reports whether data is a seal of this version with a damaged first line.
func isSeal(data []byte) bool {
	_, rest, _ := bytes.Cut(data, []byte("\n"))
	_, err := decodeSeal(append(fmt.Appendf(nil, "kist volume %d\n", sealVersion), rest...))
	return err == nil
}

// set decodes one line.
func (s *seal) set(word, rest string) (err error) {
	switch word {
	case "kist":
	case "session":
		if s.Session = rest; !isName(rest) {
			err = errors.New("not a session's name")
		}
	case "created":
		s.Created, err = time.Parse(time.RFC3339, rest)
	case "objects":
		_, err = fmt.Sscanf(rest, "%d", &s.Objects)
	case "raw":
		_, err = fmt.Sscanf(rest, "%d", &s.Raw)
	case "stored":
		_, err = fmt.Sscanf(rest, "%d", &s.Stored)
	case "optimised":
		s.Optimised = true
	case wordFile, wordLog:
		err = s.addFile(rest)
	case "manifest":
		s.Manifest, err = base64.StdEncoding.DecodeString(rest)
	default:
		err = errors.New("unknown")
	}
	return err
}

// addFile decodes the line of a file, without the first word.
func (s *seal) addFile(text string) error {
	var f sealFile
	var sum string
	if _, err := fmt.Sscanf(text, "%s %d %s", &f.Name, &f.Size, &sum); err != nil {
		return err
	}
	if n := len(s.Files); f.Size < 0 || n > 0 && s.Files[n-1].Name >= f.Name {
		return errors.New("files not in order, or of impossible size")
	}
	if n, err := hex.Decode(f.Sum[:], []byte(sum)[:min(len(sum), 2*sha256.Size)]); err != nil || n != sha256.Size {
		return errors.New("not a checksum")
	}
	if _, log := logNumber(f.Name); !log && !isTable(f.Name) && f.Name != keysFile && f.Name != manifestFile {
		return errors.New("not a file of a volume")
	}
	s.Files = append(s.Files, f)
	return nil
}
