package remote

import (
	"errors"
	"fmt"
	"strings"
)

// MaxNameSize is the most bytes of a name.
const MaxNameSize = 200

// CheckName says whether name can be that of a blob: components of the
// characters a to z, 0 to 9, '.', '_' and '-', which do not begin with a dot,
// separated by single slashes, of at most MaxNameSize bytes together. So every
// name is one on every store. The error matches ErrName.
func CheckName(name string) error {
	if len(name) > MaxNameSize {
		return &Error{Op: "check", Name: name[:MaxNameSize], Kind: ErrName, Err: fmt.Errorf("%d bytes, the limit is %d", len(name), MaxNameSize)}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' {
			return &Error{Op: "check", Name: name, Kind: ErrName}
		}
		for _, c := range []byte(part) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
				return &Error{Op: "check", Name: name, Kind: ErrName}
			}
		}
	}
	return nil
}

// IsRecord reports whether a name belongs to a record, made by [Creator], and
// not to a blob, stored by Put. Records are kist.json and the content of
// folders named root.
func IsRecord(name string) bool {
	folders, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		folders, base = name[:i], name[i+1:]
	}
	return base == "kist.json" || folders == "root" || strings.HasSuffix(folders, "/root")
}

// CheckBlob says whether name can be that of a blob to be [Blobs].Put: one
// that [CheckName] accepts and that is not a record's. The error matches
// ErrName.
func CheckBlob(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if IsRecord(name) {
		return &Error{Op: "check", Name: name, Kind: ErrName, Err: errors.New("it is the name of a record")}
	}
	return nil
}

// CheckRecord says whether name can be that of a record of size bytes to be
// created by a [Creator]. The error about the name matches ErrName.
func CheckRecord(name string, size int) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !IsRecord(name) {
		return &Error{Op: "check", Name: name, Kind: ErrName, Err: errors.New("it is not the name of a record")}
	}
	if size > MaxRecord {
		return &Error{Op: "check", Name: name, Err: fmt.Errorf("%d bytes are too many for a record, the limit is %d", size, MaxRecord)}
	}
	return nil
}

// CheckPrefix says whether prefix can be that of [Blobs].List: empty, or a
// name and a slash. The error matches ErrName.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	folder, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return &Error{Op: "check", Name: prefix[:min(len(prefix), MaxNameSize)], Kind: ErrName, Err: errors.New("the prefix does not end with a slash")}
	}
	return CheckName(folder)
}
