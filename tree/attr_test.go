package tree

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestCheckAttr(t *testing.T) {
	for _, ok := range [][2]string{{"k", ""}, {strings.Repeat("k", 255), strings.Repeat("v", MaxAttrValue)}, {"ключ", "värde = 1"}} {
		if err := CheckAttr(ok[0], ok[1]); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range [][2]string{
		{"", "v"}, {strings.Repeat("k", 256), "v"}, {"k", strings.Repeat("v", MaxAttrValue+1)}, {"a=b", "v"},
		{"k\n", "v"}, {"k", "v\x1b"}, {"k", "\u0085"}, {"\xff", "v"}, {"k", "\xff"},
	} {
		if err := CheckAttr(bad[0], bad[1]); !errors.Is(err, ErrAttrs) {
			t.Errorf("CheckAttr(%.20q, %.20q): error %v, want ErrAttrs", bad[0], bad[1], err)
		}
	}

	attrs := map[string]string{}
	for i := range MaxAttrs {
		attrs[fmt.Sprint(i)] = ""
	}
	if err := CheckAttrs(attrs); err != nil {
		t.Error(err)
	}
	attrs["more"] = ""
	if err := CheckAttrs(attrs); !errors.Is(err, ErrAttrs) {
		t.Errorf("too many attributes: error %v, want ErrAttrs", err)
	}
	long := map[string]string{}
	for i := range 5 {
		long[fmt.Sprint(i)] = strings.Repeat("v", MaxAttrValue)
	}
	if err := CheckAttrs(long); !errors.Is(err, ErrAttrs) {
		t.Errorf("too large attributes: error %v, want ErrAttrs", err)
	}
}

// In random trees, a walk and lookups of single paths find the attributes that the test collects
// folder by folder.
func TestInheritance(t *testing.T) {
	for seed := range uint64(200) {
		w := memory()
		g := newGenerator(seed, w)
		g.names = 3
		f := g.change(t, nil, 40)
		for path := range f {
			for dir, _ := Split(path); dir != ""; dir, _ = Split(dir) {
				if _, ok := f[dir]; !ok {
					f[dir] = directory(0o755)
				}
			}
		}
		for path, e := range f {
			if g.IntN(2) == 0 {
				e.Attrs = randomAttrs(g.Rand)
				f[path] = e
			}
		}

		root := f.build(t, w).ID
		var in Inheritance
		err := Walk(ctx, w, root, func(path string, e object.Entry) error {
			want := map[string]Attr{}
			for key, value := range e.Attrs {
				want[key] = Attr{value, path}
			}
			for dir, _ := Split(path); dir != ""; dir, _ = Split(dir) {
				for key, value := range f[dir].Attrs {
					if _, ok := want[key]; !ok && (key == "acl" || key == "acl.read" || key == "retention") {
						want[key] = Attr{value, dir}
					}
				}
			}
			if got := in.At(path, &e); !maps.Equal(got, want) {
				t.Errorf("seed %d, %q: %v, want %v", seed, path, got, want)
			}
			var alone Inheritance
			if _, got, err := alone.Find(ctx, w, root, path); err != nil || !maps.Equal(got, want) {
				t.Errorf("seed %d, %q alone: %v, %v, want %v", seed, path, got, err, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func randomAttrs(r *rand.Rand) map[string]string {
	attrs := map[string]string{}
	for _, key := range []string{"acl", "acl.read", "aclx", "retention", "tags"} {
		if r.IntN(2) == 0 {
			attrs[key] = fmt.Sprint(r.IntN(3))
		}
	}
	if len(attrs) == 0 {
		return nil
	}
	return attrs
}

// The merge of random attributes follows the three-way rule for each key.
func TestMergeAttrs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b, o, th := object.Entry{Attrs: randomAttrs(r)}, object.Entry{Attrs: randomAttrs(r)}, object.Entry{Attrs: randomAttrs(r)}
		base := &b
		if r.IntN(4) == 0 {
			base, b.Attrs = nil, nil
		}

		value := func(attrs map[string]string, key string) string {
			if v, ok := attrs[key]; ok {
				return "=" + v
			}
			return ""
		}

		want, wantClean := map[string]string{}, true
		for _, key := range []string{"acl", "acl.read", "aclx", "retention", "tags"} {
			was, ours, theirs := value(b.Attrs, key), value(o.Attrs, key), value(th.Attrs, key)
			result := ours
			if ours == was {
				result = theirs
			} else if theirs != was && theirs != ours {
				wantClean = false
			}
			if result != "" {
				want[key] = result[1:]
			}
		}

		if got, clean := mergeAttrs(base, &o, &th); clean != wantClean || !maps.Equal(got, want) {
			t.Fatalf("base %v, ours %v, theirs %v: %v, %v; want %v, %v", b.Attrs, o.Attrs, th.Attrs, got, clean, want, wantClean)
		}
	}
}

// DetectType recognises the type of files, folders and symlinks.
func TestDetectType(t *testing.T) {
	w := memory()
	for want, e := range map[string]object.Entry{
		"image/png":                 inline("\x89PNG\r\n\x1a\n"),
		"text/plain; charset=utf-8": text(t, w, strings.Repeat("some text\n", 1000)),
		"inode/directory":           directory(0o755),
		"inode/symlink":             symlink("x"),
	} {
		if got, err := DetectType(ctx, w, e); err != nil || got != want {
			t.Errorf("type %q, error %v, want %q", got, err, want)
		}
	}
}
