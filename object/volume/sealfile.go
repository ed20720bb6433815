package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
)

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
