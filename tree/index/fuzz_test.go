package index

import (
	"bytes"
	"os"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// payload returns the content of the blocks of a small file.
func payload(t testing.TB, file []byte) (all []byte) {
	b, err := newBlockReader(bytes.NewReader(file), file[8])
	must(t, err)
	for b.next[0] != 0 || b.next[1] != 0 {
		must(t, b.readBlock())
		all = append(all, b.in...)
	}
	return all
}

// seal makes a file of one block.
func seal(kind, version byte, payload []byte) []byte {
	var b bytes.Buffer
	w := newBlockWriter(&b, kind, version)
	w.buf = append(w.buf, payload...)
	w.close()
	return b.Bytes()
}

// FuzzLoadHead decodes heads with correct checksums. An accepted head makes a valid index, and
// encoding the index gives the same head.
func FuzzLoadHead(f *testing.F) {
	_, headFile, baseFile, _ := small(f)
	head, err := os.ReadFile(headFile)
	must(f, err)
	base, err := os.ReadFile(baseFile)
	must(f, err)
	f.Add(payload(f, head))
	alone := New()
	set(f, alone, "a/b", file(1))
	f.Add(payload(f, encodeHead(f, alone)))
	e := file(1)
	e.Meta = "\xa1\x01\x01"
	set(f, alone, "a/c", e)
	must(f, alone.SetDir("b", object.Entry{Mode: 0o700, Attrs: map[string]string{"k": "v"}}))
	must(f, alone.SetDir("a", object.Entry{Mode: 0o700, MTime: object.Time{Sec: 1}, Meta: &object.Metadata{Owner: "ada"}}))
	f.Add(payload(f, encodeHead(f, alone)))
	must(f, SetLeftOut(alone, "a/out", folderEntry(1)))
	must(f, SetLeftOut(alone, "out", object.Entry{Mode: 0o700, Attrs: map[string]string{"k": "v"}, Content: folderEntry(2).Content}))
	f.Add(payload(f, encodeHead(f, alone)))
	f.Fuzz(func(t *testing.T, data []byte) {
		readHead(data, nil)
		for _, version := range []byte{versionFull, versionSparse} {
			head := seal(kindHead, version, data)
			x, err := readHead(head, func(baseRef) (*Index, error) {
				x, _, err := readBase(bytes.NewReader(base), uint64(len(base)))
				return x, err
			})
			if err != nil {
				continue
			}
			check(t, x)

			if again := encodeHead(t, x); !bytes.Equal(again, head) {
				t.Fatalf("decoded:\n%x\nencoded:\n%x", data, payload(t, again))
			}
		}
	})
}

// FuzzLoadBase is FuzzLoadHead for bases.
func FuzzLoadBase(f *testing.F) {
	_, _, baseFile, x := small(f)
	base, err := os.ReadFile(baseFile)
	must(f, err)
	f.Add(payload(f, base))

	var b bytes.Buffer
	_, _, err = x.writeBase(&b)
	must(f, err)
	f.Add(payload(f, b.Bytes()))

	_, sparse := smallSparse(f)
	b.Reset()
	_, _, err = sparse.writeBase(&b)
	must(f, err)
	f.Add(payload(f, b.Bytes()))
	f.Fuzz(func(t *testing.T, data []byte) {
		readBase(bytes.NewReader(data), uint64(len(data)))
		for _, version := range []byte{versionFull, versionSparse} {
			base := seal(kindBase, version, data)
			x, _, err := readBase(bytes.NewReader(base), uint64(len(base)))
			if err != nil {
				continue
			}
			check(t, x)
			var again bytes.Buffer
			_, _, err = x.writeBase(&again)
			must(t, err)
			if !bytes.Equal(again.Bytes(), base) {
				t.Fatalf("decoded:\n%x\nencoded:\n%x", data, payload(t, again.Bytes()))
			}
		}
	})
}
