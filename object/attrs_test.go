package object_test

import (
	"reflect"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// TestSetAttrs checks that entries with and without metadata keep their attributes in a
// tree, and are unchanged after attributes were set and removed.
func TestSetAttrs(t *testing.T) {
	attrs := map[string]string{"tags": "a", "empty": ""}
	for name, meta := range map[string]*object.Metadata{
		"none": nil, "user 0 without a name": {}, "full": {UID: 7, Owner: "ann", Xattrs: map[string][]byte{"user.x": {1}}},
	} {
		bare := object.Entry{Name: "f", Type: object.TypeFile, Meta: meta}
		e := bare
		e.SetAttrs(attrs)
		data := mustEncode(t, &object.Tree{Entries: []object.Entry{e}})
		got, err := object.DecodeTree(data)
		if err != nil {
			t.Fatalf("%s: decode: %v", name, err)
		}
		if !reflect.DeepEqual(got.Entries[0], e) {
			t.Errorf("%s: decoded %+v, want %+v", name, got.Entries[0], e)
		}
		if (e.Meta == nil) != (meta == nil) {
			t.Errorf("%s: SetAttrs changed the metadata to %+v", name, e.Meta)
		}

		text, err := e.EncodeMetadata()
		if err != nil || object.OnlyAttrs(text) != (meta == nil) {
			t.Errorf("%s: encoding %q, OnlyAttrs %t, error %v; want %t", name, text, object.OnlyAttrs(text), err, meta == nil)
		}

		e.SetAttrs(nil)
		if !reflect.DeepEqual(e, bare) {
			t.Errorf("%s: entry without its attributes %+v, want %+v", name, e, bare)
		}
		if text, err := e.EncodeMetadata(); err != nil || object.OnlyAttrs(text) || (text == "") != (meta == nil) {
			t.Errorf("%s: encoding without attributes %q, error %v", name, text, err)
		}
	}

	ambiguous := object.Tree{Entries: []object.Entry{{Name: "f", Type: object.TypeFile, Meta: &object.Metadata{}, Attrs: attrs}}}
	if _, err := ambiguous.Encode(); err == nil {
		t.Error("Encode accepts attributes beside empty metadata")
	}
}
