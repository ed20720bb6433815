// Package disk changes small files safely. A file has its old content or the new
// one, and nothing in between. When a function returns, its changes are on disk. A
// lock ends with the process that holds it.
package disk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// TempSuffix ends the name of the file that [WriteFile] writes before it has the name of its path.
const TempSuffix = ".tmp"

// WriteFile replaces or makes the file at path. At every moment, even after a crash, the file
// has either its old content or data. The directory must exist. Only one process at a time
// may write a path, so the caller holds a [Lock].
func WriteFile(path string, data []byte) error {
	dir, name := filepath.Split(path)
	return Write(dir, name+TempSuffix, func(w io.Writer) (string, error) {
		_, err := w.Write(data)
		return name, err
	})
}

// Write is [WriteFile] for a file that is written in parts. The function write
// returns the file's name in dir. Until the end, the data is in the file temp in dir.
// Write first removes a file temp that another process left.
func Write(dir, temp string, write func(io.Writer) (name string, err error)) error {
	if err := WriteHint(dir, temp, write); err != nil {
		return err
	}
	return SyncDir(dir)
}

// WriteHint is [Write] without syncing the directory. So the file may have its
// old content after a crash, although the function returned.
func WriteHint(dir, temp string, write func(io.Writer) (name string, err error)) error {
	return replace(dir, temp, true, write)
}

// WriteUnsynced is [WriteFile] without syncing. After a crash, the file may have its old
// content, or none.
func WriteUnsynced(path string, data []byte) error {
	dir, name := filepath.Split(path)
	return replace(dir, name+TempSuffix, false, func(w io.Writer) (string, error) {
		_, err := w.Write(data)
		return name, err
	})
}

// replace is [Write] without syncing the directory. It syncs the file only if sync is set.
func replace(dir, temp string, sync bool, write func(io.Writer) (name string, err error)) error {
	path := filepath.Join(dir, temp)
	if err := Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 256<<10)
	name, err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = Rename(path, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, Remove(path))
	}
	return nil
}

// MakeDir makes a directory and its missing parents. Their names are on disk when it
// returns.
func MakeDir(dir string) error {
	info, err := Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := MakeDir(above); err != nil {
			return err
		}
	}
	if err := Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(above)
}

// SyncDir writes the names in a directory to disk.
func SyncDir(dir string) error {
	if dir == "" {
		dir = "."
	}
	d, err := Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ErrSum is the error for a file whose checksum line does not match its data.
// See [CutSum] and [WithoutSum].
var ErrSum = errors.New("checksum does not match")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sumBefore = "\ncrc32c "
	sumSize   = len(sumBefore) + 8 + 1
)

// Sum returns the CRC-32C of data, as 8 hexadecimal digits.
func Sum(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// WithSum returns data, an end of line, and a line with its checksum. It is for
// small files without a hash or checksum elsewhere.
func WithSum(data []byte) []byte {
	return fmt.Appendf(slices.Clip(data), "%s%s\n", sumBefore, Sum(data))
}

// CutSum returns the data of a file in the form of [WithSum]. If there is no checksum line,
// CutSum returns the file unchanged, and has is false. The file may then end in a damaged
// checksum line, so the caller checks that the whole file is valid data.
func CutSum(file []byte) (data []byte, has bool, err error) {
	at := len(file) - sumSize
	if at < 0 || !bytes.HasPrefix(file[at:], []byte(sumBefore)) || file[len(file)-1] != '\n' {
		return file, false, nil
	}
	if string(file[at+len(sumBefore):len(file)-1]) != Sum(file[:at]) {
		return nil, true, ErrSum
	}
	return file[:at], true, nil
}

// WithoutSum returns the data of a file in the form of [WithSum]. The error is [ErrSum] if
// the line with the checksum is missing or wrong.
func WithoutSum(file []byte) (data []byte, err error) {
	data, has, err := CutSum(file)
	if err == nil && !has {
		return nil, ErrSum
	}
	return data, err
}

// Mend flips the one bit of data that makes it intact, and reports whether there is
// such a bit. Otherwise it leaves data unchanged.
func Mend(data []byte, intact func([]byte) bool) bool {
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if intact(data) {
			return true
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	return false
}
