package rootlog

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// Limits, in bytes. Decoders reject what is beyond them.
const (
	MaxText      = 1024     // of Who and Host, and of the name of a ref
	MaxRootSize  = 1 << 20  // of a root
	MaxStateSize = 64 << 20 // of a state file

	maxExtra    = 64 << 10 // of unknown fields of a root
	maxFeatures = 64       // number of entries, and bytes of each
)

// checkLine checks a line of text.
func checkLine(what, s string) error {
	if len(s) > MaxText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s: longer than %d bytes, not UTF-8 or with control characters", what, MaxText)
	}
	return nil
}

// checkRefName checks what has to hold for a name to be shown. The rules for
// names of refs are package refs's.
func checkRefName(name string) error {
	if !strings.HasPrefix(name, "refs/") {
		return errors.New(`name of a ref that does not begin with "refs/"`)
	}
	return checkLine("name of a ref", name)
}

func checkFeatures(lists ...[]string) error {
	for _, list := range lists {
		if len(list) > maxFeatures {
			return fmt.Errorf("%d features", len(list))
		}
		for i, name := range list {
			if name == "" || len(name) > maxFeatures || checkLine("feature", name) != nil {
				return errors.New("malformed feature")
			}
			if i > 0 && list[i-1] >= name {
				return errors.New("features are not sorted")
			}
		}
	}
	return nil
}

// checkBlobName checks the name of a pack, index or state file.
func checkBlobName(name string) error {
	folder, base, _ := cutLast(name)
	n, err := pack.ParseName(base)
	switch {
	case err != nil:
		return err
	case folder == "index" || folder == "state" || name == n.Path():
		return nil
	}
	return fmt.Errorf("%q is no pack, index or state file", name)
}

func cutLast(name string) (folder, base string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:], i >= 0
}

// Keys are encoded as the kind and the ID, and the zero key as nothing.

func encodeKey(k object.Key) cbor.ByteString {
	if k.IsZero() {
		return ""
	}
	return cbor.ByteString(append([]byte{byte(k.Kind)}, k.ID[:]...))
}

// decodeKey decodes what a ref can be at.
func decodeKey(b cbor.ByteString) (object.Key, error) {
	var k object.Key
	if len(b) != 1+len(k.ID) {
		return k, fmt.Errorf("key of %d bytes", len(b))
	}
	k.Kind = object.Kind(b[0])
	copy(k.ID[:], b[1:])
	return k, checkTarget(k)
}

func checkTarget(k object.Key) error {
	if k.ID.IsZero() || k.Kind != object.KindCommit && k.Kind != object.KindTag {
		return fmt.Errorf("a ref cannot be at %s", k)
	}
	return nil
}

func decodeFile(b *fileBody, limit uint64) (File, error) {
	f := File{Size: int64(b.Size)}
	if len(b.Name) != len(f.Name) || len(b.Sum) != len(f.Sum) || b.Size == 0 || b.Size > limit {
		return File{}, errors.New("malformed name, length or hash of a file")
	}
	copy(f.Name[:], b.Name)
	copy(f.Sum[:], b.Sum)
	return f, nil
}

func encodeFile(f File) *fileBody {
	return &fileBody{Name: cbor.ByteString(f.Name[:]), Size: uint64(f.Size), Sum: cbor.ByteString(f.Sum[:])}
}

// sorted reports whether names are in order and each there once.
func sorted[T any](list []T, name func(T) string) bool {
	for i := 1; i < len(list); i++ {
		if name(list[i-1]) >= name(list[i]) {
			return false
		}
	}
	return true
}
