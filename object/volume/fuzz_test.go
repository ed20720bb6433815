package volume

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

func sampleSeal() *seal {
	return &seal{
		Session: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		Objects: 3, Raw: 1 << 40, Stored: 12,
		Files: []sealFile{
			{Name: "000001.sst", Size: 370, Sum: sha256.Sum256([]byte("a"))},
			{Name: "000001.vlog", Size: 1 << 30, Sum: sha256.Sum256([]byte("b"))},
			{Name: keysFile, Size: 100, Sum: sha256.Sum256([]byte("c"))},
			{Name: ingest.ManifestFile, Size: 32},
		},
		BadgerManifest: []byte("Bdgr\x00\x01"),
	}
}

func TestSeal(t *testing.T) {
	want := sampleSeal()
	for _, want.Repacked = range []bool{false, true} {
		got, err := decodeSeal(want.encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decodeSeal = %+v, %v; want %+v", got, err, want)
		}
	}
	twice := bytes.Replace(want.encode(), []byte("optimised\n"), []byte("optimised\noptimised\n"), 1)
	if _, err := decodeSeal(resign(twice)); err == nil {
		t.Error("decodeSeal accepts a repeated line")
	}
	for i := range want.encode() {
		data := want.encode()
		data[i] ^= 0x20
		if _, err := decodeSeal(data); err == nil {
			t.Errorf("decodeSeal accepts a changed byte %d", i)
		}
	}
}

// resign returns a seal with the right checksum at the end.
func resign(data []byte) []byte {
	const sumLine = 5 + 2*sha256.Size + 1
	if len(data) < sumLine {
		return data
	}
	body := data[:len(data)-sumLine]
	return fmt.Appendf(bytes.Clone(body), "seal %x\n", sha256.Sum256(body))
}

// FuzzDecodeSeal checks that decodeSeal does not panic, and accepts only canonical seals.
func FuzzDecodeSeal(f *testing.F) {
	f.Add(sampleSeal().encode())
	f.Add((&seal{Session: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Created: time.Unix(0, 0).UTC()}).encode())
	repacked := sampleSeal()
	repacked.Repacked = true
	f.Add(repacked.encode())
	f.Add([]byte("kist volume 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resign(data)} {
			s, err := decodeSeal(data)
			if err == nil && !bytes.Equal(s.encode(), data) {
				t.Errorf("decodeSeal accepts a seal that is not canonical:\n%s", data)
			}
		}
	})
}

// FuzzVolume checks that reads of a volume with hostile files return no wrong bytes.
func FuzzVolume(f *testing.F) {
	s, err := Open(f.TempDir(), Options{Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	ss := s.Begin(SessionOptions{})
	putSeries(f, ss, 1, 0, 5)

	if err := ss.Close(); err != nil {
		f.Fatal(err)
	}
	patches, err := Open(f.TempDir(), Options{Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}

	writeVolume(f, patches, append(chainOf(f, 1, 2), patchVersion(f, 1, 4, 5), patchVersion(f, 1, 5, 4))...)
	for _, s := range []*Store{s, patches} {
		var seeds [3][]byte
		for i, name := range []string{keysFile, sealName, ingest.LogName(1)} {
			if seeds[i], err = os.ReadFile(filepath.Join(oneVolume(f, s), name)); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(seeds[0], seeds[1], seeds[2])
	}

	dir := f.TempDir()
	volume := filepath.Join(dir, volumesDir, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if err := os.MkdirAll(volume, 0o777); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, index, seal, log []byte) {
		for name, data := range map[string][]byte{keysFile: index, sealName: resign(seal), ingest.LogName(1): log} {
			if err := os.WriteFile(filepath.Join(volume, name), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}

		s, err := Open(dir, Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(s.inVolumes(damagedFile))
		defer s.Close()

		for key, err := range s.Keys(t.Context()) {
			if err == nil {
				if data, err := s.Get(t.Context(), key); err == nil && object.Sum(data) != key.ID {
					t.Errorf("get %s: wrong bytes", key)
				}
			}
		}

		if _, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(Problem) {}); err != nil {
			t.Error(err)
		}
		s.NeedsMaintenance()
	})
}
