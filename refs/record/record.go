// Package record has the records about commits and contents: a commit is held,
// its content has expired, a content was purged. There is one record for each
// such fact. It is switched on and off but never removed. So records from
// several places can be merged in any order: the record that was changed more
// often counts.
//
// A Set has records. A View has their consequences at a moment. A Store keeps
// the records of a repository; remotes keep theirs in the root log.
// docs/format/records.md describes the formats.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/canonical"
)

// Kind is the meaning of a record.
type Kind string

// The kinds of records. Their values are parts of names, see [Record.Name].
const (
	Hold   Kind = "hold"   // a commit keeps its content, whatever other records exist
	Expire Kind = "expire" // a commit no longer needs its content
	Purge  Kind = "purge"  // a chunk or manifest is no longer needed
)

// MaxText is the limit of each text of a record, in bytes.
const MaxText = 4096

// The limits of generations. A decoder accepts up to maxGeneration. No honest
// generation exceeds MaxPlausible: people would need a change each second for
// 136 years.
const (
	maxGeneration = 1 << 62
	MaxPlausible  = 1 << 32
)

// Record is one fact about one object.
type Record struct {
	Kind Kind
	Key  object.Key // a commit; for [Purge], a chunk or manifest

	// Generation is the number of changes of the record, from 1 on. Of two
	// records with the same name, the later generation counts.
	Generation uint64
	On         bool // the fact holds; otherwise it no longer does

	// The last change. Its time comes from the clock of the machine that made it.
	Time      time.Time // with nanoseconds, in UTC
	Who, Host string
	Reason    string // lines of text; may be empty

	// Until is the end of a hold; zero means never. The hold really ends when
	// a process whose clock is past that time collects garbage, see
	// [Set.EndHolds].
	Until time.Time
}

// Over reports whether a record is a hold past its end.
func (r *Record) Over(now time.Time) bool {
	return r.Kind == Hold && r.On && !r.Until.IsZero() && !now.Before(r.Until)
}

// Plausible reports whether the generation can be honest. Other records have
// no effect and are never merged, because they could not be undone.
func (r *Record) Plausible() bool { return r.Generation <= MaxPlausible }

// Frees reports whether the record makes objects unnecessary.
func (r *Record) Frees() bool { return r.On != (r.Kind == Hold) }

// Name returns the record's name: its kind and the object, as in
// "expire/3fa9…" or "purge/chunk/9c2e…", with 64 hexadecimal digits.
func (r *Record) Name() string {
	if r.Kind == Purge {
		return string(Purge) + "/" + r.Key.Kind.String() + "/" + r.Key.ID.String()
	}
	return string(r.Kind) + "/" + r.Key.ID.String()
}

// parseName returns the kind and key of a name.
func parseName(name string) (Kind, object.Key, error) {
	first, id, _ := strings.Cut(name, "/")
	kind := Kind(first)
	key := object.Key{Kind: object.KindCommit}
	switch kind {
	case Hold, Expire:
	case Purge:
		var of string
		of, id, _ = strings.Cut(id, "/")
		switch of {
		case object.KindChunk.String():
			key.Kind = object.KindChunk
		case object.KindManifest.String():
			key.Kind = object.KindManifest
		default:
			return "", key, fmt.Errorf("record %q is of an unknown kind of object", name)
		}
	default:
		return "", key, fmt.Errorf("record %q is of an unknown kind", name)
	}

	var err error
	key.ID, err = object.ParseID(id)
	if err == nil && (key.ID.IsZero() || key.ID.String() != id) {
		err = errors.New("malformed ID")
	}
	if err != nil {
		err = fmt.Errorf("record %q: %w", name, err)
	}

	return kind, key, err
}

// compareRank compares two records with the same name. It is positive if r counts,
// and 0 if they are equal. At the same generation, the record that keeps more
// counts.
func (r *Record) compareRank(other *Record) int {
	if c := cmp.Compare(r.Generation, other.Generation); c != 0 {
		return c
	}
	if r.On != other.On {
		if r.On == (r.Kind == Hold) {
			return 1
		}
		return -1
	}
	return cmp.Compare(encodeValue(r), encodeValue(other))
}

// checkFields returns an error if a record is invalid.
func (r *Record) checkFields() error {
	if kind, key, err := parseName(r.Name()); err != nil || kind != r.Kind || key != r.Key {
		return cmp.Or(err, fmt.Errorf("a record %q of a %s", r.Kind, r.Key.Kind))
	}
	if r.Generation == 0 || r.Generation > maxGeneration {
		return fmt.Errorf("generation %d of a record", r.Generation)
	}

	for _, text := range []string{r.Who, r.Host} {
		if strings.ContainsAny(text, "\n\t") {
			return errors.New("a name in a record has several lines")
		}
	}

	for _, text := range []string{r.Who, r.Host, r.Reason} {
		if err := CheckText(text); err != nil {
			return fmt.Errorf("a record's text: %w", err)
		}
	}

	for _, t := range []time.Time{r.Time, r.Until} {
		if year := t.UTC().Year(); !t.IsZero() && (year < 1 || year > 9999) {
			return fmt.Errorf("the time %v of a record", t)
		}
	}

	if !r.Until.IsZero() && r.Kind != Hold {
		return errors.New("only a hold ends")
	}

	return nil
}

// CheckText returns an error if a record cannot have a text, such as a reason.
func CheckText(text string) error {
	switch {
	case len(text) > MaxText:
		return fmt.Errorf("%d bytes, the limit is %d", len(text), MaxText)
	case !utf8.ValidString(text):
		return errors.New("not UTF-8")
	case strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }):
		return errors.New("control characters")
	}
	return nil
}

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

// encodeValue returns a record's value.
func encodeValue(r *Record) string {
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
	if err := r.checkFields(); err != nil {
		return "", "", err
	}
	return r.Name(), encodeValue(&r), nil
}

// Decode returns the record of a name and a value.
func Decode(name, value string) (r Record, err error) {
	if r.Kind, r.Key, err = parseName(name); err != nil {
		return Record{}, err
	}

	var body valueBody
	if err = decoding.Unmarshal([]byte(value), &body); err == nil {
		err = r.setBody(&body)
	}
	if err == nil && encodeValue(&r) != value {
		err = errCanonical
	}
	if err != nil {
		return Record{}, fmt.Errorf("record %q: %w", name, err)
	}

	return r, nil
}

func (r *Record) setBody(body *valueBody) (err error) {
	r.Generation, r.On, r.Who, r.Host, r.Reason = body.Generation, body.On, body.Who, body.Host, body.Reason
	if r.Time, err = body.Time.Time(); err != nil {
		return err
	}
	if body.Until != nil {
		if r.Until, err = body.Until.Time(); err != nil {
			return err
		}
	}
	return r.checkFields()
}
