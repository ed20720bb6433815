package object_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// goodNames and badNames are also in testdata/vectors/names.json.
var goodNames = []string{
	"a", " ", "...", ".a", "..a", "a\\b", "C:", "a:b", "NUL", "CON", "con.txt", "aux", "\n", "\x01", "\x7f", "\xff\xfe", "é", "e\u0301",
	strings.Repeat("n", 255), "kist", "KIST", ".kistignore", ".kist.txt", ".kist-old", "a.kist", "..kist", " .kist", ".kis", ".kistt",
	"kist~", "kist~0", "kist~x", "kist~1a", "kist1~1", "KIST~1.TXT", "ki4178~", "ki417~1", "ki4179~1", "k", "K", "\u200c", "\u200ckist",
	".git", ".ki\u0301st", ".kist\\config", ".kist\n", ".\xffkist", ".kist\xff",
}

var badNames = []string{
	"", ".", "..", "/", "a/b", "/a", "a/", "\x00", "a\x00", strings.Repeat("n", 256),
	".kist", ".KIST", ".Kist", ".kIsT",
	".kist.", ".kist ", ".kist. .", ".KIST...", ".kist  ",
	".kist:", ".kist::$DATA", ".kist::$INDEX_ALLOCATION", ".kist:stream", ".kist .:x", ".KIST::$data",
	"kist~1", "KIST~1", "Kist~2", "kist~10", "KIST~999999", "kist~1.", "kist~1 ", "kist~1::$DATA",
	"ki4178~1", "KI4178~9", "ki417~10", "ki4~1000",
	".k\u200cist", "\u200c.kist", ".kist\u200d", ".\u202akist", ".ki\ufeffst", ".k\u206fist", ".k\u200bist", ".kist\ufe0f", ".k\u00adist",
	".kist\U000e0001", "\u200ckist~1",
	".\u212aist", ".ki\u017ft", ".ki\ufb05", ".ki\ufb06", "\u212aist~1", ".\u212aI\u017fT. ::$DATA",
}

func TestCheckName(t *testing.T) {
	for _, name := range goodNames {
		if err := object.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
	for _, name := range badNames {
		var bad *object.NameError
		if err := object.CheckName(name); !errors.As(err, &bad) || bad.Name != name || bad.Reason == "" {
			t.Errorf("CheckName(%q): %v, want a NameError", name, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, name := range concat(goodNames, badNames) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		ok := object.CheckName(name) == nil
		if ok && (name == "" || len(name) > 255 || strings.ContainsAny(name, "/\x00")) {
			t.Fatalf("CheckName accepts %q", name)
		}
		// A long ASCII name without "kist" and ~ is valid.
		if !ok && name != "" && len(name) <= 255 && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00") && len(name) > 6 && isASCII(name) &&
			!strings.Contains(strings.ToLower(name), "kist") && !strings.Contains(name, "~") {
			t.Fatalf("CheckName refuses %q", name)
		}
		// Forms that a file system may take for .kist are invalid too.
		if len(name) > 0 && len(name) < 240 && utf8.ValidString(name) && strings.EqualFold(name, ".kist") {
			for _, form := range []string{name + ".", name + " ", name + ":x", name + "\u200c", "\u200c" + name} {
				if object.CheckName(form) == nil {
					t.Fatalf("CheckName accepts %q", form)
				}
			}
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func BenchmarkCheckName(b *testing.B) {
	for b.Loop() {
		if err := object.CheckName("some-file-0000001.txt"); err != nil {
			b.Fatal(err)
		}
	}
}
