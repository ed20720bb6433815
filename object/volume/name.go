package volume

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// The name of a volume is a ULID: the milliseconds since 1970 in six bytes, then ten random ones. Its
// 26 digits have five bits each, so names sort by time. The first digit has only three bits: the digits
// are the last ones of 20 bytes that begin with four zeros.
const (
	nameSize  = 16
	nameZeros = 4
	zeroText  = "000000" // the digits of 30 of the zero bits
	maxMillis = 1<<48 - 1
)

var nameDigits = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newName returns the name of a new volume.
func newName(now time.Time, random io.Reader) (string, error) {
	millis := now.UnixMilli()
	if millis < 0 || millis > maxMillis {
		return "", fmt.Errorf("name a volume: no name has the time %s", now)
	}

	id := make([]byte, nameZeros+nameSize)
	binary.BigEndian.PutUint64(id[nameZeros:], uint64(millis)<<16)
	if _, err := io.ReadFull(random, id[nameZeros+6:]); err != nil {
		return "", fmt.Errorf("name a volume: %w", err)
	}
	return nameDigits.EncodeToString(id)[len(zeroText):], nil
}

// parseName returns the bytes that a name has, and whether it is the name of a volume: a ULID in upper case.
func parseName(name string) (id []byte, ok bool) {
	id, err := nameDigits.DecodeString(zeroText + name)
	if err != nil || len(id) != nameZeros+nameSize || binary.BigEndian.Uint32(id) != 0 {
		return nil, false
	}
	return id[nameZeros:], nameDigits.EncodeToString(id) == zeroText+name // the decoder passes over newlines
}

// isName reports whether name is that of a volume.
func isName(name string) bool {
	_, ok := parseName(name)
	return ok
}

// nameTime returns the time in the name of a volume.
func nameTime(name string) time.Time {
	id, ok := parseName(name)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id) >> 16))
}
