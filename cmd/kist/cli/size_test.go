package cli

import (
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
)

func TestFormatSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB",
		1<<20 - 1: "1.0 MiB", 1<<20 - 600: "1023 KiB", 23<<30 + 1<<29: "24 GiB", 1<<64 - 1: "16 EiB",
	} {
		if got := readable.FormatSize(n); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "64k": 64 << 10, "64 KB": 64 << 10,
		"1.5MiB": 3 << 19, "2g": 2 << 30, "1TiB": 1 << 40, "7b": 7,
	} {
		if got, err := kist.ParseSize(s); err != nil || got != want {
			t.Errorf("kist.ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "k", "-1", "1.5", "1x", "1kk", "nan", "inf", "0x10", "1e3", "9999999EiB", "ⱥ", "K"} {
		if got, err := kist.ParseSize(s); err == nil {
			t.Errorf("kist.ParseSize(%q) = %d, want an error", s, got)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 files", 1: "1 file", 999: "999 files", 1000: "1,000 files", 1234567: "1,234,567 files",
	} {
		if got := readable.Plural(n, "file", "files"); got != want {
			t.Errorf("plural(%d) = %q, want %q", n, got, want)
		}
	}
}
