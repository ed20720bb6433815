package index

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestReplace(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()

	made := func(path string) *Index {
		x := New()
		if err := x.Set(path, file(1)); err != nil {
			t.Fatal(err)
		}
		return x
	}

	var kept []string
	keep := func(names []string) error { kept = names; return nil }
	if did, err := Replace(ctx, dir, made("missing"), keep); !did || err != nil || len(kept) != 0 {
		t.Fatalf("missing: %v, %v, kept %v", did, err, kept)
	}
	if did, err := Replace(ctx, dir, made("other"), keep); did || err != nil {
		t.Errorf("intact: %v, %v, want no replacement", did, err)
	}

	head := filepath.Join(dir, headName)
	spoil := func() {
		if err := os.WriteFile(head, []byte("rubbish"), 0o666); err != nil {
			t.Fatal(err)
		}
	}

	spoil()
	no := errors.New("no")
	if did, err := Replace(ctx, dir, made("other"), func([]string) error { return no }); did || !errors.Is(err, no) {
		t.Errorf("keep fails: %v, %v, want its error", did, err)
	}
	if data, _ := os.ReadFile(head); string(data) != "rubbish" {
		t.Error("Replace replaces a file that keep did not keep")
	}
	if did, err := Replace(ctx, dir, made("new"), keep); !did || err != nil || len(kept) != 1 || kept[0] != headName {
		t.Errorf("damaged: %v, %v, kept %v", did, err, kept)
	}

	x, err := Load(dir)
	if err != nil || x.Len() != 1 || x.Entry("new") == nil {
		t.Errorf("after Replace: %v, %v", x, err)
	}
	newer := appendHeader(nil, kindHead, versionSparse)
	newer[9]++

	newer = binary.LittleEndian.AppendUint32(newer[:12], crc32.Checksum(newer[:12], castagnoli))
	if err := os.WriteFile(head, append(newer, make([]byte, 8)...), 0o666); err != nil {
		t.Fatal(err)
	}
	if did, err := Replace(ctx, dir, made("new"), keep); did || !errors.Is(err, object.ErrNewerFormat) {
		t.Errorf("newer: %v, %v, want ErrNewerFormat", did, err)
	}
}
