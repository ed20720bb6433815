package rootlog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object/canonical"
)

// The CBOR of roots and state files, see docs/format/rootlog.md.

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

	SingleWriter bool `cbor:"single,omitempty"`

	Head      string     `cbor:"head,omitempty"`
	Floor     uint64     `cbor:"floor,omitempty"`
	Refs      *tableBody `cbor:"refs,omitempty"`
	Indexes   *tableBody `cbor:"indexes,omitempty"`
	Condemned *tableBody `cbor:"condemned,omitempty"`
	Records   *tableBody `cbor:"records,omitempty"`
	Packs     []packBody `cbor:"packs,omitempty"`

	Moves []moveBody `cbor:"moves,omitempty"`
	Moved uint64     `cbor:"moved,omitempty"`

	Stub cbor.ByteString `cbor:"stub,omitempty"`
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

// inlineOverhead is what a pack takes in a root besides its entries, at most.
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

// extra has the fields of a root that this program does not know, as they are
// encoded. They are carried on to the next root.
type extra map[string]cbor.RawMessage

var (
	encoding, decoding = canonical.Modes()

	errCanonical = errors.New("not in canonical form")
)

// rootKeys are the fields of a root that this program knows.
var rootKeys = func() map[string]bool {
	keys := map[string]bool{}
	for f := range reflect.TypeFor[rootBody]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("cbor"), ",")
		keys[key] = true
	}
	return keys
}()

// decodeExtra returns the unknown fields of a root.
func decodeExtra(data []byte) (extra, error) {
	all := extra{}
	if err := decoding.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	size := 0
	for key, value := range all {
		if rootKeys[key] {
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

// encode returns the canonical CBOR of a root.
func (b *rootBody) encode(more extra) ([]byte, error) {
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
