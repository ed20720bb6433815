package frame

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

var update = flag.Bool("update", false, "write the test vectors instead of comparing them")

const vectorFile = "../../testdata/vectors/patch.json"

// patchVector is a patch, or an invalid one. See docs/format/frame.md.
type patchVector struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Base   string `json:"base"`             // bytes of the base
	Raw    int    `json:"raw"`              // length of the object
	Object string `json:"object,omitempty"` // the object, if the patch is valid
	Near   *Near  `json:"near,omitempty"`   // place of the base of a valid near patch
	Reason string `json:"reason,omitempty"` // why the patch is invalid

	data []byte
}

func patchVectors() (list []patchVector) {
	const base = "the quick brown fox jumps over the lazy dog"
	id := object.Sum([]byte(base))
	valid := func(name, obj string, script ...byte) {
		list = append(list, patchVector{Name: name, Base: base, Raw: len(obj), Object: obj,
			data: patch(uint64(len(obj)), id, append([]byte{codecRaw}, script...))})
	}
	invalid := func(name, reason string, raw int, data []byte) {
		list = append(list, patchVector{Name: name, Base: base, Raw: raw, Reason: reason, data: data})
	}
	script := func(name, reason string, script ...byte) {
		invalid(name, reason, 10, patch(10, id, append([]byte{codecRaw}, script...)))
	}
	valid("all copied", base, 0, byte(len(base)), 0)
	valid("inserted, copied, inserted", "A quick cat", 2, 'A', ' ', 6, 8, 3, 'c', 'a', 't')
	valid("copied from further on, then from before", "dog fox", 0, 3, 80, 1, ' ', 3, 53)
	valid("copied twice from one place", "the the ", 0, 4, 0, 0, 4, 7)
	valid("copies and insertions of nothing", base, 0, 0, 86, 0, byte(len(base)), 85)
	list = append(list, patchVector{Name: "script as zstd", Base: base, Raw: 102, Object: strings.Repeat("f", 98) + "the ",
		data: patch(102, id, zstdScript())})
	list = append(list, nearVectors(base)...)

	invalid("empty", ReasonEmpty, 3, nil)
	invalid("raw", ReasonCodec, 3, []byte("\x00fox"))
	invalid("ID cut short", ReasonHeader, 3, append([]byte{codecPatch}, id[:31]...))
	invalid("no length", ReasonHeader, 3, append([]byte{codecPatch}, id[:]...))
	invalid("length not in its shortest form", ReasonHeader, 3, append(append([]byte{codecPatch}, id[:]...), 0x83, 0, codecRaw, 3, 'f', 'o', 'x'))
	invalid("other length", ReasonLength, 3, patch(4, id, []byte{codecRaw, 4, 'f', 'o', 'x', 'y'}))
	invalid("too large", ReasonLength, MaxPatch+1, patch(MaxPatch+1, id, []byte{codecRaw, 0}))
	invalid("no script", ReasonEmpty, 3, patch(3, id, nil))
	invalid("script of an unknown codec", ReasonCodec, 3, patch(3, id, []byte{4, 3, 'f', 'o', 'x'}))
	invalid("script is a patch", ReasonHeader, 3, patch(3, id, patch(3, id, []byte{codecRaw, 3, 'f', 'o', 'x'})))
	invalid("script is a near patch", ReasonHeader, 3, patch(3, id, near(3, Near{100, 44, 43}, []byte{codecRaw, 3, 'f', 'o', 'x'})))
	invalid("script longer than the object", ReasonLength, 3, patch(3, id, []byte{codecRaw, 0, 0, 0, 3, 'f', 'o', 'x'}))
	invalid("script is no frame", ReasonHeader, 10, patch(10, id, []byte{codecZstd, 1, 2, 3}))
	script("empty script", ReasonPayload)
	script("inserts more than it has", ReasonPayload, 9, 'f', 'o', 'x')
	script("inserts more than the object", ReasonPayload, 11, 'f', 'o', 'x')
	script("copies more than the object", ReasonPayload, 0, 11, 0)
	script("copies from before the base", ReasonPayload, 0, 10, 1)
	script("copies from behind the base", ReasonPayload, 0, 10, 88, 1)
	script("copies up to behind the base", ReasonPayload, 0, 10, 68)
	script("ends before the object does", ReasonPayload, 3, 'f', 'o', 'x')
	script("ends in a copy", ReasonPayload, 3, 'f', 'o', 'x', 7)
	script("goes on behind the object", ReasonPayload, 0, 10, 0, 0)
	script("number not in its shortest form", ReasonPayload, 0x80, 0, 10, 0)
	script("number too large", ReasonPayload, 0, 10, 0x80, 0x80, 0x80, 0x80, 0x80, 1)
	return list
}

// nearVectors returns valid and invalid near patches of base.
func nearVectors(base string) (list []patchVector) {
	script := []byte{codecRaw, 0, 19, 0}
	valid := func(name string, n Near) {
		list = append(list, patchVector{Name: "near: " + name, Base: base, Raw: 19, Object: "the quick brown fox", Near: &n, data: near(19, n, script)})
	}
	invalid := func(name, reason string, data []byte) {
		list = append(list, patchVector{Name: "near: " + name, Base: base, Raw: 19, Reason: reason, data: data})
	}

	bad := func(name, reason string, n Near) { invalid(name, reason, near(19, n, script)) }
	valid("right before", Near{44, 44, 43})
	valid("compressed", Near{1_000_000, 20, 43})
	valid("as far as can be", Near{MaxDistance, 44, 43})
	invalid("nothing more", ReasonHeader, []byte{codecNear})
	invalid("no stored length", ReasonHeader, []byte{codecNear, 44})
	invalid("no length of the base", ReasonHeader, []byte{codecNear, 44, 44})
	invalid("no length", ReasonHeader, []byte{codecNear, 44, 44, 43})
	invalid("distance not in its shortest form", ReasonHeader, append([]byte{codecNear, 0xac, 0, 44, 43, 19}, script...))
	invalid("stored length not in its shortest form", ReasonHeader, append([]byte{codecNear, 44, 0xac, 0, 43, 19}, script...))
	invalid("length of the base not in its shortest form", ReasonHeader, append([]byte{codecNear, 44, 44, 0xab, 0, 19}, script...))
	invalid("length not in its shortest form", ReasonHeader, append([]byte{codecNear, 44, 44, 43, 0x93, 0}, script...))
	bad("made from itself", ReasonHeader, Near{0, 44, 43})
	bad("made from what it is in", ReasonHeader, Near{43, 44, 43})
	bad("too far", ReasonHeader, Near{MaxDistance + 1, 44, 43})
	bad("nothing stored", ReasonHeader, Near{44, 0, 43})
	bad("empty base", ReasonHeader, Near{44, 1, 0})
	bad("stored too long", ReasonHeader, Near{45, 45, 43})
	bad("another base", ReasonLength, Near{44, 44, 44})
	bad("base too large", ReasonLength, Near{44, 44, MaxPatch + 1})
	invalid("other length", ReasonLength, near(20, Near{44, 44, 43}, []byte{codecRaw, 0, 20, 0}))
	invalid("too large", ReasonLength, near(MaxPatch+1, Near{44, 44, 43}, script))
	invalid("no script", ReasonEmpty, near(19, Near{44, 44, 43}, nil))
	invalid("script is a patch", ReasonHeader, near(19, Near{44, 44, 43}, near(19, Near{44, 44, 43}, script)))
	invalid("bad script", ReasonPayload, near(19, Near{44, 44, 43}, []byte{codecRaw, 0, 19, 1}))
	return list
}

// zstdScript returns a script as a zstd frame, made without an encoder: a raw block, one
// that repeats a byte, and another raw one. The script inserts f 98 times, and copies four
// bytes.
func zstdScript() []byte {
	raw := func(last byte, data ...byte) []byte {
		return append([]byte{byte(len(data))<<3 | last, 0, 0}, data...)
	}
	frame := []byte{codecZstd, 0x28, 0xb5, 0x2f, 0xfd, 1 << 5, 101}
	frame = append(frame, raw(0, 98)...)
	frame = append(frame, byte(98<<3&0xff|1<<1), 98>>5, 0, 'f')
	return append(frame, raw(1, 4, 0)...)
}

func TestPatchVectors(t *testing.T) {
	list := patchVectors()
	for i := range list {
		list[i].Hex = hex.EncodeToString(list[i].data)
	}
	data := objecttest.CheckVectors(t, vectorFile, list, *update)
	var vectors []patchVector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		value, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodePatch(nil, value, v.Raw, []byte(v.Base))
		var bad *Error
		switch {
		case v.Reason == "" && (err != nil || string(got) != v.Object):
			t.Errorf("%s: decoded %q, %v; want %q", v.Name, got, err, v.Object)
		case v.Near != nil:
			if n, err := NearBase(value); err != nil || n != *v.Near {
				t.Errorf("%s: NearBase = %+v, %v; want %+v", v.Name, n, err, *v.Near)
			}
		case v.Reason != "" && (!errors.As(err, &bad) || bad.Reason != v.Reason):
			t.Errorf("%s: error %v, want reason %s", v.Name, err, v.Reason)
		}
	}
}
