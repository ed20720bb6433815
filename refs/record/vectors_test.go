package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

var update = flag.Bool("update", false, "write the test vectors instead of comparing them")

const vectorFile = "../../testdata/vectors/record.json"

// vector is a record or, if it has no name, a file of records.
type vector struct {
	Title string   `json:"title"`
	Name  string   `json:"name,omitempty"`
	Hex   string   `json:"hex"`
	Error string   `json:"error,omitempty"` // part of the error of decoding; empty: valid
	Says  []fields `json:"says,omitempty"`  // the decoded records, if valid
}

type (
	fields = map[string]any
	list   = []any
)

// value returns the stored bytes of fields.
func value(f fields) []byte {
	data, err := encoding.Marshal(f)
	if err != nil {
		panic(err)
	}
	return data
}

// with returns a record that has all fields, with the field key set to v, or without key if v
// is nil.
func with(key string, v any) []byte {
	f := fields{
		"gen": 3, "on": true, "time": list{1_772_366_400, 5}, "who": "Ann Öther <ann@example.org>", "host": "attic",
		"reason": "two\nlines", "until": list{1_803_902_400, 0},
	}
	if f[key] = v; v == nil {
		delete(f, key)
	}
	return value(f)
}

// sealed returns a records file: start, body and their checksum.
func sealed(start string, body []byte) []byte {
	data := append([]byte(start), body...)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

func vectors() []vector {
	id := commit(0xab).ID.String()
	hold, expire := "hold/"+id, "expire/"+id
	chunk, manifest := "purge/chunk/"+id, "purge/manifest/"+id
	least := value(fields{"gen": 1, "time": list{0, 0}})
	var all []vector
	add := func(title, name, reason string, data []byte) {
		all = append(all, vector{Title: title, Name: name, Hex: hex.EncodeToString(data), Error: reason})
	}
	const bad = "not in canonical form"
	full := with("", nil)
	add("hold with all fields", hold, "", full)
	add("least, switched off", expire, "", least)
	add("expiration", expire, "", with("until", nil))
	add("purge of a chunk", chunk, "", with("until", nil))
	add("purge of a manifest", manifest, "", with("until", nil))
	add("nothing", hold, "EOF", nil)
	add("no map", hold, "cbor", []byte{0x80})
	add("bytes behind", hold, "cbor", append(bytes.Clone(full), 0))
	add("unknown field", hold, bad, with("x", 1))
	add("field in capitals", hold, bad, with("Who", "a"))
	add("number not shortest", hold, bad, bytes.Replace(full, []byte("\x63gen\x03"), []byte("\x63gen\x18\x03"), 1))
	add("switched off by a field", hold, bad, with("on", false))
	add("empty reason", hold, bad, with("reason", ""))
	add("generation 0", hold, "generation", with("gen", 0))
	add("no generation", hold, "generation", with("gen", nil))
	add("generation too high", hold, "generation", with("gen", uint64(maxGeneration+1)))
	add("implausible generation, without effect", hold, "", with("gen", uint64(maxGeneration)))
	add("no time", hold, bad, with("time", nil))
	add("nanoseconds", hold, "malformed time", with("time", list{0, 1_000_000_000}))
	add("year 10000", hold, "time", with("time", list{253402300800, 0}))
	add("until in the year 10000", hold, "time", with("until", list{253402300800, 0}))
	add("an expiration that ends", expire, "only a hold ends", full)
	add("reason with an escape", hold, "control characters", with("reason", "\x1b[2J"))
	add("reason too long", hold, "the limit is 4096", with("reason", strings.Repeat("x", MaxText+1)))
	add("who in two lines", hold, "several lines", with("who", "a\nb"))
	add("unknown kind", "keep/"+id, "unknown kind", full)
	add("hold of a tree", "hold/tree/"+id, "64 hexadecimal digits", full)
	add("purge of a commit", "purge/commit/"+id, "unknown kind of object", with("until", nil))
	add("purge without a kind", "purge/"+id, "unknown kind of object", with("until", nil))
	add("short ID", hold[:len(hold)-1], "64 hexadecimal digits", full)
	add("ID in capitals", strings.ToUpper(hold), "unknown kind", full)
	add("ID with capitals", "hold/"+strings.ToUpper(id), "not lower-case", full)
	add("no object", "hold/"+object.ID{}.String(), "malformed ID", full)

	file := func(entries fields) []byte { return sealed(magic, value(entries)) }
	two := file(fields{hold: full, chunk: with("until", nil)})
	add("file of none", "", "", file(fields{}))
	add("file of two", "", "", two)
	add("file with an implausible generation", "", "", file(fields{hold: with("gen", uint64(MaxPlausible+1)), chunk: with("until", nil)}))
	add("empty file", "", "not a file of records", nil)
	add("file of a later version", "", "newer format", sealed("kist records 2\n", []byte{0xa0}))
	add("flipped bit", "", "checksum", append([]byte(magic+"\xa1"), two[len(magic)+1:]...))
	add("cut", "", "checksum", two[:len(two)-1])
	add("bytes behind in a file", "", "checksum", append(bytes.Clone(two), 0))
	add("file with a bad record", "", "generation", file(fields{hold: with("gen", 0)}))
	add("file with a bad name", "", "unknown kind", file(fields{"keep/" + id: full}))
	add("name twice", "", "cbor", sealed(magic, append([]byte{0xa2}, bytes.Repeat(value(fields{hold: full})[1:], 2)...)))
	add("names not sorted", "", bad, sealed(magic, append(append([]byte{0xa2}, value(fields{expire: least})[1:]...), value(fields{hold: full})[1:]...)))
	return all
}

// decode returns the records of a vector.
func (v *vector) decode() ([]fields, error) {
	data, err := hex.DecodeString(v.Hex)
	if err != nil {
		return nil, err
	}
	set := &Set{}
	if v.Name == "" {
		set, err = decodeFile(data)
	} else {
		var r Record
		if r, err = Decode(v.Name, string(data)); err == nil {
			set.Merge(r)
		}
	}
	var says []fields
	for r := range set.All() {
		f := fields{
			"name": r.Name(), "generation": r.Generation, "on": r.On, "time": r.Time,
			"who": r.Who, "host": r.Host, "reason": r.Reason,
		}
		if !r.Until.IsZero() {
			f["until"] = r.Until
		}
		says = append(says, f)
	}
	return says, err
}

func TestVectors(t *testing.T) {
	all := vectors()
	for i := range all {
		says, err := all[i].decode()
		if (err == nil) != (all[i].Error == "") || err != nil && !strings.Contains(err.Error(), all[i].Error) {
			t.Errorf("%s: %v, want %q", all[i].Title, err, all[i].Error)
		}
		if err == nil {
			all[i].Says = says
		}
	}
	objecttest.CheckVectors(t, vectorFile, all, *update)
}
