package object

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"
)

// Node bodies as they are in CBOR. Positions of links count from 1; 0 is no
// link. Fields that are zero are left out of maps. In trees and manifests every
// string is a byte string, as names need not be UTF-8.

type entryBody struct {
	Name   string    `cbor:"1,keyasint"`
	Type   uint8     `cbor:"2,keyasint"`
	Mode   uint16    `cbor:"3,keyasint,omitempty"`
	Size   uint64    `cbor:"4,keyasint,omitempty"`
	Files  uint64    `cbor:"5,keyasint,omitempty"`
	Sec    int64     `cbor:"6,keyasint,omitempty"`
	Nsec   uint32    `cbor:"7,keyasint,omitempty"`
	Inline []byte    `cbor:"8,keyasint,omitempty"`
	Link   uint16    `cbor:"9,keyasint,omitempty"`
	Target string    `cbor:"10,keyasint,omitempty"`
	Meta   *metaBody `cbor:"11,keyasint,omitempty"`
}

type metaBody struct {
	UID      uint32            `cbor:"1,keyasint,omitempty"`
	GID      uint32            `cbor:"2,keyasint,omitempty"`
	Owner    string            `cbor:"3,keyasint,omitempty"`
	Group    string            `cbor:"4,keyasint,omitempty"`
	Xattrs   map[string][]byte `cbor:"5,keyasint,omitempty"`
	Device   uint64            `cbor:"6,keyasint,omitempty"`
	HardLink uint64            `cbor:"7,keyasint,omitempty"`
	Attrs    map[string]string `cbor:"8,keyasint,omitempty"`
}

type treeChildBody struct {
	_    struct{} `cbor:",toarray"`
	Last string
	Link uint16
}

type chunkBody struct {
	_    struct{} `cbor:",toarray"`
	Link uint16
	Size uint32
}

type manifestChildBody struct {
	_    struct{} `cbor:",toarray"`
	Link uint16
	End  uint64
}

type signatureBody struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Email string
	Sec   int64
	Nsec  uint32
	Zone  int16
}

type skippedBody struct {
	_      struct{} `cbor:",toarray"`
	Path   cbor.ByteString
	Reason string
}

type commitBody struct {
	Tree         uint16        `cbor:"1,keyasint"`
	Parents      []uint16      `cbor:"2,keyasint,omitempty"`
	Author       signatureBody `cbor:"3,keyasint"`
	Committer    signatureBody `cbor:"4,keyasint"`
	Message      string        `cbor:"5,keyasint,omitempty"`
	Host         string        `cbor:"6,keyasint,omitempty"`
	Files        uint64        `cbor:"7,keyasint,omitempty"`
	Bytes        uint64        `cbor:"8,keyasint,omitempty"`
	SkippedCount uint64        `cbor:"9,keyasint,omitempty"`
	Skipped      []skippedBody `cbor:"10,keyasint,omitempty"`
	SkippedRest  uint16        `cbor:"11,keyasint,omitempty"`
}

type tagBody struct {
	Target  uint16        `cbor:"1,keyasint"`
	Name    string        `cbor:"2,keyasint"`
	Tagger  signatureBody `cbor:"3,keyasint"`
	Message string        `cbor:"4,keyasint,omitempty"`
}

// codec is how bodies of some kinds are encoded and decoded.
type codec struct {
	enc cbor.UserBufferEncMode
	dec cbor.DecMode
}

var (
	textCodec = newCodec(cbor.StringToTextString, cbor.ByteStringToStringForbidden)
	listCodec = newCodec(cbor.StringToByteString, cbor.ByteStringToStringAllowed)
)

func newCodec(enc cbor.StringMode, dec cbor.ByteStringToStringMode) codec {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	o.TagsMd = cbor.TagsForbidden
	o.String = enc
	encMode, err := o.UserBufferEncMode()
	if err != nil {
		panic(err) // cannot be: the options are constant
	}
	decMode, err := cbor.DecOptions{
		DupMapKey:          cbor.DupMapKeyEnforcedAPF,
		IndefLength:        cbor.IndefLengthForbidden,
		TagsMd:             cbor.TagsForbidden,
		ByteStringToString: dec,
		MaxNestedLevels:    8,
		MaxArrayElements:   MaxListItems,
		MaxMapPairs:        MaxListItems,
		ExtraReturnErrors:  cbor.ExtraDecErrorUnknownField,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return codec{encMode, decMode}
}

// unmarshal decodes a body, or a part of one.
func (c codec) unmarshal(data []byte, body any) error {
	if err := c.dec.Unmarshal(data, body); err != nil {
		return &fault{ReasonBody, err}
	}
	return nil
}

// marshal appends the CBOR encoding of body to buf.
func (c codec) marshal(buf *bytes.Buffer, body any) error {
	if err := c.enc.MarshalToBuffer(body, buf); err != nil {
		return &fault{ReasonBody, err}
	}
	return nil
}

func (b *signatureBody) signature() Signature {
	return Signature{b.Name, b.Email, Time{b.Sec, b.Nsec}, b.Zone}
}

func newSignatureBody(s Signature) signatureBody {
	return signatureBody{Name: s.Name, Email: s.Email, Sec: s.Time.Sec, Nsec: s.Time.Nsec, Zone: s.Zone}
}
