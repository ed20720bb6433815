package index

import (
	"errors"
	"io/fs"
	"maps"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// SetAttrs keeps stat data, metadata and conflicts of files and folders. The tree has the
// attributes.
func TestSetAttrs(t *testing.T) {
	ctx := t.Context()
	w := objecttest.NewMemory()
	attrs := map[string]string{"k": "v"}
	x := New()
	owned := file(2)
	owned.Meta, _ = encodeMeta(&object.Entry{Type: object.TypeFile, Meta: &object.Metadata{}})
	must(t, x.Set("d/f", file(1)))
	must(t, x.Set("d/owned", owned))
	plain, err := x.WriteTree(ctx, w)
	must(t, err)

	side := x.Entry("d/f").Object()
	must(t, x.SetConflict("d/f", nil, &side, nil))
	for _, path := range []string{"d", "d/f", "d/owned"} {
		must(t, x.SetAttrs(path, attrs))
	}
	if e := x.Entry("d/f"); e.Stat != file(1).Stat || e.HasMetadata() || !maps.Equal(e.Attrs(), attrs) {
		t.Errorf("d/f is %+v", e)
	}
	if e := x.Entry("d/owned"); !e.HasMetadata() || e.Metadata().UID != 0 || !maps.Equal(e.Attrs(), attrs) {
		t.Errorf("d/owned is %+v", e)
	}
	if _, ok := x.Conflict("d/f"); !ok {
		t.Error("SetAttrs removes the conflict")
	}
	x.ClearConflict("d/f")

	changed, err := x.WriteTree(ctx, w)
	must(t, err)
	again, err := FromTree(ctx, w, changed.ID)
	must(t, err)
	if d := again.Dir("d").Properties(); !maps.Equal(d.Attrs, attrs) || d.Meta != nil || !maps.Equal(again.Entry("d/f").Attrs(), attrs) {
		t.Errorf("read back: %+v, %+v", d, again.Entry("d/f"))
	}
	if again.Entry("d/f").SameContent(&Entry{Type: object.TypeFile, Mode: 0o644, Data: "content 1", Size: 9}) {
		t.Error("SameContent ignores attributes")
	}

	for _, path := range []string{"d", "d/f", "d/owned"} {
		must(t, x.SetAttrs(path, nil))
	}
	if info, err := x.WriteTree(ctx, w); err != nil || info != plain {
		t.Errorf("without attributes the tree is %v, error %v; want %v", info, err, plain)
	}

	for _, path := range []string{"", "no", "d/no", "d/f/no"} {
		if err := x.SetAttrs(path, attrs); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("SetAttrs(%q): error %v, want ErrNotExist", path, err)
		}
	}
	if err := x.SetAttrs("d/f", map[string]string{"": "v"}); err == nil {
		t.Error("SetAttrs accepts an empty key")
	}
}
