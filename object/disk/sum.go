package disk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

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
