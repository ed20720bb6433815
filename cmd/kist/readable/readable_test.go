package readable_test

import (
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/readable"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "Ärger 日本.txt": "Ärger 日本.txt", "a\x1b[2J": `a\x1b[2J`, "\xff\xfe": `\xff\xfe`, "a\xe9b": `a\xe9b`,
		"\ufffd": "\ufffd", "x\u202egpj": `x\u202egpj`, "a\u00adb": `a\xadb`, "a\tb\n": `a\x09b\x0a`, "\u3164": `\u3164`, "\U000e0041": `\ue0041`,
	} {
		if got := readable.Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}

	var parts []string
	for part, escape := range readable.Escaped("a\tb\x00\x01c", "\t") {
		if escape {
			part = "<" + part + ">"
		}
		parts = append(parts, part)
	}
	if got, want := strings.Join(parts, "|"), "a\tb|<\\x00>|<\\x01>|c"; got != want {
		t.Errorf("the parts are %q, want %q", got, want)
	}
	for range readable.Escaped("a\x00b", "") {
		break // the iterator stops
	}
}
