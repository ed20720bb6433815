package rootlog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/canonical"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// The CBOR of roots and state files. See docs/format/rootlog.md.

type rootBody struct {
	Seq  uint64          `cbor:"seq"`
	Prev cbor.ByteString `cbor:"prev"`
	Txid cbor.ByteString `cbor:"txid"`
	Time canonical.Time  `cbor:"time"`
	Who  string          `cbor:"who,omitempty"`
	Host string          `cbor:"host,omitempty"`

	Read  []string `cbor:"read,omitempty"`
	Write []string `cbor:"write,omitempty"`
	GC    []string `cbor:"gc,omitempty"`

	policyBody
	keysBody
	tablesBody

	Head  string     `cbor:"head,omitempty"`
	Floor uint64     `cbor:"floor,omitempty"`
	Packs []packBody `cbor:"packs,omitempty"`

	Moves []moveBody `cbor:"moves,omitempty"`
	Moved uint64     `cbor:"moved,omitempty"`

	Stub      cbor.ByteString `cbor:"stub,omitempty"`
	Signature cbor.ByteString `cbor:"signature,omitempty"`
}

type tablesBody struct {
	Refs      *tableBody `cbor:"refs,omitempty"`
	Indexes   *tableBody `cbor:"indexes,omitempty"`
	Condemned *tableBody `cbor:"condemned,omitempty"`
	Records   *tableBody `cbor:"records,omitempty"`
	Lost      *tableBody `cbor:"lost,omitempty"`
}

type policyBody struct {
	SingleWriter bool      `cbor:"single,omitempty"`
	Signed       bool      `cbor:"signed,omitempty"`
	Lock         *lockBody `cbor:"lock,omitempty"`
}

type lockBody struct {
	_          struct{} `cbor:",toarray"`
	Age        uint64   // seconds
	Governance bool
}

// MaxLock is the longest lock of files.
const MaxLock = 10 * 365 * 24 * time.Hour

// parsePolicy decodes and checks a policy.
func (b *policyBody) parsePolicy() (Policy, error) {
	p := Policy{SingleWriter: b.SingleWriter, Signed: b.Signed}
	if b.Lock == nil {
		return p, nil
	}
	if b.Lock.Age == 0 || b.Lock.Age > uint64(MaxLock/time.Second) {
		return p, fmt.Errorf("a lock of %d seconds", b.Lock.Age)
	}
	p.Lock = remote.Lock{Age: time.Duration(b.Lock.Age) * time.Second, Governance: b.Lock.Governance}
	return p, nil
}

func (p Policy) encodePolicy() policyBody {
	b := policyBody{SingleWriter: p.SingleWriter, Signed: p.Signed}
	if p.Lock.Age > 0 {
		b.Lock = &lockBody{Age: uint64(p.Lock.Age / time.Second), Governance: p.Lock.Governance}
	}
	return b
}

type tableBody struct {
	Base *fileBody                  `cbor:"base,omitempty"`
	Set  map[string]cbor.ByteString `cbor:"set,omitempty"`
	Del  []string                   `cbor:"del,omitempty"`
}

type fileBody struct {
	_    struct{} `cbor:",toarray"`
	Name cbor.ByteString
	Size uint64
	Sum  cbor.ByteString
}

type packBody struct {
	_       struct{} `cbor:",toarray"`
	Name    cbor.ByteString
	Size    uint32
	Entries cbor.ByteString
}

// inlineOverhead is the largest number of bytes of a pack in a root besides its entries.
const inlineOverhead = 1 + 17 + 5 + 5

type moveBody struct {
	_        struct{} `cbor:",toarray"`
	Name     string
	Old, New cbor.ByteString
}

type stateBody struct {
	Table string                     `cbor:"table"`
	Set   map[string]cbor.ByteString `cbor:"set"`
}

// extra has the encoded fields of a root that this program does not know. The next root
// gets them too.
type extra map[string]cbor.RawMessage

var (
	encoding, decoding = canonical.Modes()

	errCanonical = errors.New("not in canonical form")
)

// rootKeys are the fields of a root that this program knows.
var rootKeys = sync.OnceValue(func() map[string]bool {
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rootBody]()) {
		key, _, _ := strings.Cut(f.Tag.Get("cbor"), ",")
		keys[key] = true
	}
	return keys
})

// decodeExtra returns the unknown fields of a root.
func decodeExtra(data []byte) (extra, error) {
	all := extra{}
	if err := decoding.Unmarshal(data, &all); err != nil {
		return nil, err
	}

	size := 0
	for key, value := range all {
		if rootKeys()[key] {
			delete(all, key)
			continue
		}
		if size += len(key) + len(value); size > maxExtra {
			return nil, fmt.Errorf("more than %d bytes in unknown fields", maxExtra)
		}
	}

	for key, value := range all {
		var v any
		err := decoding.Unmarshal(value, &v)
		if err == nil {
			var again []byte
			if again, err = encoding.Marshal(v); err == nil && !bytes.Equal(again, value) {
				err = errCanonical
			}
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", key, err)
		}
	}
	return all, nil
}

// encodeBody returns the canonical CBOR of a root.
func (b *rootBody) encodeBody(more extra) ([]byte, error) {
	data, err := encoding.Marshal(b)
	if err != nil || len(more) == 0 {
		return data, err
	}
	all := extra{}
	if err := decoding.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for key, value := range more {
		all[key] = value
	}
	return encoding.Marshal(all)
}

// The limits, in bytes. Decoders reject larger values.
const (
	maxText      = 1024     // of Who and Host, and of the name of a ref
	maxRootSize  = 1 << 20  // of a root
	maxStateSize = 64 << 20 // of a state file

	maxExtra    = 64 << 10 // of unknown fields of a root
	maxFeatures = 64       // number of entries, and bytes of each
)

// checkLine checks a line of text. Errors call it by the name in what.
func checkLine(what, s string) error {
	if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s: longer than %d bytes, not UTF-8 or with control characters", what, maxText)
	}
	return nil
}

// checkRefName checks that the name of a ref can be shown. Package refs has the rules
// for names of refs.
func checkRefName(name string) error {
	if !strings.HasPrefix(name, "refs/") {
		return errors.New(`name of a ref that does not begin with "refs/"`)
	}
	return checkLine("name of a ref", name)
}

// checkFeatures checks lists of features.
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

// CheckFileName returns an error if name is not that of a pack, index or state file, or of a copy of a
// keyset.
func CheckFileName(name string) error {
	n, err := pack.ParseName(name[strings.LastIndexByte(name, '/')+1:])
	switch {
	case err != nil:
		return err
	case name == n.Path() || name == n.IndexPath() || name == StateName(n) || name == KeysetName(n):
		return nil
	}
	return fmt.Errorf("%q is no pack, index or state file, and no keyset", name)
}

// Keys are encoded as the kind and the ID, and the zero key as nothing.

func encodeKey(k object.Key) cbor.ByteString {
	if k.IsZero() {
		return ""
	}
	return cbor.ByteString(append([]byte{byte(k.Kind)}, k.ID[:]...))
}

// decodeKey decodes the target of a ref.
func decodeKey(b cbor.ByteString) (object.Key, error) {
	var k object.Key
	if len(b) != 1+len(k.ID) {
		return k, fmt.Errorf("key of %d bytes", len(b))
	}
	k.Kind = object.Kind(b[0])
	copy(k.ID[:], b[1:])
	return k, checkTarget(k)
}

// checkTarget checks the target of a ref.
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

// isSorted reports whether names are in order, without duplicates.
func isSorted[T any](list []T, name func(T) string) bool {
	for i := 1; i < len(list); i++ {
		if name(list[i-1]) >= name(list[i]) {
			return false
		}
	}
	return true
}
