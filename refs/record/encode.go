package record

import (
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object/canonical"
)

// The CBOR of a record's value, see docs/format/records.md.

type valueBody struct {
	Generation uint64          `cbor:"gen"`
	On         bool            `cbor:"on,omitempty"`
	Time       canonical.Time  `cbor:"time"`
	Who        string          `cbor:"who,omitempty"`
	Host       string          `cbor:"host,omitempty"`
	Reason     string          `cbor:"reason,omitempty"`
	Until      *canonical.Time `cbor:"until,omitempty"`
}

var (
	encoding, decoding = canonical.Modes()

	errCanonical = errors.New("not in canonical form")
)

// encode returns a record's value.
func encode(r *Record) string {
	body := valueBody{Generation: r.Generation, On: r.On, Time: canonical.TimeOf(r.Time), Who: r.Who, Host: r.Host, Reason: r.Reason}
	if !r.Until.IsZero() {
		until := canonical.TimeOf(r.Until)
		body.Until = &until
	}
	data, err := encoding.Marshal(&body)
	if err != nil {
		panic(err) // impossible: every field can be encoded
	}
	return string(data)
}

// Encode returns the stored form of a record: its name and its value. It
// returns an error if the record is invalid.
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
	if r.Time, err = body.Time.Time(); err != nil {
		return err
	}
	if body.Until != nil {
		if r.Until, err = body.Until.Time(); err != nil {
			return err
		}
	}
	return r.check()
}
