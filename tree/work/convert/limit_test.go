package convert

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/kist-vcs/kist"
)

// bombSize is the size of the content in the archives of these tests.
const bombSize = 4 << 20

// plainBomb returns a tar file with zeros.
func plainBomb(t *testing.T) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	err := w.WriteHeader(&tar.Header{Name: "a", Mode: 0o644, Size: bombSize})
	if err == nil {
		_, err = w.Write(make([]byte, bombSize))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// compressed returns data in the form that open writes.
func compressed(t *testing.T, data []byte, open func(w io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := open(&out)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipBomb returns a zip file with zeros. It announces them as size bytes.
func zipBomb(t *testing.T, size uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	content := compressed(t, make([]byte, bombSize), func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	m, err := w.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Deflate, CompressedSize64: uint64(len(content)), UncompressedSize64: size})
	if err == nil {
		_, err = m.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bombs makes an archive with much content in each form that an import reads. A member of
// compressions must be here under its name.
var bombs = map[string]func(t *testing.T) []byte{
	"plain": plainBomb,
	"zip":   func(t *testing.T) []byte { return zipBomb(t, bombSize) },
	"gzip": func(t *testing.T) []byte {
		return compressed(t, plainBomb(t), func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	},
	"zstd": func(t *testing.T) []byte {
		return compressed(t, plainBomb(t), func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	},
	"xz": func(t *testing.T) []byte {
		return compressed(t, plainBomb(t), func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) })
	},
	"bzip2": func(t *testing.T) []byte { // the Go library does not write it
		return decoded(t, "QlpoOTFBWSZTWfmxjlMAgL5fgMiAQAB1ABAAAADgAB4AAAggAHUJCUDQ0PUCpSDJoNDf+V0SQgCmpCIApjmsttuhEAAGD4iUxBGa6aps7eJKDP3l3eySQgDIu5IpwoSHzYxymA==")
	},
}

// decoded returns the bytes of a text in base64.
func decoded(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// importBytes imports an archive, from a file or as a stream.
func importBytes(t *testing.T, data []byte, stream bool, o ImportOptions) error {
	t.Helper()
	r, err := kist.Init(t.Context(), t.TempDir(), kist.Options{Now: time.Now}, kist.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	s := Tar("a", "", time.Unix(1e9, 0), func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if !stream {
		file := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err = Archive(file, time.UTC); err != nil {
			t.Fatal(err)
		}
	}
	o.Branch = "imported"
	return Import(t.Context(), r, []Source{s}, o, func(*Imported) error { return nil })
}

// An archive of any form that unpacks to more than allowed is an error, and one that does not is
// imported.
func TestEveryArchiveHasALimit(t *testing.T) {
	for _, c := range compressions {
		if bombs[c.name] == nil {
			t.Errorf("bombs has no archive for %s", c.name)
		}
	}
	for name, make := range bombs {
		data := make(t)
		for _, stream := range []bool{false, true} {
			if stream && name == "zip" {
				continue // zip needs a file
			}
			var tooLarge *TooLargeError
			err := importBytes(t, data, stream, ImportOptions{MaxSize: bombSize / 2})
			if !errors.As(err, &tooLarge) || tooLarge.Limit != bombSize/2 {
				t.Errorf("%s, stream %v: error %v, want a TooLargeError", name, stream, err)
			}
			if err := importBytes(t, data, stream, ImportOptions{}); err != nil {
				t.Errorf("%s, stream %v: error %v without a chosen limit", name, stream, err)
			}
		}
	}
}

// Archives that announce far more than their size are refused before anything is read, and
// a stream that turns out so, after a GiB.
func TestAnnouncedSizes(t *testing.T) {
	// In the form of GNU tar: a member of 1 PiB that is one hole.
	sparse := decoded(t, "H4sIAAAAAAACA+3UsQrCQAwG4JvvKfoE1yRcr+1QcNNJXHyAgDdUrMqdQvHprRakKB1bRPMtCf+S6Y9JTbrYcLvyvPNBTQJ6YxMww9f+zBEISSWtmsE1Xjh059V/IkqW662JZw7Rm4b3p1ChfkvrY5eCJhymR258xdrCMAyeD7G++QqRsqIsS3CFJUdWK/GNeIYbj1I7a8f6j8Nf0O8O8lwlIP2fHOqPpoJ0VQghft8dYECT+wAMAAA=")
	for name, data := range map[string][]byte{"sparse tar": sparse, "zip": zipBomb(t, 1<<50), "zip beyond 63 bits": zipBomb(t, 1<<63)} {
		var tooLarge *TooLargeError
		if err := importBytes(t, data, false, ImportOptions{}); !errors.As(err, &tooLarge) || tooLarge.Limit != minLimit || tooLarge.Path != "a" {
			t.Errorf("%s: error %v, want a TooLargeError", name, err)
		}
	}

	l := limit{size: func() (int64, bool) { return 10 << 20, false }}
	if err := l.announce("a", 1<<50); err != nil {
		t.Errorf("a member of a stream, whose size is unknown: %v", err)
	}
	l.used = 2000 << 20
	if l.checkMore("a", 0) != nil || l.checkMore("a", 1) == nil {
		t.Error("a stream does not stop at 200 times the bytes that were read")
	}
}
