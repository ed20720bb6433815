// Package disk changes small files safely: a file is replaced whole or not at
// all, what a function has done is on disk when it returns, and locks end with
// the process that holds them.
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

// WriteFile replaces the file at path, or makes it. At every moment, and after
// a crash at any, the file has its old content or data. The folder must exist.
// Only one process at a time may write a path: hold a [Lock].
func WriteFile(path string, data []byte) error {
	dir, name := filepath.Split(path)
	return Write(dir, name+".tmp", func(w io.Writer) (string, error) {
		_, err := w.Write(data)
		return name, err
	})
}

// Write is [WriteFile] for what is written bit by bit, or has a name that is
// known only then: write returns it. Until the end it is the file temp in the
// same folder, which is removed first if a process left it there.
func Write(dir, temp string, write func(io.Writer) (name string, err error)) error {
	if err := WriteHint(dir, temp, write); err != nil {
		return err
	}
	return SyncDir(dir)
}

// WriteHint is [Write] for what may be lost: after a crash, the file may have
// its old content although the function has returned. It never has any other.
func WriteHint(dir, temp string, write func(io.Writer) (name string, err error)) error {
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
	if err == nil {
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

// MakeDir makes a folder and the folders above it, and has their names on disk
// when it returns.
func MakeDir(dir string) error {
	if info, err := Stat(dir); err == nil && info.IsDir() {
		return nil
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

// SyncDir has the names in a folder on disk when it returns.
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

// ErrSum says that the bytes of a file do not have the checksum that its last
// line says.
var ErrSum = errors.New("checksum does not match")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sumBefore = "\ncrc32c "
	sumSize   = len(sumBefore) + 8 + 1
)

// Sum returns the CRC-32C of data, as 8 hexadecimal digits.
func Sum(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// WithSum returns data with an end of line and a line with its checksum. It is
// for small files whose bytes have no hash or checksum elsewhere.
func WithSum(data []byte) []byte {
	return fmt.Appendf(slices.Clip(data), "%s%s\n", sumBefore, Sum(data))
}

// CutSum returns the data of a file that has the form of [WithSum]. A file
// without the last line is returned as it is, and has is false. The caller then
// checks that all of it is data: the line may be there, but damaged.
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

// Mend flips the bit of data that makes whole true, and reports whether there is
// one. If there is none, data stays as it is.
func Mend(data []byte, whole func([]byte) bool) bool {
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if whole(data) {
			return true
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	return false
}
