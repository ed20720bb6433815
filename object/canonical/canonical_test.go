package canonical

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestModes(t *testing.T) {
	enc, dec := Modes()
	type value struct {
		A int   `cbor:"a,omitempty"`
		B []int `cbor:"b,omitempty"`
		T *Time `cbor:"t,omitempty"`
	}
	at := TimeOf(time.Date(2026, 1, 31, 12, 0, 0, 5, time.FixedZone("", 3600)))
	data, err := enc.Marshal(value{A: 1, B: []int{2}, T: &at})
	if want := "\xa3aa\x01ab\x81\x02at\x82\x1a\x69\x7d\xe0\xb0\x05"; err != nil || string(data) != want {
		t.Fatalf("encoded %x, %v; want %x", data, err, want)
	}

	var got value
	if err := dec.Unmarshal(data, &got); err != nil || got.A != 1 || len(got.B) != 1 || *got.T != at {
		t.Errorf("decoded %+v, %v; want the encoded value", got, err)
	}

	for name, text := range map[string]string{
		"a key twice":           "\xa2aa\x01aa\x02",
		"an indefinite length":  "\xbfaa\x01\xff",
		"an indefinite array":   "\xa1ab\x9f\x01\xff",
		"a tag":                 "\xa1aa\xc1\x01",
		"too deep":              strings.Repeat("\x81", maxDepth+1) + "\x01",
		"a too long array":      "\x9a\x00\x02\x00\x01" + strings.Repeat("\x00", maxArray+1),
		"a trailing byte":       "\xa1aa\x01\x00",
		"an array for a struct": "\x81\x01",
	} {
		var v any = &value{}
		if name == "too deep" || name == "a too long array" {
			v = new(any)
		}
		if err := dec.Unmarshal([]byte(text), v); err == nil {
			t.Errorf("%s: decoded %+v, want an error", name, v)
		}
	}

	// Other values that are not canonical decode, but encode to different bytes.
	for _, text := range []string{"\xa1aA\x01", "\xa1aa\x18\x01", "\xa2ab\x81\x01aa\x01"} {
		got := value{}
		if err := dec.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("decode %x: %v", text, err)
		}
		if again, err := enc.Marshal(got); err != nil || bytes.Equal(again, []byte(text)) {
			t.Errorf("%x encodes to %x, %v; want other bytes", text, again, err)
		}
	}
}

func TestTime(t *testing.T) {
	for _, ok := range []time.Time{time.Unix(0, 0), time.Unix(-5, 999_999_999), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		if got, err := TimeOf(ok).Time(); err != nil || !got.Equal(ok) || got.Location() != time.UTC {
			t.Errorf("time after encoding: %v, %v; want %v in UTC", got, err, ok)
		}
	}
	for _, bad := range []Time{{Nsec: 1e9}, {Sec: math.MaxInt64}, {Sec: math.MinInt64}, {Sec: 253402300800}} {
		if got, err := bad.Time(); err == nil {
			t.Errorf("Time of %+v = %v, want an error", bad, got)
		}
	}
}
