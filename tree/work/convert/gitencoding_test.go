package convert

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
)

// indexed returns the encoding of a name by the indexes of x/text, or nil.
func indexed(name string) encoding.Encoding {
	if e, err := ianaindex.IANA.Encoding(name); err == nil && e != nil {
		return e
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil
	}
	return e
}

// encodingOf returns the encoding of a name in any case, or nil.
func encodingOf(name string) encoding.Encoding { return encodings()[strings.ToLower(name)] }

// Names mean the same encodings as in the indexes of x/text.
func TestEncodingNames(t *testing.T) {
	seen := map[encoding.Encoding]bool{}
	for name, e := range encodings() {
		if want := indexed(name); e != want {
			t.Errorf("%q names %v, want %v", name, e, want)
		}
		seen[e] = true
	}

	ascii := indexed("us-ascii")
	for name := range asciiNames() {
		if indexed(name) != ascii {
			t.Errorf("%q names %v, want ASCII", name, indexed(name))
		}
	}
	text := "a\x7f\x80\xffz"
	if want, err := ascii.NewDecoder().String(text); err != nil || decoder(" US-ASCII")(text) != want {
		t.Errorf("%q as ASCII is %q, want %q, error %v", text, decoder(" US-ASCII")(text), want, err)
	}

	for _, e := range charmap.All {
		if !seen[e] {
			t.Errorf("%v has no name", e)
		}
		seen[e] = true
	}
	for e := range seen {
		for index, find := range map[string]func(encoding.Encoding) (string, error){
			"IANA": ianaindex.IANA.Name, "MIME": ianaindex.MIME.Name, "browsers": htmlindex.Name,
		} {
			name, err := find(e)
			if err == nil && indexed(name) == e && encodingOf(name) != e {
				t.Errorf("%q of %s names %v, want %v", name, index, encodingOf(name), e)
			}
		}
	}
}
