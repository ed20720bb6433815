package views

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree"
)

func TestTemplate(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 3, 4, 0, time.UTC)
	s := fileFacts{
		path:  "docs/a.b/Report.PDF",
		entry: object.Entry{MTime: object.TimeOf(at.Add(24 * time.Hour))},
		attrs: map[string]tree.Attr{
			"domain": {Value: "example.org"}, "evil": {Value: "../../etc"}, "dots": {Value: ".."}, "kist": {Value: ".KIST"},
			"long": {Value: strings.Repeat("é", 200)}, "nul": {Value: "a\x00\n"},
		},
		media:  "text/../x; charset=utf-8",
		sum:    object.ID{1, 2},
		commit: &commitFacts{id: object.ID{0xab, 0xcd}, author: "../Ada/L.", email: "", date: at, tag: "v1/x"},
	}

	for text, want := range map[string]string{
		"{path}":                       "docs/a.b/Report.PDF",
		"{dir}/{stem}.{ext}":           "docs/a.b/Report.pdf",
		"{name}":                       "Report.PDF",
		"by/{ext}/{id}":                "by/pdf/0102" + strings.Repeat("0", 60),
		"{date}/{path}":                "2024-02-29/docs/a.b/Report.PDF",
		"{date:%Y/%m/%d}/{name}":       "2024/02/29/Report.PDF",
		"{date:%H%M%S %j %G-W%V%%}":    "120304 060 2024-W09%",
		"{mtime:%F}":                   "2024-03-01",
		"{author}/{email}/{name}":      ".._Ada_L./none/Report.PDF",
		"{tag}-{commit}":               "v1_x-abcd00000000",
		"{attr.domain}/{name}":         "example.org/Report.PDF",
		"{attr.none}/{name}":           "none/Report.PDF",
		"{attr.evil}/{name}":           ".._.._etc/Report.PDF",
		"{attr.dots}/{attr.kist}/{id}": "_../_.KIST/0102" + strings.Repeat("0", 60),
		"{attr.long}":                  strings.Repeat("é", 64),
		"{attr.nul}":                   "a__",
		"{content-type}/{name}":        "text/.._x/Report.PDF",
	} {
		parsed, err := parseTemplate(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := parsed.linkPath(s); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}

	for _, text := range []string{
		"", "x", "{", "}", "{}", "{path", "path}", "{nothing}", "{attr.}", "{path:x}", "{date:%}", "{date:%Q}",
		"/{path}", "../{path}", "a/../{path}", "{date:../%Y}/{path}", ".kist/{path}", ".kist-view/{path}", "a\x00{path}",
		strings.Repeat("x", 300) + "{name}",
	} {
		if _, err := parseTemplate(text); !errors.Is(err, ErrTemplate) {
			t.Errorf("%q: error %v, want ErrTemplate", text, err)
		}
	}
}

// Links stay in the view's folder, whatever the values are, or the result is an error.
func FuzzTemplate(f *testing.F) {
	f.Add("{date:%Y}/{author}/{path}", "Ada", "a/b")
	f.Add("{dir}{name}", "..", "x")
	f.Fuzz(func(t *testing.T, text, author, path string) {
		parsed, err := parseTemplate(text)
		if err != nil {
			return
		}
		link, err := parsed.linkPath(fileFacts{path: path, commit: &commitFacts{author: author}})
		if err != nil {
			return
		}
		for name := range strings.SplitSeq(link, "/") {
			if object.CheckName(name) != nil {
				t.Errorf("%q gives %q", text, link)
			}
		}
	})
}

func FuzzState(f *testing.F) {
	s := &state{"{path}", source{commit: object.ID{1}}, map[string]file{"a\nb": {"c", object.ID{2}, object.ID{3}, object.ID{}}, "d": {link: "e"}}}
	data, _, err := disk.CutSum(s.encode())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("kist view 1\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := disk.WithSum(data) // with a correct checksum, decoding continues
		s, err := decodeState(file)
		if err == nil && string(s.encode()) != string(file) {
			t.Errorf("not canonical: %q", data)
		}
	})
}
