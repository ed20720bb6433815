package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// The CBOR of a record's value, see docs/format/records.md.

type valueBody struct {
	Generation uint64    `cbor:"gen"`
	On         bool      `cbor:"on,omitempty"`
	Time       timeBody  `cbor:"time"`
	Who        string    `cbor:"who,omitempty"`
	Host       string    `cbor:"host,omitempty"`
	Reason     string    `cbor:"reason,omitempty"`
	Until      *timeBody `cbor:"until,omitempty"`
}

type timeBody struct {
	_    struct{} `cbor:",toarray"`
	Sec  int64
	Nsec uint32
}

func toBody(t time.Time) timeBody {
	return timeBody{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

func (b timeBody) time() (time.Time, error) {
	t := time.Unix(b.Sec, int64(b.Nsec)).UTC()
	if b.Nsec >= 1e9 {
		return t, errors.New("malformed time")
	}
	return t, nil
}

var (
	encoding = newEncoding()
	decoding = newDecoding()

	errCanonical = errors.New("not in canonical form")
)

func newEncoding() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.TagsMd = cbor.TagsForbidden
	mode, err := o.EncMode()
	if err != nil {
		panic(err) // cannot be: the options are constant
	}
	return mode
}

func newDecoding() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxNestedLevels:   4,
		MaxMapPairs:       maxRecords,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// encode returns a record's value.
func encode(r *Record) string {
	body := valueBody{Generation: r.Generation, On: r.On, Time: toBody(r.Time), Who: r.Who, Host: r.Host, Reason: r.Reason}
	if !r.Until.IsZero() {
		until := toBody(r.Until)
		body.Until = &until
	}
	data, err := encoding.Marshal(&body)
	if err != nil {
		panic(err) // cannot be: there is nothing in it that cannot be encoded
	}
	return string(data)
}

// Encode returns what is stored of a record: its name and its value. A record
// that cannot be stored is an error.
func Encode(r Record) (name, value string, err error) {
	if err := r.check(); err != nil {
		return "", "", err
	}
	return r.Name(), encode(&r), nil
}

// Decode returns the record of a name and a value.
func Decode(name, value string) (r Record, err error) {
	if r.Kind, r.Key, err = parseName(name); err != nil {
		return Record{}, err
	}
	var body valueBody
	if err = decoding.Unmarshal([]byte(value), &body); err == nil {
		err = r.fill(&body)
	}
	if err == nil && encode(&r) != value {
		err = errCanonical
	}
	if err != nil {
		return Record{}, fmt.Errorf("record %q: %w", name, err)
	}
	return r, nil
}

func (r *Record) fill(body *valueBody) (err error) {
	r.Generation, r.On, r.Who, r.Host, r.Reason = body.Generation, body.On, body.Who, body.Host, body.Reason
	if r.Time, err = body.Time.time(); err != nil {
		return err
	}
	if body.Until != nil {
		if r.Until, err = body.Until.time(); err != nil {
			return err
		}
	}
	return r.check()
}
