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
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// sealVolume completes the volume and renames it to its ULID, durably. After an error, the only
// allowed call is abandon. No call of addValue may be under way.
func (w *writer) sealVolume() error {
	err := w.firstError()
	switch {
	case err != nil:
	case !w.logs.HasDatabase():
		err = w.finishSmall()
	default:
		if err = w.commitRest(); err == nil {
			err = w.finishLarge()
		}
	}
	if err != nil {
		return w.failVolume(fmt.Errorf("seal: %w", err))
	}
	w.logs.Close()
	if !w.keep {
		w.lock.Remove()
	}
	return nil
}

// finishLarge ends the value logs, and completes the volume.
func (w *writer) finishLarge() error {
	var order []uint32
	files, manifest, err := w.logs.Finish(func() { order = w.table.sortedNumbers() })
	if err != nil {
		return err
	}
	return w.complete(files, manifest, order)
}

// finishSmall is finishLarge for a volume that has at most one batch, which was not written yet.
func (w *writer) finishSmall() error {
	w.mu.Lock()
	b := w.filling
	w.filling = nil
	w.mu.Unlock()
	if b == nil {
		b = &batch{}
	}
	log, err := w.logs.WriteSmall(&b.Batch, w.store.o.Rand)
	if err != nil {
		return err
	}
	w.noteWritten(b, log)
	return w.complete(nil, nil, w.table.sortedNumbers())
}

// complete writes KEYS and SEAL for the value logs and the named files in the directory,
// and renames the directory, durably. Order has the numbers of the objects, sorted by
// key.
func (w *writer) complete(files []string, manifest []byte, order []uint32) error {
	if w.created.IsZero() {
		w.created = w.store.o.Now()
	}
	s := &seal{
		Session:        w.session,
		Created:        w.created.UTC().Truncate(time.Second),
		Objects:        uint64(w.table.n),
		Raw:            uint64(w.raw),
		Stored:         uint64(w.stored),
		Repacked:       w.repacked,
		BadgerManifest: manifest,
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

	if err := disk.CreateSynced(filepath.Join(w.dir, sealName), 0o444, func(f io.Writer) error {
		_, err := f.Write(s.encode())
		return err
	}); err != nil {
		return err
	}

	if err := w.logs.ReleaseClaim(); err != nil {
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

// scanLogs describes the value logs. It checks that they have one entry for each object and
// nothing else.
func (w *writer) scanLogs() (files []sealFile, err error) {
	logs, err := w.logs.ScanLogs()
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		files = append(files, sealFile(log))
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
			r := w.table.recordAt(int(i))
			if !yield(keys.Record{Key: w.table.keyOf(r), File: uint32(r.file), Offset: r.offset, Stored: r.stored, Raw: r.raw}) {
				return
			}
		}
	}
	return disk.CreateSynced(filepath.Join(w.dir, keysFile), 0o444, func(f io.Writer) error { return keys.Write(f, len(order), records) })
}

// makeDurable makes all files read-only, and syncs the value logs and the directory. The other
// files were synced when they were written.
func (w *writer) makeDurable(s *seal) error {
	for _, f := range append(s.Files, sealFile{Name: sealName}) {
		if err := disk.Chmod(filepath.Join(w.dir, f.Name), 0o444); err != nil {
			return err
		}
		if n, ok := ingest.LogNumber(f.Name); ok {
			if err := w.logs.SyncLog(n); err != nil {
				return err
			}
		}
	}
	return disk.SyncDir(w.dir)
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
	Session        string    // the session that wrote it
	Created        time.Time // time of sealing in UTC, without fractions of a second
	Objects        uint64
	Raw            uint64     // bytes of the objects
	Stored         uint64     // bytes of the stored values
	Repacked       bool       // the objects are stored as small as possible
	Files          []sealFile // sorted by name; all but SEAL itself
	BadgerManifest []byte     // copy of MANIFEST
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
	if s.Repacked {
		fmt.Fprintln(&b, "optimised")
	}
	for _, f := range s.Files {
		word := wordFile
		if _, ok := ingest.LogNumber(f.Name); ok {
			word = wordLog
		}
		fmt.Fprintf(&b, "%s %s %d %x\n", word, f.Name, f.Size, f.Sum)
	}
	fmt.Fprintf(&b, "manifest %s\n", base64.StdEncoding.EncodeToString(s.BadgerManifest))
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
		if err := s.decodeLine(word, rest); err != nil {
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

// decodeLine decodes one line.
func (s *seal) decodeLine(word, rest string) (err error) {
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
		s.Repacked = true
	case wordFile, wordLog:
		err = s.addFile(rest)
	case "manifest":
		s.BadgerManifest, err = base64.StdEncoding.DecodeString(rest)
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
	if _, log := ingest.LogNumber(f.Name); !log && !ingest.IsTable(f.Name) && f.Name != keysFile && f.Name != ingest.ManifestFile {
		return errors.New("not a file of a volume")
	}
	s.Files = append(s.Files, f)
	return nil
}
